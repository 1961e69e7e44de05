//! API keys.

use askama::Template;
use domain::time::Timestamp;

use crate::format::{Money, Percent};
use crate::frame::Frame;
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
    /// `active`, `tripped` or `loop_detected`.
    pub status: &'static str,
    /// Its spend in the last hour.
    pub spent: Money,
    /// Its hourly cap.
    pub cap: Option<Money>,
    /// The share of the cap that is spent, 0 to 1 and more.
    pub share: Option<f64>,
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

    fn width(&self) -> Option<String> {
        self.share.map(|share| format!("{:.1}", (share * 100.0).clamp(0.0, 100.0)))
    }

    fn percent(&self) -> Percent {
        Percent(self.share.unwrap_or_default())
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
    /// A key that was just made.
    pub made: Option<NewSecret>,
    /// Whether the user may make keys.
    pub may_make: bool,
    /// Whether the user names the cap of a key that they make.
    pub may_cap: bool,
    /// The address of this gateway.
    pub address: String,
}
