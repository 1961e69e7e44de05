//! The period of statistics.

use domain::time::Timestamp;
use gateway::Period;
use serde::Serialize;
use utoipa::ToSchema;

/// A stretch of time.
#[derive(Debug, Serialize, ToSchema)]
pub struct PeriodBody {
    label: String,
    #[schema(value_type = String, format = DateTime)]
    start: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    end: Timestamp,
}

impl From<Period> for PeriodBody {
    fn from(Period { label, start, end, .. }: Period) -> Self {
        Self { label, start, end }
    }
}
