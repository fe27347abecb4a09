//! What the tests of this store share.
