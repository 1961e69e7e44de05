//! The window of a backtest, and the steps that ended within it.

use std::collections::VecDeque;

use domain::ids::{ProjectId, StepId};
use domain::step::Step;
use domain::time::{DAY, Timestamp};
use serde::{Deserialize, Serialize};
use store::{SealedContent, StepCursor, Store};

use crate::backtest::judge;
use crate::bounded_read::{light, read_again};
use crate::error::{Faults, Result};
use crate::state::known_traces::asks_secure;

/// The longest window.
const LONGEST: i64 = 31 * DAY;
/// The most steps of a window that are read.
pub(super) const MOST_STEPS: i64 = 1_000_000;
/// Sealed contents of so many bytes are held at a time; one content may be larger.
const MOST_SEALED: usize = 1024 * 1024;

/// A stretch of time in which steps ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "(i64, i64)", into = "(i64, i64)")]
pub struct Window {
    /// Its first moment.
    pub from: Timestamp,
    /// The moment after its last.
    pub to: Timestamp,
}

impl From<(i64, i64)> for Window {
    fn from((from, to): (i64, i64)) -> Self {
        Self { from: Timestamp(from), to: Timestamp(to) }
    }
}

impl From<Window> for (i64, i64) {
    fn from(window: Window) -> Self {
        (window.from.0, window.to.0)
    }
}

impl Window {
    /// Reads a window that ends now, or earlier.
    pub(super) fn read(from: &str, to: Option<&str>, now: Timestamp) -> Result<Self> {
        let mut faults = Faults::default();
        let mut time = |name: &str, text: &str| {
            let time = Timestamp::parse(text);
            if time.is_none() {
                faults.add(format!("{name} must be an ISO 8601 time such as 2026-11-21T12:00:00Z"));
            }
            time
        };
        let from = time("from", from).unwrap_or_default();
        let to = to.map_or(Some(now), |to| time("to", to)).unwrap_or_default().min(now);
        if faults.sentences().is_empty() {
            if from >= to {
                faults.add("from must be before to, and not in the future".to_owned());
            } else if to.since(from) > LONGEST {
                faults.add("from must be at most 31 days before to".to_owned());
            }
        }
        faults.none()?;
        Ok(Self { from, to })
    }
}

/// A request that was recorded with its content.
pub(super) struct RecordedRequest {
    pub(super) step: Step,
    /// Whether its trace asks for private models.
    pub(super) asks_secure: bool,
    size: usize,
}

impl RecordedRequest {
    /// The bytes of its sealed content for which memory is taken before it is read: those of a content that is
    /// larger than all that are held at a time.
    pub(super) fn charged(&self) -> usize {
        if self.size > MOST_SEALED { self.size } else { 0 }
    }
}

/// A part of the steps of a window.
#[derive(Default)]
pub(super) struct Page {
    /// Steps of any kind.
    pub(super) read: u64,
    /// Requests whose content is not stored.
    pub(super) without_content: u64,
    /// Steps whose row cannot be read.
    pub(super) damaged: u64,
    /// When its first step ended.
    pub(super) since: Timestamp,
    /// All its steps but the requests: those of tools link the rounds of a conversation.
    pub(super) others: Vec<Step>,
    /// The other requests.
    requests: VecDeque<RecordedRequest>,
}

impl Page {
    /// The next request; `None` if all have been taken.
    pub(super) fn peek(&self) -> Option<&RecordedRequest> {
        self.requests.front()
    }

    /// Leaves out the next request.
    pub(super) fn skip(&mut self) {
        self.requests.pop_front();
    }
}

/// The steps of a window, read page by page in the order in which they ended.
pub(super) struct Pages<'s> {
    store: &'s Store,
    project: ProjectId,
    last: StepCursor,
    to: Timestamp,
}

