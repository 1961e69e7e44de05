//! Credentials that their structure tells, not how they begin.

use super::formats::Charset;
use super::tests::{body, kinds, secrets};

/// Documented forms that no beginning alone tells, each with what it is.
#[rustfmt::skip]
pub(super) fn structures() -> Vec<(&'static str, String)> {
    let (long, key) = (body(Charset::Alnum, 76), body(Charset::Alnum, 43));
    let hex = "5d0e7a91c3f84b26a8e1d97c402b6f35";
    vec![
        ("azure_devops_token", format!("PAT {long}AZDOx7Kd.")),
        ("new_relic_key", format!("{hex}e98aNRAL")),
        ("okta_token", format!("Authorization: SSWS 00{}", &key[..40])),
        ("url_credentials", "jdbc:oracle:thin:scott/Kd92mQx1Lp@//db.internal:1521/shop".to_owned()),
        ("password", "redis-cli -h cache.internal -p 6380 -a Kd92mQx1Lp ping".to_owned()),
        ("password", "redis-cli -a correcthorsebattery ping".to_owned()),
        ("jwk_private_key", format!("{{\"kty\":\"EC\",\"crv\":\"P-256\",\"d\":\"{key}\"}}")),
        ("jwk_private_key", format!("{{\n  \"kty\": \"RSA\",\n  \"n\": \"{0}\",\n  \"e\": \"AQAB\",\n  \"d\": \"{0}\"\n}}", body(Charset::Url, 342))),
        ("facebook_app_token", format!("token 417203958161245|{}", &key[..27])),
        ("adyen_api_key", format!("AQEyhmfx{}-{}", &key[..40], &key[..30])),
        ("checkout_key", "sk_7c9e6679-7425-40de-944b-e07fc1f90ae7".to_owned()),
        ("asana_token", format!("2/1203958161245417/1203958161245999:{hex}")),
        ("asana_token", format!("1/1203958161245417:{hex}")),
        ("django_secret_key", "SECRET_KEY = 'django-insecure-k2$w!9x@h#4v_z7(m)q+e5=t8&b1*c6^n3-r0pyudsjgfaloi2'".to_owned()),
        ("bitcoin_private_key", "5KcgNLWeDzvxwd9bQCDp5iHK6HSZz6FkpjUCRMG5sCx9pv2utUk".to_owned()),
        ("bitcoin_private_key", "L5AUmB7qJNhBv6YvqNXYooCzrKZrazC8RgT3QURaUbkRx8FNMF4n".to_owned()),
        ("bitcoin_private_key", "xprv9s21ZrQH143K2XCgXuh37stVQZkKC5KQVKgkQ7uxKm4mKZFruLSnkzK34wFAWQTJw4jLFGTGMj6cK1H4JzUEm1B859Rth7QRwFc6cYGUHZX".to_owned()),
        ("nostr_private_key", "nsec1a5ykcc5mdzvhqwzyy73x0906dv3sksec6m90293cffuer58vwa3s4h0ytw".to_owned()),
        ("private_key", format!(
            "-----BEGIN OpenVPN Static key V1-----\n{}-----END OpenVPN Static key V1-----",
            format!("{hex}\n").repeat(16)
        )),
    ]
}

#[test]
fn documented_structures_are_found() {
    for (kind, text) in structures() {
        assert_eq!(kinds(&text), [kind], "{text}");
    }
    for (_, text) in structures()
        .iter()
        .filter(|(kind, _)| kind.starts_with("bitcoin") || kind.starts_with("nostr"))
    {
        let other = text.replace(['2', '3', 'q'], "4");
        assert!(secrets(&other).is_empty(), "{other}");
    }
    for text in [
        "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\"}",
        "| 1417203958161245 | of | them |",
        "redis-cli -h cache.internal -p 6380 ping",
        "1/2/2024 and 2/3",
        "jdbc:oracle:thin:@//db.internal:1521/shop",
    ] {
        assert!(secrets(text).is_empty(), "{text}: {:?}", secrets(text));
    }
}

#[test]
fn a_signed_token_is_found_behind_a_prefix() {
    let token = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiI3NyJ9.c2lnbmF0dXJlLW9mLXRlc3Q";
    assert_eq!(kinds(token), ["jwt"]);
    assert_eq!(kinds(&format!("ghs_77_{token}")), ["jwt"]);
}

/// Each text holds a credential behind more marks of its kind than there may be findings.
#[test]
fn marks_that_are_none_hide_no_credential() {
    let (body, key) = (body(Charset::Alnum, 64), body(Charset::Alnum, 43));
    for (mark, text) in [
        (
            "GET https://shop.example/p/77 200\n",
            "DATABASE_URL=postgres://app:t9Kz!w4Qm@db.internal/main",
        ),
        (
            "-----BEGIN X-----\n",
            &*format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"),
        ),
        ("sig=x ", &format!("https://a.blob.example.org/c?sv=2024&sig={key}%3D")),
        ("-us ", "5d0e7a91c3f84b26a8e1d97c402b6f35-us12 "),
        ("curl -s x ", "curl -su robot:Kd92mQx1Lp https://a.example.org"),
        ("wallet ", "0x5d0e7a91c3f84b26a8e1d97c402b6f35e98a17d4c06b52f3917ae84d20c5b6f8"),
    ] {
        let text = mark.repeat(1300) + text;
        assert_eq!(secrets(&text).len(), 1, "{mark}");
    }
}

#[test]
fn passwords_given_to_programs_are_found() {
    for text in [
        "mysqldump -h db -u root -pKd92mQx1Lp shop",
        "mysqladmin -u root -pKd92mQx1Lp status",
        "curl -su robot:Kd92mQx1Lp https://a.example.org",
        "curl -sSLu 'robot:Kd92mQx1Lp' https://a.example.org",
    ] {
        let found = secrets(text);
        assert!(
            found.len() == 1 && text[found[0].bytes.clone()].ends_with("Kd92mQx1Lp"),
            "{text}: {found:?}"
        );
    }
    for text in ["curl -sout:file2.txt x", "mysqldump -p shop2024"] {
        assert!(secrets(text).is_empty(), "{text}: {:?}", secrets(text));
    }
}

#[test]
fn a_heading_that_is_talked_about_is_no_key() {
    let talk = "What does -----BEGIN RSA PRIVATE KEY----- mean at the top of a file? I have never seen this before.";
    for text in [
        talk,
        &format!("{talk}{}", " I have never seen this before in my life.".repeat(90)),
        "if '-----BEGIN RSA PRIVATE KEY-----' in text: raise ValueError('do not paste private keys here, please')",
        "-----BEGIN PRIVATE KEY-----\n(your private key goes here, usually about twenty seven lines of letters)\n-----END PRIVATE KEY-----",
        "it begins -----BEGIN PRIVATE KEY----- as https://github.com/openssl/openssl/issues/12345 and https://github.com/openssl/openssl/issues/54321 say",
    ] {
        assert!(secrets(text).is_empty(), "{text}: {:?}", secrets(text));
    }
}
