//! The way of a new project to its first call.

use dashboard::FirstSteps;
use domain::ids::ProjectId;
use domain::model::Model;
use serde_json::Value;

use crate::app::App;
use crate::console::failure::Result;
use crate::console::visit::Visit;

/// Parts of the names of models that answer no prompt. The registry does not know what a model does.
const OTHER_KINDS: [&str; 7] =
    ["embed", "image", "dall-e", "whisper", "tts", "rerank", "moderation"];

/// The steps to a first call that are done. The sandbox counts for none: it is there from the beginning.
pub(super) fn first_steps(app: &App, visit: &Visit, project: ProjectId) -> Result<FirstSteps> {
    let member = visit.member();
    let settings = app.gateway.project(member, project)?.project.settings;
    let tiers = settings.get("routing_tiers").and_then(Value::as_object);
    let models = app.gateway.list_models(member, project)?;
    let own: Vec<&Model> =
        models.iter().map(|view| &*view.model).filter(|model| !model.is_sandbox()).collect();
    let in_tier = |model: &Model| {
        let name = Some(model.identifier.as_str());
        tiers.is_some_and(|tiers| tiers.values().any(|chosen| chosen.as_str() == name))
    };
    let callable = || own.iter().copied().filter(|model| is_plain(&model.identifier));
    let chosen = callable().find(|model| in_tier(model)).or_else(|| {
        callable().find(|model| may_chat(&model.identifier) && may_chat(model.upstream_name()))
    });
    Ok(FirstSteps {
        model: chosen.map_or("sandbox", |model| model.identifier.as_str()).to_owned(),
        has_model: !own.is_empty(),
        has_tier: own.iter().any(|model| in_tier(model)),
        has_key: app.gateway.list_keys(member).iter().any(|view| view.key.project == project),
    })
}

/// Whether a name can stand inside the quotation marks of a shell and of Python.
fn is_plain(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:/@".contains(c))
}

/// Whether a model of this name may answer prompts.
fn may_chat(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    !OTHER_KINDS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_that_answer_no_prompt_are_told_by_their_names() {
        for name in ["gpt-4.1", "claude-sonnet-4", "gemini-2.5-flash", "llama3.1:8b", "small"] {
            assert!(may_chat(name), "{name}");
        }
        for name in [
            "text-embedding-3-small",
            "nomic-embed-text",
            "gpt-image-1",
            "dall-e-3",
            "imagen-4.0-generate-001",
            "whisper-1",
            "tts-1-hd",
            "Cohere.Rerank-v3",
            "omni-moderation-latest",
        ] {
            assert!(!may_chat(name), "{name}");
        }
    }
}
