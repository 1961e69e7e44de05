//! The attributes of a call: gathered from the headers of its request, from its body, and from the
//! metadata of its trace, the first that names one.

use std::borrow::Cow;
use std::sync::Arc;

use domain::attributes::{Attributes, Gathering};
use domain::conversation::Prompt;
use serde_json::{Map, Value};

use crate::pipeline::session::{LONGEST_USER_ID, SESSION_PART, in_user_id};
use crate::request_id;
use crate::state::caller::Caller;
use crate::state::known_traces::TraceHandle;

/// The parts of a request's body that name attributes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NamedInBody<'a> {
    /// Its conversation, whose parameters may name some.
    pub(crate) prompt: Option<&'a Prompt>,
    /// The user that a body without a conversation names.
    pub(crate) user: Option<&'a str>,
    /// The metadata of a conversation whose parameters have none.
    pub(crate) metadata: Option<&'a Map<String, Value>>,
}

impl<'a> NamedInBody<'a> {
    /// A conversation.
    pub(crate) fn of(prompt: &'a Prompt) -> Self {
        Self { prompt: Some(prompt), ..Self::default() }
    }
}

/// Gathers the attributes of a call; `None` if there are none. Those that are not kept are named to the
/// caller.
pub(crate) fn gather(
    caller: &Caller,
    trace: Option<&TraceHandle>,
    body: NamedInBody<'_>,
) -> Option<Arc<Attributes>> {
    let mut gathering = Gathering::default();
    if let Some(given) = &caller.attributes {
        if let Some(user) = &given.user {
            gathering.user(user);
        }
        if let Some(tags) = &given.tags {
            gathering.tags(tags);
        }
    }
    if let Some(session) = &caller.session_name {
        gathering.session(session);
    }
    in_body(&mut gathering, body);
    if let Some(attributes) = trace.and_then(TraceHandle::attributes) {
        gathering.add(attributes);
    }
    let (attributes, faults) = gathering.finish();
    if !faults.is_empty() {
        let mut names: Vec<String> = faults.into_iter().map(|(name, _)| name).collect();
        names.dedup();
        request_id::note_dropped_attributes(names);
    }
    if attributes.is_empty() {
        return None;
    }
    Some(Arc::new(caller.project.stored_attributes(attributes)))
}

fn in_body(gathering: &mut Gathering, body: NamedInBody<'_>) {
    if let Some(user) = body.user {
        gathering.user(user);
    }
    let param = |name| body.prompt.and_then(|prompt| prompt.params.get(name));
    if let Some(user) = param("user").and_then(Value::as_str) {
        gathering.user(&user_in(user));
        if let Some(session) = in_user_id(user) {
            gathering.session(&session);
        }
    }
    if let Some(identifier) = param("safety_identifier").and_then(Value::as_str) {
        gathering.user(identifier);
    }
    let metadata = param("metadata").and_then(Value::as_object).or(body.metadata);
    for (name, value) in metadata.into_iter().flatten() {
        match (name.as_str(), value.as_str()) {
            ("user", Some(user)) => gathering.user(user),
            ("session", Some(session)) => gathering.session(session),
            (name, Some(value)) => gathering.tag(name, value),
            (_, None) => {}
        }
    }
}

/// The user in an identifier of Anthropic's clients, which has their session too; other identifiers are
/// the user as they stand.
fn user_in(id: &str) -> Cow<'_, str> {
    if id.len() <= LONGEST_USER_ID && id.starts_with('{') {
        let fields = serde_json::from_str::<Map<String, Value>>(id).unwrap_or_default();
        let text = |name| fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        if let Some(user) = text("account_uuid").or_else(|| text("device_id")) {
            return Cow::Owned(user.to_owned());
        }
    }
    let user = id.rsplit_once(SESSION_PART).map(|(user, _)| user);
    match user.filter(|user| user.starts_with("user_")) {
        Some(user) => match user.split_once("_account_") {
            Some((user, "")) => Cow::Borrowed(user),
            Some((_, account)) => Cow::Borrowed(account),
            None => Cow::Borrowed(user),
        },
        None => Cow::Borrowed(id),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn gathered(body: Value) -> (Option<String>, Option<String>, Vec<String>) {
        let mut gathering = Gathering::default();
        let params = body.as_object().unwrap().clone();
        let prompt = Prompt { params, ..Prompt::question("Hello.".to_owned()) };
        in_body(&mut gathering, NamedInBody::of(&prompt));
        let (attributes, _) = gathering.finish();
        let tags = attributes.tags.iter().map(|(name, value)| format!("{name}={value}"));
        (attributes.user, attributes.session, tags.collect())
    }

    #[test]
    fn clients_name_the_user_in_their_own_ways() {
        let json = r#"{"device_id":"d","account_uuid":"","session_id":"s-1"}"#;
        let account = r#"{"device_id":"d","account_uuid":"a","session_id":"s-1"}"#;
        for (body, user, session) in [
            (json!({"user": "jane"}), "jane", None),
            (json!({"safety_identifier": "jane"}), "jane", None),
            (json!({"safety_identifier": "joe", "user": "jane"}), "jane", None),
            (json!({"user": json}), "d", Some("s-1")),
            (json!({"user": account}), "a", Some("s-1")),
            (json!({"user": "user_ab12_account__session_s-2"}), "user_ab12", Some("s-2")),
            (json!({"user": "user_ab12_account_c3_session_s-3"}), "c3", Some("s-3")),
            (json!({"user": "guest_session_s-4"}), "guest_session_s-4", None),
            (json!({"user": "{broken"}), "{broken", None),
            (json!({"metadata": {"user": "jane", "session": "s"}}), "jane", Some("s")),
        ] {
            let (found, of_session, tags) = gathered(body.clone());
            assert_eq!((found.as_deref(), of_session.as_deref()), (Some(user), session), "{body}");
            assert_eq!(tags, [""; 0], "{body}");
        }
        let (user, _, tags) = gathered(json!({"metadata": {"team": "red", "n": 7}, "user": null}));
        assert_eq!((user, tags), (None, vec!["team=red".to_owned()]));
    }
}
