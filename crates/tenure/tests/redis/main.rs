//! Redis: the contract on real servers of every kind, and what only Redis does.

mod doctor;
mod rights;
mod store;

mod rules {
    tenure::conformance!(super::store::Store::start());
}
