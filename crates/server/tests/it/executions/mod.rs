//! `POST /executions`.

mod tools;
