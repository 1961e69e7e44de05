//! `project.settings`: the known keys as a type; unknown keys are kept beside them.

mod aliases;
mod organization;
mod reader;
mod safety;

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::attributes::AttributeName;
use crate::money::Usd;
use crate::safety::Safety;
use crate::tier::Tier;
pub use aliases::ModelAliases;
pub use organization::{OrganizationSettings, Security};
use reader::Reader;
pub use reader::whole;

/// Requests that a key may make in a rolling hour, if the project sets no limit.
pub const REQUESTS_PER_HOUR: u64 = 1000;
/// Requests within the loop window that are still no loop, if the project sets no number.
pub const LOOP_REQUESTS: u64 = 50;
/// The loop window in seconds, if the project sets none.
pub const LOOP_WINDOW_SECONDS: u64 = 10;
/// Minutes without a call after which the trace of a session is completed, if the project sets none.
const SESSION_IDLE_MINUTES: u64 = 30;
const MAX_IDLE_MINUTES: u64 = 24 * 60;
const MAX_TERMS: usize = 1000;
const MAX_TERM: usize = 200;
const MAX_MCP_SERVERS: usize = 100;
const MAX_VENDOR_TOOLS: usize = 100;
const MAX_ATTRIBUTES: usize = 10;
/// The keys that a member may have in a project with self-service, if it sets no number.
const OWN_KEYS: u64 = 5;
const MAX_OWN_KEYS: u64 = 100;

/// The known keys of a project's settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// `routing_tiers`: the model identifier of each tier.
    pub routing_tiers: BTreeMap<Tier, String>,
    /// `model_aliases`: names that clients use, and the models that they mean.
    pub model_aliases: ModelAliases,
    /// `routing.complexity_threshold`, 0 to 1.
    pub complexity_threshold: Option<f64>,
    /// `safety`.
    pub safety: Safety,
    /// `limits`.
    pub limits: Limits,
    /// `monthly_budget` in USD.
    pub monthly_budget: Option<Usd>,
    /// `perimeter`.
    pub perimeter: Perimeter,
    /// `allowed_regions`; `None` allows all.
    pub allowed_regions: Option<Vec<String>>,
    /// `store_content`: `false` keeps metrics only. Absent means `true`.
    pub discard_content: bool,
    /// `auto_trace`: open and complete a trace for a chat completion that names none.
    pub auto_trace: bool,
    /// `images.blocked_terms`: words that are blocked in image prompts.
    pub blocked_terms: Vec<String>,
    /// `shadow_model`.
    pub shadow_model: Option<ShadowModel>,
    /// `mcp.allowed_servers`: the addresses of MCP servers that requests may name.
    pub mcp_servers: Vec<String>,
    /// `passthrough.vendor_tools`: the types of vendors' tools that may reach any address.
    pub vendor_tools: Vec<String>,
    /// `traces.idle_hours`: a pending trace that idles longer has failed.
    pub idle_hours: Option<u64>,
    /// `sessions.idle_minutes`: a trace that the calls of a session share is completed after this time
    /// without one.
    pub session_idle_minutes: Option<u64>,
    /// `attributes`.
    pub attributes: AttributeRules,
    /// `self_service`; without it members make keys without bounds.
    pub self_service: Option<SelfService>,
}

/// `settings.self_service`: the keys that members make for themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelfService {
    /// `max_keys`: the keys that a member may have in the project.
    pub max_keys: u64,
    /// `max_hourly_limit`: the highest cap of such a key, and that of one that names none. `None` allows any.
    pub max_hourly_limit: Option<Usd>,
    /// `models`: the models that such a key may call. `None` allows all.
    pub models: Option<Vec<String>>,
}

/// `settings.attributes`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttributeRules {
    /// `required`: a call without one of these is refused.
    pub required: Vec<AttributeName>,
    /// `hash`: of these a keyed hash is stored.
    pub hash: Vec<AttributeName>,
}

/// `settings.limits`. `None` means off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `requests_per_hour`.
    pub requests_per_hour: Option<u64>,
    /// `loop_requests`: this many within the window are still no loop.
    pub loop_requests: Option<u64>,
    /// `loop_window_seconds`.
    pub loop_window_seconds: u64,
    /// `strict`: the start of a provider call is on disk before the call leaves.
    pub strict: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            requests_per_hour: Some(REQUESTS_PER_HOUR),
            loop_requests: Some(LOOP_REQUESTS),
            loop_window_seconds: LOOP_WINDOW_SECONDS,
            strict: false,
        }
    }
}

/// `settings.perimeter`: address ranges as CIDR texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Perimeter {
    /// When not empty, only these may call.
    pub allow: Vec<crate::net::Cidr>,
    /// These may not.
    pub block: Vec<crate::net::Cidr>,
}

/// `settings.shadow_model`.
#[derive(Clone, Debug, PartialEq)]
pub struct ShadowModel {
    /// Whether it runs.
    pub enabled: bool,
    /// The model's identifier.
    pub model: Option<String>,
    /// The share of requests it sees, 0 to 1.
    pub sample_rate: f64,
}

impl Settings {
    /// Reads the known keys. Every fault is a sentence that names the key.
    pub fn parse(raw: &Map<String, Value>) -> Result<Self, Vec<String>> {
        let mut errors = Vec::new();
        let settings = Self::read(&mut Reader::new(raw, "settings", &mut errors));
        if errors.is_empty() { Ok(settings) } else { Err(errors) }
    }

    /// The minutes without a call after which the trace of a session is completed.
    pub fn session_idle_minutes(&self) -> u64 {
        self.session_idle_minutes.unwrap_or(SESSION_IDLE_MINUTES)
    }

