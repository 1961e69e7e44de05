//! The nouns of Sluice: ids, money, time, projects, models, keys, traces, steps.
//!
//! No I/O and no async; the only clock is [`time::Clock`], which is passed in.

pub mod attributes;
pub mod conversation;
pub mod event_template;
pub mod export;
pub mod failure;
pub mod fees;
pub mod grade;
pub mod ids;
pub mod insight;
pub mod job;
pub mod joined_texts;
pub mod json_text;
pub mod json_weight;
pub mod key;
pub mod model;
pub mod moment;
pub mod money;
pub mod net;
pub mod original;
pub mod project;
pub mod review;
pub mod safety;
pub mod secret;
pub mod settings;
pub mod shown_content;
pub mod sign_on;
pub mod single_string_chunk;
pub mod sketch;
pub mod source_pieces;
pub mod step;
pub mod stored_responses;
pub mod thousands;
pub mod tier;
pub mod time;
pub mod trace;
pub mod trace_context;
pub mod usage;
