//! Attributes: whom a call is for, in its records and in what is asked of them.

mod gathered;
mod required;
