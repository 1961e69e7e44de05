//! The export to a collector of OpenTelemetry.

use std::time::Duration;

use domain::secret::Secret;
use gateway::{OtlpCompression, OtlpProtocol};
use percent_encoding::percent_decode_str;
use providers::CollectorAddress;

use super::{Error, Layer, secret};

/// The longest time limit of a request, in milliseconds.
const LONGEST_TIMEOUT: u64 = 60_000;

/// The flags for an endpoint, and for the headers that go with it.
const ENDPOINT_FLAG: &str = "--otlp-endpoint";
const HEADERS_FLAG: &str = "--otlp-headers-file";

/// The valid values of the settings that other than texts and numbers are read from, in words.
pub(super) const PROTOCOLS: &str = "http/protobuf or http/json";
pub(super) const COMPRESSIONS: &str = "gzip or none";
pub(super) const TIMEOUTS: &str = "1 to 60000 milliseconds";
pub(super) const PAIRS: &str = "name=value, several with commas between them";

/// The settings of the export.
#[derive(Debug)]
pub(crate) struct Otlp {
    /// The collector; `None` if nothing is exported.
    pub(crate) address: Option<CollectorAddress>,
    pub(crate) has_headers: bool,
    pub(crate) protocol: OtlpProtocol,
    pub(crate) compression: OtlpCompression,
    pub(crate) timeout_ms: u64,
    pub(crate) content: bool,
    /// The attributes of the process, as they were given.
    pub(crate) resource_attributes: Option<String>,
    /// A message for every variable of OpenTelemetry that is ignored.
    pub(crate) warnings: Vec<String>,
}

impl Otlp {
    /// Without an endpoint nothing else is checked.
    pub(super) fn read(layer: &Layer, mut warnings: Vec<String>) -> Result<Self, Error> {
        // The lowest layer has the word for none.
        let url = layer.otlp_endpoint.as_deref().unwrap_or_default();
        let given =
            secret(layer.otlp_headers.clone(), layer.otlp_headers_file.clone(), "otlp_headers")?;
        if given.is_some() && !is_on(url) {
            warnings.push(
                "otlp_headers is set and otlp_endpoint is not: nothing is exported".to_owned(),
            );
        }
        let otlp = Self {
            address: None,
            has_headers: given.is_some(),
            protocol: OtlpProtocol::Protobuf,
            compression: OtlpCompression::None,
            timeout_ms: layer.otlp_timeout_ms.unwrap_or_default(),
            content: layer.otlp_content.unwrap_or_default(),
            resource_attributes: layer.otlp_resource_attributes.clone(),
            warnings,
        };
        if !is_on(url) {
            return Ok(otlp);
        }
        let wrong = |key: &str, value: &str, valid: &str| {
            Error(format!("{key} is {value}: it must be {valid}"))
        };
        let name = layer.otlp_protocol.as_deref().unwrap_or_default();
        let protocol = protocol(name)
            .ok_or_else(|| wrong("otlp_protocol", &format!("'{name}'"), PROTOCOLS))?;
        let name = layer.otlp_compression.as_deref().unwrap_or_default();
        let compression = compression(name)
            .ok_or_else(|| wrong("otlp_compression", &format!("'{name}'"), COMPRESSIONS))?;
        let millis = otlp.timeout_ms;
        let timeout = timeout(millis)
            .ok_or_else(|| wrong("otlp_timeout_ms", &millis.to_string(), TIMEOUTS))?;
        let headers = headers(given.as_ref().map_or("", Secret::expose))
            .ok_or_else(|| Error(format!("otlp_headers must be {PAIRS}")))?;
        let address = CollectorAddress::new(url, &headers, timeout)
            .map_err(|fault| Error(format!("otlp_endpoint or otlp_headers: {fault}")))?;
        otlp.resource()?;
        Ok(Self { address: Some(address), protocol, compression, ..otlp })
    }

    /// The attributes of the process: those that were given over our own.
    pub(crate) fn resource(&self) -> Result<Vec<(String, String)>, Error> {
        let given = self.resource_attributes.as_deref().unwrap_or_default();
        let given = pairs(given).ok_or_else(|| {
            Error(format!("otlp_resource_attributes is '{given}': it must be {PAIRS}"))
        })?;
        let own = [("service.name", "sluice"), ("service.version", env!("CARGO_PKG_VERSION"))];
        let mut resource: Vec<(String, String)> =
            own.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        for (name, value) in given {
            resource.retain(|(known, _)| *known != name);
            resource.push((name, value));
        }
        Ok(resource)
    }
}

/// A warning for the headers of each of our layers that an endpoint of a higher one hides: they go to no other
/// address than that of their own layer, or of one below.
pub(super) fn hidden_headers(flags: &Layer, env: &Layer, file: &Layer) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |headers: &str, endpoint: &str, with: &str| {
        warnings.push(format!(
            "{headers} is ignored: {endpoint} is set above it, and headers go to no other address than their own. \
             If they are meant for it, set {with} too"
        ));
    };
    let of_env = env.headers_key(["SLUICE_OTLP_HEADERS", "SLUICE_OTLP_HEADERS_FILE"]);
    let of_file = file.headers_key(["otlp_headers of the file", "otlp_headers_file of the file"]);
    if flags.hides_headers_of(env) {
        warn(of_env, ENDPOINT_FLAG, HEADERS_FLAG);
    }
    if flags.hides_headers_of(file) && !env.has_headers() {
        warn(of_file, ENDPOINT_FLAG, HEADERS_FLAG);
    } else if !flags.has_headers() && env.hides_headers_of(file) {
        warn(of_file, "SLUICE_OTLP_ENDPOINT", "SLUICE_OTLP_HEADERS");
    }
    warnings
}

