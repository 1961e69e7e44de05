//! The use cases on a database of their own, for what HTTP cannot show.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod links;
mod live;
mod member_calls;
mod member_of_now;
mod registry;
mod replay;
mod second_factor;
mod service_tokens;
mod session_traces;
mod support;
