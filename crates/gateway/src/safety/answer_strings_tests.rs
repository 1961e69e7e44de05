use serde_json::json;

use super::*;

/// The strings of a chunk or an answer that are judged.
fn seen(said: &str, delta: Value) -> Vec<String> {
    let choice = json!({"index": 0, said: delta});
    let mut answer = Map::from_iter([("choices".to_owned(), json!([choice]))]);
    let mut seen = Vec::new();
    visit(&mut answer, |_, text| seen.push(text.clone()));
    seen
}

#[test]
fn only_where_a_picture_may_stand_is_one_passed_over() {
    let picture = "data:image/png;base64,AKIAIOSFODNN7EXAMPLE";
    for said in ["message", "delta"] {
        for words in [
            json!({"content": picture}),
            json!({"content": [{"type": "text", "text": picture}]}),
            json!({"reasoning": picture}),
            json!({"reasoning_details": [{"type": "reasoning.text", "text": picture}]}),
            json!({"tool_calls": [{"index": 0, "function": {"arguments": picture}}]}),
            json!({"tool_calls": [{"index": 0, "image": {"arguments": picture}}]}),
            json!({"function_call": {"arguments": picture}}),
            json!({"function_call": {"arguments": {"image": picture}}}),
            json!({"audio": {"transcript": picture}}),
            json!({"annotations": [{"type": "note", "note": {"title": picture}}]}),
        ] {
            assert_eq!(seen(said, words.clone()), [picture], "{words}");
        }
        for media in [
            json!({"images": [{"type": "image_url", "image_url": {"url": picture}}]}),
            json!({"content": [{"type": "image_url", "image_url": {"url": picture}}]}),
            json!({"audio": {"data": "AKIAIOSFODNN7EXAMPLE"}}),
        ] {
            assert!(seen(said, media.clone()).is_empty(), "{media}");
        }
    }
    let state = json!([{"thinking": picture}]);
    let mut texts = Vec::new();
    let answer = json!({"choices": [{"message": {"provider_state": state}}]});
    visit_state(answer.as_object().unwrap(), |text| texts.push(text));
    assert_eq!(texts, [picture]);
}
