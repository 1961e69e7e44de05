//! The partitions that there are, and the width of those to come.

use std::collections::BTreeMap;
use std::ops::Range;

use domain::time::{DAY, HOUR};
use sqlx::{PgConnection, PgExecutor};

use super::{DAY_IDS, DAYS_AHEAD};
use crate::retention::DEFAULT_DAYS;

/// The days of retention up to which a partition has one day. PostgreSQL locks each partition, with its indices, for
/// each statement that may look into all.
const MOST_OF_A_RULE: i64 = 45;
/// The most days of a partition, as long as there are not [`MANY`], and the most that steps stay longer for the sake of
/// their partition before they are deleted one at a time.
const WIDEST: i64 = 7;
/// How much later than the last day of its partition a step may end, and the others still go as a whole: that of a long
/// call, or of one that is settled a day after its node has died.
const LATEST: i64 = DAY + 3 * HOUR;
/// The partitions from which on new ones are wider: each by twice as much as the one before. A rule of a year and a
/// half comes to as many if its steps are too many to be moved together.
const MANY: usize = 90;
/// How often a width is doubled for the number of partitions: to three years.
const MOST_DOUBLINGS: usize = 10;

/// A pair of partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    /// The tables from before there were partitions.
    Before,
    /// The days from one on, counted from 1970.
    Day(i64),
    /// The steps that a longer rule keeps of partitions that were dropped, up to the first id of a day.
    Kept(i64),
}

impl Part {
    /// The name of its table among the partitions of a table.
    pub(super) fn of(self, table: &str) -> String {
        match self {
            Self::Before => format!("{table}_before"),
            Self::Day(day) => format!("{table}_d{day}"),
            Self::Kept(end) => format!("{table}_k{end}"),
        }
    }

    /// The partition of `steps` with a name.
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name.strip_prefix("steps_")? {
            "before" => Some(Self::Before),
            rest => {
                let (kind, day) = rest.split_at_checked(1)?;
                let day = day.parse().ok()?;
                match kind {
                    "d" => Some(Self::Day(day)),
                    "k" => Some(Self::Kept(day)),
                    _ => None,
                }
            }
        }
    }
}

/// How much longer than their retention steps stay before they are deleted one at a time. Nothing without partitions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Leave {
    /// The days that their partition may take: steps stay for so many at most, and for no more days than they are kept.
    pub(crate) days: i64,
    /// What is added to these days, in microseconds.
    pub(crate) late: i64,
}

impl Leave {
    /// That of steps that are kept for so many days, in microseconds.
    pub(crate) fn of(self, days: i64) -> i64 {
        self.days.min(days.max(1)) * DAY + self.late
    }
}

/// The partitions that there are, but for the one of all other ids.
#[derive(Debug)]
pub(super) struct Layout {
    /// Each with its ids.
    pub(super) parts: BTreeMap<Part, Range<i64>>,
}

impl Layout {
    pub(super) async fn read(db: impl PgExecutor<'_>) -> sqlx::Result<Self> {
        const PARTS: &str = "
            SELECT CAST(c.relname AS TEXT), pg_get_expr(c.relpartbound, c.oid)
            FROM pg_inherits i
            JOIN pg_class c ON c.oid = i.inhrelid
            WHERE i.inhparent = to_regclass('steps')";
        let rows: Vec<(String, String)> = sqlx::query_as(PARTS).fetch_all(db).await?;
        let part = |(name, bounds): &(String, String)| Some((Part::parse(name)?, ids(bounds)?));
        Ok(Self { parts: rows.iter().filter_map(part).collect() })
    }

    /// Whether the ids of a day have a partition.
    pub(super) fn has(&self, day: i64) -> bool {
        self.parts.values().any(|ids| ids.contains(&(day * DAY_IDS)))
    }

