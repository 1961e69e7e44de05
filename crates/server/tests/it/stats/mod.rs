//! `/api/v1/stats`.

mod bias_drift;
mod groups;
