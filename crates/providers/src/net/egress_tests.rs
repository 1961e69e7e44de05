use super::*;

fn check(url: &str, private: bool, allow: &[&str]) -> Result<(), Refusal> {
    let allow: Vec<String> = allow.iter().map(ToString::to_string).collect();
    Rules::new(&allow).check(&Url::parse(url).unwrap().host().unwrap(), private)
}

#[test]
fn metadata_is_never_called_however_it_is_spelled() {
    for url in [
        "http://169.254.169.254/v1",
        "http://2852039166/v1",
        "http://0xa9fea9fe/v1",
        "http://0251.0376.0251.0376/v1",
        "http://[::ffff:169.254.169.254]/v1",
        "http://[fe80::1]/v1",
        "http://METADATA.google.internal./v1",
        "http://0.0.0.0/v1",
    ] {
        assert_eq!(check(url, true, &["169.254.169.254"]), Err(Refusal::Never), "{url}");
    }
}

#[test]
fn private_places_are_for_private_models_and_named_hosts() {
    for url in ["http://127.0.0.1:80", "http://10.1.2.3", "http://[::1]", "http://localhost"] {
        assert_eq!(check(url, false, &[]), Err(Refusal::Private), "{url}");
        assert_eq!(check(url, true, &[]), Ok(()), "{url}");
    }
    for url in [
        "https://[64:ff9b:1::808:808]",
        "https://[::ffff:0:808:808]",
        "https://[::8.8.8.8]",
        "https://[2001::1]",
        "https://[5f00::1]",
        "https://192.88.99.1",
    ] {
        assert_eq!(check(url, false, &[]), Err(Refusal::Private), "{url} is not public");
        assert_eq!(check(url, true, &[]), Ok(()), "{url}");
    }
    assert_eq!(check("https://192.0.0.9", false, &[]), Ok(()));
    assert_eq!(check("http://127.0.0.1:9", false, &["127.0.0.1"]), Ok(()));
    assert_eq!(check("http://[::ffff:127.0.0.1]", false, &["127.0.0.1"]), Ok(()));
    assert_eq!(check("http://[::1]", false, &["[::1]"]), Ok(()));
    assert_eq!(check("http://LOCALHOST.", false, &["localhost"]), Ok(()));
    assert_eq!(check("http://10.0.0.2", false, &["10.0.0.1"]), Err(Refusal::Private));
    assert_eq!(check("https://api.openai.com", false, &[]), Ok(()));
}

#[test]
fn what_no_host_can_be_called_is_refused() {
    let check =
        |host: &str| Egress { allow: vec![host.to_owned()], ..Egress::default() }.check().is_ok();
    for host in ["a.test", "A.Test.", "my_service", "10.0.0.1", "::1", "[::1]", " localhost "] {
        assert!(check(host), "{host}");
    }
    for host in
        ["http://x:80/", "x:80", "x/y", "10.0.0.0/8", "*.test", "a b", "", "10.1", "[::1]:80"]
    {
        assert!(!check(host), "{host}");
    }
}

#[tokio::test]
async fn resolved_addresses_are_checked() {
    let resolver = |private, allow: &[&str]| {
        let allow: Vec<_> = allow.iter().map(ToString::to_string).collect();
        Resolver::guarded(Arc::new(Rules::new(&allow)), private)
    };
    let name = || "localhost".to_owned();
    let refused = resolver(false, &[]).resolve(name()).await.err().unwrap();
    assert_eq!(refused.downcast_ref(), Some(&Refusal::Private));
    assert!(resolver(true, &[]).resolve(name()).await.is_ok());
    assert!(resolver(false, &["localhost"]).resolve(name()).await.is_ok());
    assert!(resolver(false, &["127.0.0.1", "::1"]).resolve(name()).await.is_ok());
    assert!(Resolver::open().resolve(name()).await.is_ok());
}

#[test]
fn of_several_addresses_the_allowed_ones_are_left() {
    let guard = |private| Guard { rules: Arc::default(), private };
    let found = ["10.0.0.1:0", "192.0.43.10:0", "169.254.169.254:0"];
    let found = || found.iter().map(|text| text.parse::<SocketAddr>().unwrap());
    let left = |private| guard(private).filter("mixed.example", found()).unwrap();
    assert_eq!(left(false), found().skip(1).take(1).collect::<Vec<_>>());
    assert_eq!(left(true), found().take(2).collect::<Vec<_>>());
    assert_eq!(guard(true).filter("evil.example", found().skip(2)), Err(Refusal::Never));
    assert_eq!(guard(false).filter("none.example", found().take(0)), Ok(Vec::new()));
}

#[test]
fn addresses_are_checked_when_they_are_saved() {
    let ok = |provider, url, is_public| validate_base_url(provider, Some(url), is_public, &[]);
    assert_eq!(ok(Provider::Openai, "https://api.example.com/v1", true), Ok(()));
    assert_eq!(ok(Provider::Internal, "http://10.0.0.5:8000/v1", false), Ok(()));
    assert_eq!(ok(Provider::Internal, "http://10.0.0.5:8000/v1", true), Ok(()));
    assert_eq!(ok(Provider::Internal, SANDBOX_URL, false), Ok(()));
    assert_eq!(validate_base_url(Provider::Openai, None, true, &[]), Ok(()));
    for (provider, url, is_public) in [
        (Provider::Openai, SANDBOX_URL, true),
        (Provider::Openai, "http://api.example.com/v1", true),
        (Provider::Openai, "https://127.0.0.1/v1", true),
        (Provider::Internal, "http://169.254.169.254/v1", false),
        (Provider::Openai, "https://me:pw@api.example.com/v1", true),
        (Provider::Openai, "https://api.example.com/v1?x=1", true),
        (Provider::Openai, "https://api.example.com/v1#x", true),
        (Provider::Openai, "ftp://api.example.com/v1", true),
        (Provider::Openai, "file:///etc/passwd", false),
        (Provider::Openai, "api.example.com", true),
        (Provider::Openai, "https://exa mple.com", true),
    ] {
        assert!(ok(provider, url, is_public).is_err(), "{url}");
    }
    for provider in [Provider::Azure, Provider::Internal] {
        assert!(validate_base_url(provider, None, true, &[]).is_err());
        assert!(validate_base_url(provider, Some(""), true, &[]).is_err());
    }
    let allow = ["127.0.0.1".to_owned()];
    let url = Some("http://127.0.0.1:9/v1");
    assert_eq!(validate_base_url(Provider::Openai, url, true, &allow), Ok(()));
}
