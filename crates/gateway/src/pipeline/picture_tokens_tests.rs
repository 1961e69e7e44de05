use serde_json::json;

use super::*;
use crate::testing::of_parts;

fn family(provider: Provider, name: &str) -> Family {
    Family::of(&crate::testing::model(provider, name))
}

/// The counts were measured, each with a few tokens of text around the picture.
#[test]
fn near_and_above_what_vendors_count() {
    for (width, height, claude_5, claude_4, gpt_6, gpt_55) in [
        (256, 256, 100, 100, 77, 77),
        (512, 512, 361, 361, 308, 308),
        (1024, 1024, 1_369, 1_369, 1_229, 1_229),
        (1920, 1080, 2_691, 1_560, 2_448, 2_448),
        (3840, 2160, 2_992, 1_592, 9_792, 9_792),
        (4032, 3024, 3_928, 1_596, 14_364, 11_868),
    ] {
        for (provider, name, measured, room) in [
            (Provider::Anthropic, "claude-opus-5-5", claude_5, 1_800),
            (Provider::Anthropic, "claude-haiku-4-5", claude_4, 100),
            (Provider::Openai, "gpt-6-astra", gpt_6, 2),
            (Provider::Openai, "gpt-5.5", gpt_55, 140),
        ] {
            let counted = family(provider, name).tokens(Some((width, height)), false);
            assert!(
                counted >= measured && counted <= measured + room,
                "{name}, {width} x {height}: {counted} instead of {measured}"
            );
        }
    }
}

#[test]
fn small_models_of_openai_count_more() {
    let mini = family(Provider::Openai, "gpt-4o-mini-2024-07-18");
    for (size, small, tokens) in [
        ((512, 512), false, 2_833 + 5_667),
        ((1024, 1024), false, 2_833 + 4 * 5_667),
        ((2048, 4096), false, 2_833 + 6 * 5_667),
        ((4096, 1536), false, 2_833 + 8 * 5_667),
        ((4096, 4096), true, 2_833),
    ] {
        assert_eq!(mini.tokens(Some(size), small), tokens, "{size:?}");
    }
    assert_eq!(mini.tokens(None, false), 48_169, "of an unknown size");
    let size = Some((1024, 1024));
    assert_eq!(family(Provider::Openai, "gpt-4o").tokens(size, false), 765);
    assert_eq!(family(Provider::Openai, "gpt-4.1-mini").tokens(size, false), 1_659);
    assert_eq!(family(Provider::Azure, "gpt-5-nano").tokens(None, false), 3_779);
}

#[test]
fn a_model_that_is_not_known_counts_as_the_dearest() {
    let size = Some((1024, 1024));
    for (provider, name) in [(Provider::Openai, "of-tomorrow"), (Provider::Internal, "my-gpt-7")] {
        assert_eq!(family(provider, name).tokens(size, true), 25_501, "{name}");
        assert_eq!(family(provider, name).tokens(None, false), 72_000, "{name}");
    }
    let own = family(Provider::Internal, "llama");
    assert_eq!((own.tokens(size, false), own.tokens(None, false)), (4_096, 16_384));
    let claude = family(Provider::Bedrock, "us.anthropic.claude-of-tomorrow");
    assert_eq!(claude.tokens(None, false), 4_784);
    assert_eq!(family(Provider::Gemini, "gemini-3-pro").tokens(size, false), 2_240);
    assert_eq!(family(Provider::Gemini, "gemini-2.5-flash").tokens(size, false), 4 * 258);
}

#[test]
fn the_pictures_of_a_prompt_count_by_their_heads() {
    let png = "iVBORw0KGgoAAAANSUhEUgAABAAAAAQACAYAAAB/HSuD";
    let picture = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    let known = picture(&format!("data:image/png;base64,{png}"));
    let far = picture("https://images.example/a.png");
    let model = crate::testing::model(Provider::Openai, "gpt-4o");
    let count = |parts: Vec<Value>| of(&of_parts(parts), Some(&model));
    assert_eq!(count(vec![known.clone()]), 765, "1,024 pixels square");
    assert_eq!(count(vec![far.clone()]), 85 + 8 * 170);
    assert_eq!(count(vec![known.clone(), far, known.clone()]), 2 * 765 + 85 + 8 * 170);
    assert_eq!(count(vec![picture("data:image/png;base64,AAAA")]), 85 + 8 * 170);
    assert_eq!(of(&of_parts(vec![known]), None), 4_096, "for a model that is not named");
}
