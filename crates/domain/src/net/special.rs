//! Address blocks with a purpose of their own, as a table.
//!
//! The blocks, and whether they are globally reachable, are those of IANA's IPv4 and IPv6
//! Special-Purpose Address Registries in their state of 2025-10-09
//! (<https://www.iana.org/assignments/iana-ipv4-special-registry>,
//! <https://www.iana.org/assignments/iana-ipv6-special-registry>). A few blocks that are not in the
//! registries are added: multicast, metadata services of clouds, and older forms of IPv6 addresses.
//! An update of the registries is an update of the two tables and of their date.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Reach::{self, Forbidden, Private, Public};

/// An IPv4 block: its first address, the length of its prefix, and its kind.
pub(super) type Block4 = (Ipv4Addr, u8, Reach);
/// An IPv6 block: its first address, the length of its prefix, and its kind.
pub(super) type Block6 = (Ipv6Addr, u8, Kind);

/// The kind of an IPv6 block. IPv4 addresses are found by their first bit, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Every address of the block is of this class.
    Is(Reach),
    /// The address stands for the IPv4 address at this bit.
    Is4(u8),
    /// The address stands for the IPv4 address at this bit and is not public itself.
    NotPublic4(u8),
    /// A translator of one network leads to an IPv4 address in any of the forms of RFC 6052.
    LocalNat64,
    /// A tunnel to an IPv4 client by way of an IPv4 server.
    Teredo,
}

use Kind::{Is, Is4, LocalNat64, NotPublic4, Teredo};

const fn v4(a: u8, b: u8, c: u8, d: u8) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

const fn v6(high: [u16; 4], low: [u16; 4]) -> Ipv6Addr {
    Ipv6Addr::new(high[0], high[1], high[2], high[3], low[0], low[1], low[2], low[3])
}

/// The longest matching prefix counts; an address that matches none is public.
pub(super) const IPV4: &[Block4] = &[
    // IANA's registry.
    (v4(0, 0, 0, 0), 8, Forbidden),          // "this network"
    (v4(0, 0, 0, 0), 32, Forbidden),         // "this host on this network"
    (v4(10, 0, 0, 0), 8, Private),           // private use
    (v4(100, 64, 0, 0), 10, Private),        // shared by carriers
    (v4(127, 0, 0, 0), 8, Private),          // loopback
    (v4(169, 254, 0, 0), 16, Forbidden),     // link-local
    (v4(172, 16, 0, 0), 12, Private),        // private use
    (v4(192, 0, 0, 0), 24, Private),         // IETF protocol assignments
    (v4(192, 0, 0, 0), 29, Private),         // IPv4 service continuity
    (v4(192, 0, 0, 8), 32, Private),         // IPv4 dummy address
    (v4(192, 0, 0, 9), 32, Public),          // Port Control Protocol anycast
    (v4(192, 0, 0, 10), 32, Public),         // TURN anycast
    (v4(192, 0, 0, 170), 32, Private),       // NAT64/DNS64 discovery
    (v4(192, 0, 0, 171), 32, Private),       // NAT64/DNS64 discovery
    (v4(192, 0, 2, 0), 24, Private),         // documentation
    (v4(192, 31, 196, 0), 24, Public),       // AS112
    (v4(192, 52, 193, 0), 24, Public),       // AMT
    (v4(192, 88, 99, 0), 24, Private),       // 6to4 relay anycast, deprecated
    (v4(192, 88, 99, 2), 32, Private),       // 6a44 relay anycast
    (v4(192, 168, 0, 0), 16, Private),       // private use
    (v4(192, 175, 48, 0), 24, Public),       // direct delegation AS112
    (v4(198, 18, 0, 0), 15, Private),        // benchmarking
    (v4(198, 51, 100, 0), 24, Private),      // documentation
    (v4(203, 0, 113, 0), 24, Private),       // documentation
    (v4(240, 0, 0, 0), 4, Forbidden),        // reserved
    (v4(255, 255, 255, 255), 32, Forbidden), // limited broadcast
    // Beside the registry.
    (v4(224, 0, 0, 0), 4, Forbidden),        // multicast
    (v4(100, 100, 100, 200), 32, Forbidden), // metadata, Alibaba Cloud
    (v4(168, 63, 129, 16), 32, Forbidden),   // metadata, Azure
    (v4(192, 0, 0, 192), 32, Forbidden),     // metadata, Oracle Cloud
];

