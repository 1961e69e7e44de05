//! The agents: the variables and configuration files that each of them reads.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use clap::ValueEnum;
use http::Uri;
use serde_json::{Map, Value, json};

use super::KEY_VARIABLE;
use crate::commands::Failure;

/// The most bytes of an address, a key or a model.
const MOST_BYTES: usize = 2048;

/// The agents that can be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Agent {
    ClaudeCode,
    Codex,
    Opencode,
    Aider,
    GeminiCli,
}

/// The checked arguments.
pub(super) struct Asked<'a> {
    /// Without a slash at its end.
    url: &'a str,
    key: Option<&'a str>,
    model: Option<&'a str>,
}

/// The settings of one agent.
pub(super) struct Settings {
    place: Place,
    /// Commands for a shell.
    pub(super) shell: String,
    /// Whether they need no file.
    pub(super) is_shell_enough: bool,
    pub(super) contents: Contents,
    /// The steps that are left to the user once the file is written.
    pub(super) left: Option<String>,
}

/// The place of an agent's configuration file.
#[derive(Clone, Copy)]
struct Place {
    /// The variable that names another folder.
    moved_by: Option<&'static str>,
    /// The folder, in the home of the user.
    folder: &'static str,
    file: &'static str,
}

/// The contents of a configuration file.
pub(super) enum Contents {
    /// Members that are merged into those that are there.
    Json(Map<String, Value>),
    /// A whole file, in a format that is not merged.
    Text(String),
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(members) => {
                let text = serde_json::to_string_pretty(members).map_err(|_| fmt::Error)?;
                f.write_str(&text)
            }
            Self::Text(text) => f.write_str(text.trim_end()),
        }
    }
}

impl<'a> Asked<'a> {
    pub(super) fn new(
        url: &'a str,
        key: Option<&'a str>,
        model: Option<&'a str>,
    ) -> Result<Self, Failure> {
        let url = url.trim_end_matches('/');
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let is_special = |text: &str| text.contains(['\'', '"', '\\', '`', '$', '#']);
        let parsed = url.parse::<Uri>().ok().filter(|_| plain(url) && !is_special(url));
        let is_address = parsed.is_some_and(|uri| {
            matches!(uri.scheme_str(), Some("http" | "https"))
                && uri.host().is_some_and(|host| !host.is_empty())
                && uri.authority().is_some_and(|authority| !authority.as_str().contains('@'))
                && uri.query().is_none()
        });
        if !is_address || url.len() > MOST_BYTES {
            return Err(Failure(
                "--url must be the address of the gateway, such as https://sluice.example.com"
                    .to_owned(),
            ));
        }
        if key.is_some_and(|key| {
            key.is_empty() || !plain(key) || is_special(key) || key.len() > MOST_BYTES
        }) {
            return Err(Failure(
                "--key is no key: it must be the whole key (ak_...) and nothing else".to_owned(),
            ));
        }
        let is_name = |model: &str| {
            !model.trim().is_empty()
                && model.len() <= MOST_BYTES
                && !model.chars().any(char::is_control)
        };
        if !model.is_none_or(is_name) {
            return Err(Failure("--model is no identifier of a model".to_owned()));
        }
        Ok(Self { url, key, model })
    }

    fn root(&self, root: &str) -> String {
        format!("{}/{root}", self.url)
    }

    /// The model, for agents whose settings name it.
    fn needed_model(&self, agent: &str) -> Result<&str, Failure> {
        self.model.ok_or_else(|| {
            Failure(format!("{agent} has to be given a model: add --model IDENTIFIER"))
        })
    }

    /// A command that sets a variable to the key, or to the variable that holds it.
    fn export_key(&self, name: &str) -> String {
        match self.key {
            Some(key) => export(name, key),
            None if name == KEY_VARIABLE => format!("export {KEY_VARIABLE}='ak_...'"),
            None => format!("export {name}=\"${KEY_VARIABLE}\""),
        }
    }

