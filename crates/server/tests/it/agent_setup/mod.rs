//! `sluice agent-setup`.

mod files;
