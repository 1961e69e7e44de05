//! `POST /responses`.

mod conversation;
