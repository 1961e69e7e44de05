//! `POST /messages`.

mod conversation;
