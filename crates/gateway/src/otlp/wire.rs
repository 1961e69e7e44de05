//! The messages of OTLP 1 that are sent and read: the part of `opentelemetry/proto` that is needed, with
//! its numbers and names. The same types are written as protobuf and as JSON.

use domain::time::Timestamp;
use prost::{Message, Oneof};
use serde::{Serialize, Serializer};
use serde_json::Value as Json;

use crate::config::OtlpProtocol;

/// The kind of a span within the gateway.
pub(crate) const INTERNAL: i32 = 1;
/// The kind of a span that asks another service.
pub(crate) const CLIENT: i32 = 3;
/// The code of a status of failure.
pub(crate) const ERROR: i32 = 2;
/// Points that count from the start of the process.
const CUMULATIVE: i32 = 2;

impl OtlpProtocol {
    /// The content type of requests.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }

    /// Writes a request.
    pub(crate) fn encode(self, request: &(impl Message + Serialize)) -> Vec<u8> {
        match self {
            Self::Protobuf => request.encode_to_vec(),
            // Only a map with other keys than texts, or a failing writer, has no JSON.
            Self::Json => serde_json::to_vec(request).unwrap_or_default(),
        }
    }

    /// The spans or points of a request that its answer rejects, and why.
    pub(crate) fn rejected(self, answer: &[u8]) -> (u64, String) {
        let partial = match self {
            Self::Protobuf => ExportResponse::decode(answer).ok().and_then(|read| read.partial),
            Self::Json => serde_json::from_slice::<Json>(answer).ok().and_then(|read| {
                let partial = read.get("partialSuccess")?;
                let count = partial.get("rejectedSpans").or(partial.get("rejectedDataPoints"));
                let count = count.and_then(|count| match count {
                    Json::String(text) => text.parse().ok(),
                    other => other.as_i64(),
                });
                let message = partial.get("errorMessage").and_then(Json::as_str);
                let message = message.unwrap_or_default().to_owned();
                Some(PartialSuccess { rejected: count.unwrap_or_default(), message })
            }),
        };
        let PartialSuccess { rejected, message } = partial.unwrap_or_default();
        (u64::try_from(rejected).unwrap_or_default(), message)
    }
}

/// `ExportTraceServiceResponse` and `ExportMetricsServiceResponse`.
#[derive(Clone, PartialEq, Message)]
struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    partial: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected: i64,
    #[prost(string, tag = "2")]
    message: String,
}

/// `ExportTraceServiceRequest`.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TracesRequest {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

impl TracesRequest {
    pub(crate) fn new(resource: Resource, scope: Scope, spans: Vec<Span>) -> Self {
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
        Self { resource_spans: vec![ResourceSpans { resource: Some(resource), scope_spans }] }
    }
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<Span>,
}

/// The process that is described.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Resource {
    #[prost(message, repeated, tag = "1")]
    pub(crate) attributes: Vec<Attribute>,
}

/// The part of the process that describes it (`InstrumentationScope`).
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Scope {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
}

/// A span.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(serialize_with = "hex")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    #[serde(serialize_with = "hex")]
    #[serde(rename = "spanId")]
    pub(crate) id: Vec<u8>,
    /// Empty for a root.
    #[prost(bytes = "vec", tag = "4")]
    #[serde(serialize_with = "hex")]
    pub(crate) parent_span_id: Vec<u8>,
    #[prost(fixed32, tag = "16")]
    pub(crate) flags: u32,
    #[prost(string, tag = "5")]
    pub(crate) name: String,
    #[prost(int32, tag = "6")]
    pub(crate) kind: i32,
    #[prost(fixed64, tag = "7")]
    #[serde(serialize_with = "text")]
    pub(crate) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    #[serde(serialize_with = "text")]
    pub(crate) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub(crate) attributes: Vec<Attribute>,
    #[prost(uint32, tag = "10")]
    pub(crate) dropped_attributes_count: u32,
    #[prost(message, repeated, tag = "13")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) links: Vec<Link>,
    #[prost(uint32, tag = "14")]
    pub(crate) dropped_links_count: u32,
    #[prost(message, optional, tag = "15")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<Status>,
}

/// A span of another trace that has to do with this one.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Link {
    #[prost(bytes = "vec", tag = "1")]
    #[serde(serialize_with = "hex")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    #[serde(serialize_with = "hex")]
    pub(crate) span_id: Vec<u8>,
    #[prost(fixed32, tag = "6")]
    pub(crate) flags: u32,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    #[prost(string, tag = "2")]
    pub(crate) message: String,
    #[prost(int32, tag = "3")]
    pub(crate) code: i32,
}

/// A name and a value (`KeyValue`).
#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct Attribute {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) value: Option<AnyValue>,
}

