//! `POST /images/generations`.

pub mod generations;
