//! `/api/v1/stats`.

mod bias_drift;
mod brute_force;
mod groups;
