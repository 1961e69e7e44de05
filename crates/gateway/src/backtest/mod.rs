//! Backtests: the recorded requests of a period, judged by draft settings. No model is called, and nothing
//! is spent.
//!
//! A request makes a job ([`ask`]), a node runs it ([`run`]): the steps of the window are read page by page
//! ([`window`]), each is judged by the draft on a thread of low priority ([`judge`]), and what differs from
//! its record is counted ([`tally`]). At the end the limits of the draft and those of now are replayed over all of
//! them ([`limits`]). The counts of a run are in memory alone: after a crash a backtest begins again.

pub(crate) mod ask;
mod both;
mod conversations;
mod draft;
mod judge;
pub(crate) mod limits;
pub(crate) mod report;
pub(crate) mod run;
mod tally;
pub(crate) mod window;

#[cfg(test)]
mod judge_tests;
#[cfg(test)]
mod plain_tests;
#[cfg(test)]
mod run_tests;
#[cfg(test)]
mod sums_tests;
