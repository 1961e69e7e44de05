//! `POST /messages`.

mod coding_agents;
mod conversation;
