//! Configuration: defaults, then `sluice.toml`, then the environment, then flags.

mod layer;

use std::net::SocketAddr;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use domain::net::Cidr;
use domain::secret::Secret;
use domain::settings::Perimeter;
use store::Location;

pub(crate) use layer::{Flags, Layer};

/// The file with every key at its default: the reference manual.
pub(crate) const DEFAULTS: &str = include_str!("../../config.default.toml");
/// Read when no other file is named and this one exists.
const FILE: &str = "sluice.toml";

/// A configuration that makes no sense. Says which key, why, and what would do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Error(pub(crate) String);

/// Everything the server needs to know.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) data_dir: PathBuf,
    pub(crate) location: Location,
    pub(crate) master_key: Option<[u8; 32]>,
    pub(crate) owner_email: String,
    pub(crate) owner_password: Option<Secret>,
    pub(crate) bootstrap_key: Option<Secret>,
    pub(crate) egress_allow: Vec<String>,
    pub(crate) egress_proxy: Option<String>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) public_url: Option<String>,
    pub(crate) trusted_proxies: Vec<Cidr>,
    pub(crate) perimeter: Perimeter,
    pub(crate) log: String,
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(crate) max_body_bytes: usize,
    pub(crate) trace_idle_hours: u64,
    pub(crate) allow_inexact_limits: bool,
}

impl Config {
    /// Reads all layers.
    pub(crate) fn load(flags: &Flags) -> Result<Self, Error> {
        let file = match &flags.config {
            Some(path) => Some(path.clone()),
            None => Some(PathBuf::from(FILE)).filter(|path| path.exists()),
        };
        let file = match file {
            Some(path) => Layer::from_file(&path)?,
            None => Layer::default(),
        };
        let environment = Layer::from_env(&|name| std::env::var(name).ok())?;
        let defaults = Layer::from_toml(DEFAULTS, "the defaults")?;
        Self::resolve(flags.layer.clone().or(environment).or(file).or(defaults))
    }

    fn resolve(layer: Layer) -> Result<Self, Error> {
        let data_dir = PathBuf::from(layer.data_dir.unwrap_or_default());
        let database_url = secret(layer.database_url, layer.database_url_file, "database_url")?;
        let location = match database_url {
            None => Location::Sqlite(data_dir.join("sluice.db")),
            Some(url)
                if ["postgres://", "postgresql://"].iter().any(|s| url.expose().starts_with(s)) =>
            {
                Location::Postgres(url)
            }
            Some(_) => {
                return Err(Error(
                    "database_url must begin with postgres://; leave it out for the embedded SQLite".to_owned(),
                ));
            }
        };
        if layer.redis_url.is_some() {
            return Err(Error(
                "redis_url is set, but this version counts limits in one gateway only: unset SLUICE_REDIS_URL"
                    .to_owned(),
            ));
        }
        let master_key = secret(layer.master_key, layer.master_key_file, "master_key")?;
        let master_key = master_key.as_ref().map(read_key).transpose()?;
        if master_key.is_none() && matches!(location, Location::Postgres(_)) {
            return Err(Error(
                "PostgreSQL needs SLUICE_MASTER_KEY: a key generated here would lock out every other node. Make \
                 one with `openssl rand -hex 32`"
                    .to_owned(),
            ));
        }
        let metrics_listen = match layer.metrics_listen.as_deref() {
            None | Some("off") => None,
            Some(text) => Some(address(text, "metrics_listen")?),
        };
        Ok(Self {
            listen: address(&layer.listen.unwrap_or_default(), "listen")?,
            data_dir,
            location,
            master_key,
            owner_email: layer.owner_email.unwrap_or_default(),
            owner_password: secret(
                layer.owner_password,
                layer.owner_password_file,
                "owner_password",
            )?,
            bootstrap_key: secret(layer.bootstrap_key, layer.bootstrap_key_file, "bootstrap_key")?,
            egress_allow: layer.egress_allow.unwrap_or_default(),
            egress_proxy: layer.egress_proxy,
            ca_file: layer.ca_file.map(PathBuf::from),
            public_url: layer.public_url.map(public_url).transpose()?,
            trusted_proxies: ranges(layer.trusted_proxies, "trusted_proxies")?,
            perimeter: Perimeter {
                allow: ranges(layer.perimeter_allow, "perimeter_allow")?,
                block: ranges(layer.perimeter_block, "perimeter_block")?,
            },
            log: layer.log.unwrap_or_default(),
            metrics_listen,
            max_body_bytes: layer.max_body_bytes.unwrap_or_default(),
            trace_idle_hours: layer.trace_idle_hours.unwrap_or_default(),
            allow_inexact_limits: layer.allow_inexact_limits.unwrap_or_default(),
        })
    }
}

