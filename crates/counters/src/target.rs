//! The address of a Redis: one server, the master that Sentinels name, or a cluster.

use std::fmt;
use std::sync::Arc;

use domain::secret::Secret;
use percent_encoding::percent_decode_str;
use redis::{Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, TlsCertificates};

use crate::Unusable;

const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
const FORMS: &str = "redis://host:6379, rediss://host:6379 (TLS), redis+sentinel://host:26379,host2:26379/master or \
     redis+cluster://host:6379,host2:6379";

/// The host and port of a server.
pub(crate) type Address = (String, u16);

/// How the servers are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// One server, at the address.
    Single,
    /// One server, whose address Sentinels know.
    Sentinel,
    /// Several servers with a part of the keys each.
    Cluster,
}

/// The address of a Redis, with credentials. Its `Display` shows none.
#[derive(Clone, Debug)]
pub struct Target {
    pub(crate) mode: Mode,
    pub(crate) hosts: Vec<Address>,
    pub(crate) tls: bool,
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
    pub(crate) database: i64,
    /// The name of the master at the Sentinels.
    pub(crate) master: String,
    /// The certificate authorities that are trusted in the place of the system's, PEM.
    ca: Option<Arc<Vec<u8>>>,
}

impl Target {
    /// Reads a URL.
    pub fn parse(url: &Secret) -> Result<Self, Unusable> {
        let bad = |why: &str| Unusable(format!("redis_url {why}: it is one of {FORMS}"));
        let (scheme, rest) =
            url.expose().trim().split_once("://").ok_or_else(|| bad("has no scheme"))?;
        let (mode, tls) = match scheme {
            "redis" => (Mode::Single, false),
            "rediss" => (Mode::Single, true),
            "redis+sentinel" => (Mode::Sentinel, false),
            "rediss+sentinel" => (Mode::Sentinel, true),
            "redis+cluster" => (Mode::Cluster, false),
            "rediss+cluster" => (Mode::Cluster, true),
            _ => return Err(bad("has an unknown scheme")),
        };
        if rest.contains(['?', '#']) {
            return Err(bad("has parameters, which are not understood"));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (user, hosts),
            None => ("", authority),
        };
        let (username, password) = user.split_once(':').unwrap_or((user, ""));
        let decoded = |text: &str| match percent_decode_str(text).decode_utf8() {
            Ok(text) if text.is_empty() => Ok(None),
            Ok(text) => Ok(Some(text.into_owned())),
            Err(_) => Err(bad("has credentials that are not UTF-8")),
        };
        let port = if mode == Mode::Sentinel { SENTINEL_PORT } else { PORT };
        let hosts: Option<Vec<Address>> =
            hosts.split(',').map(|host| address(host.trim(), port)).collect();
        let hosts = hosts.ok_or_else(|| bad("has a host or port that cannot be read"))?;
        if mode == Mode::Single && hosts.len() > 1 {
            return Err(bad("names several hosts"));
        }
        let (master, database) = match mode {
            Mode::Single => ("", path),
            Mode::Sentinel => path.split_once('/').unwrap_or((path, "")),
            Mode::Cluster if path.is_empty() => ("", ""),
            Mode::Cluster => return Err(bad("names a database, which a cluster has not")),
        };
        if mode == Mode::Sentinel && master.is_empty() {
            return Err(bad("names no master"));
        }
        let database = if database.is_empty() { "0" } else { database };
        Ok(Self {
            mode,
            hosts,
            tls,
            username: decoded(username)?,
            password: decoded(password)?.map(Secret::new),
            database: database
                .parse()
                .ok()
                .filter(|number| *number >= 0)
                .ok_or_else(|| bad("has a database that is no number"))?,
            master: master.to_owned(),
            ca: None,
        })
    }

    /// Trusts these certificate authorities, PEM, in the place of the system's.
    pub fn with_ca(mut self, pem: Vec<u8>) -> Result<Self, Unusable> {
        if !self.tls {
            return Err(Unusable("redis_url is not TLS: it begins with rediss then".to_owned()));
        }
        let begin = b"-----BEGIN CERTIFICATE-----";
        if !pem.windows(begin.len()).any(|part| part == begin) {
            return Err(Unusable("it holds no certificate in PEM".to_owned()));
        }
        self.ca = Some(Arc::new(pem));
        // Whether it can be read does not depend on the host.
        let probe = self.client(&("localhost".to_owned(), PORT), |info| info);
        probe.map_err(|error| Unusable(format!("it cannot be read: {error}")))?;
        Ok(self)
    }

    /// A client for a server, which has no connection yet.
    pub(crate) fn client(
        &self,
        (host, port): &Address,
        with: impl FnOnce(ConnectionInfo) -> ConnectionInfo,
    ) -> redis::RedisResult<Client> {
        if !self.tls {
            let address = ConnectionAddr::Tcp(host.clone(), *port);
            return Client::open(with(address.into_connection_info()?));
        }
        let (host, port) = (host.clone(), *port);
        let address = ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None };
        let root_cert = self.ca.as_deref().cloned();
        let certificates = TlsCertificates { client_tls: None, root_cert };
        Client::build_with_tls(with(address.into_connection_info()?), certificates)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secure = if self.tls { "s" } else { "" };
        let kind = match self.mode {
            Mode::Single => "",
            Mode::Sentinel => "+sentinel",
            Mode::Cluster => "+cluster",
        };
        let hosts: Vec<String> = self.hosts.iter().map(shown).collect();
        write!(f, "redis{secure}{kind}://{}", hosts.join(","))?;
        if self.mode == Mode::Sentinel { write!(f, "/{}", self.master) } else { Ok(()) }
    }
}

/// An address as people write it.
pub(crate) fn shown((host, port): &Address) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn address(text: &str, port: u16) -> Option<Address> {
    let (host, given) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, given)) => (host, Some(given)),
            None => (text, None),
        },
    };
    let port = given.map_or(Some(port), |given| given.parse().ok())?;
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Target, Unusable> {
        Target::parse(&Secret::new(url.to_owned()))
    }

    #[test]
    fn every_form_is_read_and_shows_no_credentials() {
        for (url, shown) in [
            ("redis://localhost", "redis://localhost:6379"),
            ("rediss://me:hush%40@r.example.com:7000/3", "rediss://r.example.com:7000"),
            ("redis://:hush@[::1]:7", "redis://[::1]:7"),
            ("redis+sentinel://a,b:7/main/2", "redis+sentinel://a:26379,b:7/main"),
            ("rediss+cluster://u:hush@a,b:7", "rediss+cluster://a:6379,b:7"),
        ] {
            let target = parse(url).unwrap();
            assert_eq!(target.to_string(), shown);
            assert!(!format!("{target:?}").contains("hush"), "{target:?}");
        }
        let target = parse("rediss://me:hush%40@r.example.com:7000/3").unwrap();
        assert_eq!(target.username.as_deref(), Some("me"));
        assert_eq!(target.password.unwrap().expose(), "hush@");
        assert_eq!(target.database, 3);
    }

    #[test]
    fn a_bad_url_is_refused_without_its_credentials() {
        for url in [
            "localhost:6379",
            "http://hush@x",
            "redis://",
            "redis://u:hush@a,b",
            "redis://x/one",
            "redis://x/-1",
            "redis://x:port",
            "redis+sentinel://x",
            "redis+cluster://x/1",
            "redis://x?protocol=hush",
        ] {
            let refused = parse(url).unwrap_err().to_string();
            assert!(refused.starts_with("redis_url "), "{url}: {refused}");
            assert!(!refused.contains("hush"), "{url}: {refused}");
        }
    }
}