    /// The step that is left where the file does not hold the key.
    fn key_is_left(&self, name: &str) -> Option<String> {
        let left =
            || format!("The file holds no key. In the agent's shell:\n{}", self.export_key(name));
        self.key.is_none().then(left)
    }
}

impl Settings {
    /// The path of the file, as the agent's variables place it.
    pub(super) fn path(
        &self,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<PathBuf, Failure> {
        let folder = |name: &str| variable(name).filter(|value| !value.is_empty());
        let Place { moved_by, folder: usual, file } = self.place;
        if let Some(moved) = moved_by.and_then(folder) {
            return Ok(PathBuf::from(moved).join(file));
        }
        let home = folder("HOME").ok_or_else(|| {
            Failure("HOME is not set, so the agent's configuration cannot be found".to_owned())
        })?;
        Ok(PathBuf::from(home).join(usual).join(file))
    }
}

/// The settings of an agent.
pub(super) fn settings(agent: Agent, asked: &Asked<'_>) -> Result<Settings, Failure> {
    match agent {
        Agent::ClaudeCode => Ok(claude_code(asked)),
        Agent::Codex => Ok(codex(asked)),
        Agent::Opencode => opencode(asked),
        Agent::Aider => aider(asked),
        Agent::GeminiCli => Ok(gemini_cli(asked)),
    }
}

fn claude_code(asked: &Asked<'_>) -> Settings {
    const TOKEN: &str = "ANTHROPIC_AUTH_TOKEN";
    let url = asked.root("anthropic");
    let mut shell = vec![export("ANTHROPIC_BASE_URL", &url), asked.export_key(TOKEN)];
    shell.extend(asked.model.map(|model| export("ANTHROPIC_MODEL", model)));
    shell.push("claude".to_owned());
    let mut env = Map::from_iter([("ANTHROPIC_BASE_URL".to_owned(), url.into())]);
    env.extend(asked.key.map(|key| (TOKEN.to_owned(), key.into())));
    env.extend(asked.model.map(|model| ("ANTHROPIC_MODEL".to_owned(), model.into())));
    Settings {
        place: Place {
            moved_by: Some("CLAUDE_CONFIG_DIR"),
            folder: ".claude",
            file: "settings.json",
        },
        shell: shell.join("\n"),
        is_shell_enough: true,
        contents: Contents::Json(Map::from_iter([("env".to_owned(), env.into())])),
        left: asked.key_is_left(TOKEN),
    }
}

/// Codex reads the key from a variable alone.
fn codex(asked: &Asked<'_>) -> Settings {
    let url = asked.root("openai/v1");
    let model = asked.model.map(|model| format!("model = {}\n", toml_text(model)));
    let model = model.unwrap_or_default();
    let text = format!(
        "{model}model_provider = \"sluice\"\n\n\
         [model_providers.sluice]\n\
         name = \"Sluice\"\n\
         base_url = {}\n\
         env_key = \"{KEY_VARIABLE}\"\n\
         wire_api = \"responses\"\n",
        toml_text(&url)
    );
    let option =
        |name: &str, value: &str| format!(" \\\n  -c {}", quoted(&format!("{name}={value}")));
    let mut command = "codex".to_owned();
    for (name, value) in [
        ("model_provider", "\"sluice\"".to_owned()),
        ("model_providers.sluice.name", "\"Sluice\"".to_owned()),
        ("model_providers.sluice.base_url", toml_text(&url)),
        ("model_providers.sluice.env_key", toml_text(KEY_VARIABLE)),
        ("model_providers.sluice.wire_api", "\"responses\"".to_owned()),
    ] {
        command.push_str(&option(name, &value));
    }
    if let Some(model) = asked.model {
        command.push_str(&option("model", &toml_text(model)));
    }
    let key = asked.export_key(KEY_VARIABLE);
    Settings {
        place: Place { moved_by: Some("CODEX_HOME"), folder: ".codex", file: "config.toml" },
        left: Some(format!("The file holds no key. In the agent's shell:\n{key}")),
        shell: format!("{key}\n{command}"),
        is_shell_enough: true,
        contents: Contents::Text(text),
    }
}

fn opencode(asked: &Asked<'_>) -> Result<Settings, Failure> {
    let model = asked.needed_model("opencode")?;
    let key = asked.key.map_or_else(|| format!("{{env:{KEY_VARIABLE}}}"), str::to_owned);
    let mut models = Map::new();
    models.insert(model.to_owned(), json!({"name": model}));
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "name": "Sluice",
        "options": {"baseURL": asked.root("openai/v1"), "apiKey": key},
        "models": models,
    });
    let members = Map::from_iter([
        ("provider".to_owned(), json!({"sluice": provider})),
        ("model".to_owned(), format!("sluice/{model}").into()),
    ]);
    let mut shell = Vec::new();
    if asked.key.is_none() {
        shell.push(asked.export_key(KEY_VARIABLE));
    }
    shell.push(export("OPENCODE_CONFIG_CONTENT", &Value::from(members.clone()).to_string()));
    shell.push("opencode".to_owned());
    Ok(Settings {
        place: Place {
            moved_by: Some("XDG_CONFIG_HOME"),
            folder: ".config",
            file: "opencode/opencode.json",
        },
        shell: shell.join("\n"),
        is_shell_enough: true,
        contents: Contents::Json(members),
        left: asked.key_is_left(KEY_VARIABLE),
    })
}

