//! `POST /assistants`.

mod turns;
