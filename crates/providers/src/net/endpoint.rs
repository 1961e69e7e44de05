//! The address of a model, parsed once: a URL is taken apart, checked and put together again only the
//! first time it is seen.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use http::{HeaderValue, Uri};
use url::Url;

use crate::error::Error;
use crate::net::connect::Proxy;
use crate::net::egress::{Refusal, Rules};

/// Most addresses that are remembered at the same time.
const MOST_ENDPOINTS: usize = 4096;

/// An address as the transport needs it.
pub(crate) struct Endpoint {
    pub(crate) uri: Uri,
    /// The verdicts of the rules on the host as it is written: for public models and for private ones.
    verdicts: [Result<(), Refusal>; 2],
    /// The credentials for the egress proxy that go on the request itself.
    pub(crate) proxy_authorization: Option<HeaderValue>,
}

impl Endpoint {
    fn read(text: &str, rules: &Rules, proxy: Option<&Proxy>) -> Result<Self, Error> {
        let invalid = || Error::misconfigured("The model's base url is not a valid URL");
        let url = Url::parse(text).map_err(|_| invalid())?;
        let host = url.host().filter(|_| matches!(url.scheme(), "http" | "https"));
        let host = host.ok_or_else(|| Error::misconfigured("The model's base url is not http"))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid());
        }
        let verdicts = [false, true].map(|private| rules.check(&host, private));
        // The host as the URL standard spells it, so that the checked host is the one that is dialled.
        let uri = Uri::try_from(url.as_str()).map_err(|_| invalid())?;
        let proxy_authorization = proxy.and_then(|proxy| proxy.forwarding_authorization(&uri));
        Ok(Self { uri, verdicts, proxy_authorization })
    }

    /// Checks the host as it is written against the rules: a literal address never reaches the
    /// resolver.
    pub(crate) fn check(&self, private: bool) -> Result<(), Error> {
        self.verdicts[usize::from(private)].map_err(Error::from)
    }
}

/// The addresses seen so far, by their text. The text alone decides what an address is, so nothing here
/// can grow stale; and it contains no credential.
#[derive(Default)]
pub(crate) struct Endpoints(RwLock<HashMap<String, Arc<Endpoint>>>);

impl Endpoints {
    pub(crate) fn find(
        &self,
        text: &str,
        rules: &Rules,
        proxy: Option<&Proxy>,
    ) -> Result<Arc<Endpoint>, Error> {
        if let Some(known) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(text) {
            return Ok(Arc::clone(known));
        }
        let endpoint = Arc::new(Endpoint::read(text, rules, proxy)?);
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_ENDPOINTS {
            known.clear();
        }
        known.insert(text.to_owned(), Arc::clone(&endpoint));
        Ok(endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Endpoint, Error> {
        Endpoint::read(text, &Rules::default(), None)
    }

    #[test]
    fn an_address_is_dialled_as_it_was_checked() {
        for (text, uri) in [
            ("https://api.example.com/v1/chat", "https://api.example.com/v1/chat"),
            ("HTTPS://API.Example.com:443/v1", "https://api.example.com/v1"),
            ("http://bücher.example/v1", "http://xn--bcher-kva.example/v1"),
            ("http://2852039166/v1", "http://169.254.169.254/v1"),
            ("http://0x7f.1:8080/v1", "http://127.0.0.1:8080/v1"),
            ("http://[0:0:0:0:0:0:0:1]:9/v1", "http://[::1]:9/v1"),
            ("https://api.example.com/a b?x=1", "https://api.example.com/a%20b?x=1"),
        ] {
            assert_eq!(read(text).unwrap().uri, uri, "{text}");
        }
    }

    #[test]
    fn the_verdict_is_remembered_for_both_kinds_of_model() {
        let kinds = |text| {
            let endpoint = read(text).unwrap();
            [false, true].map(|private| endpoint.check(private).is_ok())
        };
        assert_eq!(kinds("https://api.example.com/v1"), [true, true]);
        assert_eq!(kinds("http://10.0.0.1/v1"), [false, true]);
        assert_eq!(kinds("http://2852039166/v1"), [false, false]);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", "api.example.com", "ftp://example.com/", "http://", "https://me:pw@x.y/"] {
            let Err(error) = read(text) else { panic!("{text} was read") };
            assert!(error.to_string().starts_with("The model's base url is not"), "{text}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let (endpoints, rules) = (Endpoints::default(), Rules::default());
        for number in 0..=MOST_ENDPOINTS {
            endpoints.find(&format!("https://h{number}.example/"), &rules, None).unwrap();
        }
        assert_eq!(endpoints.0.read().unwrap().len(), 1);
        let first = endpoints.find("https://x.example/", &rules, None).unwrap();
        let again = endpoints.find("https://x.example/", &rules, None).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
    }
}
