//! The client of a request: its address, also behind trusted proxies, and its name.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::{ConnectInfo, Request};
use axum::http::header::USER_AGENT;
use axum::http::{HeaderName, HeaderValue};
use gateway::Origin;

use crate::app::App;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The origin of a request: the peer, or the right-most hop that is not a trusted proxy.
pub fn origin(app: &App, request: &Request) -> Origin {
    let trusted = |address| is_trusted(app, address);
    let mut address = peer(request);
    if trusted(address) {
        let hops = request.headers().get_all(FORWARDED_FOR);
        // A line with a byte that is not text counts: it also holds the hop that a proxy has added.
        let lines: Vec<_> =
            hops.iter().map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        for hop in lines.iter().flat_map(|line| line.split(',')).rev() {
            let Some(hop) = hop_address(hop) else { break };
            address = hop;
            if !trusted(hop) {
                break;
            }
        }
    }
    let agent = request.headers().get(USER_AGENT).map(HeaderValue::as_bytes);
    let user_agent = String::from_utf8_lossy(agent.unwrap_or_default()).into_owned();
    Origin { address: address.to_canonical(), user_agent }
}

/// Whether the peer is a proxy whose headers about the client are trusted.
pub fn trusts_peer(app: &App, request: &Request) -> bool {
    is_trusted(app, peer(request))
}

fn is_trusted(app: &App, address: IpAddr) -> bool {
    app.trusted_proxies.iter().any(|range| range.contains(address))
}

fn peer(request: &Request) -> IpAddr {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(peer)| peer.ip())
}

/// The address of a hop. Some proxies write the port behind it, or quote it.
fn hop_address(hop: &str) -> Option<IpAddr> {
    let hop = hop.trim().trim_matches('"');
    let bare = hop.strip_prefix('[').and_then(|hop| hop.strip_suffix(']')).unwrap_or(hop);
    let with_port = || hop.parse::<SocketAddr>().ok().map(|hop| hop.ip());
    bare.parse().ok().or_else(with_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hop_may_have_a_port_or_quotes() {
        for (hop, address) in [
            (" 203.0.113.5", Some("203.0.113.5")),
            ("203.0.113.5:1234", Some("203.0.113.5")),
            ("\"203.0.113.5\"", Some("203.0.113.5")),
            ("2001:db8::5", Some("2001:db8::5")),
            ("[2001:db8::5]", Some("2001:db8::5")),
            ("\"[2001:db8::5]:80\"", Some("2001:db8::5")),
            ("unknown", None),
            ("", None),
        ] {
            assert_eq!(hop_address(hop), address.map(|text| text.parse().unwrap()), "{hop}");
        }
    }
}
