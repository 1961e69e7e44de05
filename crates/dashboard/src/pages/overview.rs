//! The figures of a project over a period.

use askama::Template;

use crate::format::{Count, Money, Percent};
use crate::frame::{Frame, NavLink};
use crate::pages::overview_parts::OverviewParts;
use crate::texts::Texts;

/// A figure.
#[derive(Clone, Debug)]
pub struct Tile {
    /// Its name.
    pub label: &'static str,
    /// Its value.
    pub value: String,
    /// How it compares with the period before.
    pub change: Option<Change>,
    /// Further figures.
    pub note: String,
}

/// A comparison with the period before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// There was nothing to compare with.
    New,
    /// The figure over that of the period before, less one.
    By(f64),
}

impl Change {
    /// The change from a figure to another; `None` if both are nothing.
    pub fn of(before: f64, now: f64) -> Option<Self> {
        match (before == 0.0, now == 0.0) {
            (true, true) => None,
            (true, false) => Some(Self::New),
            (false, _) => Some(Self::By(now / before - 1.0)),
        }
    }
}

impl Change {
    /// The change for people.
    pub fn in_words(self, t: &Texts) -> String {
        match self {
            Self::New => t.overview.new.to_owned(),
            Self::By(share) if share.abs() < 0.000_5 => t.overview.as_before.to_owned(),
            Self::By(share) if share > 9.99 => {
                t.overview.times_as_much(format_args!("{:.0}", share + 1.0))
            }
            Self::By(share) if share > 0.0 => format!("+{}", Percent(share)),
            Self::By(share) => format!("\u{2212}{}", Percent(-share)),
        }
    }
}

/// The usage of a group.
#[derive(Clone, Debug)]
pub struct ShareRow {
    /// Its id among the rows of its table.
    pub id: String,
    /// Its value; `None` for calls without one.
    pub label: Option<String>,
    /// The list of its traces.
    pub href: Option<String>,
    /// Requests.
    pub requests: Count,
    /// Prompt and completion tokens.
    pub tokens: Count,
    /// Requests that failed.
    pub failures: Count,
    /// Its cost.
    pub cost: Money,
    /// Its share of the cost, 0 to 1.
    pub share: f64,
}

impl ShareRow {
    pub(crate) fn width(&self) -> String {
        format!("{:.1}", (self.share * 100.0).clamp(0.0, 100.0))
    }
}

/// The usage by a dimension, dearest first.
#[derive(Clone, Debug)]
pub struct GroupTable {
    /// The name of a group.
    pub title: String,
    /// The groups.
    pub rows: Vec<ShareRow>,
    /// The other groups, and their cost.
    pub rest: Option<Money>,
    /// The address of the same as CSV.
    pub csv: String,
}

impl GroupTable {
    pub(crate) fn heading(&self) -> String {
        let mut letters = self.title.chars();
        letters
            .next()
            .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
    }
}

/// The steps to a first call that are done.
#[derive(Clone, Debug, Default)]
pub struct FirstSteps {
    /// The model that the snippets call.
    pub model: String,
    /// A model of a provider is registered.
    pub has_model: bool,
    /// A tier leads to such a model.
    pub has_tier: bool,
    /// There is a key.
    pub has_key: bool,
}

/// The figures of a project over a period.
#[derive(Debug, Template)]
#[template(path = "overview.html")]
pub struct Overview {
    /// The frame.
    pub frame: Frame,
    /// The period.
    pub period: OverviewPeriod,
    /// The tag that usage is grouped by, too.
    pub tag: String,
    /// The address of the changes of the parts; `None` of a period that is over.
    pub live: Option<String>,
    /// The parts that change.
    pub parts: OverviewParts,
}

/// The period of an overview, as it was chosen.
#[derive(Clone, Debug)]
pub enum OverviewPeriod {
    /// So many hours up to now.
    Hours(i64),
    /// The first and the last day, as ISO dates.
    Days(String, String),
}

impl OverviewPeriod {
    fn hours(&self) -> Option<i64> {
        match self {
            Self::Hours(hours) => Some(*hours),
            Self::Days(..) => None,
        }
    }

    fn days(&self) -> Option<(&str, &str)> {
        match self {
            Self::Hours(_) => None,
            Self::Days(first, last) => Some((first, last)),
        }
    }

    pub(crate) fn no_calls(&self, t: &Texts) -> String {
        match self {
            Self::Hours(hours) => t.overview.no_calls_in_hours(hours),
            Self::Days(first, last) => t.overview.no_calls_in_days(first, last),
        }
    }
}

impl Overview {
    fn first_day(&self) -> &str {
        self.period.days().map_or("", |(first, _)| first)
    }

    fn last_day(&self) -> &str {
        self.period.days().map_or("", |(_, last)| last)
    }

    /// The periods to choose from.
    fn periods(&self) -> Vec<NavLink> {
        let t = &self.frame.t.overview;
        let periods = [(24, t.day), (168, t.week), (720, t.month)];
        let link = |(hours, name)| NavLink {
            href: self.frame.href(&format!("/?window={hours}")),
            name,
            is_current: self.period.hours() == Some(hours),
        };
        periods.into_iter().map(link).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts::ENGLISH;

    #[test]
    fn changes_are_told_in_words() {
        let of = |before, now| Change::of(before, now).map(|change| change.in_words(&ENGLISH));
        assert_eq!(of(0.0, 0.0), None);
        assert_eq!(of(0.0, 3.0).as_deref(), Some("new"));
        assert_eq!(of(2.0, 2.0).as_deref(), Some("as before"));
        assert_eq!(of(2.0, 3.0).as_deref(), Some("+50 %"));
        assert_eq!(of(2.0, 1.9).as_deref(), Some("\u{2212}5.0 %"));
        assert_eq!(of(1.0, 40.0).as_deref(), Some("40 times as much"));
        assert_eq!(of(2.0, 0.0).as_deref(), Some("\u{2212}100 %"));
    }
}
