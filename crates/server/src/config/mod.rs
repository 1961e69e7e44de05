//! Configuration: defaults, then the variables of OpenTelemetry, then `sluice.toml`, then our own
//! variables, then flags.

mod database;
mod layer;
mod otel;
mod otlp;
mod shared_counters;
mod shutdown;
mod variables;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use counters::Target;
use domain::net::Cidr;
use domain::secret::Secret;
use domain::settings::Perimeter;
use gateway::{FirstSettings, OnCounterLoss};
use mail::Mailer;
use providers::Egress;
use store::Location;

use crate::telemetry;

use layer::Get;
pub(crate) use layer::{Flags, Layer};
pub(crate) use otlp::Otlp;
pub(crate) use variables::unknown as unknown_variables;

/// The file with every key at its default: the reference manual.
pub(crate) const DEFAULTS: &str = include_str!("../../config.default.toml");
/// Read when no other file is named and this one exists.
const FILE: &str = "sluice.toml";

/// An invalid configuration. Names the key, the reason, and valid values.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Error(pub(crate) String);

/// The whole configuration of the server.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) listen: SocketAddr,
    pub(crate) data_dir: PathBuf,
    pub(crate) location: Location,
    /// The Redis by which several gateways count as one.
    pub(crate) redis: Option<Target>,
    pub(crate) redis_ca_file: Option<PathBuf>,
    pub(crate) on_counter_loss: OnCounterLoss,
    pub(crate) master_key: Option<[u8; 32]>,
    pub(crate) first: FirstSettings,
    pub(crate) egress: Egress,
    pub(crate) public_url: Option<String>,
    pub(crate) mailer: Option<Mailer>,
    pub(crate) console: bool,
    pub(crate) trusted_proxies: Vec<Cidr>,
    pub(crate) perimeter: Perimeter,
    pub(crate) log: String,
    pub(crate) metrics_listen: Option<SocketAddr>,
    pub(crate) otlp: Otlp,
    pub(crate) max_body_bytes: usize,
    pub(crate) max_body_memory: usize,
    pub(crate) trace_idle_hours: u64,
    pub(crate) allow_inexact_limits: bool,
    pub(crate) shutdown_delay: Duration,
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
        Self::resolve(flags.layer.clone(), &|name| std::env::var(name).ok(), file)
    }

    /// Merges flags, variables and a file.
    fn resolve(flags: Layer, get: Get<'_>, file: Layer) -> Result<Self, Error> {
        let env = Layer::from_env(get)?;
        let mut warnings = otlp::hidden_headers(&flags, &env, &file);
        let own = flags.or(env).or(file);
        let (standard, ignored) = otel::read(get, &own);
        warnings.extend(ignored);
        let layer = own.or(standard).or(Layer::from_toml(DEFAULTS, "the defaults")?);
        let otlp = Otlp::read(&layer, warnings)?;
        let data_dir = PathBuf::from(layer.data_dir.unwrap_or_default());
        let database_url = secret(layer.database_url, layer.database_url_file, "database_url")?;
        let direct_url = secret(
            layer.database_direct_url,
            layer.database_direct_url_file,
            "database_direct_url",
        )?;
        let location = database::location(database_url, direct_url, &data_dir)?;
        let allow_inexact_limits = layer.allow_inexact_limits.unwrap_or_default();
        let redis_url = secret(layer.redis_url, layer.redis_url_file, "redis_url")?;
        let redis_ca_file = layer.redis_ca_file.map(PathBuf::from);
        let redis = shared_counters::target(redis_url.as_ref(), redis_ca_file.as_deref())?;
        let may_have_others = location.is_postgres() && (allow_inexact_limits || redis.is_some());
        let on_counter_loss = match layer.on_counter_loss.as_deref() {
            None | Some("refuse") => OnCounterLoss::Refuse,
            Some("local") => OnCounterLoss::Local,
            Some(other) => {
                return Err(Error(format!("on_counter_loss is '{other}': it is refuse or local")));
            }
        };
        let master_key = secret(layer.master_key, layer.master_key_file, "master_key")?;
        let master_key = master_key.as_ref().map(read_key).transpose()?;
        if master_key.is_none() && location.is_postgres() {
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
        let first = FirstSettings {
            owner_email: layer.owner_email.unwrap_or_default(),
            owner_password: secret(
                layer.owner_password,
                layer.owner_password_file,
                "owner_password",
            )?,
            key: secret(layer.bootstrap_key, layer.bootstrap_key_file, "bootstrap_key")?,
        };
        let egress = Egress {
            allow: layer.egress_allow.unwrap_or_default(),
            proxy: layer.egress_proxy,
            no_proxy: None,
            ca_file: layer.ca_file.map(PathBuf::from),
        };
        let smtp_url = secret(layer.smtp_url, layer.smtp_url_file, "smtp_url")?;
        let mailer =
            mailer(smtp_url.as_ref(), layer.mail_from.as_deref(), layer.public_url.as_deref())?;
        let max_body_bytes = layer.max_body_bytes.unwrap_or_default();
        let config = Self {
            listen: address(&layer.listen.unwrap_or_default(), "listen")?,
            data_dir,
            location,
            master_key,
            redis,
            redis_ca_file,
            on_counter_loss,
            first,
            egress,
            mailer,
            public_url: layer.public_url.map(public_url).transpose()?,
            console: layer.console.unwrap_or(true),
            trusted_proxies: ranges(layer.trusted_proxies, "trusted_proxies")?,
            perimeter: Perimeter {
                allow: ranges(layer.perimeter_allow, "perimeter_allow")?,
                block: ranges(layer.perimeter_block, "perimeter_block")?,
            },
            log: layer.log.unwrap_or_default(),
            metrics_listen,
            otlp,
            max_body_bytes,
            max_body_memory: body_memory(layer.max_body_memory, max_body_bytes)?,
            trace_idle_hours: layer.trace_idle_hours.unwrap_or_default(),
            allow_inexact_limits,
            shutdown_delay: shutdown::delay(layer.shutdown_delay, may_have_others)?,
        };
        config.check()?;
        Ok(config)
    }

    /// Refuses values that can be read but that `serve` could not work with.
    fn check(&self) -> Result<(), Error> {
        telemetry::filter(&self.log)?;
        self.first.check().map_err(|fault| Error(fault.to_string()))?;
        self.egress.check().map_err(|fault| Error(fault.to_string()))?;
        for (key, is_zero) in [
            ("max_body_bytes", self.max_body_bytes == 0),
            ("trace_idle_hours", self.trace_idle_hours == 0),
        ] {
            if is_zero {
                return Err(Error(format!("{key} is 0: it must be 1 or more")));
            }
        }
        let least = gateway::least_body_memory(self.max_body_bytes);
        if self.max_body_memory < least {
            return Err(Error(format!(
                "max_body_memory is {}: a body of max_body_bytes ({}) may take {least}. Raise the one or lower the other",
                self.max_body_memory, self.max_body_bytes
            )));
        }
        Ok(())
    }
}

