//! Cost: the tokens that a call is paid for.

mod usage;
