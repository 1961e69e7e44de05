//! Many clients at the same time. Left out of a plain `cargo nextest run`.

mod slow_clients;
mod slow_replays;
mod streams;
