//! Address ranges, and which addresses a gateway must never call.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

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

/// What kind of place an address is, as egress rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Cloud metadata, link-local, multicast, unspecified: never called.
    Forbidden,
    /// Loopback and private ranges: only for private models and named hosts.
    Private,
    /// Everything else.
    Public,
}

/// What kind of place an address is.
pub fn reach(address: IpAddr) -> Reach {
    match plain(address) {
        IpAddr::V4(v4) => reach_v4(v4),
        IpAddr::V6(v6) => reach_v6(v6),
    }
}

/// IPv4 addresses that are written inside IPv6 (mapped, NAT64, 6to4) as themselves.
fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    if let Some(v4) = v6.to_ipv4_mapped() {
        return IpAddr::V4(v4);
    }
    let s = v6.segments();
    let embedded = |high: u16, low: u16| {
        IpAddr::V4(Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low)))
    };
    match s {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => embedded(high, low),
        [0, 0, 0, 0, 0, 0, high, low] if (high, low) > (0, 1) => embedded(high, low),
        _ => address,
    }
}

fn reach_v4(v4: Ipv4Addr) -> Reach {
    let [a, b, c, _] = v4.octets();
    // 100.100.100.200 and 192.0.0.192 are metadata services of two clouds.
    let metadata =
        matches!(v4.octets(), [100, 100, 100, 200] | [192, 0, 0, 192] | [168, 63, 129, 16]);
    if a == 0
        || v4.is_link_local()
        || v4.is_multicast()
        || v4.is_broadcast()
        || a >= 240
        || metadata
    {
        return Reach::Forbidden;
    }
    let shared = a == 100 && (64..128).contains(&b);
    let benchmark = a == 198 && (18..20).contains(&b);
    let special = (a, b, c) == (192, 0, 0);
    if v4.is_private()
        || v4.is_loopback()
        || shared
        || benchmark
        || special
        || v4.is_documentation()
    {
        return Reach::Private;
    }
    Reach::Public
}

fn reach_v6(v6: Ipv6Addr) -> Reach {
    let s = v6.segments();
    let aws_metadata = s[0] == 0xfd00 && s[1] == 0x0ec2;
    if v6.is_unspecified() || v6.is_multicast() || (s[0] & 0xffc0) == 0xfe80 || aws_metadata {
        return Reach::Forbidden;
    }
    let unique_local = (s[0] & 0xfe00) == 0xfc00;
    let site_local = (s[0] & 0xffc0) == 0xfec0;
    let documentation = s[0] == 0x2001 && s[1] == 0x0db8;
    if v6.is_loopback() || unique_local || site_local || documentation {
        return Reach::Private;
    }
    Reach::Public
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_what_they_say() {
        let range: Cidr = "10.1.0.0/16".parse().unwrap();
        assert!(range.contains("10.1.255.1".parse().unwrap()));
        assert!(range.contains("::ffff:10.1.0.1".parse().unwrap()));
        assert!(!range.contains("10.2.0.1".parse().unwrap()));
        // A mapped range is one of IPv4; what tunnels or translates IPv4 is an address of its own.
        for (range, inside, outside) in [
            ("::ffff:10.0.0.0/104", "10.9.9.9", "11.0.0.1"),
            ("::ffff:10.0.0.1", "::ffff:10.0.0.1", "10.0.0.2"),
            ("2002::/16", "2002:808:808::1", "8.8.8.8"),
            ("::/0", "64:ff9b::808:808", "8.8.8.8"),
        ] {
            let cidr: Cidr = range.parse().unwrap();
            assert!(cidr.contains(inside.parse().unwrap()), "{inside} in {range}");
            assert!(!cidr.contains(outside.parse().unwrap()), "{outside} in {range}");
        }
        let all: Cidr = "::/0".parse().unwrap();
        assert!(all.contains("2001:db8::1".parse().unwrap()));
        for bad in ["10.0.0.0/33", "10.0.0", "", "::/129", "a/8"] {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
    }

    #[test]
    fn every_spelling_of_metadata_is_forbidden() {
        for text in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "::169.254.169.254",
            "fd00:ec2::254",
            "fe80::1",
            "0.0.0.0",
            "::",
            "100.100.100.200",
        ] {
            assert_eq!(reach(text.parse().unwrap()), Reach::Forbidden, "{text}");
        }
    }

    #[test]
    fn private_and_public_places() {
        for text in [
            "127.0.0.1",
            "10.0.0.1",
            "172.31.0.1",
            "192.168.1.1",
            "::1",
            "fd12::1",
            "100.64.0.1",
            "::ffff:127.0.0.1",
        ] {
            assert_eq!(reach(text.parse().unwrap()), Reach::Private, "{text}");
        }
        for text in ["8.8.8.8", "2606:4700::1111", "1.1.1.1"] {
            assert_eq!(reach(text.parse().unwrap()), Reach::Public, "{text}");
        }
    }
}
