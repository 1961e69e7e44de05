//! One source of configuration; any key may be missing in it.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;

use super::{Error, otlp};

/// Flags that every command takes.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Flags {
    /// The configuration file [default: sluice.toml, if it is there]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) layer: Layer,
}

/// Reads a variable; only numbers and truth values can be wrong.
macro_rules! read {
    (parsed, $env:literal, $get:ident) => {
        parsed($env, $get)?
    };
    ($kind:ident, $env:literal, $get:ident) => {
        $kind($env, $get)
    };
}

macro_rules! layer {
    ($( $(#[$doc:meta])* $kind:ident $name:ident / $env:literal : $type:ty ),+ $(,)?) => {
        /// Every key, each of which may be missing.
        #[derive(Args, Clone, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct Layer {
            $( $(#[$doc])* pub(crate) $name: Option<$type> ),+
        }

        /// The variable of every key.
        pub(super) const VARIABLES: &[&str] = &[$( $env ),+];
        /// Every key as it is written in the file.
        const KEYS: &[&str] = &[$( stringify!($name) ),+];

        impl Layer {
            /// Reads `SLUICE_...` variables.
            pub(crate) fn from_env(get: Get<'_>) -> Result<Self, Error> {
                Ok(Self { $( $name: read!($kind, $env, get) ),+ })
            }

            /// This layer over another.
            pub(crate) fn or(self, mut below: Self) -> Self {
                self.hide_settings(&mut below);
                Self { $( $name: self.$name.or(below.$name) ),+ }
            }
        }
    };
}

layer!(
    /// Address on which the API listens
    #[arg(long, global = true, value_name = "ADDRESS:PORT")]
    text listen / "SLUICE_LISTEN": String,
    /// The folder of the embedded database
    #[arg(long, global = true, value_name = "FOLDER")]
    text data_dir / "SLUICE_DATA_DIR": String,
    #[arg(skip)]
    text database_url / "SLUICE_DATABASE_URL": String,
    /// A file that holds the PostgreSQL URL
    #[arg(long, global = true, value_name = "FILE")]
    text database_url_file / "SLUICE_DATABASE_URL_FILE": String,
    #[arg(skip)]
    text database_direct_url / "SLUICE_DATABASE_DIRECT_URL": String,
    /// A file that holds the URL of the PostgreSQL server behind a pooler
    #[arg(long, global = true, value_name = "FILE")]
    text database_direct_url_file / "SLUICE_DATABASE_DIRECT_URL_FILE": String,
    #[arg(skip)]
    text redis_url / "SLUICE_REDIS_URL": String,
    /// A file that holds the URL of Redis
    #[arg(long, global = true, value_name = "FILE")]
    text redis_url_file / "SLUICE_REDIS_URL_FILE": String,
    /// The certificate authorities of Redis, PEM
    #[arg(long, global = true, value_name = "FILE")]
    text redis_ca_file / "SLUICE_REDIS_CA_FILE": String,
    /// The treatment of calls under a cap or a budget while Redis is away: refuse or local
    #[arg(long, global = true, value_name = "NAME")]
    text on_counter_loss / "SLUICE_ON_COUNTER_LOSS": String,
    #[arg(skip)]
    text master_key / "SLUICE_MASTER_KEY": String,
    /// A file that holds the master key
    #[arg(long, global = true, value_name = "FILE")]
    text master_key_file / "SLUICE_MASTER_KEY_FILE": String,
    /// The first owner of an empty database
    #[arg(long, global = true, value_name = "EMAIL")]
    text owner_email / "SLUICE_OWNER_EMAIL": String,
    #[arg(skip)]
    text owner_password / "SLUICE_OWNER_PASSWORD": String,
    /// A file that holds the first owner's password
    #[arg(long, global = true, value_name = "FILE")]
    text owner_password_file / "SLUICE_OWNER_PASSWORD_FILE": String,
    #[arg(skip)]
    text bootstrap_key / "SLUICE_BOOTSTRAP_KEY": String,
    /// A file that holds the first API key
    #[arg(long, global = true, value_name = "FILE")]
    text bootstrap_key_file / "SLUICE_BOOTSTRAP_KEY_FILE": String,
    /// Hosts that every model may be at, comma-separated
    #[arg(long, global = true, value_delimiter = ',', value_name = "HOSTS")]
    list egress_allow / "SLUICE_EGRESS_ALLOW": Vec<String>,
    /// An HTTP proxy for calls to providers
    #[arg(long, global = true, value_name = "URL")]
    text egress_proxy / "SLUICE_EGRESS_PROXY": String,
    /// Additional certificate authorities, PEM
    #[arg(long, global = true, value_name = "FILE")]
    text ca_file / "SLUICE_CA_FILE": String,
    /// The URL that browsers see
    #[arg(long, global = true, value_name = "URL")]
    text public_url / "SLUICE_PUBLIC_URL": String,
    #[arg(skip)]
    text smtp_url / "SLUICE_SMTP_URL": String,
    /// A file that holds the URL of the mail server
    #[arg(long, global = true, value_name = "FILE")]
    text smtp_url_file / "SLUICE_SMTP_URL_FILE": String,
    /// The sender of letters
    #[arg(long, global = true, value_name = "ADDRESS")]
    text mail_from / "SLUICE_MAIL_FROM": String,
    /// Serve the console
    #[arg(long, global = true, value_name = "BOOL")]
    parsed console / "SLUICE_CONSOLE": bool,
    /// Peers whose X-Forwarded-For is trusted, comma-separated ranges
    #[arg(long, global = true, value_delimiter = ',', value_name = "RANGES")]
    list trusted_proxies / "SLUICE_TRUSTED_PROXIES": Vec<String>,
    /// The only addresses that may call, comma-separated ranges
    #[arg(long, global = true, value_delimiter = ',', value_name = "RANGES")]
    list perimeter_allow / "SLUICE_PERIMETER_ALLOW": Vec<String>,
    /// Addresses that may not call, comma-separated ranges
    #[arg(long, global = true, value_delimiter = ',', value_name = "RANGES")]
    list perimeter_block / "SLUICE_PERIMETER_BLOCK": Vec<String>,
    /// Log level, or levels by crate
    #[arg(long, global = true, value_name = "FILTER")]
    text log / "SLUICE_LOG": String,
    /// Address on which Prometheus metrics listen, or "off"
    #[arg(long, global = true, value_name = "ADDRESS:PORT")]
    text metrics_listen / "SLUICE_METRICS_LISTEN": String,
    /// URL of an OpenTelemetry collector, or "off"
    #[arg(long, global = true, value_name = "URL")]
    text otlp_endpoint / "SLUICE_OTLP_ENDPOINT": String,
    #[arg(skip)]
    text otlp_headers / "SLUICE_OTLP_HEADERS": String,
    /// A file that holds the headers for the collector
    #[arg(long, global = true, value_name = "FILE")]
    text otlp_headers_file / "SLUICE_OTLP_HEADERS_FILE": String,
    /// Encoding for the collector: http/protobuf or http/json
    #[arg(long, global = true, value_name = "NAME")]
    text otlp_protocol / "SLUICE_OTLP_PROTOCOL": String,
    /// Compression for the collector: gzip or none
    #[arg(long, global = true, value_name = "NAME")]
    text otlp_compression / "SLUICE_OTLP_COMPRESSION": String,
    /// Time limit of a request to the collector
    #[arg(long, global = true, value_name = "MILLISECONDS")]
    parsed otlp_timeout_ms / "SLUICE_OTLP_TIMEOUT_MS": u64,
    /// Export prompts and answers to the collector
    #[arg(long, global = true, value_name = "BOOL")]
    parsed otlp_content / "SLUICE_OTLP_CONTENT": bool,
    /// Attributes of this process for the collector, name=value, comma-separated
    #[arg(long, global = true, value_name = "PAIRS")]
    text otlp_resource_attributes / "SLUICE_OTLP_RESOURCE_ATTRIBUTES": String,
    /// The largest request body
    #[arg(long, global = true, value_name = "BYTES")]
    parsed max_body_bytes / "SLUICE_MAX_BODY_BYTES": usize,
    /// The memory for all request bodies together
    #[arg(long, global = true, value_name = "BYTES")]
    parsed max_body_memory / "SLUICE_MAX_BODY_MEMORY": usize,
    /// Hours after which an idle pending trace has failed
    #[arg(long, global = true, value_name = "HOURS")]
    parsed trace_idle_hours / "SLUICE_TRACE_IDLE_HOURS": u64,
    /// Serve a PostgreSQL beside other gateways, limits counted per gateway
    #[arg(long, global = true, value_name = "BOOL")]
    parsed allow_inexact_limits / "SLUICE_ALLOW_INEXACT_LIMITS": bool,
    /// Seconds to serve on after a signal to stop, not ready any more
    #[arg(long, global = true, value_name = "SECONDS")]
    parsed shutdown_delay / "SLUICE_SHUTDOWN_DELAY": u64,
);

impl Layer {
    pub(crate) fn from_file(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error(format!("{} cannot be read: {error}", path.display())))?;
        Self::from_toml(&text, &path.display().to_string())
    }

    pub(crate) fn from_toml(text: &str, name: &str) -> Result<Self, Error> {
        toml::from_str(text).map_err(|error| {
            Error(format!(
                "{name} cannot be understood{}: {}\nEvery key and its meaning: `sluice check-config --defaults`",
                place(text, &error),
                without_value(error.message())
            ))
        })
    }

    /// Whether it has an endpoint for telemetry, or headers for one.
    pub(super) fn names_collector(&self) -> bool {
        self.otlp_endpoint.is_some() || self.has_headers()
    }

    /// Whether it has headers for a collector.
    pub(super) fn has_headers(&self) -> bool {
        self.otlp_headers.is_some() || self.otlp_headers_file.is_some()
    }

    /// The name of its headers for a collector, of those that they have as a text and in a file.
    pub(super) fn headers_key(&self, [text, file]: [&'static str; 2]) -> &'static str {
        if self.otlp_headers.is_some() { text } else { file }
    }

    /// Whether it has an endpoint without headers over those of another layer.
    pub(super) fn hides_headers_of(&self, below: &Self) -> bool {
        self.otlp_endpoint.as_deref().is_some_and(otlp::is_on)
            && !self.has_headers()
            && below.has_headers()
    }

    /// Hides in the layer below what is one setting with a key of this layer.
    fn hide_settings(&self, below: &mut Self) {
        self.hide_secrets(below);
        if self.has_headers() {
            below.otlp_headers = None;
            below.otlp_headers_file = None;
        }
        // A token and contents go to an endpoint of the layer that has them, or of one below: to no other that
        // is set above them.
        if self.otlp_endpoint.is_some() {
            below.otlp_endpoint = None;
            below.otlp_headers = None;
            below.otlp_headers_file = None;
            below.otlp_content = None;
        }
    }

    /// A secret and the file that holds it are one setting: a layer with either of them hides both
    /// in the layer below.
    fn hide_secrets(&self, below: &mut Self) {
        for (value, file, value_below, file_below) in [
            (
                &self.database_url,
                &self.database_url_file,
                &mut below.database_url,
                &mut below.database_url_file,
            ),
            (
                &self.database_direct_url,
                &self.database_direct_url_file,
                &mut below.database_direct_url,
                &mut below.database_direct_url_file,
            ),
            (
                &self.redis_url,
                &self.redis_url_file,
                &mut below.redis_url,
                &mut below.redis_url_file,
            ),
            (
                &self.master_key,
                &self.master_key_file,
                &mut below.master_key,
                &mut below.master_key_file,
            ),
            (
                &self.owner_password,
                &self.owner_password_file,
                &mut below.owner_password,
                &mut below.owner_password_file,
            ),
            (
                &self.bootstrap_key,
                &self.bootstrap_key_file,
                &mut below.bootstrap_key,
                &mut below.bootstrap_key_file,
            ),
        ] {
            if value.is_some() || file.is_some() {
                *value_below = None;
                *file_below = None;
            }
        }
    }
}

/// The position of an error in a file, with the key if the line begins with one. Nothing else of
/// the line is reported: it may hold a secret.
fn place(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let Some(before) = before else { return String::new() };
    let number = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let column = before[start..].chars().count() + 1;
    let line = text[start..].lines().next().unwrap_or_default();
    let key = line.split('=').next().unwrap_or_default().trim();
    let key = if KEYS.contains(&key) { format!(" ({key})") } else { String::new() };
    format!(", line {number}, column {column}{key}")
}

/// A message without the value that it complains of, which may be a secret.
fn without_value(message: &str) -> String {
    let has_value = ["invalid type", "invalid value"].iter().any(|kind| message.starts_with(kind));
    match message.rsplit_once(", expected ") {
        Some((_, expected)) if has_value => format!("{expected} is expected"),
        _ => message.trim_end().to_owned(),
    }
}

/// Reads a variable of the environment.
pub(super) type Get<'a> = &'a dyn Fn(&str) -> Option<String>;

pub(super) fn text(name: &str, get: Get<'_>) -> Option<String> {
    get(name).filter(|value| !value.is_empty())
}

fn list(name: &str, get: Get<'_>) -> Option<Vec<String>> {
    let items = |value: String| {
        let items = value.split(',').map(str::trim).filter(|item| !item.is_empty());
        items.map(str::to_owned).collect()
    };
    get(name).map(items)
}

fn parsed<T: std::str::FromStr>(name: &str, get: Get<'_>) -> Result<Option<T>, Error> {
    let Some(value) = text(name, get) else { return Ok(None) };
    match value.parse() {
        Ok(parsed) => Ok(Some(parsed)),
        Err(_) => Err(Error(format!("{name} is '{value}', which is not what it should be"))),
    }
}
