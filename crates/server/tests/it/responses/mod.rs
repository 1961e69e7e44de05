//! `POST /responses`.

mod coding_agents;
mod conversation;