/// The memory for all bodies: the default grows with the largest body, as far as that one needs.
fn body_memory(given: Option<usize>, max_body_bytes: usize) -> Result<usize, Error> {
    let default = Layer::from_toml(DEFAULTS, "the defaults")?.max_body_memory;
    let least = if given == default { gateway::least_body_memory(max_body_bytes) } else { 0 };
    Ok(given.unwrap_or_default().max(least))
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

/// The mail server. Its letters have links in them, which need an address.
fn mailer(
    url: Option<&Secret>,
    from: Option<&str>,
    public_url: Option<&str>,
) -> Result<Option<Mailer>, Error> {
    let Some(url) = url else { return Ok(None) };
    let lacking = |key: &str, why: &str| Error(format!("smtp_url needs {key} as well: {why}"));
    let from = from.ok_or_else(|| lacking("mail_from", "the sender of letters"))?;
    public_url.ok_or_else(|| lacking("public_url", "the links in letters begin with it"))?;
    Mailer::new(url, from).map(Some).map_err(|fault| Error(fault.to_string()))
}

fn public_url(url: String) -> Result<String, Error> {
    if api::WebOrigin::of_url(&url).is_some() {
        return Ok(url);
    }
    Err(Error(format!(
        "public_url is '{url}': it must begin with https:// or http:// and a host, such as https://sluice.example.com; \
         a host with other than ASCII letters in its xn-- form"
    )))
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
pub(super) mod tests {
    use super::*;

    pub(super) fn load(toml: &str, env: &[(&str, &str)], flags: Layer) -> Result<Config, Error> {
        let env = |name: &str| {
            env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Config::resolve(flags, &env, Layer::from_toml(toml, "sluice.toml")?)
    }

    #[test]
    fn flags_beat_the_environment_beats_the_file_beats_the_defaults() {
        let toml = "listen = \"127.0.0.1:1\"\nlog = \"warn\"\nowner_email = \"a@b\"";
        let env = [("SLUICE_LISTEN", "127.0.0.1:2"), ("SLUICE_LOG", "error")];
        let flags = Layer { listen: Some("127.0.0.1:3".to_owned()), ..Layer::default() };
        let config = load(toml, &env, flags).unwrap();
        assert_eq!(config.listen.port(), 3);
        assert_eq!(config.log, "error");
        assert_eq!(config.first.owner_email, "a@b");
        assert_eq!(config.max_body_bytes, 10 * 1024 * 1024);
    }

    #[test]
    fn a_mail_server_needs_a_sender_and_a_public_address() {
        let all = [
            ("SLUICE_SMTP_URL", "smtps://me:hush@mail.example.com"),
            ("SLUICE_MAIL_FROM", "sluice@example.com"),
            ("SLUICE_PUBLIC_URL", "https://sluice.example.com"),
        ];
        assert!(load("", &all, Layer::default()).unwrap().mailer.is_some());
        for (left_out, lacking) in
            [(1, "smtp_url needs mail_from"), (2, "smtp_url needs public_url")]
        {
            let mut env = all.to_vec();
            env.remove(left_out);
            let error = load("", &env, Layer::default()).unwrap_err();
            assert!(error.0.starts_with(lacking) && !error.0.contains("hush"), "{error}");
        }
        assert!(load("", &all[1..], Layer::default()).unwrap().mailer.is_none());
    }

    #[test]
    fn an_unknown_key_is_named() {
        let error = load("lisen = \"127.0.0.1:1\"", &[], Layer::default()).unwrap_err();
        assert!(error.0.contains("lisen"), "{error}");
    }

    #[test]
    fn errors_say_where_and_show_no_value() {
        for (toml, said) in [
            (
                "log = \"info\"\nmaster_key = deadbeef",
                "sluice.toml cannot be understood, line 2, column ",
            ),
            (
                "\n  owner_password = 12345678",
                "line 2, column 20 (owner_password): a string is expected",
            ),
            ("max_body_bytes = \"hush, expected x\"", "line 1, column 18 (max_body_bytes): "),
            ("master_key = \"deadbeef\nlog = \"info\"", "sluice.toml cannot be understood, line "),
            ("bootstrap_key", "sluice.toml cannot be understood, line "),
        ] {
            let error = load(toml, &[], Layer::default()).unwrap_err();
            assert!(error.0.contains(said), "{toml}: {error}");
            for value in ["deadbeef", "12345678", "hush"] {
                assert!(!error.0.contains(value), "{toml}: {error}");
            }
        }
    }

    #[test]
    fn a_secret_and_its_file_are_one_setting() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name).display().to_string();
            std::fs::write(&path, format!("password-of-{name}\n")).unwrap();
            path
        };
        let (in_file, in_env, in_flag) = (file("file"), file("env"), file("flag"));
        let value = "owner_password = \"password-in-file\"\n";
        let named = format!("owner_password_file = {in_file:?}\n");
        let both = format!("{value}{named}");
        let flag = Layer { owner_password_file: Some(in_flag), ..Layer::default() };
        let by_value = ("SLUICE_OWNER_PASSWORD", "password-in-env");
        let by_name = ("SLUICE_OWNER_PASSWORD_FILE", in_env.as_str());
        for (toml, env, flag, password) in [
            (named.as_str(), vec![], None, "password-of-file"),
            (both.as_str(), vec![], None, "password-in-file"),
            (value, vec![by_name], None, "password-of-env"),
            (named.as_str(), vec![by_value], None, "password-in-env"),
            (named.as_str(), vec![by_name, by_value], None, "password-in-env"),
            (both.as_str(), vec![by_value], Some(&flag), "password-of-flag"),
        ] {
            let config = load(toml, &env, flag.cloned().unwrap_or_default()).unwrap();
            let taken = config.first.owner_password.unwrap();
            assert_eq!(taken.expose(), password, "{toml} {env:?}");
        }
    }

    #[test]
    fn every_secret_hides_the_one_below_in_either_form() {
        let below = |text: &str| Layer::from_toml(text, "below").unwrap();
        let names = [
            "database_url",
            "database_direct_url",
            "redis_url",
            "master_key",
            "owner_password",
            "bootstrap_key",
            "otlp_headers",
        ];
        for name in names {
            let value = below(&format!("{name} = \"secret\""));
            let file = below(&format!("{name}_file = \"path\""));
            let merged = format!("{:?}", file.clone().or(value.clone()));
            assert!(merged.contains("path") && !merged.contains("\"secret\""), "{merged}");
            let merged = format!("{:?}", value.or(file));
            assert!(merged.contains("\"secret\"") && !merged.contains("path"), "{merged}");
        }
    }

    #[test]
    fn the_default_memory_for_bodies_fits_the_largest_body() {
        let memory =
            |env: &[(&str, &str)]| load("", env, Layer::default()).map(|c| c.max_body_memory);
        assert_eq!(memory(&[]).unwrap(), 512 << 20);
        let large = ("SLUICE_MAX_BODY_BYTES", "104857600");
        assert_eq!(memory(&[large]).unwrap(), gateway::least_body_memory(100 << 20));
        let error = memory(&[large, ("SLUICE_MAX_BODY_MEMORY", "1000000000")]).unwrap_err();
        assert!(error.0.starts_with("max_body_memory is 1000000000: "), "{error}");
    }

    #[test]
    fn bad_values_say_what_would_do() {
        for (env, said) in [
            (("SLUICE_LISTEN", "8080"), "127.0.0.1:8080"),
            (("SLUICE_MASTER_KEY", "short"), "openssl rand"),
            (("SLUICE_DATABASE_URL", "mysql://x"), "postgres://"),
            (("SLUICE_DATABASE_URL", "postgres://x"), "SLUICE_MASTER_KEY"),
            (("SLUICE_DATABASE_DIRECT_URL", "mysql://x"), "database_direct_url must begin with"),
            (("SLUICE_DATABASE_DIRECT_URL", "postgres://x"), "needs database_url as well"),
            (("SLUICE_TRUSTED_PROXIES", "10.0.0.0/99"), "10.0.0.0/8"),
            (("SLUICE_MAX_BODY_BYTES", "many"), "SLUICE_MAX_BODY_BYTES"),
            (
                ("SLUICE_REDIS_URL", "http://x"),
                "redis_url has an unknown scheme: it is one of redis://",
            ),
            (
                ("SLUICE_ON_COUNTER_LOSS", "guess"),
                "on_counter_loss is 'guess': it is refuse or local",
            ),
            (("SLUICE_LOG", "info,gateway=loud"), "log is 'info,gateway=loud'"),
            (("SLUICE_OWNER_EMAIL", "nobody"), "owner_email: "),
            (("SLUICE_OWNER_PASSWORD", "x"), "owner_password: Password must have 8"),
            (("SLUICE_BOOTSTRAP_KEY", "ak_zz"), "bootstrap_key: "),
            (("SLUICE_CA_FILE", "/nowhere.pem"), "/nowhere.pem"),
            (("SLUICE_EGRESS_PROXY", "socks5://x"), "proxy"),
            (("SLUICE_EGRESS_ALLOW", "http://x:80/"), "egress_allow: 'http://x:80/'"),
            (("SLUICE_MAX_BODY_BYTES", "0"), "max_body_bytes is 0: it must be 1 or more"),
            (("SLUICE_TRACE_IDLE_HOURS", "0"), "trace_idle_hours is 0: it must be 1 or more"),
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
        assert_eq!(config.egress.allow, ["a.test", "10.0.0.1"]);
    }

    #[test]
    fn master_keys_in_both_spellings() {
        let hex = Secret::new("00".repeat(31) + "ff");
        let base64 = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAP8=".to_owned());
        assert_eq!(read_key(&hex).unwrap(), read_key(&base64).unwrap());
    }
}
