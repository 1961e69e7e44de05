//! Searches in the web at the endpoint of chat completions, which cost a fee beside tokens.

use domain::conversation::Prompt;
use domain::fees::{Charges, ToolCharge, UseBound, VendorTool};
use domain::usage::Usage;
use serde_json::{Map, Value};

use crate::chat_form::text;
use crate::vendors::openai::tier::possible_surcharges;

/// The member by which a request allows its model to search.
const OPTIONS: &str = "web_search_options";

/// Returns the charges of a request. A model searches once, before it answers; money for what it finds is
/// reserved with that for the documents that the vendor fetches.
pub(crate) fn charges(prompt: &Prompt) -> Charges {
    let mut charges = Charges { surcharges: possible_surcharges(prompt), ..Charges::default() };
    if prompt.params.get(OPTIONS).is_some_and(|options| !options.is_null()) {
        let (at, tool) = (OPTIONS.to_owned(), Some(VendorTool::WebSearch));
        charges.tools.push(ToolCharge { at, tool, uses: UseBound::OnePass(1), tokens: Some(0) });
    }
    charges
}

/// Whether an answer, or a chunk of one, cites pages that were found.
pub(super) fn cites_pages(answer: &Map<String, Value>) -> bool {
    let choices = answer.get("choices").and_then(Value::as_array);
    let messages = choices
        .into_iter()
        .flatten()
        .flat_map(|choice| ["message", "delta"].into_iter().filter_map(|name| choice.get(name)));
    let lists = messages.filter_map(|message| message.get("annotations")?.as_array());
    lists.flatten().any(|note| text(note.get("type")) == "url_citation")
}

/// The usage of an answer with a search.
pub(super) fn with_search(usage: Option<Usage>) -> Usage {
    let mut usage = usage.unwrap_or_else(Usage::unknown);
    usage.extras.uses[VendorTool::WebSearch] = 1;
    usage
}

#[cfg(test)]
mod tests {
    use domain::conversation::StreamEvent;
    use domain::fees::Surcharge;
    use domain::model::Provider;
    use serde_json::json;

    use super::*;
    use crate::testing::model;
    use crate::vendors::adapter;

    fn prompt(params: Value) -> Prompt {
        let Value::Object(params) = params else { panic!("no object") };
        Prompt { params, ..Prompt::default() }
    }

    #[test]
    fn every_server_of_the_format_charges_for_a_tier_and_for_a_search() {
        let asked = prompt(json!({"service_tier": "priority", "web_search_options": {}}));
        let search = ToolCharge {
            at: "web_search_options".to_owned(),
            tool: Some(VendorTool::WebSearch),
            uses: UseBound::OnePass(1),
            tokens: Some(0),
        };
        for provider in [Provider::Openai, Provider::Azure, Provider::Internal] {
            let charges = adapter(provider).charges(&asked);
            assert!(charges.surcharges[Surcharge::Priority], "{provider:?}");
            assert!(adapter(provider).surcharges(&asked)[Surcharge::Priority]);
            assert_eq!(charges.tools, std::slice::from_ref(&search), "{provider:?}");
            let none = prompt(json!({"web_search_options": null}));
            assert_eq!(adapter(provider).charges(&none).tools, []);
        }
    }

    #[test]
    fn a_vendor_that_is_asked_to_choose_may_serve_a_request_faster() {
        for (tier, may_be_faster) in [
            (json!({}), false),
            (json!({"service_tier": null}), false),
            (json!({"service_tier": "auto"}), true),
            (json!({"service_tier": "priority"}), true),
            (json!({"service_tier": "default"}), false),
            (json!({"service_tier": "flex"}), false),
        ] {
            let of = prompt(tier.clone());
            for provider in [Provider::Openai, Provider::Azure, Provider::Internal] {
                let charges = adapter(provider).charges(&of);
                assert_eq!(charges.surcharges[Surcharge::Priority], may_be_faster, "{tier}");
            }
            let asks = tier["service_tier"] == "priority";
            assert_eq!(adapter(Provider::Openai).surcharges(&of)[Surcharge::Priority], asks);
        }
    }

    #[test]
    fn the_class_of_service_is_that_of_the_answer() {
        for (tier, expected) in
            [(json!("priority"), Some(true)), (json!("default"), Some(false)), (json!(null), None)]
        {
            let usage = json!({"prompt_tokens": 5, "completion_tokens": 9});
            let whole = json!({"choices": [{"index": 0, "message": {"content": "It is."}}],
                "usage": usage, "service_tier": tier});
            let model = model(Provider::Openai, None);
            let whole = adapter(Provider::Openai).decode(&model, whole.to_string().as_bytes());
            let whole = whole.unwrap().usage.unwrap();
            assert_eq!(whole.extras.surcharges[Surcharge::Priority], expected, "{tier}");
            let delta = |delta: Value, reason: Value| {
                json!({"service_tier": tier,
                    "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
            };
            // With a refusal, a chunk is not plain.
            for first in [json!({"content": "It"}), json!({"refusal": "No."})] {
                let mut decoder = adapter(Provider::Openai).decoder(&model);
                let last = json!({"choices": [], "usage": usage});
                let mut events = Vec::new();
                for chunk in [delta(first, Value::Null), delta(json!({}), json!("stop")), last] {
                    decoder.feed(format!("data: {chunk}\n\n").as_bytes(), &mut events).unwrap();
                }
                let reported = events.iter().find_map(|event| match event {
                    StreamEvent::Usage(usage) => Some(usage.extras.surcharges[Surcharge::Priority]),
                    _ => None,
                });
                assert_eq!(reported, Some(expected), "{tier}");
            }
        }
    }

    #[test]
    fn a_search_is_counted_where_the_answer_cites_a_page() {
        let uses = |usage: Option<Usage>| usage.unwrap().extras.uses[VendorTool::WebSearch];
        for (kind, searches) in [("url_citation", 1), ("file_citation", 0)] {
            let notes = json!([{"type": kind}, {"type": kind}]);
            let usage = json!({"prompt_tokens": 5, "completion_tokens": 9});
            let message = json!({"content": "It is.", "annotations": notes});
            let whole = json!({"choices": [{"index": 0, "message": message}], "usage": usage});
            let whole = adapter(Provider::Openai)
                .decode(&model(Provider::Openai, None), whole.to_string().as_bytes());
            assert_eq!(uses(whole.unwrap().usage), searches);
            let mut decoder = adapter(Provider::Openai).decoder(&model(Provider::Openai, None));
            let chunks = [
                json!({"choices": [{"index": 0, "delta": {"content": "It", "annotations": notes}}]}),
                json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
                json!({"choices": [], "usage": usage}),
            ];
            let mut events = Vec::new();
            for chunk in chunks {
                decoder.feed(format!("data: {chunk}\n\n").as_bytes(), &mut events).unwrap();
            }
            let reported: Vec<u32> = events
                .iter()
                .filter_map(|event| match event {
                    StreamEvent::Usage(usage) | StreamEvent::Prompt(usage) => {
                        Some(uses(Some(*usage)))
                    }
                    _ => None,
                })
                .collect();
            assert_eq!(reported, if searches == 1 { vec![1, 1] } else { vec![0] });
        }
    }
}
