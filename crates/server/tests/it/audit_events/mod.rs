//! `GET /audit-events`, exports of them, and `sluice audit verify`.

mod chain;
mod changes;
mod pages;