/// The longest matching prefix counts; an address that matches none is public.
pub(super) const IPV6: &[Block6] = &[
    // IANA's registry.
    (v6([0; 4], [0, 0, 0, 1]), 128, Is(Private)), // loopback
    (v6([0; 4], [0; 4]), 128, Is(Forbidden)),     // unspecified
    (v6([0; 4], [0, 0xffff, 0, 0]), 96, Is4(96)), // IPv4-mapped
    (v6([0x64, 0xff9b, 0, 0], [0; 4]), 96, Is4(96)), // NAT64
    (v6([0x64, 0xff9b, 1, 0], [0; 4]), 48, LocalNat64), // NAT64 of one network
    (v6([0x100, 0, 0, 0], [0; 4]), 64, Is(Private)), // discard only
    (v6([0x100, 0, 0, 1], [0; 4]), 64, Is(Private)), // dummy prefix
    (v6([0x2001, 0, 0, 0], [0; 4]), 23, Is(Private)), // IETF protocol assignments
    (v6([0x2001, 0, 0, 0], [0; 4]), 32, Teredo),  // Teredo
    (v6([0x2001, 1, 0, 0], [0, 0, 0, 1]), 128, Is(Public)), // Port Control Protocol anycast
    (v6([0x2001, 1, 0, 0], [0, 0, 0, 2]), 128, Is(Public)), // TURN anycast
    (v6([0x2001, 1, 0, 0], [0, 0, 0, 3]), 128, Is(Public)), // DNS-SD SRP anycast
    (v6([0x2001, 2, 0, 0], [0; 4]), 48, Is(Private)), // benchmarking
    (v6([0x2001, 3, 0, 0], [0; 4]), 32, Is(Public)), // AMT
    (v6([0x2001, 4, 0x112, 0], [0; 4]), 48, Is(Public)), // AS112
    (v6([0x2001, 0x10, 0, 0], [0; 4]), 28, Is(Private)), // ORCHID, deprecated
    (v6([0x2001, 0x20, 0, 0], [0; 4]), 28, Is(Public)), // ORCHIDv2
    (v6([0x2001, 0x30, 0, 0], [0; 4]), 28, Is(Public)), // drone remote identification
    (v6([0x2001, 0xdb8, 0, 0], [0; 4]), 32, Is(Private)), // documentation
    (v6([0x2002, 0, 0, 0], [0; 4]), 16, Is4(16)), // 6to4
    (v6([0x2620, 0x4f, 0x8000, 0], [0; 4]), 48, Is(Public)), // direct delegation AS112
    (v6([0x3fff, 0, 0, 0], [0; 4]), 20, Is(Private)), // documentation
    (v6([0x5f00, 0, 0, 0], [0; 4]), 16, Is(Private)), // segment routing
    (v6([0xfc00, 0, 0, 0], [0; 4]), 7, Is(Private)), // unique local
    (v6([0xfe80, 0, 0, 0], [0; 4]), 10, Is(Forbidden)), // link-local
    // Beside the registry.
    (v6([0; 4], [0; 4]), 96, NotPublic4(96)), // IPv4-compatible, deprecated
    (v6([0; 4], [0xffff, 0, 0, 0]), 96, NotPublic4(96)), // IPv4-translated (SIIT)
    (v6([0xfec0, 0, 0, 0], [0; 4]), 10, Is(Private)), // site-local, deprecated
    (v6([0xff00, 0, 0, 0], [0; 4]), 8, Is(Forbidden)), // multicast
    (v6([0xfd00, 0xec2, 0, 0], [0; 4]), 32, Is(Forbidden)), // metadata, AWS
    (v6([0xfd00, 0x42, 0, 0], [0, 0, 0, 0x42]), 128, Is(Forbidden)), // metadata, Scaleway
    (v6([0xfd00, 0xc1, 0, 0], [0, 0, 0xa9fe, 0xa9fe]), 128, Is(Forbidden)), // metadata, Oracle Cloud
    (v6([0xfd20, 0xce, 0, 0], [0, 0, 0, 0x254]), 128, Is(Forbidden)), // metadata, Google Cloud
];
