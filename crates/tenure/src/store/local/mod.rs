//! Locks of one machine, with no server.
