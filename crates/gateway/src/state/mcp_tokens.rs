//! The tokens of MCP servers: `settings.mcp.credentials`, which shows only which server has one.
//!
//! They are stored beside the settings, sealed. In the settings `true` stands for each, so no view
//! of settings (answers, audit rows, other nodes) can show a token.

use std::collections::BTreeMap;

use domain::project::Project;
use domain::secret::Secret;
use domain::settings::Settings;
use providers::McpAddress;
use serde_json::{Map, Value};
use store::SealingKey;

use crate::error::{Error, Result};

/// The context that ties the sealed tokens to their field.
const PLACE: &str = "project:mcp_credentials";
/// The longest token, in bytes.
const LONGEST_TOKEN: usize = 8 * 1024;
/// The keys of `settings.mcp`.
const KNOWN: [&str; 2] = ["allowed_servers", "credentials"];

/// Tokens by the entry of `allowed_servers` that they are for.
pub(crate) struct Tokens(BTreeMap<String, Secret>);

/// The tokens in a patch: a new one, or none any more.
pub(crate) struct Given(BTreeMap<String, Option<Secret>>);

impl Given {
    /// Takes the tokens out of a patch of settings and leaves `true` for each.
    pub(crate) fn take(patch: &mut Map<String, Value>) -> Result<Self> {
        let mut given = BTreeMap::new();
        let Some(Value::Object(mcp)) = patch.get_mut("mcp") else { return Ok(Self(given)) };
        // An unknown key may be a misspelt one with a token in it, which would be stored as it is.
        if let Some(unknown) = mcp.keys().find(|key| !KNOWN.contains(&key.as_str())) {
            return Err(Error::invalid(format!(
                "settings.mcp.{unknown} is not known: it is one of {}",
                KNOWN.join(", ")
            )));
        }
        let credentials = match mcp.get_mut("credentials") {
            None | Some(Value::Null) => return Ok(Self(given)),
            Some(Value::Object(credentials)) => credentials,
            Some(_) => return Err(Error::invalid("settings.mcp.credentials must be an object")),
        };
        for (server, value) in credentials {
            match std::mem::replace(value, Value::Bool(true)) {
                Value::Bool(true) => {}
                Value::String(token) if is_token(&token) => {
                    given.insert(server.clone(), Some(Secret::new(token)));
                }
                none if none.is_null() || none == "" => {
                    *value = Value::Null;
                    given.insert(server.clone(), None);
                }
                _ => {
                    return Err(Error::invalid(format!(
                        "settings.mcp.credentials.{server} must be a token (at most {LONGEST_TOKEN} \
                         characters, no spaces), null for none, or true for the one that is stored"
                    )));
                }
            }
        }
        Ok(Self(given))
    }

    /// The servers whose token was set or taken away, for the audit: a new token looks like the old.
    pub(crate) fn servers(&self) -> Map<String, Value> {
        let word = |token: &Option<Secret>| if token.is_some() { "set" } else { "unset" };
        self.0.iter().map(|(server, token)| (server.clone(), word(token).into())).collect()
    }

    /// Brings the tokens of a project in line with its settings as they are merged: those of servers
    /// that are not allowed any more go, and the settings show which are there. Returns the faults.
    pub(crate) fn settle(
        self,
        project: &mut Project,
        settings: &Settings,
        sealing: &SealingKey,
    ) -> Result<Vec<String>> {
        let marks = project.settings.get("mcp").and_then(|mcp| mcp.get("credentials"));
        let marks = marks.and_then(Value::as_object).cloned().unwrap_or_default();
        if self.0.is_empty() && marks.is_empty() && project.mcp_credentials.is_none() {
            return Ok(Vec::new());
        }
        let allowed = |server: &String| settings.mcp_servers.contains(server);
        let mut faults: Vec<String> = Vec::new();
        let mut tokens = Tokens::open(project, sealing)?.0;
        for (server, token) in self.0 {
            if token.is_some() && !allowed(&server) {
                faults.push(format!(
                    "settings.mcp.credentials names {server}, which is not in settings.mcp.allowed_servers"
                ));
            }
            match token {
                Some(token) => tokens.insert(server, token),
                None => tokens.remove(&server),
            };
        }
        let is_marked = |server: &String| marks.get(server).is_some_and(|mark| *mark == true);
        tokens.retain(|server, _| allowed(server) && is_marked(server));
        for (server, _) in marks.iter().filter(|(_, mark)| **mark == true) {
            if allowed(server) && !tokens.contains_key(server) {
                faults.push(format!("settings.mcp.credentials.{server} has no token yet"));
            }
        }
        if let Some(Value::Object(mcp)) = project.settings.get_mut("mcp") {
            let marks = tokens.keys().map(|server| (server.clone(), Value::Bool(true)));
            mcp.insert("credentials".to_owned(), Value::Object(marks.collect()));
        }
        project.mcp_credentials = Tokens(tokens).seal(sealing)?;
        Ok(faults)
    }
}

/// The faults in a list of servers.
pub(crate) fn faults(servers: &[String], egress_allow: &[String]) -> Vec<String> {
    let fault = |entry: &String| {
        let checked = McpAddress::read(entry).and_then(|address| address.check(egress_allow));
        let fault = checked.err()?;
        Some(format!("settings.mcp.allowed_servers holds '{entry}', which {fault}"))
    };
    servers.iter().filter_map(fault).collect()
}

impl Tokens {
    /// Opens those of a project.
    pub(crate) fn open(project: &Project, sealing: &SealingKey) -> Result<Self> {
        let Some(sealed) = &project.mcp_credentials else { return Ok(Self(BTreeMap::new())) };
        let plain = sealing.open(PLACE, sealed)?;
        let read: BTreeMap<String, String> = serde_json::from_slice(&plain)
            .map_err(|_| Error::Internal("sealed tokens cannot be read".to_owned()))?;
        Ok(Self(read.into_iter().map(|(server, token)| (server, Secret::new(token))).collect()))
    }

    pub(crate) fn remove(&mut self, server: &str) -> Option<Secret> {
        self.0.remove(server)
    }

    fn seal(&self, sealing: &SealingKey) -> Result<Option<Vec<u8>>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let plain: BTreeMap<&String, &str> =
            self.0.iter().map(|(server, token)| (server, token.expose())).collect();
        let plain =
            serde_json::to_vec(&plain).map_err(|error| Error::Internal(error.to_string()))?;
        Ok(Some(sealing.seal(PLACE, &plain)?))
    }
}

/// Whether a header can carry it.
fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= LONGEST_TOKEN
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}
