//! The figures of a project over a period.

use askama::Template;
use domain::time::Timestamp;

use crate::format::{Count, Money, Percent};
use crate::frame::{Frame, NavLink};
use crate::markup;
use crate::pages::chart::{Chart, ChartBar};
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
    fn width(&self) -> String {
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
    fn heading(&self) -> String {
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
    /// The hours up to now, if that is the period; else it is one of days.
    pub hours: Option<i64>,
    /// The first and the last day of a period of days, as ISO dates.
    pub days: Option<(String, String)>,
    /// The figures over time.
    pub charts: Vec<Chart>,
    /// The charts' figures as CSV.
    pub series: String,
    /// The tag that usage is grouped by, too.
    pub tag: String,
    /// The figures.
    pub tiles: Vec<Tile>,
    /// The usage by model, key, user and so on.
    pub groups: Vec<GroupTable>,
    /// The steps to a first call; `None` if there were calls.
    pub first_steps: Option<FirstSteps>,
    /// The address of this gateway.
    pub address: String,
}

/// The figures alone, for a page that is open.
#[derive(Debug, Template)]
#[template(path = "tiles.html")]
pub struct Tiles {
    /// The texts.
    pub t: &'static Texts,
    /// The figures.
    pub tiles: Vec<Tile>,
}

impl Overview {
    /// The figures of the charts, by the time that they begin at.
    fn buckets(&self) -> Vec<(Timestamp, Vec<&str>)> {
        let Some(first) = self.charts.first() else { return Vec::new() };
        let row = |(index, bar): (usize, &ChartBar)| {
            let bars = self.charts.iter().filter_map(|chart| chart.bars.get(index));
            (bar.begins, bars.map(|bar| bar.words.as_str()).collect())
        };
        first.bars.iter().enumerate().map(row).collect()
    }

    /// The address of the changes of the figures.
    fn live(&self) -> Option<String> {
        let hours = self.hours?;
        Some(self.frame.href(&format!("/live/overview?window={hours}")))
    }

    fn no_calls(&self) -> String {
        let t = &self.frame.t.overview;
        match self.hours {
            Some(hours) => t.no_calls_in_hours(hours),
            None => t.no_calls_in_days(self.first_day(), self.last_day()),
        }
    }

    fn first_day(&self) -> &str {
        self.days.as_ref().map_or("", |(first, _)| first)
    }

    fn last_day(&self) -> &str {
        self.days.as_ref().map_or("", |(_, last)| last)
    }

    /// The periods to choose from.
    fn periods(&self) -> Vec<NavLink> {
        let t = &self.frame.t.overview;
        let periods = [(24, t.day), (168, t.week), (720, t.month)];
        let link = |(hours, name)| NavLink {
            href: self.frame.href(&format!("/?window={hours}")),
            name,
            is_current: self.hours == Some(hours),
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