    /// How long steps stay after they were due before they are deleted one at a time: the last day of their partition has
    /// to be over, and a step has to be due that ended up to [`LATEST`] after it, before the first of its steps is deleted.
    /// Partitions are wide for the longest rule, which may be that of another project: steps of a rule that is shorter
    /// than they are do not wait for all their days.
    pub(super) fn leave(&self) -> Leave {
        if self.parts.is_empty() {
            return Leave::default();
        }
        let days = |(part, ids): (&Part, &Range<i64>)| match part {
            Part::Day(_) => (ids.end - ids.start) / DAY_IDS,
            // They go together once, or are few.
            Part::Before | Part::Kept(_) => 1,
        };
        let widest = self.parts.iter().map(days).max().unwrap_or(1).clamp(1, WIDEST);
        Leave { days: widest, late: LATEST }
    }

    /// The days of a new partition that begins with one that has none, where no rule is longer than so many days.
    pub(super) fn days_from(&self, first: i64, longest_rule: i64) -> Range<i64> {
        let starts = self.parts.values().map(|ids| ids.start.div_euclid(DAY_IDS));
        let next = starts.filter(|start| *start > first).min().unwrap_or(i64::MAX);
        first..(first + width(longest_rule, self.parts.len())).min(next)
    }
}

/// The days of the longest rule that a new step may have.
pub(super) async fn longest_rule(connection: &mut PgConnection) -> sqlx::Result<i64> {
    const LONGEST: &str = "
        SELECT max(m.data_retention_days)
        FROM models m
        JOIN projects p ON p.id = m.project_id
        WHERE m.deleted_at IS NULL AND p.deleted_at IS NULL";
    let longest: Option<i64> = sqlx::query_scalar(LONGEST).fetch_one(connection).await?;
    Ok(longest.unwrap_or(DEFAULT_DAYS).max(DEFAULT_DAYS))
}

/// The partitions that a rule of so many days comes to.
pub(super) fn expected(longest_rule: i64) -> i64 {
    let width = width(longest_rule, 0);
    let of_rule = (longest_rule + width - 1) / width + DAYS_AHEAD / width + 4;
    of_rule.min(MANY as i64 + 15)
}

/// The days of a new partition beside so many others.
fn width(longest_rule: i64, parts: usize) -> i64 {
    let of_rule = ((longest_rule + MOST_OF_A_RULE - 1) / MOST_OF_A_RULE).min(WIDEST);
    let doublings = (parts + 1).saturating_sub(MANY).min(MOST_DOUBLINGS);
    of_rule.max(1 << doublings)
}

/// The ids of a partition by the text of its bounds.
fn ids(bounds: &str) -> Option<Range<i64>> {
    let (from, to) = bounds.rsplit_once(" TO ")?;
    Some(number(from).unwrap_or(i64::MIN)..number(to)?)
}

