//! Rules for the addresses that may be called. One rule for every connection: it is checked when the
//! name is resolved, so that the checked address is the one that is dialled.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, io};

use domain::model::{Provider, SANDBOX_URL};
use domain::net::{Reach, reach};
use hyper_util::client::legacy::connect::dns::Name;
use tokio::net::lookup_host;
use tower_service::Service;
use url::{Host, Url};

use crate::error::Error;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Configuration of outbound connections.
#[derive(Clone, Default)]
pub struct Egress {
    /// Host names or addresses, without port, that may be called although they are private
    /// (`SLUICE_EGRESS_ALLOW`). An address also covers the names that resolve to it.
    pub allow: Vec<String>,
    /// The URL of a proxy for every call (`SLUICE_EGRESS_PROXY`). It resolves the names, so the
    /// rules then apply to names and literal addresses only.
    pub proxy: Option<String>,
    /// Hosts that are called without the proxy, comma-separated as in `NO_PROXY`.
    pub no_proxy: Option<String>,
    /// A PEM file of certificate authorities to trust beside the system's (`SLUICE_CA_FILE`).
    pub ca_file: Option<PathBuf>,
}

impl Egress {
    /// Refuses hosts that no URL can have. The error names the fault.
    pub(crate) fn check_hosts(&self) -> Result<(), Error> {
        for host in &self.allow {
            if !can_be_a_host(without_brackets(host)) {
                return Err(Error::misconfigured(format!(
                    "egress_allow: '{host}' is neither a host name nor an address; leave out scheme, port and path"
                )));
            }
        }
        Ok(())
    }
}

/// Prints all but the proxy, whose URL may hold a password.
impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress")
            .field("allow", &self.allow)
            .field("no_proxy", &self.no_proxy)
            .field("ca_file", &self.ca_file)
            .finish_non_exhaustive()
    }
}

/// Checks a model's address when it is saved. The error is a sentence for people.
pub fn validate_base_url(
    provider: Provider,
    base_url: Option<&str>,
    is_public: bool,
    egress_allow: &[String],
) -> Result<(), String> {
    let Some(text) = base_url.filter(|text| !text.is_empty()) else {
        return match provider {
            Provider::Azure | Provider::Internal => {
                Err(format!("Base url can't be blank for provider {}", provider.as_str()))
            }
            _ => Ok(()),
        };
    };
    if text == SANDBOX_URL {
        return match provider {
            Provider::Internal => Ok(()),
            _ => Err("Base url 'sandbox:' is only for provider internal".to_owned()),
        };
    }
    let url = well_formed(text).map_err(|fault| format!("Base url {fault}"))?;
    let private = !is_public || provider == Provider::Internal;
    let rules = Rules::new(egress_allow);
    let Some(host) = url.host() else { return Err("Base url has no host".to_owned()) };
    rules.check(&host, private).map_err(|refusal| format!("Base url is not allowed: {refusal}"))?;
    if url.scheme() == "http" && !private && !rules.allows(&host) {
        return Err("Base url must use https for a public model".to_owned());
    }
    Ok(())
}

/// Parses an http address without credentials and parameters. The error is the rest of a sentence that
/// begins with the text that was read.
pub(crate) fn well_formed(text: &str) -> Result<Url, &'static str> {
    if text.len() > 2048 || text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("is not a valid URL");
    }
    let url = Url::parse(text).map_err(|_| "is not a valid URL")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("must begin with https:// or http://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a user name or password");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must not hold a query or fragment");
    }
    Ok(url)
}

/// The reason why an address is not called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// Metadata services, link-local and the like.
    #[error("cloud metadata and link-local addresses are never called")]
    Never,
    /// A private address, requested by a public model.
    #[error("private addresses are only called for private models or hosts in SLUICE_EGRESS_ALLOW")]
    Private,
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::forbidden(refusal.to_string())
    }
}

/// The egress rules.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    names: HashSet<String>,
    addresses: HashSet<IpAddr>,
}

impl Rules {
    pub(crate) fn new(allow: &[String]) -> Self {
        let mut rules = Self::default();
        for entry in allow {
            let bare = without_brackets(entry);
            match bare.parse::<IpAddr>() {
                Ok(address) => rules.addresses.insert(address.to_canonical()),
                Err(_) => rules.names.insert(plain_name(bare)),
            };
        }
        rules
    }

