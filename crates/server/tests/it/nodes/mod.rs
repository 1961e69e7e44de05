//! Many gateways on one PostgreSQL: they are upgraded, stopped and cut off one after the other.

mod cut_off;
mod drain;
mod pooler;
mod upgrades;
