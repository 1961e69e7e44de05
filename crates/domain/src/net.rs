//! Address ranges, and which addresses a gateway must never call.

mod special;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use special::{Block4, Block6, Kind};

/// A range of addresses, such as `10.0.0.0/8` or `fd00::/8`. A bare address is a range of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    base: IpAddr,
    bits: u8,
}

/// A text that is no address range.
#[derive(Debug, thiserror::Error)]
#[error("'{0}' is no address range such as 10.0.0.0/8")]
pub struct NotACidr(String);

impl Cidr {
    /// Whether the address lies in the range. IPv4 mapped into IPv6 (`::ffff:0:0/96`) counts as IPv4, in
    /// ranges as well.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.base, address.to_canonical()) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                base.to_bits() & mask == address.to_bits() & mask
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                base.to_bits() & mask == address.to_bits() & mask
            }
            _ => false,
        }
    }
}

impl FromStr for Cidr {
    type Err = NotACidr;

    fn from_str(text: &str) -> Result<Self, NotACidr> {
        let bad = || NotACidr(text.to_owned());
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().map_err(|_| bad())?)),
            None => (text, None),
        };
        let written: IpAddr = address.trim().parse().map_err(|_| bad())?;
        let most = if written.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most {
            return Err(bad());
        }
        // The length of a mapped range counts the 96 bits before the IPv4 address.
        Ok(match (written.to_canonical(), bits.checked_sub(96)) {
            (base @ IpAddr::V4(_), Some(bits)) if written.is_ipv6() => Self { base, bits },
            _ => Self { base: written, bits },
        })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
    }
}

/// The class of an address under the egress rules, the strictest class first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Cloud metadata, link-local, multicast, unspecified, reserved: never called.
    Forbidden,
    /// Loopback, private ranges, and every other block that is not globally reachable: only for
    /// private models and named hosts.
    Private,
    /// Everything else.
    Public,
}

/// The class of an address, by the tables in `net/special.rs`. The longest matching prefix counts. An
/// IPv6 address that stands for an IPv4 address or leads to one is judged by it.
pub fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(v4) => reach_v4(v4),
        IpAddr::V6(v6) => reach_v6(v6),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    let holds = |(base, bits, _): &&Block4| {
        let mask = u32::MAX.checked_shl(32 - u32::from(*bits)).unwrap_or(0);
        address.to_bits() & mask == base.to_bits()
    };
    let found = special::IPV4.iter().filter(holds).max_by_key(|(_, bits, _)| *bits);
    found.map_or(Reach::Public, |(_, _, reach)| *reach)
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    let holds = |(base, bits, _): &&Block6| {
        let mask = u128::MAX.checked_shl(128 - u32::from(*bits)).unwrap_or(0);
        address.to_bits() & mask == base.to_bits()
    };
    let found = special::IPV6.iter().filter(holds).max_by_key(|(_, bits, _)| *bits);
    let reach = match found.map_or(Kind::Is(Reach::Public), |(_, _, kind)| *kind) {
        Kind::Is(reach) => reach,
        Kind::Is4(bit) => reach_v4(embedded(address, bit)),
        Kind::NotPublic4(bit) => reach_v4(embedded(address, bit)).min(Reach::Private),
        Kind::LocalNat64 => leads_to(&[48, 56, 72, 96].map(|bit| embedded(address, bit))),
        Kind::Teredo => {
            let client = Ipv4Addr::from_bits(!embedded(address, 96).to_bits());
            leads_to(&[embedded(address, 32), client])
        }
    };
    match address.segments() {
        // ISATAP: the rest of the way is a tunnel to the IPv4 address.
        [_, _, _, _, 0 | 0x200, 0x5efe, _, _] => reach.min(reach_v4(embedded(address, 96))),
        _ => reach,
    }
}

/// The class of a block that leads to one of several IPv4 addresses: which one it is depends on the
/// network.
fn leads_to(candidates: &[Ipv4Addr]) -> Reach {
    // Padding reads as 0.0.0.0 or 255.255.255.255; no host is there, and it decides nothing.
    let hosts = candidates.iter().filter(|address| (1..224).contains(&address.octets()[0]));
    hosts.map(|address| reach_v4(*address)).fold(Reach::Private, Reach::min)
}

/// The IPv4 address whose first bit is this one.
fn embedded(address: Ipv6Addr, first: u8) -> Ipv4Addr {
    const LOW: u128 = u64::MAX as u128;
    let mut bits = address.to_bits();
    if (33..64).contains(&first) {
        // No part of an IPv4 address lies in the octet after the 64th bit (RFC 6052).
        bits = (bits & !LOW) | ((bits << 8) & LOW);
    }
    Ipv4Addr::from_bits(((bits << first) >> 96) as u32)
}

#[cfg(test)]
#[path = "net/tests.rs"]
mod tests;