/// An address and port. `localhost` needs no resolver to be the loopback address.
fn address(text: &str, key: &str) -> Result<SocketAddr, Error> {
    let loopback = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    loopback.as_deref().unwrap_or(text).parse().map_err(|_| {
        Error(format!("{key} is '{text}', which is no address and port such as 127.0.0.1:8080"))
    })
}

fn ranges(texts: Option<Vec<String>>, key: &str) -> Result<Vec<Cidr>, Error> {
    let read = |text: String| text.parse().map_err(|fault| Error(format!("{key}: {fault}")));
    texts.unwrap_or_default().into_iter().map(read).collect()
}

fn public_url(url: String) -> Result<String, Error> {
    if url.starts_with("https://") || url.starts_with("http://") {
        return Ok(url);
    }
    Err(Error(format!("public_url is '{url}': it must begin with https:// or http://")))
}

/// A secret, given as it is or as the name of a file that holds it.
fn secret(text: Option<String>, file: Option<String>, key: &str) -> Result<Option<Secret>, Error> {
    match (text, file) {
        (Some(text), _) => Ok(Some(Secret::new(text))),
        (None, Some(path)) => match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Some(Secret::new(text.trim().to_owned()))),
            Err(error) => Err(Error(format!("{key}_file: {path} cannot be read: {error}"))),
        },
        (None, None) => Ok(None),
    }
}

/// Reads a master key of 64 hex characters or base64.
pub(crate) fn read_key(text: &Secret) -> Result<[u8; 32], Error> {
    let text = text.expose().trim();
    let bytes = if text.len() == 64 {
        let pairs =
            (0..32).map(|byte| u8::from_str_radix(text.get(byte * 2..byte * 2 + 2)?, 16).ok());
        pairs.collect::<Option<Vec<u8>>>()
    } else {
        STANDARD.decode(text).or_else(|_| URL_SAFE_NO_PAD.decode(text)).ok()
    };
    bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
        Error(
            "the master key must be 32 bytes as 64 hex characters or base64; make one with `openssl rand -hex 32`"
                .to_owned(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(toml: &str, env: &[(&str, &str)], flags: Layer) -> Result<Config, Error> {
        let env = |name: &str| {
            env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let file = Layer::from_toml(toml, "sluice.toml")?;
        let defaults = Layer::from_toml(DEFAULTS, "the defaults")?;
        Config::resolve(flags.or(Layer::from_env(&env)?).or(file).or(defaults))
    }

    #[test]
    fn flags_beat_the_environment_beats_the_file_beats_the_defaults() {
        let toml = "listen = \"127.0.0.1:1\"\nlog = \"warn\"\nowner_email = \"a@b\"";
        let env = [("SLUICE_LISTEN", "127.0.0.1:2"), ("SLUICE_LOG", "error")];
        let flags = Layer { listen: Some("127.0.0.1:3".to_owned()), ..Layer::default() };
        let config = load(toml, &env, flags).unwrap();
        assert_eq!(config.listen.port(), 3);
        assert_eq!(config.log, "error");
        assert_eq!(config.owner_email, "a@b");
        assert_eq!(config.max_body_bytes, 10 * 1024 * 1024);
    }

    #[test]
    fn an_unknown_key_is_named() {
        let error = load("lisen = \"127.0.0.1:1\"", &[], Layer::default()).unwrap_err();
        assert!(error.0.contains("lisen"), "{error}");
    }

    #[test]
    fn bad_values_say_what_would_do() {
        for (env, said) in [
            (("SLUICE_LISTEN", "8080"), "127.0.0.1:8080"),
            (("SLUICE_MASTER_KEY", "short"), "openssl rand"),
            (("SLUICE_DATABASE_URL", "mysql://x"), "postgres://"),
            (("SLUICE_DATABASE_URL", "postgres://x"), "SLUICE_MASTER_KEY"),
            (("SLUICE_TRUSTED_PROXIES", "10.0.0.0/99"), "10.0.0.0/8"),
            (("SLUICE_MAX_BODY_BYTES", "many"), "SLUICE_MAX_BODY_BYTES"),
            (("SLUICE_REDIS_URL", "redis://x"), "SLUICE_REDIS_URL"),
        ] {
            let error = load("", &[env], Layer::default()).unwrap_err();
            assert!(error.0.contains(said), "{env:?}: {error}");
        }
    }

    #[test]
    fn localhost_is_an_address() {
        let config = load("", &[("SLUICE_LISTEN", "localhost:8080")], Layer::default()).unwrap();
        assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    }

    #[test]
    fn lists_come_with_commas() {
        let config =
            load("", &[("SLUICE_EGRESS_ALLOW", "a.test, 10.0.0.1")], Layer::default()).unwrap();
        assert_eq!(config.egress_allow, ["a.test", "10.0.0.1"]);
    }

    #[test]
    fn master_keys_in_both_spellings() {
        let hex = Secret::new("00".repeat(31) + "ff");
        let base64 = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAP8=".to_owned());
        assert_eq!(read_key(&hex).unwrap(), read_key(&base64).unwrap());
    }
}
