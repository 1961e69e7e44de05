//! The choice of a request's session: the first name of one that its caller or its client gives, else
//! what the request itself shows.

use std::borrow::Cow;

use domain::conversation::Prompt;
use domain::step::ApiEndpoint;
use serde_json::{Map, Value};

use crate::state::caller::Caller;
use crate::state::known_traces::TraceHandle;
use crate::state::session::{SessionId, is_session_name};

/// The identifiers that Anthropic's clients put together in `metadata.user_id` are shorter, in bytes.
pub(super) const LONGEST_USER_ID: usize = 1024;
/// Stands before the session in an identifier that is no JSON.
pub(super) const SESSION_PART: &str = "_session_";

/// The session of a request: that of a header, of its body, of its trace's metadata, of its
/// conversation, or the trace itself where there is no conversation.
pub(super) fn find(
    caller: &Caller,
    trace: &TraceHandle,
    api_endpoint: ApiEndpoint,
    prompt: &Prompt,
) -> SessionId {
    if let Some(name) = name(caller, Some(prompt)) {
        return caller.named_session(&name);
    }
    if let Some(name) = trace.session_name() {
        return caller.named_session(name);
    }
    of_conversation(caller, api_endpoint, prompt)
        .unwrap_or_else(|| caller.project.session_key.of_trace(caller.key.key.id, trace.id()))
}

/// The session that a request shows by itself, before it has a trace.
#[derive(Debug)]
pub(super) struct ShownSession {
    pub(super) id: SessionId,
    /// Its name, if the client gave one.
    pub(super) name: Option<String>,
}

/// The session that a request shows without a trace: that of a header, of its body, or of its
/// conversation.
pub(super) fn shown(
    caller: &Caller,
    api_endpoint: ApiEndpoint,
    prompt: Option<&Prompt>,
) -> Option<ShownSession> {
    if let Some(name) = name(caller, prompt) {
        let id = caller.named_session(&name);
        return Some(ShownSession { id, name: Some(name.into_owned()) });
    }
    let id = of_conversation(caller, api_endpoint, prompt?)?;
    Some(ShownSession { id, name: None })
}

/// The name of a session in the headers of a request or in its parameters.
fn name<'a>(caller: &'a Caller, prompt: Option<&'a Prompt>) -> Option<Cow<'a, str>> {
    let header = caller.session_name.as_deref().map(Cow::from);
    header.or_else(|| named_by(&prompt?.params))
}

/// The session of a conversation, for requests that hold the whole of it.
fn of_conversation(
    caller: &Caller,
    api_endpoint: ApiEndpoint,
    prompt: &Prompt,
) -> Option<SessionId> {
    let continued = prompt.original.as_ref().and_then(|original| original.continuation.session);
    if let Some(session) = continued {
        return Some(SessionId::continued(session));
    }
    api_endpoint
        .is_conversation()
        .then(|| caller.project.session_key.of_conversation(caller.key.key.id, prompt))
}

/// The name of a session in the parameters of a request.
fn named_by(params: &Map<String, Value>) -> Option<Cow<'_, str>> {
    let text = |name| params.get(name).and_then(Value::as_str);
    let key = text("prompt_cache_key").map(Cow::from);
    let name = key.or_else(|| text("user").and_then(in_user_id));
    name.filter(|name| is_session_name(name))
}

