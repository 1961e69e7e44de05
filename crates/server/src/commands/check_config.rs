//! `sluice check-config`: the configuration in force, without secrets.

use std::path::Path;

use domain::net::Cidr;
use gateway::{OnCounterLoss, OtlpCompression, OtlpProtocol};
use store::Location;
use toml::Value;

use super::{Failure, say, warn, warn_of_unknown_variables};
use crate::config::{Config, DEFAULTS, Flags};

/// Checks the configuration and prints it, or the defaults.
pub(crate) fn run(flags: &Flags, defaults: bool) -> Result<(), Failure> {
    if defaults {
        return say(DEFAULTS);
    }
    warn_of_unknown_variables();
    let config = Config::load(flags)?;
    for warning in &config.otlp.warnings {
        warn(warning);
    }
    lines(&config).iter().try_for_each(|line| say(line))
}

/// Every key as it would be written in the file; secrets and unset keys are comments.
fn lines(config: &Config) -> Vec<String> {
    let has_database = config.location.is_postgres();
    let has_pooler = matches!(config.location, Location::Pooled { .. });
    let (first, egress) = (&config.first, &config.egress);
    let otlp = &config.otlp;
    let protocol = match otlp.protocol {
        OtlpProtocol::Protobuf => "http/protobuf",
        OtlpProtocol::Json => "http/json",
    };
    let compression = match otlp.compression {
        OtlpCompression::None => "none",
        OtlpCompression::Gzip => "gzip",
    };
    let on_counter_loss = match config.on_counter_loss {
        OnCounterLoss::Refuse => "refuse",
        OnCounterLoss::Local => "local",
    };
    let ca_file = egress.ca_file.as_deref().map(text);
    let redis_ca_file = config.redis_ca_file.as_deref().map(text);
    let metrics = config.metrics_listen.map_or("off".to_owned(), |at| at.to_string());
    vec![
        set("listen", config.listen.to_string()),
        set("data_dir", text(&config.data_dir)),
        secret("database_url", has_database),
        secret("database_direct_url", has_pooler),
        secret("redis_url", config.redis.is_some()),
        given("redis_ca_file", redis_ca_file),
        set("on_counter_loss", on_counter_loss),
        secret("master_key", config.master_key.is_some()),
        set("owner_email", first.owner_email.as_str()),
        secret("owner_password", first.owner_password.is_some()),
        secret("bootstrap_key", first.key.is_some()),
        set("egress_allow", egress.allow.clone()),
        secret("egress_proxy", egress.proxy.is_some()),
        given("ca_file", ca_file),
        given("public_url", config.public_url.clone()),
        secret("smtp_url", config.mailer.is_some()),
        given("mail_from", config.mailer.as_ref().map(mail::Mailer::sender)),
        format!("console = {}", config.console),
        set("trusted_proxies", ranges(&config.trusted_proxies)),
        set("perimeter_allow", ranges(&config.perimeter.allow)),
        set("perimeter_block", ranges(&config.perimeter.block)),
        set("log", config.log.as_str()),
        set("metrics_listen", metrics),
        set("otlp_endpoint", otlp.address.as_ref().map_or("off", |address| address.url())),
        secret("otlp_headers", otlp.has_headers),
        set("otlp_protocol", protocol),
        set("otlp_compression", compression),
        format!("otlp_timeout_ms = {}", otlp.timeout_ms),
        format!("otlp_content = {}", otlp.content),
        given("otlp_resource_attributes", otlp.resource_attributes.clone()),
        format!("max_body_bytes = {}", config.max_body_bytes),
        format!("max_body_memory = {}", config.max_body_memory),
        format!("trace_idle_hours = {}", config.trace_idle_hours),
        format!("allow_inexact_limits = {}", config.allow_inexact_limits),
        format!("shutdown_delay = {}", config.shutdown_delay.as_secs()),
    ]
}

fn set(key: &str, value: impl Into<Value>) -> String {
    let value: Value = value.into();
    format!("{key} = {value}")
}

fn given(key: &str, value: Option<String>) -> String {
    value.map_or_else(|| format!("# {key} (not set)"), |value| set(key, value))
}

fn secret(key: &str, is_set: bool) -> String {
    let state = if is_set { "set, not shown" } else { "not set" };
    format!("# {key} ({state})")
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn ranges(ranges: &[Cidr]) -> Vec<String> {
    ranges.iter().map(ToString::to_string).collect()
}
