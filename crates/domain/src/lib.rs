//! The nouns of Sluice: ids, money, time, projects, models, keys, traces, steps.
//!
//! No I/O and no async; the only clock is [`time::Clock`], which is passed in.

pub mod attributes;
pub mod chunk_alone;
pub mod conversation;
pub mod event_frame;
pub mod fees;
pub mod grade;
pub mod ids;
pub mod insight;
pub mod job;
pub mod json_text;
pub mod json_weight;
pub mod kept;
pub mod key;
pub mod model;
pub mod money;
pub mod net;
pub mod original;
pub mod project;
pub mod safety;
pub mod secret;
pub mod settings;
pub mod sketch;
pub mod step;
pub mod tier;
pub mod time;
pub mod trace;
pub mod trace_context;
pub mod usage;