/// The session in an identifier of Anthropic's clients, a JSON text with `session_id` or
/// `user_..._session_...`; none in an identifier of an ordinary user.
pub(super) fn in_user_id(id: &str) -> Option<Cow<'_, str>> {
    if id.len() > LONGEST_USER_ID {
        return None;
    }
    if id.starts_with('{') {
        let Value::Object(mut fields) = serde_json::from_str(id).ok()? else { return None };
        return match fields.remove("session_id")? {
            Value::String(session) => Some(session.into()),
            _ => None,
        };
    }
    let (user, session) = id.rsplit_once(SESSION_PART)?;
    user.starts_with("user_").then(|| session.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pipeline::context::RequestContext;
    use crate::testing::Fresh;

    fn named(params: Value) -> Option<String> {
        named_by(params.as_object().unwrap()).map(Cow::into_owned)
    }

    #[test]
    fn a_client_names_its_session_in_the_body() {
        let json = r#"{"device_id":"d","account_uuid":"","session_id":"s-1"}"#;
        let long = "x".repeat(257);
        for (params, name) in [
            (json!({"prompt_cache_key": "s-0", "user": json}), Some("s-0")),
            (json!({"user": json}), Some("s-1")),
            (json!({"user": "user_ab12_account__session_s-2"}), Some("s-2")),
            (json!({"user": "user_ab_session_x_account_y_session_s-3"}), Some("s-3")),
            (json!({"user": "jane"}), None),
            (json!({"user": "guest_session_s-4"}), None),
            (json!({"user": "{\"session_id\": 5}"}), None),
            (json!({"user": "{\"session_id\": "}), None),
            (json!({"user": "user_a_session_"}), None),
            (json!({"user": format!("user_a_session_{long}")}), None),
            (
                json!({"user": format!("{{\"session_id\": \"s\", \"x\": \"{}\"}}", "x".repeat(1024))}),
                None,
            ),
            (json!({"prompt_cache_key": long}), None),
            (json!({"prompt_cache_key": ""}), None),
            (json!({"prompt_cache_key": 7}), None),
            (json!({}), None),
        ] {
            assert_eq!(named(params.clone()).as_deref(), name, "{params}");
        }
    }

    /// Each request names its session in one more place than the one before it, and that place counts.
    #[tokio::test]
    async fn the_first_name_counts() {
        let fresh = Fresh::with(json!({})).await;
        let caller = &fresh.caller;
        let context = async |trace: &str, caller: &Caller, endpoint| -> RequestContext {
            fresh.gateway.request_context(caller, trace, None, endpoint).await.unwrap()
        };
        let plain = fresh.trace().await;
        let metadata = Map::from_iter([("session".to_owned(), "of the trace".into())]);
        let named = fresh.gateway.open_trace(caller, Some(metadata), None).await.unwrap();
        let named = named.id.to_string();
        let asks = |params: Value| Prompt {
            params: params.as_object().unwrap().clone(),
            ..Prompt::question("Hello.".to_owned())
        };
        let body = asks(json!({"prompt_cache_key": "of the body"}));
        let header = caller.clone().in_session("of the header");
        let chat = ApiEndpoint::Chat;

        let conversation = context(&plain, caller, chat).await.session(&asks(json!({})));
        let key = caller.key.key.id;
        let of_conversation = caller.project.session_key.of_conversation(key, &asks(json!({})));
        assert_eq!(conversation, of_conversation);
        for endpoint in [ApiEndpoint::Messages, ApiEndpoint::Responses, ApiEndpoint::Gemini] {
            let found = context(&plain, caller, endpoint).await.session(&asks(json!({})));
            assert_eq!(found, of_conversation, "{endpoint:?}");
        }
        for (trace, caller, prompt, name) in [
            (&named, caller, asks(json!({})), "of the trace"),
            (&named, caller, body.clone(), "of the body"),
            (&named, &header, body, "of the header"),
        ] {
            let found = context(trace, caller, chat).await.session(&prompt);
            assert_eq!(found, caller.named_session(name), "{name}");
        }
        let nameless = caller.clone().in_session("");
        assert_eq!(context(&plain, &nameless, chat).await.session(&asks(json!({}))), conversation);

        let trace = context(&plain, caller, ApiEndpoint::Executions).await;
        let of_trace = caller.project.session_key.of_trace(key, trace.trace.id());
        assert_eq!(trace.session(&asks(json!({}))), of_trace);
        assert_eq!(trace.session(&asks(json!({"prompt_cache_key": "s"}))), of_trace, "it is kept");
    }
}
