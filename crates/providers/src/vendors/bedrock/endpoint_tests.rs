use serde_json::json;

use super::*;
use crate::testing::model;

fn registered(base: Option<&str>, tag: &str, configured: Option<&str>) -> Model {
    let mut model = model(domain::model::Provider::Bedrock, base);
    model.region = tag.to_owned();
    model.config.upstream_model = Some("anthropic.claude-3-5-sonnet-20240620-v1:0".to_owned());
    if let Some(region) = configured {
        model.config.all.insert("region".to_owned(), json!(region));
    }
    model
}

#[test]
fn the_endpoint_is_the_regions_own_or_the_base_url() {
    let path = "/model/anthropic.claude-3-5-sonnet-20240620-v1%3A0/converse";
    for (base, tag, configured, host) in [
        (None, "global", Some("us-east-1"), "https://bedrock-runtime.us-east-1.amazonaws.com"),
        (None, "eu-central-1", None, "https://bedrock-runtime.eu-central-1.amazonaws.com"),
        (
            Some(""),
            "eu-west-1",
            Some("us-gov-west-1"),
            "https://bedrock-runtime.us-gov-west-1.amazonaws.com",
        ),
        (None, "cn-north-1", None, "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"),
        (Some("http://127.0.0.1:9404/"), "global", None, "http://127.0.0.1:9404"),
    ] {
        let model = registered(base, tag, configured);
        let url = |stream| Bedrock.endpoint(&model, stream).unwrap();
        assert_eq!(url(false), format!("{host}{path}"));
        assert_eq!(url(true), format!("{host}{path}-stream"));
    }
}

#[test]
fn ids_are_one_segment_of_the_path() {
    let mut model = registered(None, "us-east-1", None);
    model.config.upstream_model =
        Some("arn:aws:bedrock:us-east-1:111122223333:application-inference-profile/a?b".to_owned());
    assert!(Bedrock.endpoint(&model, false).unwrap().ends_with(
        "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A111122223333%3A\
         application-inference-profile%2Fa%3Fb/converse"
    ));
}

#[test]
fn without_a_region_it_is_said_what_to_set() {
    for (tag, configured) in [
        ("global", None),
        ("eu", None),
        ("EU-west-1", None),
        ("global", Some("evil.example.com/")),
        ("us-east-1", Some("us-east")),
    ] {
        let model = registered(None, tag, configured);
        let error = Bedrock.endpoint(&model, false).unwrap_err();
        assert!(error.to_string().contains("set additional_config.region"), "{error}");
        assert!(matches!(error.kind, crate::error::ErrorKind::Unsupported(_)));
    }
}

#[test]
fn a_signature_is_for_the_region_of_the_host() {
    for (host, signed) in [
        ("bedrock-runtime.us-east-1.amazonaws.com", "us-east-1"),
        ("bedrock-runtime-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
        ("vpce-1a.bedrock-runtime.ap-southeast-2.vpce.amazonaws.com", "ap-southeast-2"),
        ("bedrock-runtime.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("bedrock-runtime.us-west-2.api.aws", "us-west-2"),
        ("bedrock-runtime.us-west-2.example.com", "eu-west-1"),
        ("127.0.0.1", "eu-west-1"),
        ("", "eu-west-1"),
    ] {
        let model = registered(None, "global", Some("eu-west-1"));
        assert_eq!(region(&model, host).unwrap(), signed, "{host}");
    }
}
