//! The origin of a web page.

use std::fmt;
use std::net::Ipv6Addr;

/// Scheme, host and port of a page, as the header `Origin` carries them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebOrigin {
    pub(crate) is_https: bool,
    /// In lower case; IPv6 without brackets in its canonical form.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_https, host, port } = self;
        let (scheme, usual) = if *is_https { ("https", 443) } else { ("http", 80) };
        let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{scheme}://{open}{host}{close}")?;
        if *port == usual { Ok(()) } else { write!(f, ":{port}") }
    }
}

impl WebOrigin {
    /// The origin of an `http` or `https` URL. `None` for any other text.
    pub fn of_url(url: &str) -> Option<Self> {
        let end = url.match_indices(['/', '?', '#']).nth(2).map_or(url.len(), |(end, _)| end);
        Self::read(url.get(..end)?)
    }

    /// Reads `scheme://host` or `scheme://host:port`, and nothing else.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let is_https = scheme.eq_ignore_ascii_case("https");
        (is_https || scheme.eq_ignore_ascii_case("http")).then_some(())?;
        Self::of_authority(is_https, authority)
    }

    pub(crate) fn of_authority(is_https: bool, authority: &str) -> Option<Self> {
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (address, port) = rest.split_once(']')?;
                (address.parse::<Ipv6Addr>().ok()?.to_string(), port)
            }
            None => {
                let (host, port) =
                    authority.split_at(authority.find(':').unwrap_or(authority.len()));
                let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
                (!host.is_empty() && host.chars().all(is_plain)).then_some(())?;
                (host.to_ascii_lowercase(), port)
            }
        };
        let port = match port.strip_prefix(':') {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok()?
            }
            None if port.is_empty() && is_https => 443,
            None if port.is_empty() => 80,
            _ => return None,
        };
        Some(Self { is_https, host, port })
    }

    /// Whether the scheme is `https`.
    pub fn is_https(&self) -> bool {
        self.is_https
    }
}
