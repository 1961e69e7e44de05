//! The surroundings of every page: navigation, person, projects.

use form_urlencoded::byte_serialize;

use crate::pages::refused::Refused;
use crate::texts::{Nav, Texts};

/// The parts of the console that the navigation leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Figures of a project.
    Overview,
    /// Traces and their steps.
    Traces,
    /// Calls that a person makes.
    Playground,
    /// The model registry.
    Models,
    /// Tiers and their threshold.
    Routing,
    /// API keys.
    Keys,
    /// Budgets and caps.
    Limits,
    /// Trying texts.
    Safety,
    /// Possible savings.
    Insights,
    /// Replays, exports and backtests.
    Jobs,
    /// Members and invitations.
    People,
    /// The actions of people.
    Audit,
    /// Settings of project and organization.
    Settings,
    /// The user's own account, to which their address leads.
    Account,
}

impl Section {
    const ALL: [Self; 13] = [
        Self::Overview,
        Self::Traces,
        Self::Playground,
        Self::Models,
        Self::Routing,
        Self::Keys,
        Self::Limits,
        Self::Safety,
        Self::Insights,
        Self::Jobs,
        Self::People,
        Self::Audit,
        Self::Settings,
    ];

    /// The part that a path belongs to; the overview if it is that of none.
    pub fn of(path: &str) -> Self {
        let first = path.split('/').nth(1).unwrap_or_default();
        let mut all = Self::ALL.into_iter();
        all.find(|section| section.path().trim_start_matches('/') == first)
            .unwrap_or(Self::Overview)
    }

    /// Its name.
    pub fn name(self, names: &Nav) -> &'static str {
        match self {
            Self::Overview => names.overview,
            Self::Traces => names.traces,
            Self::Playground => names.playground,
            Self::Models => names.models,
            Self::Routing => names.routing,
            Self::Keys => names.keys,
            Self::Limits => names.limits,
            Self::Safety => names.safety,
            Self::Insights => names.insights,
            Self::Jobs => names.jobs,
            Self::People => names.people,
            Self::Audit => names.audit,
            Self::Settings => names.settings,
            Self::Account => names.account,
        }
    }

    /// Its path.
    pub fn path(self) -> &'static str {
        match self {
            Self::Overview => "/",
            Self::Traces => "/traces",
            Self::Playground => "/playground",
            Self::Models => "/models",
            Self::Routing => "/routing",
            Self::Keys => "/keys",
            Self::Limits => "/limits",
            Self::Safety => "/safety",
            Self::Insights => "/insights",
            Self::Jobs => "/jobs",
            Self::People => "/people",
            Self::Audit => "/audit",
            Self::Settings => "/settings",
            Self::Account => "/account",
        }
    }

    /// Whether somebody finds anything there.
    fn is_for(self, person: &Person) -> bool {
        match self {
            Self::People | Self::Audit | Self::Settings => person.is_admin,
            Self::Playground => person.may_call,
            _ => true,
        }
    }
}

/// The signed-in user.
#[derive(Clone, Debug)]
pub struct Person {
    /// Their address.
    pub email: String,
    /// Their role, as a word.
    pub role: &'static str,
    /// Whether they decide about models, money and people.
    pub is_admin: bool,
    /// Whether they may call models with keys.
    pub may_call: bool,
}

/// A project that the user may see.
#[derive(Clone, Debug)]
pub struct ProjectLink {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// Whether it is shown.
    pub is_shown: bool,
}

/// The surroundings of every page of a signed-in user.
#[derive(Clone, Debug)]
pub struct Frame {
    /// The texts of the page: its language is chosen by this value alone.
    pub t: &'static Texts,
    /// The title of the page.
    pub title: String,
    /// The part of the console that it belongs to.
    pub section: Section,
    /// The user.
    pub person: Person,
    /// Whether they have to set up a second factor first: no other page is open to them.
    pub enrols: bool,
    /// The projects that they may see.
    pub projects: Vec<ProjectLink>,
    /// The number of the project that is shown; `None` without any.
    pub project: Option<i64>,
    /// The outcome of a form.
    pub notice: Option<String>,
    /// Why a form was refused.
    pub fault: Option<String>,
    /// The form that was refused, if its page shows what was sent.
    pub refused: Refused,
}

/// A link of the navigation.
pub(crate) struct NavLink {
    pub(crate) href: String,
    pub(crate) name: &'static str,
    pub(crate) is_current: bool,
}

#[cfg(test)]
impl Frame {
    /// The frame of a page in a test, for an owner.
    pub(crate) fn of_test(section: Section) -> Self {
        Self {
            t: &crate::texts::ENGLISH,
            title: "Trace".to_owned(),
            section,
            person: Person {
                email: "a@b.c".to_owned(),
                role: "owner",
                is_admin: true,
                may_call: true,
            },
            enrols: false,
            projects: Vec::new(),
            project: None,
            notice: None,
            fault: None,
            refused: Refused::default(),
        }
    }
}

impl Frame {
    /// The number of the project that is shown, for a field; empty without any.
    pub(crate) fn own_project(&self) -> String {
        self.project.map(|id| id.to_string()).unwrap_or_default()
    }

    pub(crate) fn links(&self) -> Vec<NavLink> {
        let shown = |section: &Section| !self.enrols && section.is_for(&self.person);
        let link = |section: Section| NavLink {
            href: self.href(section.path()),
            name: section.name(&self.t.nav),
            is_current: section == self.section,
        };
        Section::ALL.into_iter().filter(shown).map(link).collect()
    }

    pub(crate) fn is_of_account(&self) -> bool {
        self.section == Section::Account
    }

    /// A path of the console for the project that is shown.
    pub fn href(&self, path: &str) -> String {
        match self.project {
            Some(id) if path.contains('?') => format!("{path}&project={id}"),
            Some(id) => format!("{path}?project={id}"),
            None => path.to_owned(),
        }
    }

    /// The list of this project's traces that fit a filter.
    pub fn traces_by(&self, name: &str, value: &str) -> String {
        let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
        self.href(&format!("/traces?{}={}", encoded(name), encoded(value)))
    }
}
