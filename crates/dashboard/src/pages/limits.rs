//! Limits and budgets: who holds what now.

use askama::Template;

use crate::format::{Count, Money, Percent};
use crate::frame::Frame;
use crate::markup;
use crate::pages::paging::Pages;

/// Money against its bound.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    /// Spent.
    pub spent: Money,
    /// Reserved for calls that run.
    pub reserved: Money,
    /// The bound, if there is one.
    pub bound: Option<Money>,
}

impl Held {
    fn share_of(self, amount: Money) -> f64 {
        match self.bound {
            Some(bound) if bound.0.0 > 0 => amount.0.dollars() / bound.0.dollars(),
            Some(_) => 1.0,
            None => 0.0,
        }
    }

    /// The spent part of the bar, in percent.
    pub(crate) fn spent_width(self) -> String {
        format!("{:.1}", (self.share_of(self.spent) * 100.0).clamp(0.0, 100.0))
    }

    /// The spent and reserved part of the bar, in percent.
    pub(crate) fn held_width(self) -> String {
        let held = self.share_of(self.spent) + self.share_of(self.reserved);
        format!("{:.1}", (held * 100.0).clamp(0.0, 100.0))
    }

    pub(crate) fn percent(self) -> Percent {
        let held = self.share_of(self.spent) + self.share_of(self.reserved);
        // A bound of nothing is always reached.
        Percent(if self.bound.is_some_and(|bound| bound.0.0 <= 0) { 1.0 } else { held })
    }
}

/// A key.
#[derive(Clone, Debug)]
pub struct KeyLimits {
    /// Its name.
    pub name: String,
    /// The list of its traces.
    pub href: String,
    /// `active`, `tripped` or `loop_detected`.
    pub status: &'static str,
    /// Its state for people.
    pub state: &'static str,
    /// Its money in the rolling hour.
    pub held: Held,
    /// Its requests in the rolling hour.
    pub requests: Count,
}

/// The limits of a project.
#[derive(Debug, Template)]
#[template(path = "limits.html")]
pub struct LimitsPage {
    /// The frame.
    pub frame: Frame,
    /// The project's money in the calendar month.
    pub month: Held,
    /// The requests that a key may make in an hour.
    pub most_requests: Option<Count>,
    /// Its keys.
    pub keys: Vec<KeyLimits>,
    /// The other pages of them.
    pub pages: Pages,
    /// The address of the whole list as a file.
    pub file: String,
}
