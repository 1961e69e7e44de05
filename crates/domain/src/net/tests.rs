use super::*;

#[test]
fn ranges_hold_what_they_say() {
    let range: Cidr = "10.1.0.0/16".parse().unwrap();
    assert!(range.contains("10.1.255.1".parse().unwrap()));
    assert!(range.contains("::ffff:10.1.0.1".parse().unwrap()));
    assert!(!range.contains("10.2.0.1".parse().unwrap()));
    // A mapped range is one of IPv4; an address that tunnels or translates IPv4 is one of its own.
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

fn first(range: &str) -> IpAddr {
    range.split('/').next().unwrap().parse().unwrap()
}

fn last(range: &str) -> IpAddr {
    let bits: u32 = range.split('/').nth(1).unwrap().parse().unwrap();
    match first(range) {
        IpAddr::V4(v4) => {
            Ipv4Addr::from_bits(v4.to_bits() | u32::MAX.checked_shr(bits).unwrap_or(0)).into()
        }
        IpAddr::V6(v6) => {
            Ipv6Addr::from_bits(v6.to_bits() | u128::MAX.checked_shr(bits).unwrap_or(0)).into()
        }
    }
}

/// The address `places` after another one.
fn beside(address: IpAddr, places: i8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            Ipv4Addr::from_bits(v4.to_bits().wrapping_add_signed(places.into())).into()
        }
        IpAddr::V6(v6) => {
            Ipv6Addr::from_bits(v6.to_bits().wrapping_add_signed(places.into())).into()
        }
    }
}

/// Range, and the kind of its first and last address and of its neighbours below and above it:
/// `never`, `private` or `public`.
const REGISTRIES: &str = "
    0.0.0.0/8              never   never    never   public
    0.0.0.0/32             never   never    never   never
    10.0.0.0/8             private private  public  public
    100.64.0.0/10          private private  public  public
    127.0.0.0/8            private private  public  public
    169.254.0.0/16         never   never    public  public
    172.16.0.0/12          private private  public  public
    192.0.0.0/24           private private  public  public
    192.0.0.0/29           private private  public  private
    192.0.0.8/32           private private  private public
    192.0.0.9/32           public  public   private public
    192.0.0.10/32          public  public   public  private
    192.0.0.170/32         private private  private private
    192.0.0.171/32         private private  private private
    192.0.2.0/24           private private  public  public
    192.31.196.0/24        public  public   public  public
    192.52.193.0/24        public  public   public  public
    192.88.99.0/24         private private  public  public
    192.88.99.2/32         private private  private private
    192.168.0.0/16         private private  public  public
    192.175.48.0/24        public  public   public  public
    198.18.0.0/15          private private  public  public
    198.51.100.0/24        private private  public  public
    203.0.113.0/24         private private  public  public
    240.0.0.0/4            never   never    never   never
    255.255.255.255/32     never   never    never   never
    224.0.0.0/4            never   never    public  never
    100.100.100.200/32     never   never    private private
    168.63.129.16/32       never   never    public  public
    192.0.0.192/32         never   never    private private

    ::1/128                private private  never   never
    ::/128                 never   never    never   private
    ::ffff:0:0/96          never   never    public  public
    64:ff9b::/96           never   never    public  public
    64:ff9b:1::/48         private private   public  public
    100::/64               private private  public  private
    100:0:0:1::/64         private private  private public
    2001::/23              private private  public  public
    2001::/32              private private  public  private
    2001:1::1/128          public  public   private public
    2001:1::2/128          public  public   public  public
    2001:1::3/128          public  public   public  private
    2001:2::/48            private private  private private
    2001:3::/32            public  public   private private
    2001:4:112::/48        public  public   private private
    2001:10::/28           private private  private public
    2001:20::/28           public  public   private public
    2001:30::/28           public  public   public  private
    2001:db8::/32          private private  public  public
    2002::/16              never   never    public  public
    2620:4f:8000::/48      public  public   public  public
    3fff::/20              private private  public  public
    5f00::/16              private private  public  public
    fc00::/7               private private  public  public
    fe80::/10              never   never    public  private
    fec0::/10              private private  never   never
    ff00::/8               never   never    private never
    ::/96                  never   never    never   public
    ::ffff:0:0:0/96        never   never    public  public
    fd00:ec2::/32          never   never    private private
    fd00:42::42/128        never   never    private private
    fd00:c1::a9fe:a9fe/128 never   never    private private
    fd20:ce::254/128       never   never    private private";