impl Attribute {
    pub(crate) fn new(key: impl Into<String>, value: impl Into<Value>) -> Self {
        Self { key: key.into(), value: Some(AnyValue { value: Some(value.into()) }) }
    }
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct AnyValue {
    #[prost(oneof = "Value", tags = "1, 2, 3, 4, 5")]
    #[serde(flatten)]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, Oneof, Serialize)]
pub(crate) enum Value {
    #[prost(string, tag = "1")]
    #[serde(rename = "stringValue")]
    Text(String),
    #[prost(bool, tag = "2")]
    #[serde(rename = "boolValue")]
    Truth(bool),
    #[prost(int64, tag = "3")]
    #[serde(rename = "intValue")]
    Integer(#[serde(serialize_with = "text")] i64),
    #[prost(double, tag = "4")]
    #[serde(rename = "doubleValue")]
    Double(f64),
    #[prost(message, tag = "5")]
    #[serde(rename = "arrayValue")]
    List(ArrayValue),
}

#[derive(Clone, PartialEq, Message, Serialize)]
pub(crate) struct ArrayValue {
    #[prost(message, repeated, tag = "1")]
    values: Vec<AnyValue>,
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Truth(flag)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Double(number)
    }
}

impl From<Vec<String>> for Value {
    fn from(texts: Vec<String>) -> Self {
        let values = texts.into_iter().map(|text| AnyValue { value: Some(text.into()) });
        Self::List(ArrayValue { values: values.collect() })
    }
}

/// `ExportMetricsServiceRequest`.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MetricsRequest {
    #[prost(message, repeated, tag = "1")]
    resource_metrics: Vec<ResourceMetrics>,
}

impl MetricsRequest {
    pub(crate) fn new(resource: Resource, scope: Scope, metrics: Vec<Metric>) -> Self {
        let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics }];
        Self { resource_metrics: vec![ResourceMetrics { resource: Some(resource), scope_metrics }] }
    }
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    metrics: Vec<Metric>,
}

/// A histogram of one name.
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Metric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    description: String,
    #[prost(string, tag = "3")]
    unit: String,
    /// One of several kinds of data in the protocol, which is the same on the wire.
    #[prost(message, optional, tag = "9")]
    histogram: Option<Histogram>,
}

impl Metric {
    pub(crate) fn new(
        name: &str,
        description: &str,
        unit: &str,
        data_points: Vec<HistogramPoint>,
    ) -> Self {
        Self {
            name: name.to_owned(),
            description: description.to_owned(),
            unit: unit.to_owned(),
            histogram: Some(Histogram { data_points, aggregation_temporality: CUMULATIVE }),
        }
    }

    /// The values of all series together.
    #[cfg(test)]
    pub(crate) fn count(&self) -> u64 {
        self.histogram.iter().flat_map(|it| &it.data_points).map(|point| point.count).sum()
    }
}

#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct Histogram {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<HistogramPoint>,
    #[prost(int32, tag = "2")]
    aggregation_temporality: i32,
}

/// The values of one series since the start of the process (`HistogramDataPoint`).
#[derive(Clone, PartialEq, Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HistogramPoint {
    #[prost(message, repeated, tag = "9")]
    pub(crate) attributes: Vec<Attribute>,
    #[prost(fixed64, tag = "2")]
    #[serde(serialize_with = "text")]
    pub(crate) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    #[serde(serialize_with = "text")]
    pub(crate) time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    #[serde(serialize_with = "text")]
    pub(crate) count: u64,
    #[prost(double, optional, tag = "5")]
    pub(crate) sum: Option<f64>,
    #[prost(fixed64, repeated, tag = "6")]
    #[serde(serialize_with = "texts")]
    pub(crate) bucket_counts: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    pub(crate) explicit_bounds: Vec<f64>,
    #[prost(double, optional, tag = "11")]
    pub(crate) min: Option<f64>,
    #[prost(double, optional, tag = "12")]
    pub(crate) max: Option<f64>,
}

/// Nanoseconds since 1970; 0 for a time before that.
pub(crate) fn nanos(at: Timestamp) -> u64 {
    u64::try_from(at.0).unwrap_or_default().saturating_mul(1000)
}

fn hex<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    use std::fmt::Write as _;

    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    serializer.serialize_str(&text)
}

/// Integers of 64 bits are texts in JSON.
fn text<S: Serializer>(number: &impl std::fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

fn texts<S: Serializer>(numbers: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(numbers.iter().map(u64::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_rejects_is_read() {
        let partial = PartialSuccess { rejected: 3, message: "too old".to_owned() };
        let answer = ExportResponse { partial: Some(partial) }.encode_to_vec();
        let (json, protobuf) = (OtlpProtocol::Json, OtlpProtocol::Protobuf);
        assert_eq!(protobuf.rejected(&answer), (3, "too old".to_owned()));
        for answer in [
            r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too old"}}"#,
            r#"{"partialSuccess":{"rejectedDataPoints":3,"errorMessage":"too old"}}"#,
        ] {
            assert_eq!(json.rejected(answer.as_bytes()), (3, "too old".to_owned()), "{answer}");
        }
        for answer in ["", "{}", r#"{"partialSuccess":{}}"#, "<html>", "[1"] {
            assert_eq!(json.rejected(answer.as_bytes()), (0, String::new()), "{answer}");
        }
        for answer in [&[][..], &[0xff; 9], b"<html>"] {
            assert_eq!(protobuf.rejected(answer), (0, String::new()));
        }
    }

    #[test]
    fn json_has_the_names_and_forms_of_the_protocol() {
        let attributes = vec![
            Attribute::new("i", 5_i64),
            Attribute::new("s", "x"),
            Attribute::new("b", true),
            Attribute::new("d", 0.5),
            Attribute::new("a", vec!["x".to_owned()]),
        ];
        let span = Span {
            trace_id: vec![0xab; 16],
            id: vec![1; 8],
            start_time_unix_nano: 7,
            attributes,
            ..Span::default()
        };
        let json = serde_json::to_value(&span).unwrap();
        assert_eq!(json["traceId"], "ab".repeat(16));
        assert_eq!(json["startTimeUnixNano"], "7");
        assert_eq!(
            json["attributes"],
            serde_json::json!([
                {"key": "i", "value": {"intValue": "5"}},
                {"key": "s", "value": {"stringValue": "x"}},
                {"key": "b", "value": {"boolValue": true}},
                {"key": "d", "value": {"doubleValue": 0.5}},
                {"key": "a", "value": {"arrayValue": {"values": [{"stringValue": "x"}]}}},
            ])
        );
    }
}
