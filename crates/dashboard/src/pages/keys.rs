//! API keys.

use askama::Template;
use domain::time::Timestamp;

use crate::format::Money;
use crate::frame::Frame;
use crate::pages::limits::Held;
use crate::pages::paging::Pages;
use crate::texts::Texts;

/// A key.
#[derive(Clone, Debug)]
pub struct KeyRow {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its first and last characters.
    pub masked: String,
    /// Its maker; `None` of a key that nobody has made.
    pub owner: Option<String>,
    /// `active`, `tripped` or `loop_detected`.
    pub status: &'static str,
    /// The money that counts against its hourly cap now.
    pub held: Held,
    /// The models that it may call; `None` allows all.
    pub models: Option<Vec<String>>,
    /// The endpoints that it may use; `None` allows all.
    pub endpoints: Option<Vec<&'static str>>,
    /// Its last request.
    pub last_used: Option<Timestamp>,
    /// When it stops being valid.
    pub expires_at: Option<Timestamp>,
    /// Whether the signed-in user may give it a new secret.
    pub may_rotate: bool,
    /// Whether the signed-in user may revoke it.
    pub may_revoke: bool,
}

impl KeyRow {
    fn is_active(&self) -> bool {
        self.status == "active"
    }

    fn state(&self, t: &Texts) -> &'static str {
        key_state(t, self.status)
    }

    /// The models and endpoints that it may use, in words.
    fn allowed(&self, t: &Texts) -> String {
        fn listed(t: &Texts, list: &[impl AsRef<str>]) -> String {
            let names: Vec<&str> = list.iter().map(AsRef::as_ref).collect();
            if names.is_empty() { t.words.none.to_owned() } else { names.join(", ") }
        }
        match (&self.models, &self.endpoints) {
            (None, None) => t.keys.all.to_owned(),
            (Some(models), None) => listed(t, models),
            (None, Some(endpoints)) => t.keys.all_models_by(listed(t, endpoints)),
            (Some(models), Some(endpoints)) => {
                t.keys.models_by(listed(t, models), listed(t, endpoints))
            }
        }
    }
}

/// The status of a key in words.
pub fn key_state(t: &Texts, status: &'static str) -> &'static str {
    match status {
        "tripped" => t.keys.cap_reached,
        "loop_detected" => t.keys.in_loop,
        status => status,
    }
}

/// A secret that is shown once.
#[derive(Clone, Debug)]
pub struct NewSecret {
    /// The name of its key.
    pub name: String,
    /// The secret.
    pub secret: String,
}

/// The keys of a project.
#[derive(Debug, Template)]
#[template(path = "keys.html")]
pub struct KeysPage {
    /// The frame.
    pub frame: Frame,
    /// The keys.
    pub rows: Vec<KeyRow>,
    /// The other pages of them.
    pub pages: Pages,
    /// A key that was just made.
    pub made: Option<NewSecret>,
    /// The spend of the user's own keys of the project in 30 days; `None` if that is not shown.
    pub own_spend: Option<Money>,
    /// The models that a new key can be held to.
    pub models: Vec<String>,
    /// Whether there are more of them, to be named.
    pub has_more_models: bool,
    /// The endpoints that it can be held to.
    pub endpoints: Vec<&'static str>,
    /// Whether the user may make keys.
    pub may_make: bool,
    /// Whether the user names the cap of a key that they make.
    pub may_cap: bool,
    /// The address of this gateway.
    pub address: String,
    /// The address of the whole list as a file.
    pub file: String,
}