fn kind(word: &str) -> Reach {
    match word {
        "never" => Reach::Forbidden,
        "private" => Reach::Private,
        "public" => Reach::Public,
        other => panic!("{other}"),
    }
}

#[test]
fn every_special_range_and_its_neighbours() {
    let rows: Vec<Vec<&str>> = REGISTRIES
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows.len(), special::IPV4.len() + special::IPV6.len());
    for row in rows {
        let (low, high) = (first(row[0]), last(row[0]));
        let places = [low, high, beside(low, -1), beside(high, 1)];
        for (address, word) in places.into_iter().zip(&row[1..]) {
            assert_eq!(reach(address), kind(word), "{address} of {}", row[0]);
        }
        let base = Cidr::from_str(row[0]).unwrap();
        let known4 =
            special::IPV4.iter().any(|(ip, bits, _)| IpAddr::V4(*ip) == low && base.bits == *bits);
        let known6 = special::IPV6
            .iter()
            .any(|(ip, bits, _)| IpAddr::V6(*ip) == low && row[0].ends_with(&format!("/{bits}")));
        assert!(known4 || known6, "{} is not in the table", row[0]);
    }
}

#[test]
fn an_embedded_address_is_judged() {
    for (text, word) in [
        // Mapped, NAT64 and 6to4 stand for the IPv4 address.
        ("::ffff:8.8.8.8", "public"),
        ("::ffff:10.0.0.1", "private"),
        ("::ffff:192.0.0.9", "public"),
        ("::ffff:198.18.0.1", "private"),
        ("::ffff:169.254.169.254", "never"),
        ("64:ff9b::8.8.8.8", "public"),
        ("64:ff9b::10.0.0.1", "private"),
        ("64:ff9b::169.254.169.254", "never"),
        ("2002:808:808::1", "public"),
        ("2002:a00:1::1", "private"),
        ("2002:a9fe:a9fe::1", "never"),
        ("2002:e000:1::", "never"),
        // Compatible and translated are not public themselves.
        ("::8.8.8.8", "private"),
        ("::169.254.169.254", "never"),
        ("::ffff:0:8.8.8.8", "private"),
        ("::ffff:0:10.0.0.1", "private"),
        ("::ffff:0:169.254.169.254", "never"),
        // A translator of one network, with the prefix lengths of RFC 6052.
        ("64:ff9b:1::8.8.8.8", "private"),
        ("64:ff9b:1::10.0.0.1", "private"),
        ("64:ff9b:1::169.254.169.254", "never"),
        ("64:ff9b:1:a9fe:a9:fe00::", "never"),
        ("64:ff9b:1:a9:fe:a9fe::", "never"),
        ("64:ff9b:1:5:a9:fea9:fe00:0", "never"),
        ("64:ff9b:1:5::a9fe:a9fe", "never"),
        ("64:ff9b:1:808:8:800::", "private"),
        // Teredo: the server in clear, the client inverted.
        ("2001:0:808:808:0:0:f7f7:f7f7", "private"),
        ("2001:0:a9fe:a9fe::f7f7:f7f7", "never"),
        ("2001:0:808:808::5601:5601", "never"),
        // ISATAP: no better than its prefix and its IPv4 address.
        ("2606:4700::5efe:8.8.8.8", "public"),
        ("2606:4700::200:5efe:10.0.0.1", "private"),
        ("2606:4700::5efe:169.254.169.254", "never"),
        ("fd00::5efe:8.8.8.8", "private"),
        ("fe80::5efe:8.8.8.8", "never"),
        ("2606:4700::5eff:169.254.169.254", "public"),
    ] {
        assert_eq!(reach(text.parse().unwrap()), kind(word), "{text}");
    }
}
