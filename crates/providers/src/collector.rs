//! Requests to a collector of telemetry. Its address is the operator's own, and may be a private one.

use std::time::Duration;

use bytes::Bytes;
use domain::secret::Secret;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Method};

use crate::adapter::request::Outgoing;
use crate::api_client::{ApiError, exchange};
use crate::client::Client;
use crate::net::egress::well_formed;

/// The address of a collector, and the headers of every request to it.
#[derive(Clone)]
pub struct CollectorAddress {
    base: String,
    headers: HeaderMap,
    timeout: Duration,
}

/// Prints no header: their values may be credentials.
impl std::fmt::Debug for CollectorAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CollectorAddress")
            .field("base", &self.base)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl CollectorAddress {
    /// Reads a URL and headers. `timeout` is that of each request. The error is a sentence that shows no
    /// value of a header.
    pub fn new(url: &str, headers: &[(String, Secret)], timeout: Duration) -> Result<Self, String> {
        let parsed = well_formed(url).map_err(|fault| format!("the URL {fault}"))?;
        let mut map = HeaderMap::with_capacity(headers.len());
        for (name, value) in headers {
            let name: HeaderName =
                name.parse().map_err(|_| format!("'{name}' is no name of a header"))?;
            let mut value = HeaderValue::from_str(value.expose()).map_err(|_| {
                format!("the value of the header '{name}' has forbidden characters")
            })?;
            value.set_sensitive(true);
            map.append(name, value);
        }
        let base = parsed.as_str().trim_end_matches('/').to_owned();
        Ok(Self { base, headers: map, timeout })
    }

    /// The URL, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.base
    }
}

/// The body of a request.
#[derive(Clone, Debug)]
pub struct CollectorBody {
    /// Its media type.
    pub content_type: &'static str,
    /// The name of its compression, if it is compressed.
    pub content_encoding: Option<&'static str>,
    /// The body as it is sent.
    pub bytes: Vec<u8>,
}

/// What became of a request.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// The collector took it, and answered this.
    Taken(Bytes),
    /// Another attempt may help, after the wait that the collector asks for.
    Again {
        /// Why it was not taken.
        fault: String,
        /// The wait, if the collector asks for one.
        wait: Option<Duration>,
    },
    /// It would not be taken again either: why.
    Refused(String),
}

/// Requests to one collector.
#[derive(Clone)]
pub struct Collector {
    client: Client,
    address: CollectorAddress,
}

impl std::fmt::Debug for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Collector({})", self.address.base)
    }
}

impl Collector {
    /// Requests to the collector at an address.
    pub fn new(client: Client, address: CollectorAddress) -> Self {
        Self { client, address }
    }

    /// Posts a body to a path, once.
    pub async fn post(&self, path: &str, body: &CollectorBody) -> Delivery {
        let mut headers = self.address.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(body.content_type));
        if let Some(encoding) = body.content_encoding {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding));
        }
        let url = format!("{}{path}", self.address.base);
        let outgoing = Outgoing { url, body: body.bytes.clone() };
        let limit = self.address.timeout;
        match exchange(&self.client, Method::POST, outgoing, headers, limit).await {
            Ok(answer) => match answer.status {
                200..300 => Delivery::Taken(answer.body),
                status @ (429 | 502 | 503 | 504) => {
                    let fault = format!("status {status}");
                    Delivery::Again { fault, wait: answer.retry_after }
                }
                status => Delivery::Refused(format!("status {status}")),
            },
            Err(ApiError::Unreachable) => {
                Delivery::Again { fault: "no answer".to_owned(), wait: None }
            }
            Err(error) => Delivery::Refused(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_its_headers_are_not_shown() {
        let read = |url: &str, name: &str, value: &str| {
            let headers = [(name.to_owned(), Secret::new(value.to_owned()))];
            CollectorAddress::new(url, &headers, Duration::from_secs(1))
        };
        let address = read("http://127.0.0.1:4318/", "x-token", "hush").unwrap();
        assert_eq!(address.url(), "http://127.0.0.1:4318");
        assert!(!format!("{address:?}").contains("hush"));
        for (url, name, value) in [
            ("collector:4318", "x", "hush"),
            ("http://me:pw@collector", "x", "hush"),
            ("http://collector", "no name", "hush"),
            ("http://collector", "x", "hush\n"),
        ] {
            let fault = read(url, name, value).unwrap_err();
            assert!(!fault.contains("hush"), "{fault}");
        }
    }
}
