//! `POST /images/generations`.

mod generations;