    /// Whether a call may go to this host, as far as its spelling shows: names are checked again when
    /// they are resolved, literal addresses never are.
    pub(crate) fn check(&self, host: &Host<&str>, private: bool) -> Result<(), Refusal> {
        match host {
            Host::Ipv4(address) => self.check_address(IpAddr::V4(*address), private),
            Host::Ipv6(address) => self.check_address(IpAddr::V6(*address), private),
            Host::Domain(name) => self.check_name(name, private),
        }
    }

    fn check_address(&self, address: IpAddr, private: bool) -> Result<(), Refusal> {
        match reach(address) {
            Reach::Public => Ok(()),
            Reach::Forbidden => Err(Refusal::Never),
            Reach::Private if private || self.addresses.contains(&address.to_canonical()) => Ok(()),
            Reach::Private => Err(Refusal::Private),
        }
    }

    fn check_name(&self, name: &str, private: bool) -> Result<(), Refusal> {
        let name = plain_name(name);
        if matches!(name.as_str(), "metadata.google.internal" | "metadata.goog" | "instance-data") {
            return Err(Refusal::Never);
        }
        let local = name == "localhost" || name.ends_with(".localhost");
        let loopback = || self.addresses.iter().any(IpAddr::is_loopback);
        if local && !private && !self.names.contains(&name) && !loopback() {
            return Err(Refusal::Private);
        }
        Ok(())
    }

    /// Whether the operator named this host.
    pub(crate) fn allows(&self, host: &Host<&str>) -> bool {
        match host {
            Host::Ipv4(address) => self.addresses.contains(&IpAddr::V4(*address)),
            Host::Ipv6(address) => self.addresses.contains(&IpAddr::V6(*address).to_canonical()),
            Host::Domain(name) => self.names.contains(&plain_name(name)),
        }
    }
}

/// Returns an entry of the operator's list without the brackets that addresses have in URLs.
fn without_brackets(entry: &str) -> &str {
    let entry = entry.trim();
    entry.strip_prefix('[').and_then(|e| e.strip_suffix(']')).unwrap_or(entry)
}

/// Whether a URL can have this host, in the spelling of a parsed URL.
fn can_be_a_host(bare: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    bare.parse::<IpAddr>().is_ok()
        || (bare.chars().all(is_plain) && matches!(Host::parse(bare), Ok(Host::Domain(_))))
}

fn plain_name(name: &str) -> String {
    name.trim_end_matches('.').to_ascii_lowercase()
}

/// Resolves names and drops the addresses that must not be called.
#[derive(Clone)]
pub(crate) struct Resolver(Option<Guard>);

#[derive(Clone)]
struct Guard {
    rules: Arc<Rules>,
    /// Whether it serves models that may be called on private addresses.
    private: bool,
}

/// A name has no address, or no resolver could be reached.
#[derive(Debug, thiserror::Error)]
#[error("the name could not be resolved")]
pub(crate) struct Unresolved(#[source] io::Error);

impl Resolver {
    /// Creates a resolver under the rules, for the models of one kind.
    pub(crate) fn guarded(rules: Arc<Rules>, private: bool) -> Self {
        Self(Some(Guard { rules, private }))
    }

    /// Creates a resolver under no rule: for the proxy's own name, which the operator chose.
    pub(crate) fn open() -> Self {
        Self(None)
    }

    async fn resolve(self, name: String) -> Result<Vec<SocketAddr>, BoxError> {
        let found = lookup_host((name.as_str(), 0)).await.map_err(Unresolved)?;
        match self.0 {
            Some(guard) => Ok(guard.filter(&name, found)?),
            None => Ok(found.collect()),
        }
    }
}

impl Guard {
    /// Returns the addresses that may be called; an error when there were some, and none may be.
    fn filter(
        &self,
        name: &str,
        found: impl Iterator<Item = SocketAddr>,
    ) -> Result<Vec<SocketAddr>, Refusal> {
        let private = self.private || self.rules.names.contains(&plain_name(name));
        let mut refused = None;
        let mut open = Vec::new();
        for address in found {
            match self.rules.check_address(address.ip(), private) {
                Ok(()) => open.push(address),
                Err(refusal) => refused = Some(refusal),
            }
        }
        match refused {
            Some(refusal) if open.is_empty() => Err(refusal),
            _ => Ok(open),
        }
    }
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let found = self.clone().resolve(name.as_str().to_owned());
        Box::pin(async move { Ok(found.await?.into_iter()) })
    }
}

#[cfg(test)]
#[path = "egress_tests.rs"]
mod tests;
