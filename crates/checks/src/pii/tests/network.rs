//! Addresses of networks and of mail, and what looks like them.

use crate::pii::tests::entities;

#[test]
fn versions_and_sections_are_no_addresses() {
    for text in [
        "Chrome/120.0.0.0 Safari/537.36 Edg/120.0.0.0",
        r#"{"version": "1.2.3.4"}"#,
        r#"[assembly: AssemblyVersion("203.0.113.5")]"#,
        "FileVersion: 10.0.19.1",
        "app_version=1.2.3.4",
        r#"__version__ = "3.5.0.1""#,
        "bump Standards-Version to 3.9.2.0",
        "pip install foo==1.2.3.4",
        "npm i foo@1.2.3.4",
        "image: nginx:1.21.3.1",
        "Firmware: 1.0.2.14",
        "Changes in 1.2.3.6",
        "upgrade from 1.8.1.2 to 1.8.1.3",
        "so it is.\n2.1.3.4 Requirements",
        "RFC 5280 4.1.2.2:",
        "see § 5.1.2.3",
        "on macOS 10.15.7.2 it fails",
        "Guile 3.0.5.130-5a1e7",
        "firmware 3.16.10.100 fixes the issue",
        "Linux kernel 5.15.0.113 is installed",
        "firmware upgraded to 2.34.100.7",
        "BIOS 1.45.0.77",
        "updated to build 10.0.190.45",
        "driver: 31.0.101.2111",
    ] {
        assert_eq!(entities(text), [], "{text}");
    }
}

#[test]
fn small_numbers_are_an_address_where_a_machine_is_spoken_of() {
    for text in [
        "banned 5.9.12.3",
        "root 5.9.12.3",
        "Zugriff von 5.9.12.3",
        "connected from 5.9.12.3 again",
        r#"{"client_ip": "5.9.12.3"}"#,
        "http://5.9.12.3/",
        "root@5.9.12.3",
        "the address is 5.9.12.3",
        "5.9.12.3",
    ] {
        assert_eq!(entities(text), [("IP_ADDRESS", "5.9.12.3".to_owned())], "{text}");
    }
    for text in [
        "router 3.16.10.100",
        "firmware is loaded from 3.16.10.100",
        "the build moved to 3.16.10.100",
        "copy the firmware to 3.16.10.100",
        "build 3.16.10.100:8080",
        "- 3.16.10.100 web",
        "# 3.16.10.100 Server",
        "build 3.16.10.100 failed",
        "driver: 3.16.10.100 host",
    ] {
        let found = entities(text);
        assert!(found[0].1.starts_with("3.16.10.100"), "{text}");
    }
    assert_eq!(entities("firmware 192.168.1.1")[0].0, "IP_ADDRESS");
    assert_eq!(entities("route 44.0.0.0/8 there")[0].1, "44.0.0.0/8");
}

#[test]
fn addresses_stand_behind_labels_and_in_ranges() {
    for label in ["source", "interface", "node", "remote"] {
        for address in ["203.0.113.5", "2001:db8::5", "00:1a:2b:3c:4d:5e"] {
            assert_eq!(entities(&format!("{label}:{address} is"))[0].1, address, "{label}");
        }
    }
    let both = [("IP_ADDRESS", "203.0.113.5".into()), ("IP_ADDRESS", "10.0.0.5".into())];
    for text in ["203.0.113.5-10.0.0.5", "203.0.113.5:443-10.0.0.5:5123"] {
        assert_eq!(entities(text), both, "{text}");
    }
    let list = "allowed = [\n    \"127.0.0.1\",\n    \"10.0.0.1\",\n    \"5.9.12.3\",\n]";
    assert_eq!(entities(list).len(), 3);
    assert_eq!(entities("face::a1::b2 and module:12:30:45"), []);
    let letters = "mac aa:bb:cc:dd:ee:ff or mac-address ab:cd:ef:ab:cd:ef";
    assert_eq!(entities(letters).len(), 2);
}

#[test]
fn not_every_sign_is_that_of_a_mailbox() {
    for text in ["icon@2x.png", "https://user:pass@host.com/x", "postgres://user@db.example.com"] {
        assert_eq!(entities(text), [], "{text}");
    }
    for text in [
        "_jane@x.org_",
        "__jane@x.org__",
        "http://x.org/u/jane@x.org",
        "1,https://acme.com,jane@x.org",
        "https://acme.com|jane@x.org",
        r"https://acme.com\njane@x.org",
        "sip://jane@x.org",
        "mailto://jane@x.org",
        "https://x.org?m=jane@x.org",
    ] {
        assert_eq!(entities(text), [("EMAIL", "jane@x.org".to_owned())], "{text}");
    }
    assert_eq!(entities("_jane@x.org")[0].1, "_jane@x.org");
}

#[test]
fn nothing_hides_behind_what_is_not_found() {
    let annotations = "@Override\n".repeat(5_000) + "mail jane@x.org";
    assert_eq!(entities(&annotations), [("EMAIL", "jane@x.org".to_owned())]);
    let birthday = "born ".repeat(10) + "12/03/1985\n";
    assert_eq!(entities(&(birthday.repeat(60) + "Mr. Jim Beam")).len(), 61);
}