    fn read(r: &mut Reader<'_>) -> Self {
        let mut settings = Self {
            model_aliases: r.object("model_aliases", ModelAliases::read).unwrap_or_default(),
            safety: r.object("safety", safety::read).unwrap_or_default(),
            limits: r.object("limits", read_limits).unwrap_or_default(),
            perimeter: r.object("perimeter", read_perimeter).unwrap_or_default(),
            complexity_threshold: r.object("routing", |r| r.unit("complexity_threshold")).flatten(),
            idle_hours: r.object("traces", |r| r.count("idle_hours", 1)).flatten(),
            session_idle_minutes: r
                .object("sessions", |r| r.count_within("idle_minutes", 1..=MAX_IDLE_MINUTES))
                .flatten(),
            monthly_budget: r.money("monthly_budget"),
            allowed_regions: r.texts("allowed_regions"),
            discard_content: !r.flag("store_content").unwrap_or(true),
            auto_trace: r.flag("auto_trace").unwrap_or(false),
            blocked_terms: r.object("images", read_blocked_terms).unwrap_or_default(),
            shadow_model: r.object("shadow_model", |r| ShadowModel {
                enabled: r.flag("enabled").unwrap_or(false),
                model: r.text("model"),
                sample_rate: r.unit("sample_rate").unwrap_or(1.0),
            }),
            mcp_servers: r.object("mcp", read_mcp_servers).unwrap_or_default(),
            vendor_tools: r.object("passthrough", read_vendor_tools).unwrap_or_default(),
            attributes: r.object("attributes", read_attributes).unwrap_or_default(),
            self_service: r.object("self_service", read_self_service),
            routing_tiers: BTreeMap::new(),
        };
        r.object("routing_tiers", |r| {
            for &tier in Tier::ALL {
                if let Some(model) = r.text(tier.as_str()) {
                    settings.routing_tiers.insert(tier, model);
                }
            }
            r.only(&["simple", "complex", "secure"]);
        });
        settings
    }
}

fn read_self_service(r: &mut Reader<'_>) -> SelfService {
    r.only(&["max_keys", "max_hourly_limit", "models"]);
    SelfService {
        max_keys: r.count_within("max_keys", 1..=MAX_OWN_KEYS).unwrap_or(OWN_KEYS),
        max_hourly_limit: r.money("max_hourly_limit"),
        models: r.texts("models"),
    }
}

fn read_limits(r: &mut Reader<'_>) -> Limits {
    let plain = Limits::default();
    Limits {
        requests_per_hour: r.count_or_off("requests_per_hour", plain.requests_per_hour),
        loop_requests: r.count_or_off("loop_requests", plain.loop_requests),
        loop_window_seconds: r.count("loop_window_seconds", 1).unwrap_or(plain.loop_window_seconds),
        strict: r.flag("strict").unwrap_or(false),
    }
}

fn read_blocked_terms(r: &mut Reader<'_>) -> Vec<String> {
    let terms = r.texts("blocked_terms").unwrap_or_default();
    for term in &terms {
        if term.len() > MAX_TERM || !term.chars().any(char::is_alphanumeric) {
            let shown: String = term.chars().take(40).collect();
            let what = format!(
                "holds '{shown}': a term has a letter or a digit, and at most {MAX_TERM} bytes"
            );
            r.fault("blocked_terms", &what);
        }
    }
    if terms.len() > MAX_TERMS {
        r.fault("blocked_terms", &format!("holds more than {MAX_TERMS} terms"));
    }
    terms
}

fn read_mcp_servers(r: &mut Reader<'_>) -> Vec<String> {
    let servers = r.texts("allowed_servers").unwrap_or_default();
    if servers.len() > MAX_MCP_SERVERS {
        r.fault("allowed_servers", &format!("holds more than {MAX_MCP_SERVERS} servers"));
    }
    servers
}

fn read_vendor_tools(r: &mut Reader<'_>) -> Vec<String> {
    let tools = r.texts("vendor_tools").unwrap_or_default();
    if tools.len() > MAX_VENDOR_TOOLS {
        r.fault("vendor_tools", &format!("holds more than {MAX_VENDOR_TOOLS} types"));
    }
    tools
}

fn read_attributes(r: &mut Reader<'_>) -> AttributeRules {
    let mut list = |key: &str| {
        let texts = r.texts(key).unwrap_or_default();
        if texts.len() > MAX_ATTRIBUTES {
            r.fault(key, &format!("holds more than {MAX_ATTRIBUTES} attributes"));
        }
        let parsed = texts.iter().filter_map(|text| {
            let name = AttributeName::parse(text);
            if name.is_none() {
                let shown: String = text.chars().take(40).collect();
                let what = format!("holds '{shown}', which is none of user, session and tag:NAME");
                r.fault(key, &what);
            }
            name
        });
        parsed.collect()
    };
    let rules = AttributeRules { required: list("required"), hash: list("hash") };
    r.only(&["required", "hash"]);
    rules
}

fn read_perimeter(r: &mut Reader<'_>) -> Perimeter {
    let mut list = |key: &str| {
        let texts = r.texts(key).unwrap_or_default();
        let parsed = texts.iter().filter_map(|text| {
            let cidr = text.parse().ok();
            if cidr.is_none() {
                let what = format!("holds '{text}', which is no address range such as 10.0.0.0/8");
                r.fault(key, &what);
            }
            cidr
        });
        parsed.collect()
    };
    Perimeter { allow: list("allow"), block: list("block") }
}

/// Merges a patch into settings at every depth. Arrays and scalars are replaced; a null is kept,
/// because it means "off".
pub fn merge(into: &mut Map<String, Value>, patch: Map<String, Value>) {
    for (key, new) in patch {
        match (into.get_mut(&key), new) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            (_, new) => {
                into.insert(key, new);
            }
        }
    }
}

#[cfg(test)]
mod tests;
