//! The texts of the console, in one place, so that translations can follow.
//!
//! A group holds the texts of a page, or of what several pages share. Its English is written with the group
//! itself (see [`texts!`]): a text that a template names and the group lacks does not compile. Another language
//! is a second set of values of the same groups, and a [`Texts`] of them.
//!
//! What is data is no text of the console: ids, the states and roles as the API words them, and the sentences of
//! its errors.

mod macros;

mod account;
mod frame;
mod jobs;
mod keys;
mod models;
mod notices;
mod overview;
mod people;
mod safety;
mod settings;
mod signing_in;
#[cfg(test)]
mod templates;
mod traces;

pub use account::Account;
pub use frame::{Frame, Nav, Script, Words};
pub use jobs::{Job, Jobs};
pub use keys::{Keys, Limits};
pub use models::{Model, Models, Playground, Routing};
pub use notices::Notices;
pub use overview::Overview;
pub use people::{People, SignOn, Tokens};
pub use safety::{Reviews, Safety};
pub use settings::{Audit, Insights, Settings};
pub use signing_in::{Failures, Links, SigningIn};
pub use traces::{Replay, Step, Trace, Traces};

use macros::texts;

/// All texts of the console in one language.
pub struct Texts {
    /// The language, as `<html lang>` names it.
    pub lang: &'static str,
    /// The parts of the console.
    pub nav: Nav,
    /// The surroundings of every page.
    pub frame: Frame,
    /// Words of several pages.
    pub words: Words,
    /// What the script writes.
    pub script: Script,
    /// The outcomes of forms.
    pub notices: Notices,
    /// The figures of a project.
    pub overview: Overview,
    /// The list of traces.
    pub traces: Traces,
    /// A trace.
    pub trace: Trace,
    /// A step of a trace.
    pub step: Step,
    /// A replay.
    pub replay: Replay,
    /// The playground.
    pub playground: Playground,
    /// The model registry.
    pub models: Models,
    /// A model.
    pub model: Model,
    /// Routing.
    pub routing: Routing,
    /// Keys.
    pub keys: Keys,
    /// Limits and budgets.
    pub limits: Limits,
    /// Safety.
    pub safety: Safety,
    /// The review queue.
    pub reviews: Reviews,
    /// Insights.
    pub insights: Insights,
    /// Jobs.
    pub jobs: Jobs,
    /// A job.
    pub job: Job,
    /// People.
    pub people: People,
    /// Service tokens.
    pub tokens: Tokens,
    /// Providers of single sign-on.
    pub sign_on: SignOn,
    /// The actions of people.
    pub audit: Audit,
    /// Settings.
    pub settings: Settings,
    /// The user's own account.
    pub account: Account,
    /// The pages that sign somebody in.
    pub signing_in: SigningIn,
    /// The pages that links of letters lead to.
    pub links: Links,
    /// Pages that cannot be shown.
    pub failures: Failures,
}

/// The English texts.
pub static ENGLISH: Texts = Texts {
    lang: "en",
    nav: Nav::ENGLISH,
    frame: Frame::ENGLISH,
    words: Words::ENGLISH,
    script: Script::ENGLISH,
    notices: Notices::ENGLISH,
    overview: Overview::ENGLISH,
    traces: Traces::ENGLISH,
    trace: Trace::ENGLISH,
    step: Step::ENGLISH,
    replay: Replay::ENGLISH,
    playground: Playground::ENGLISH,
    models: Models::ENGLISH,
    model: Model::ENGLISH,
    routing: Routing::ENGLISH,
    keys: Keys::ENGLISH,
    limits: Limits::ENGLISH,
    safety: Safety::ENGLISH,
    reviews: Reviews::ENGLISH,
    insights: Insights::ENGLISH,
    jobs: Jobs::ENGLISH,
    job: Job::ENGLISH,
    people: People::ENGLISH,
    tokens: Tokens::ENGLISH,
    sign_on: SignOn::ENGLISH,
    audit: Audit::ENGLISH,
    settings: Settings::ENGLISH,
    account: Account::ENGLISH,
    signing_in: SigningIn::ENGLISH,
    links: Links::ENGLISH,
    failures: Failures::ENGLISH,
};

impl std::fmt::Debug for Texts {
    /// Pages have them all: their language is enough to tell them apart.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Texts").field(&self.lang).finish()
    }
}