/// The number that a text of PostgreSQL has among other characters.
pub(super) fn number(text: &str) -> Option<i64> {
    text.split(|c: char| !c.is_ascii_digit()).find(|digits| !digits.is_empty())?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_parts_and_back() {
        for part in [Part::Before, Part::Day(20_787), Part::Kept(20_788)] {
            assert_eq!(Part::parse(&part.of("steps")), Some(part));
        }
        for other in
            ["steps_rest", "steps_dx", "steps_d", "steps_", "steps", "step_contents_before"]
        {
            assert_eq!(Part::parse(other), None, "{other}");
        }
        assert_eq!(
            number("CHECK ((id < '20787000000000'::bigint)) NOT VALID"),
            Some(20_787_000_000_000)
        );
        let both = "FOR VALUES FROM ('20787000000000') TO ('20788000000000')";
        assert_eq!(ids(both), Some(20_787_000_000_000..20_788_000_000_000));
        let first = "FOR VALUES FROM (MINVALUE) TO ('20788000000000')";
        assert_eq!(ids(first), Some(i64::MIN..20_788_000_000_000));
        assert_eq!(ids("DEFAULT"), None);
    }

    /// The partitions after years of a rule: those whose days are not all due are left, and a week is made ahead.
    fn after_years(longest_rule: i64, layout: &mut Layout, from: i64) -> usize {
        let mut most = 0;
        for today in from..from + 2 * longest_rule.max(200) {
            for day in [today, today + 7] {
                if !layout.has(day) {
                    let days = layout.days_from(day, longest_rule);
                    let ids = days.start * DAY_IDS..days.end * DAY_IDS;
                    layout.parts.insert(Part::Day(day), ids);
                }
            }
            let is_left = |ids: &mut Range<i64>| ids.end > (today - longest_rule - 1) * DAY_IDS;
            layout.parts.retain(|_, ids| is_left(ids));
            most = most.max(layout.parts.len());
        }
        most
    }

    #[test]
    fn no_rule_makes_more_partitions_than_a_server_has_locks_for() {
        for (days, limit) in
            [(30, 45), (45, 60), (46, 60), (90, 60), (365, 65), (3_650, 110), (36_500, 140)]
        {
            let mut layout = Layout { parts: BTreeMap::new() };
            let most = after_years(days, &mut layout, 20_000);
            assert!(most <= limit, "{days} days: {most}");
        }
        assert_eq!((width(30, 40), width(45, 60), width(46, 60)), (1, 1, 2));
        assert_eq!((width(365, 60), width(36_500, 89), width(30, 95)), (7, 7, 64));
        assert_eq!((expected(30), expected(365), expected(36_500)), (41, 58, 105));
    }

    #[test]
    fn steps_are_deleted_alone_only_when_their_partition_could_have_gone() {
        let of = |parts: &[(Part, i64)]| {
            let ids = |days: i64| 20_000 * DAY_IDS..(20_000 + days) * DAY_IDS;
            let parts = parts.iter().map(|(part, days)| (*part, ids(*days)));
            Layout { parts: parts.collect() }.leave()
        };
        let wide = of(&[(Part::Day(20_000), 1), (Part::Day(20_001), 5)]);
        let each = [0, 1, 2, 5, 90].map(|days| (wide.of(days) - 3 * HOUR) / DAY);
        assert_eq!(each, [2, 2, 3, 6, 6], "no longer than they were kept");
        let of = |parts: &[(Part, i64)]| of(parts).of(90);
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[(Part::Day(20_000), 1), (Part::Day(20_001), 1)]), 2 * DAY + 3 * HOUR);
        assert_eq!(of(&[(Part::Day(20_000), 1), (Part::Day(20_001), 5)]), 6 * DAY + 3 * HOUR);
        // One that is wider than most has no use for more, and those of few steps never had.
        assert_eq!(of(&[(Part::Day(20_000), 512)]), 8 * DAY + 3 * HOUR);
        assert_eq!(of(&[(Part::Before, 20_000), (Part::Kept(20_000), 300)]), 2 * DAY + 3 * HOUR);
    }

    #[test]
    fn partitions_that_a_longer_rule_leaves_make_new_ones_wide() {
        let day = |day| (Part::Day(day), day * DAY_IDS..(day + 1) * DAY_IDS);
        // Rules were shortened and made longer again.
        let mut layout = Layout { parts: (20_000..20_120).map(day).collect() };
        let most = after_years(36_500, &mut layout, 20_120);
        assert!(most <= 170, "{most}");
        // A rule of days beside steps that are kept for a century.
        let mut layout = Layout { parts: (20_000..20_060).map(day).collect() };
        for today in 20_060..56_500 {
            if !layout.has(today) {
                let days = layout.days_from(today, 30);
                let ids = days.start * DAY_IDS..days.end * DAY_IDS;
                layout.parts.insert(Part::Day(today), ids);
            }
        }
        assert!(layout.parts.len() <= 140, "{}", layout.parts.len());
        // The next one begins where it begins.
        let layout = Layout { parts: [day(20_010)].into() };
        assert_eq!(layout.days_from(20_005, 36_500), 20_005..20_010);
        assert_eq!(layout.days_from(20_011, 900), 20_011..20_018);
    }
}