/// Whether an endpoint is one, and not the word for none.
pub(super) fn is_on(endpoint: &str) -> bool {
    endpoint != "off"
}

pub(super) fn protocol(name: &str) -> Option<OtlpProtocol> {
    match name {
        "http/protobuf" => Some(OtlpProtocol::Protobuf),
        "http/json" => Some(OtlpProtocol::Json),
        _ => None,
    }
}

pub(super) fn compression(name: &str) -> Option<OtlpCompression> {
    match name {
        "none" => Some(OtlpCompression::None),
        "gzip" => Some(OtlpCompression::Gzip),
        _ => None,
    }
}

pub(super) fn timeout(millis: u64) -> Option<Duration> {
    (1..=LONGEST_TIMEOUT).contains(&millis).then(|| Duration::from_millis(millis))
}

/// Whether there can be requests with these headers to a URL.
pub(super) fn can_be_sent(url: &str, headers: &[(String, Secret)]) -> bool {
    CollectorAddress::new(url, headers, Duration::ZERO).is_ok()
}

pub(super) fn headers(text: &str) -> Option<Vec<(String, Secret)>> {
    let pairs = pairs(text)?.into_iter();
    Some(pairs.map(|(name, value)| (name, Secret::new(value))).collect())
}

/// Reads `name=value,name=value`, with values in percent-encoding (the form of W3C Baggage). `None` if it
/// is anything else.
pub(super) fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    let pair = |item: &str| {
        let (name, value) = item.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        let name = name.trim();
        (!name.is_empty()).then(|| (name.to_owned(), value.into_owned()))
    };
    items.map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::load;
    use super::*;

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");
    const OWN: (&str, &str) = ("SLUICE_OTLP_ENDPOINT", "http://collector:4318/");

    fn otlp(env: &[(&str, &str)]) -> Result<Otlp, Error> {
        load("", env, Layer::default()).map(|config| config.otlp)
    }

    #[test]
    fn the_variables_of_open_telemetry_are_read_below_our_own() {
        assert!(otlp(&[]).unwrap().address.is_none());
        let standard = [
            ENDPOINT,
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hush, x-scope=1"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "500"),
            ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=x,deployment.environment.name=prod%2C1"),
            ("OTEL_SERVICE_NAME", "my gateway"),
        ];
        let read = otlp(&standard).unwrap();
        assert_eq!(read.address.as_ref().unwrap().url(), "http://collector:4318");
        assert_eq!((read.protocol, read.timeout_ms), (OtlpProtocol::Json, 500));
        assert_eq!(read.compression, OtlpCompression::Gzip);
        assert!(read.has_headers && !read.content && !format!("{read:?}").contains("hush"));
        let resource = read.resource().unwrap();
        for pair in [
            ("service.name", "my gateway"),
            ("service.version", env!("CARGO_PKG_VERSION")),
            ("deployment.environment.name", "prod,1"),
        ] {
            let found = resource.iter().filter(|(name, _)| name == pair.0);
            let values: Vec<_> = found.map(|(_, value)| value.as_str()).collect();
            assert_eq!(values, [pair.1]);
        }
        let own = ("SLUICE_OTLP_PROTOCOL", "http/protobuf");
        let both = [&standard[..], &[own]].concat();
        assert_eq!(otlp(&both).unwrap().protocol, OtlpProtocol::Protobuf);
        for off in [("SLUICE_OTLP_ENDPOINT", "off"), ("OTEL_SDK_DISABLED", "true")] {
            let all = [&standard[..], &[off]].concat();
            assert!(otlp(&all).unwrap().address.is_none(), "{off:?}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_and_no_header_is_shown() {
        for (wrong, said) in [
            (("SLUICE_OTLP_PROTOCOL", "grpc"), "otlp_protocol is 'grpc': it must be http/"),
            (("SLUICE_OTLP_COMPRESSION", "zstd"), "otlp_compression is 'zstd': it must be gzip"),
            (("SLUICE_OTLP_TIMEOUT_MS", "soon"), "SLUICE_OTLP_TIMEOUT_MS"),
            (("SLUICE_OTLP_TIMEOUT_MS", "0"), "otlp_timeout_ms is 0: it must be 1 to"),
            (("SLUICE_OTLP_ENDPOINT", "collector:4318"), "the URL must begin with"),
            (("SLUICE_OTLP_HEADERS", "hush"), "otlp_headers must be name=value"),
            (("SLUICE_OTLP_HEADERS", "no name=hush"), "is no name of a header"),
            (("SLUICE_OTLP_HEADERS", "x=hush%0A"), "forbidden characters"),
            (("SLUICE_OTLP_RESOURCE_ATTRIBUTES", "x"), "otlp_resource_attributes is 'x'"),
        ] {
            let error = otlp(&[wrong, OWN]).unwrap_err();
            assert!(error.0.contains(said) && !error.0.contains("hush"), "{wrong:?}: {error}");
        }
        // Without an endpoint they are of no use yet.
        assert!(otlp(&[("SLUICE_OTLP_PROTOCOL", "grpc")]).unwrap().address.is_none());
    }
}
