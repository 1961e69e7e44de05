//! The variables that OpenTelemetry defines for every exporter. They may be meant for other programs, so
//! none of them keeps the gateway from starting: one that cannot be used is ignored with a warning.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::Layer;
use super::layer::{Get, text};
use super::otlp;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const COMPRESSION: &str = "OTEL_EXPORTER_OTLP_COMPRESSION";
const TIMEOUT: &str = "OTEL_EXPORTER_OTLP_TIMEOUT";
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";
const DISABLED: &str = "OTEL_SDK_DISABLED";

/// The layer of these variables below another, and a warning for each that is ignored. Those of the
/// exporter belong to their endpoint: if the layer above has one, or headers for one, they are not read.
/// Without any endpoint none is read. Nothing is exported by a protocol that the gateway does not have, or
/// without the credential that was meant.
pub(super) fn read(get: Get<'_>, above: &Layer) -> (Layer, Vec<String>) {
    let mut variables = Variables { get, warnings: Vec::new() };
    if variables.text(DISABLED).is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return (Layer::default(), Vec::new());
    }
    let own = above.otlp_endpoint.as_deref();
    let layer = if own.is_some_and(otlp::is_on) {
        if !above.has_headers() && variables.text(HEADERS).is_some() {
            variables.warnings.push(format!(
                "{HEADERS} is ignored: otlp_endpoint is set above it, and headers go to no other address than their \
                 own. If they are meant for it, set otlp_headers too"
            ));
        }
        Layer { otlp_resource_attributes: variables.resource(), ..Layer::default() }
    } else if above.names_collector() {
        if variables.text(ENDPOINT).is_some() {
            variables.warnings.push(format!(
                "{ENDPOINT} is not read: otlp_endpoint or otlp_headers is set, also where the former is 'off'"
            ));
        }
        Layer::default()
    } else {
        variables.exporter().unwrap_or_default()
    };
    (layer, variables.warnings)
}

struct Variables<'g> {
    get: Get<'g>,
    warnings: Vec<String>,
}

impl Variables<'_> {
    /// Everything; `None` without an endpoint.
    fn exporter(&mut self) -> Option<Layer> {
        let endpoint = self.text(ENDPOINT)?;
        if !otlp::can_be_sent(&endpoint, &[]) {
            self.ignored(ENDPOINT, None, "a URL with http:// or https:// and without credentials");
            return None;
        }
        let headers = self.text(HEADERS);
        let can_be_sent = |text: &String| {
            otlp::headers(text).is_some_and(|headers| otlp::can_be_sent(&endpoint, &headers))
        };
        if headers.as_ref().is_some_and(|text| !can_be_sent(text)) {
            self.ignored(HEADERS, None, &format!("{}; nothing is exported", otlp::PAIRS));
            return None;
        }
        let protocol = self.text(PROTOCOL);
        if let Some(name) = protocol.as_ref().filter(|name| otlp::protocol(name).is_none()) {
            let valid = format!("{}; nothing is exported", otlp::PROTOCOLS);
            self.ignored(PROTOCOL, Some(name), &valid);
            return None;
        }
        let compression = self.text(COMPRESSION).filter(|name| {
            otlp::compression(name).is_some()
                || self.ignored(COMPRESSION, Some(name), otlp::COMPRESSIONS)
        });
        let timeout = self.text(TIMEOUT).and_then(|text| {
            let millis = text.parse().ok().filter(|millis| otlp::timeout(*millis).is_some());
            if millis.is_none() {
                self.ignored(TIMEOUT, Some(&text), otlp::TIMEOUTS);
            }
            millis
        });
        Some(Layer {
            otlp_endpoint: Some(endpoint),
            otlp_headers: headers,
            otlp_protocol: protocol,
            otlp_compression: compression,
            otlp_timeout_ms: timeout,
            otlp_resource_attributes: self.resource(),
            ..Layer::default()
        })
    }

    /// The attributes of the process.
    fn resource(&mut self) -> Option<String> {
        let attributes = self.text(RESOURCE).filter(|text| {
            otlp::pairs(text).is_some() || self.ignored(RESOURCE, Some(text), otlp::PAIRS)
        });
        // The last attribute of a name counts.
        let name = self
            .text(SERVICE_NAME)
            .map(|name| format!("service.name={}", utf8_percent_encode(&name, NON_ALPHANUMERIC)));
        let all: Vec<String> = attributes.into_iter().chain(name).collect();
        (!all.is_empty()).then(|| all.join(","))
    }

    fn text(&self, name: &str) -> Option<String> {
        text(name, self.get)
    }

    /// Warns that a variable is ignored, and shows its value unless that may be a secret. Returns false:
    /// it does not count.
    fn ignored(&mut self, name: &str, value: Option<&str>, valid: &str) -> bool {
        let is = value.map_or(String::new(), |value| format!(" is '{value}' and"));
        self.warnings.push(format!("{name}{is} is ignored: it must be {valid}"));
        false
    }
}