fn aider(asked: &Asked<'_>) -> Result<Settings, Failure> {
    let model = format!("openai/{}", asked.needed_model("aider")?);
    let url = asked.root("openai/v1");
    // A JSON text is a YAML text.
    let text = |text: &str| Value::from(text).to_string();
    let mut lines =
        vec![format!("model: {}", text(&model)), format!("openai-api-base: {}", text(&url))];
    lines.extend(asked.key.map(|key| format!("openai-api-key: {}", text(key))));
    let shell = [
        export("OPENAI_API_BASE", &url),
        asked.export_key("OPENAI_API_KEY"),
        format!("aider --model {}", quoted(&model)),
    ];
    Ok(Settings {
        place: Place { moved_by: None, folder: "", file: ".aider.conf.yml" },
        shell: shell.join("\n"),
        is_shell_enough: true,
        contents: Contents::Text(lines.join("\n") + "\n"),
        left: asked.key_is_left("OPENAI_API_KEY"),
    })
}

/// gemini-cli adds `/v1beta` and the method to the address, and reads it from a variable alone. Told
/// an address, it refuses to start unless its settings choose the kind of credential.
fn gemini_cli(asked: &Asked<'_>) -> Settings {
    let mut exports = vec![
        export("GOOGLE_GEMINI_BASE_URL", &asked.root("gemini")),
        asked.export_key("GEMINI_API_KEY"),
    ];
    exports.extend(asked.model.map(|model| export("GEMINI_MODEL", model)));
    let exports = exports.join("\n");
    let chosen = json!({"auth": {"selectedType": "gemini-api-key"}});
    Settings {
        place: Place {
            moved_by: Some("GEMINI_CLI_HOME"),
            folder: "",
            file: ".gemini/settings.json",
        },
        shell: format!("{exports}\ngemini"),
        is_shell_enough: false,
        contents: Contents::Json(Map::from_iter([("security".to_owned(), chosen)])),
        left: Some(format!("The file holds no key. In the agent's shell:\n{exports}")),
    }
}

fn export(name: &str, value: &str) -> String {
    format!("export {name}={}", quoted(value))
}

/// A text as a shell takes it, whatever is in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn toml_text(text: &str) -> String {
    toml::Value::from(text).to_string()
}