impl<'s> Pages<'s> {
    pub(super) fn of(store: &'s Store, project: ProjectId, window: Window) -> Self {
        Self { store, project, last: StepCursor::at(window.from), to: window.to }
    }

    /// The next steps, none at the end.
    pub(super) async fn next(&mut self) -> Result<Page> {
        let steps =
            read_again(|| self.store.next_ended_steps(self.project, self.last, self.to)).await?;
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else {
            return Ok(Page::default());
        };
        let since = first.finished_at;
        self.last = StepCursor::after(last);
        let read = steps.len() as u64;
        let mut damaged = 0;
        let readable = steps.into_iter().filter_map(|ended| {
            let note = |error| {
                damaged += 1;
                tracing::warn!(step = %ended.id, %error, "a backtest leaves out a step that cannot be read");
            };
            ended.step.map_err(note).ok()
        });
        let steps: Vec<Step> = readable.collect();
        let (steps, others): (Vec<Step>, Vec<Step>) = steps.into_iter().partition(judge::counts);
        let (ids, traces): (Vec<_>, Vec<_>) =
            steps.iter().map(|step| (step.id, step.trace)).unzip();
        let (sizes, sensitivities) = tokio::try_join!(
            read_again(|| self.store.sealed_sizes(&ids)),
            read_again(|| self.store.sensitivities(&traces)),
        )?;
        let without_content = (steps.len() - sizes.len()) as u64;
        let stored = steps.into_iter().filter_map(|step| {
            let asks_secure = asks_secure(sensitivities.get(&step.trace));
            Some(RecordedRequest { size: *sizes.get(&step.id)?, step, asks_secure })
        });
        Ok(Page { read, without_content, damaged, since, others, requests: stored.collect() })
    }

    /// The next requests of a page, with their sealed contents; none at its end.
    pub(super) async fn contents(
        &self,
        page: &mut Page,
    ) -> Result<VecDeque<(RecordedRequest, SealedContent)>> {
        let sizes = page.requests.iter().map(|request| request.size);
        let count = light(sizes, MOST_SEALED);
        let requests: Vec<_> = page.requests.drain(..count).collect();
        if requests.is_empty() {
            return Ok(VecDeque::new());
        }
        let ids: Vec<StepId> = requests.iter().map(|request| request.step.id).collect();
        let mut sealed = read_again(|| self.store.sealed_contents(&ids)).await?;
        let with_content = requests.into_iter().filter_map(|request| {
            let place = sealed.iter().position(|content| content.step() == request.step.id);
            match place {
                Some(place) => Some((request, sealed.swap_remove(place))),
                None => {
                    // Its retention ended meanwhile.
                    page.without_content += 1;
                    None
                }
            }
        });
        Ok(with_content.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_bounded() {
        let now = Timestamp::parse("2026-11-21T12:00:00Z").unwrap();
        let read = |from: &str, to: Option<&str>| Window::read(from, to, now);
        let week = read("2026-11-14", None).unwrap();
        assert_eq!((week.from.to_string(), week.to), ("2026-11-14T00:00:00.000Z".into(), now));
        assert_eq!(read("2026-11-14", Some("2030-01-01")).unwrap(), week, "it ends now");
        for (from, to, field) in [
            ("yesterday", None, "from must be an ISO 8601 time"),
            ("2026-11-14", Some("later"), "to must be an ISO 8601 time"),
            ("2026-11-14", Some("2026-11-14"), "from must be before to"),
            ("2026-11-22", None, "from must be before to"),
            ("2026-11-22", Some("2026-11-30"), "from must be before to"),
            ("2026-10-21T11:59:59Z", None, "from must be at most 31 days before to"),
            ("-009999-01-01", None, "from must be at most 31 days"),
        ] {
            let error = read(from, to).unwrap_err().to_string();
            assert!(error.starts_with(field), "{from} {to:?}: {error}");
        }
        assert!(read("2026-10-21T12:00:00Z", None).is_ok(), "31 days");
    }
}
