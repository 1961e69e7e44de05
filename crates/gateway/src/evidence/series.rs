//! Usage over time, as charts show it.

use domain::ids::ProjectId;
use domain::time::{MINUTE, Timestamp};
use store::UsageBucket;

use crate::bounded_read::bounded;
use crate::error::Result;
use crate::evidence::stats::Period;
use crate::gateway::Gateway;
use crate::state::member::Member;

/// The most buckets of a series.
const MOST_BUCKETS: i64 = 100;
/// The widths of buckets, in minutes. One that divides a day ends where days of UTC do.
const WIDTHS: [i64; 13] =
    [1, 5, 15, 30, 60, 120, 240, 480, 720, 1_440, 4 * 1_440, 10 * 1_440, 60 * 1_440];

/// The usage of a project over a period, in buckets of one width.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageSeries {
    /// The width of a bucket, in minutes.
    pub width: i64,
    /// Every bucket of the period, oldest first; the first one may begin before the period,
    /// and is counted in full.
    pub buckets: Vec<UsageBucket>,
}

impl UsageSeries {
    /// The first moment of a bucket.
    pub fn begins(&self, bucket: &UsageBucket) -> Timestamp {
        Timestamp(bucket.index * self.width * MINUTE)
    }
}

impl Gateway {
    /// The usage over time of a project that is a member's to see.
    pub async fn series_for_member(
        &self,
        member: &Member,
        project: ProjectId,
        period: &Period,
    ) -> Result<UsageSeries> {
        self.series(self.visible_project(member, project)?.id(), period).await
    }

    pub(crate) async fn series(&self, project: ProjectId, period: &Period) -> Result<UsageSeries> {
        let (from, to) = period.minutes();
        let width = width(to - from);
        // Whole buckets: one that begins before the period is not shown as less than it is.
        let from = from / width * width;
        let used = bounded(self.store.usage_series(project, from, to, width)).await?;
        Ok(UsageSeries { width, buckets: filled(&used, from / width, (to - 1) / width) })
    }

    /// Reads the buckets of a period again that have a minute, or a later one.
    pub(crate) async fn read_series_from(
        &self,
        project: ProjectId,
        series: &mut UsageSeries,
        minute: i64,
    ) -> Result<()> {
        let (Some(first), Some(last)) = (series.buckets.first(), series.buckets.last()) else {
            return Ok(());
        };
        let (width, first, last) = (series.width, first.index, last.index);
        let from = (minute / width).max(first);
        let until = (last + 1) * width;
        let used = bounded(self.store.usage_series(project, from * width, until, width)).await?;
        series.buckets.retain(|bucket| bucket.index < from);
        series.buckets.extend(filled(&used, from, last));
        Ok(())
    }
}

/// The narrowest width with which so many minutes fit into the buckets.
fn width(minutes: i64) -> i64 {
    let fits = |width: &i64| (minutes - 1) / *width < MOST_BUCKETS;
    let widest = (minutes - 1) / MOST_BUCKETS + 1;
    WIDTHS.into_iter().find(fits).unwrap_or(widest)
}

/// All buckets from one up to another, with those that nothing was used in.
fn filled(used: &[UsageBucket], first: i64, last: i64) -> Vec<UsageBucket> {
    let mut used = used.iter().peekable();
    let bucket = |index| {
        let found = used.next_if(|bucket| bucket.index == index);
        found.copied().unwrap_or_else(|| UsageBucket::empty(index))
    };
    (first..=last).map(bucket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_fits_into_its_buckets() {
        for (hours, expected) in [(1, 1), (24, 15), (168, 120), (720, 480), (8_760, 4 * 1_440)] {
            assert_eq!(width(hours * 60), expected, "{hours} hours");
        }
        let ten_years = 87_660 * 60;
        assert!(ten_years / width(ten_years) <= MOST_BUCKETS);
        let longer = ten_years * 10;
        assert!((longer - 1) / width(longer) < MOST_BUCKETS);
    }

    #[test]
    fn buckets_without_usage_are_there() {
        let used = [5, 7].map(|index| {
            let mut bucket = UsageBucket::empty(index);
            bucket.requests = 1;
            bucket
        });
        let all = filled(&used, 4, 8);
        let requests: Vec<_> = all.iter().map(|bucket| (bucket.index, bucket.requests)).collect();
        assert_eq!(requests, [(4, 0), (5, 1), (6, 0), (7, 1), (8, 0)]);
    }
}
