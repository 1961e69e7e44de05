//! `/session`.

mod sign_in;
