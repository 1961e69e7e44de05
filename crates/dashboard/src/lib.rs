//! The pages of the console as HTML, and the files beside them.
//!
//! A page is a struct of what it shows and a template; it asks nothing and decides nothing. Every text of a
//! prompt, model or user is escaped, by the template or where it is put into a sentence. Pages hold no script and no style: those are files, so
//! that the policy of the page can forbid all others.

mod assets;
mod format;
mod frame;
mod markup;
mod pages;
mod qr_code;
mod texts;

pub use assets::{Asset, asset};
pub use format::{Bytes, Count, Duration, Money, Percent, Rate};
pub use frame::{Frame, Person, ProjectLink, Section};
pub use markup::{Html, Inline};
pub use pages::account::{AccountPage, IdentityRow, OfferedAuthenticator, PasskeyRow, SessionRow};
pub use pages::audit::{AuditEvent, AuditFilters, AuditPage};
pub use pages::chart::{Chart, ChartBar, Part};
pub use pages::choice::Choice;
pub use pages::failure::{FailurePage, NoProjectPage};
pub use pages::insights::{DriftRow, InsightCard, InsightsPage, Savings};
pub use pages::job::{
    BacktestView, CauseRow, ExportView, ExportedSteps, JobPage, JobPart, RefusalRow, StepLink,
    TierMoveRow,
};
pub use pages::jobs::{JobRow, JobRows, JobsPage};
pub use pages::keys::{KeyRow, KeysPage, NewSecret, key_state};
pub use pages::limits::{Held, KeyLimits, LimitsPage};
pub use pages::model::{CALL_PROMPT, EndpointRow, ModelPage, TestCall};
pub use pages::models::{ModelRow, ModelsPage};
pub use pages::overview::{
    Change, FirstSteps, GroupTable, Overview, OverviewPeriod, ShareRow, Tile,
};
pub use pages::overview_parts::OverviewParts;
pub use pages::paging::Pages;
pub use pages::people::{
    ForgottenPage, InvitationPage, InvitationRow, NewLink, NewPasswordPage, PeoplePage, PersonRow,
    VerificationPage,
};
pub use pages::playground::PlaygroundPage;
pub use pages::refused::Refused;
pub use pages::replay::{ComparedCall, ComparedTrace, RepeatedCall, ReplayPage, ReplayPart};
pub use pages::reviews::{FindingRow, JudgedRow, ReviewItem, ReviewsPage};
pub use pages::routing::{Route, RoutingPage, ThresholdRow, TierRow};
pub use pages::safety::{
    AdviceRow, DraftField, FindingMark, RuleRow, SafetyDraft, SafetyPage, Verdict,
};
pub use pages::settings::{
    DifferenceRow, McpServer, OrganizationFields, ProjectFields, ProposedChange, SettingsPage,
};
pub use pages::sign_in::{FactorPage, LinkPage, LinkState, SignInPage, SignOnLink, SignedOutPage};
pub use pages::sign_on::{ProviderForm, SignOnPage};
pub use pages::tokens::{TokenRow, TokensPage};
pub use pages::trace::{Bar, StepPage, StepPages, StepView, Text, TextLink, TracePage};
pub use pages::traces::{TraceFilters, TraceRow, TraceRows, TracesPage};
pub use texts::{ENGLISH, Texts};

use askama::Template;

/// A page that can be written.
pub trait Page {
    /// The page as HTML.
    fn html(&self) -> String;
}

impl<T: Template> Page for T {
    fn html(&self) -> String {
        // Templates fail only by a `Display` that does, and ours do not.
        self.render().unwrap_or_default()
    }
}