#[cfg(test)]
mod tests {
    use providers::CollectorAddress;

    use super::super::tests::load;
    use super::super::{Error, Otlp};
    use super::*;

    const COLLECTOR: (&str, &str) = (ENDPOINT, "http://collector:4318/");

    fn of(toml: &str, env: &[(&str, &str)]) -> Result<Otlp, Error> {
        load(toml, env, Layer::default()).map(|config| config.otlp)
    }

    fn url(otlp: &Otlp) -> Option<&str> {
        otlp.address.as_ref().map(CollectorAddress::url)
    }

    #[test]
    fn a_variable_that_cannot_be_used_is_ignored_with_a_warning() {
        for (name, value, said) in [
            (
                TIMEOUT,
                "10s",
                "OTEL_EXPORTER_OTLP_TIMEOUT is '10s' and is ignored: it must be 1 to 60000",
            ),
            (TIMEOUT, "0", "'0' and is ignored"),
            (TIMEOUT, "90000", "'90000' and is ignored"),
            (PROTOCOL, "grpc", "'grpc' and is ignored: it must be http/protobuf or http/json"),
            (COMPRESSION, "zstd", "'zstd' and is ignored: it must be gzip or none"),
            (HEADERS, "hush", "OTEL_EXPORTER_OTLP_HEADERS is ignored: it must be name=value"),
            (HEADERS, "no name=hush", "OTEL_EXPORTER_OTLP_HEADERS is ignored"),
            (HEADERS, "x=hush%0A", "OTEL_EXPORTER_OTLP_HEADERS is ignored"),
            (RESOURCE, "x", "OTEL_RESOURCE_ATTRIBUTES is 'x' and is ignored"),
        ] {
            let read = of("", &[COLLECTOR, (name, value)]).unwrap();
            let is_exported = ![PROTOCOL, HEADERS].contains(&name);
            assert_eq!(url(&read), is_exported.then_some("http://collector:4318"), "{name}");
            let defaults = of("", &[COLLECTOR]).unwrap();
            assert_eq!(read.timeout_ms, defaults.timeout_ms);
            assert_eq!(
                (read.protocol, read.compression),
                (defaults.protocol, defaults.compression)
            );
            assert!(!read.has_headers && read.resource_attributes.is_none());
            let [warning] = read.warnings.as_slice() else { panic!("{:?}", read.warnings) };
            assert!(warning.contains(said) && !warning.contains("hush"), "{warning}");
            // Without an endpoint it is not looked at.
            let unread = of("", &[(name, value)]).unwrap();
            assert!(unread.address.is_none() && unread.warnings.is_empty(), "{name}");
        }
        for endpoint in ["collector:4318", "http://me:hush@collector", "off"] {
            let read = of("", &[(ENDPOINT, endpoint), (PROTOCOL, "grpc")]).unwrap();
            assert!(url(&read).is_none(), "{endpoint}");
            assert_eq!(read.warnings.len(), 1, "{:?}", read.warnings);
            assert!(!read.warnings[0].contains("hush"));
        }
    }

