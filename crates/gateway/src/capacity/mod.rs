//! Capacity: memory and time for work, bounded and shared fairly by projects and keys.

pub(crate) mod background_thread;
pub(crate) mod body_memory;
pub(crate) mod detail_places;
pub(crate) mod hang_up;
pub(crate) mod hashing;
pub(crate) mod offload;
pub(crate) mod replay_memory;
pub(crate) mod shadow_slots;
pub(crate) mod trials;
