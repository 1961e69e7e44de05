//! `GET /audit-events`.

mod changes;