    #[test]
    fn what_belongs_to_an_endpoint_goes_to_no_other() {
        let file = "otlp_endpoint = \"http://own:4318\"\n";
        let others =
            [COLLECTOR, (HEADERS, "x-token=hush"), (PROTOCOL, "http/json"), (TIMEOUT, "7")];
        // An endpoint of the file, with nothing of another exporter but the attributes of the process.
        let read = of(file, &[&others[..], &[(SERVICE_NAME, "x")]].concat()).unwrap();
        assert_eq!((url(&read), read.has_headers), (Some("http://own:4318"), false));
        let [warning] = read.warnings.as_slice() else { panic!("{:?}", read.warnings) };
        assert!(warning.starts_with("OTEL_EXPORTER_OTLP_HEADERS is ignored: otlp_endpoint is"));
        assert_eq!(
            (read.timeout_ms, read.resource_attributes.as_deref()),
            (10_000, Some("service.name=x"))
        );
        assert_eq!(read.protocol, gateway::OtlpProtocol::Protobuf);
        // Headers without an endpoint take none of another exporter, but one below them.
        for (toml, env) in [
            ("otlp_headers = \"x-token=hush\"", &others[..]),
            ("", &[("SLUICE_OTLP_HEADERS", "x-token=hush")]),
            ("otlp_endpoint = \"off\"", &[("SLUICE_OTLP_HEADERS", "x-token=hush")]),
        ] {
            let read = of(toml, env).unwrap();
            let warning = read.warnings.last().unwrap();
            assert!(url(&read).is_none() && warning.starts_with("otlp_headers is set"), "{toml}");
        }
        let read = of(file, &[("SLUICE_OTLP_HEADERS", "x-token=hush")]).unwrap();
        assert_eq!((url(&read), read.has_headers), (Some("http://own:4318"), true));
        let off = of("otlp_endpoint = \"off\"", &[COLLECTOR]).unwrap();
        assert!(url(&off).is_none() && off.warnings[0].contains("is not read"), "{off:?}");
        // One that has its own takes no others, and that is meant.
        let own = format!("{file}otlp_headers = \"x-token=own\"\n");
        assert!(of(&own, &others).unwrap().warnings.is_empty());
        // A higher endpoint leaves what a lower layer has for its own.
        let lower = format!("{file}otlp_headers = \"x-token=hush\"\notlp_content = true\n");
        let read = of(&lower, &[]).unwrap();
        assert!(read.has_headers && read.content);
        let read = of(&lower, &[("SLUICE_OTLP_ENDPOINT", "http://new:4318")]).unwrap();
        assert_eq!(url(&read), Some("http://new:4318"));
        assert!(!read.has_headers && !read.content);
        let [warning] = read.warnings.as_slice() else { panic!("{:?}", read.warnings) };
        let said = "otlp_headers of the file is ignored: SLUICE_OTLP_ENDPOINT is set above it";
        assert!(warning.starts_with(said) && !warning.contains("hush"), "{warning}");
        let endpoint = Some("http://flag:4318".to_owned());
        let flags = Layer { otlp_endpoint: endpoint, ..Layer::default() };
        let headers = ("SLUICE_OTLP_HEADERS", "x-token=hush");
        let otlp = load(&lower, &[headers, COLLECTOR], flags.clone()).unwrap().otlp;
        assert_eq!((url(&otlp), otlp.has_headers), (Some("http://flag:4318"), false));
        let [warning] = otlp.warnings.as_slice() else { panic!("{:?}", otlp.warnings) };
        let said = "SLUICE_OTLP_HEADERS is ignored: --otlp-endpoint is set above it";
        assert!(warning.starts_with(said) && warning.ends_with("set --otlp-headers-file too"));
        assert!(!warning.contains("hush"), "{warning}");
        let otlp = load(&lower, &[], flags).unwrap().otlp;
        let [warning] = otlp.warnings.as_slice() else { panic!("{:?}", otlp.warnings) };
        assert!(warning.starts_with("otlp_headers of the file is ignored: --otlp-endpoint is set"));
        // Contents are shown to an endpoint of their own layer, or of one below it.
        let content = ("SLUICE_OTLP_CONTENT", "true");
        assert!(of(file, &[content]).unwrap().content);
        assert!(of("otlp_content = true", &[COLLECTOR]).unwrap().content);
        assert!(of("", &[COLLECTOR, content]).unwrap().content);
        let own = ("SLUICE_OTLP_ENDPOINT", "http://new:4318");
        assert!(!of("otlp_content = true", &[own]).unwrap().content);
        assert!(of("otlp_content = true", &[own, content]).unwrap().content);
    }
}
