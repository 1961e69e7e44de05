//! Issuers of single sign-on: their HTTP, by our own connections. The egress rules hold for each of their
//! addresses, and everything is bounded.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt as _};
use http::header::CONTENT_ENCODING;
use http::{Method, Request, Response};
use sign_on::{Http, Issuers, SignOnError};
use tokio::time::Instant;
use url::Url;

use crate::adapter::request::Call;
use crate::client::Client;
use crate::error::ErrorKind;
use crate::net::egress::{Rules, well_formed};
use crate::net::pool::Resend;
use crate::net::receive;
use crate::wire::json;

/// Most bytes of an answer.
const MOST_BYTES: usize = 256 * 1024;
/// Time limit for a whole answer: somebody waits for the page.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Issuers over the connections of a client, none of which is private unless the operator has named its host.
pub fn issuers(client: Client) -> Issuers {
    Issuers::new(Arc::new(IssuerHttp(client)))
}

/// Checks the address of an issuer when it is saved. The error is the rest of a sentence that begins with what
/// it is.
pub fn validate_issuer(text: &str, egress_allow: &[String]) -> Result<(), String> {
    let url = well_formed(text)?;
    let rules = Rules::new(egress_allow);
    let Some(host) = url.host() else { return Err("has no host".to_owned()) };
    rules.check(&host, false).map_err(|refusal| format!("is not allowed: {refusal}"))?;
    if is_open(&url, &rules) {
        return Err("must begin with https://".to_owned());
    }
    Ok(())
}

/// Whether whoever is on the way to an address could read along, and the operator has not named its host.
fn is_open(url: &Url, rules: &Rules) -> bool {
    url.scheme() != "https" && !url.host().is_some_and(|host| rules.allows(&host))
}

/// Requests to issuers.
#[derive(Clone)]
struct IssuerHttp(Client);

impl IssuerHttp {
    async fn exchange(self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, SignOnError> {
        let (head, body) = request.into_parts();
        let url = Url::parse(&head.uri.to_string()).map_err(|_| SignOnError::Metadata)?;
        if is_open(&url, self.0.rules()) {
            return Err(SignOnError::Forbidden);
        }
        let endpoint = self.0.find(url.as_str()).map_err(|_| SignOnError::Metadata)?;
        endpoint.check(false).map_err(|_| SignOnError::Forbidden)?;
        // A code is good once.
        let is_read = head.method == Method::GET;
        let resend = if is_read { Resend::Allowed } else { Resend::Never };
        let call = Call { uri: endpoint.uri.clone(), headers: head.headers, body };
        let deadline = Instant::now() + TIMEOUT;
        let sent = self.0.send(false, &endpoint, head.method, call, deadline, resend).await;
        let response = sent.map_err(|error| match error.kind {
            ErrorKind::Forbidden => SignOnError::Forbidden,
            _ => SignOnError::Unreachable,
        })?;
        let (status, headers) = (response.status(), response.headers().clone());
        if status.is_redirection() || headers.contains_key(CONTENT_ENCODING) {
            return Err(SignOnError::Status);
        }
        let body = receive::whole(response, deadline, MOST_BYTES).await;
        let body = body.map_err(|_| SignOnError::Unreachable)?;
        // It is read as a tree.
        json::check_weight(&body).map_err(|_| SignOnError::Malformed)?;
        let mut whole = Response::new(body.to_vec());
        *whole.status_mut() = status;
        *whole.headers_mut() = headers;
        Ok(whole)
    }
}

impl Http for IssuerHttp {
    fn send(
        &self,
        request: Request<Vec<u8>>,
    ) -> BoxFuture<'_, Result<Response<Vec<u8>>, SignOnError>> {
        self.clone().exchange(request).boxed()
    }

    fn may_lead_to(&self, address: &str) -> bool {
        Url::parse(address).is_ok_and(|url| {
            matches!(url.scheme(), "http" | "https") && !is_open(&url, self.0.rules())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_is_public_and_https_unless_the_operator_names_its_host() {
        let allow = ["10.0.0.9".to_owned(), "idp.lan".to_owned()];
        for (issuer, fault) in [
            ("https://login.example", None),
            ("https://login.example/realms/one", None),
            ("http://10.0.0.9:8080/realms/one", None),
            ("http://idp.lan", None),
            ("http://login.example", Some("must begin with https://")),
            ("https://127.0.0.1", Some("is not allowed")),
            ("https://10.0.0.8", Some("is not allowed")),
            ("https://169.254.169.254", Some("is not allowed")),
            ("https://metadata.google.internal", Some("is not allowed")),
            ("https://login.example/?a=b", Some("must not hold a query")),
            ("https://me:pw@login.example", Some("must not hold a user name")),
            ("ftp://login.example", Some("must begin with")),
            ("login.example", Some("is not a valid URL")),
        ] {
            let found = validate_issuer(issuer, &allow);
            match fault {
                None => assert_eq!(found, Ok(()), "{issuer}"),
                Some(fault) => assert!(found.unwrap_err().starts_with(fault), "{issuer}"),
            }
        }
    }

    #[test]
    fn a_browser_is_led_to_no_address_that_others_could_read_along() {
        let egress = crate::Egress { allow: vec!["127.0.0.1".to_owned()], ..Default::default() };
        let http = IssuerHttp(Client::new(egress).unwrap());
        for (address, may) in [
            ("https://login.example/authorize", true),
            ("http://127.0.0.1:9/authorize", true),
            ("http://login.example/authorize", false),
            ("javascript:alert(1)", false),
            ("data:text/html,x", false),
            ("", false),
        ] {
            assert_eq!(http.may_lead_to(address), may, "{address}");
        }
    }
}
