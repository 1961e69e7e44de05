//! Addresses of MCP servers, and lists of allowed ones.

use domain::net::{Reach, reach};
use url::{Host, Url};

use crate::net::egress::{Refusal, Rules, well_formed};

/// The address of a server: `http` or `https`, without user name, query or fragment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct McpAddress(Url);

impl McpAddress {
    /// Parses an address. The error is the rest of a sentence that begins with the text that was read.
    pub fn read(text: &str) -> Result<Self, String> {
        let url = well_formed(text)?;
        if !url.has_host() {
            return Err("has no host".to_owned());
        }
        Ok(Self(url))
    }

    /// Returns the address as the URL standard spells it.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether an entry of a list covers a server: the same address, or any path of the same host and
    /// port if the entry has none.
    pub fn covers(&self, server: &Self) -> bool {
        self.0 == server.0 || (self.0.path() == "/" && self.0.origin() == server.0.origin())
    }

    /// Refuses an address that is never called, and one that would send tokens in the clear over the
    /// internet. `egress_allow` is the operator's list of hosts.
    pub fn check(&self, egress_allow: &[String]) -> Result<(), String> {
        let rules = Rules::new(egress_allow);
        let Some(host) = self.0.host() else { return Err("has no host".to_owned()) };
        rules.check(&host, self.is_private()).map_err(|refusal| refused(refusal).to_owned())?;
        if self.0.scheme() == "http" && !self.is_private() && !rules.allows(&host) {
            return Err("must use https".to_owned());
        }
        Ok(())
    }

    /// Whether the address is private by its spelling: a list entry for it is then deliberate. A name
    /// is not: its owner chooses the address it resolves to.
    pub(crate) fn is_private(&self) -> bool {
        match self.0.host() {
            Some(Host::Ipv4(address)) => reach(address.into()) == Reach::Private,
            Some(Host::Ipv6(address)) => reach(address.into()) == Reach::Private,
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            None => false,
        }
    }
}

/// Whether a text is an address on the internet, as it is spelled: no private one, and no name of a
/// network of one's own.
pub fn is_public_url(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else { return false };
    let Some(host) = url.host() else { return false };
    let is_public = match &host {
        Host::Domain(name) => {
            let own = [".local", ".internal", ".localhost", ".lan", ".home.arpa"];
            let name = name.trim_end_matches('.');
            name.contains('.') && own.iter().all(|end| !name.ends_with(end))
        }
        Host::Ipv4(address) => reach((*address).into()) == Reach::Public,
        Host::Ipv6(address) => reach((*address).into()) == Reach::Public,
    };
    is_public
        && matches!(url.scheme(), "http" | "https")
        && Rules::new(&[]).check(&host, false).is_ok()
}

/// Whether two addresses have the same scheme, host and port.
pub fn share_host(one: &str, other: &str) -> bool {
    match (Url::parse(one), Url::parse(other)) {
        (Ok(one), Ok(other)) => one.has_host() && one.origin() == other.origin(),
        _ => false,
    }
}

fn refused(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Never => "is a cloud metadata or link-local address, and those are never called",
        Refusal::Private => "is private",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> McpAddress {
        McpAddress::read(text).unwrap()
    }

    #[test]
    fn an_entry_covers_its_own_address_or_all_of_its_host() {
        for (entry, server, covers) in [
            ("https://a.example/mcp", "https://A.example:443/mcp", true),
            ("https://a.example", "https://a.example/mcp", true),
            ("https://a.example/mcp", "https://a.example/mcp/../other", false),
            ("https://a.example/mcp", "https://a.example/mcp/x", false),
            ("https://a.example/mcp", "https://a.example/", false),
            ("https://a.example", "http://a.example/mcp", false),
            ("https://a.example", "https://a.example:8443/mcp", false),
            ("https://a.example", "https://a.example.evil.test/mcp", false),
            ("https://a.example", "https://b.a.example/mcp", false),
        ] {
            assert_eq!(read(entry).covers(&read(server)), covers, "{entry} {server}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "a.example",
            "ftp://a.example/",
            "https://me:pw@a.example/",
            "https://a.example/?k=1",
            "https://a.example/#x",
            "https://a. example/",
        ] {
            assert!(McpAddress::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_an_address_that_says_so_is_private() {
        let check = |text: &str| read(text).check(&["10.0.0.9".to_owned()]);
        for allowed in [
            "https://a.example/mcp",
            "http://127.0.0.1:9/mcp",
            "http://localhost:9/mcp",
            "http://10.1.2.3/mcp",
            "http://[::1]:9/mcp",
            "http://[fd00::1]/mcp",
        ] {
            check(allowed).unwrap();
        }
        for refused in [
            "http://169.254.169.254/mcp",
            "http://2852039166/mcp",
            "http://[fe80::1]/mcp",
            "http://metadata.google.internal/mcp",
            "http://[::ffff:169.254.169.254]/mcp",
        ] {
            assert!(check(refused).unwrap_err().ends_with("never called"), "{refused}");
        }
        assert_eq!(check("http://a.example/mcp").unwrap_err(), "must use https");
    }
}
