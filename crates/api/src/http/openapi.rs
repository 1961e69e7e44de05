//! The API description: generated from the handlers' own types, completed with the parts that all
//! handlers share.

use axum::Json;
use axum::extract::State;
use utoipa::OpenApi;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::Type;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityScheme};
use utoipa::openapi::{
    ContentBuilder, ObjectBuilder, OpenApi as Document, Ref, RefOr, ResponseBuilder,
    SecurityRequirement,
};

use crate::app::App;
use crate::http::error::ErrorBody;
use crate::http::session_cookies::COOKIE_NAME;
use crate::http::vendor_errors::{GeminiError, MessagesError, ResponsesError};

/// The head of the document.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Sluice",
        description = "A governed gateway between application code and AI model providers.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    components(schemas(ErrorBody, GeminiError, MessagesError, ResponsesError))
)]
pub(crate) struct Head;

/// The credential that a group of routes requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credential {
    None,
    Key,
    /// A key, for calls that cost money.
    SpendingKey,
    /// A key that may be in the query as well.
    RootKey,
    /// The same, for calls that cost money.
    SpendingRootKey,
    Session,
    /// A session or a service token.
    Member,
    /// A key or a member.
    Either,
}

impl Credential {
    fn is_root_key(self) -> bool {
        matches!(self, Self::RootKey | Self::SpendingRootKey)
    }

    fn is_key(self) -> bool {
        self.is_root_key() || matches!(self, Self::Key | Self::SpendingKey)
    }

    fn spends(self) -> bool {
        matches!(self, Self::SpendingKey | Self::SpendingRootKey)
    }
}

/// The responses that any operation may give beside its own, by credential.
const ANY: &[(&str, &str)] = &[
    ("400", "Malformed, or a required parameter is missing"),
    ("404", "It does not exist, or it is not yours"),
    ("500", "A defect of the gateway"),
    (
        "503",
        "The database is unavailable; the request may or may not have been recorded. Or: the project cannot be read",
    ),
];
const WITH_CREDENTIAL: &[(&str, &str)] = &[
    ("401", "No valid credential"),
    ("403", "Not allowed, or the address is blocked"),
    ("422", "Well-formed but invalid"),
    ("429", "Rate limit, spend cap or loop"),
];
const WITH_KEY: &[(&str, &str)] = &[
    ("402", "The monthly budget is used up"),
    ("502", "The provider could not be reached, or refused the request"),
];
/// These go before the rows of the same status.
const WITH_ROOT_KEY: &[(&str, &str)] = &[
    ("400", "Malformed or invalid, or the provider refused the request so"),
    (
        "422",
        "A tool or a document at an address of the caller's choice, or the provider refused the request so",
    ),
    ("529", "The provider is overloaded"),
];
const WITH_BODY: &[(&str, &str)] = &[
    ("408", "The body took too long to arrive"),
    ("413", "The body is too large"),
    ("415", "The body is not JSON"),
];

/// The headers of a call that give its attributes.
const ATTRIBUTES: &[(&str, &str)] = &[
    ("X-Sluice-User", "The user that the call is for, at most 128 characters"),
    ("X-Sluice-Session", "The session that it belongs to, at most 128 characters"),
    ("X-Sluice-Tags", "Tags, as `name=value,name=value`, at most 8"),
];
/// The operations with a body that call nobody and record no step, and so have no attributes.
const WITHOUT_ATTRIBUTES: &[&str] = &[
    "/api/v1/traces",
    "/api/v1/traces/{id}/complete",
    "/api/v1/simulate",
    "/anthropic/v1/messages/count_tokens",
];
/// The call whose parameters are in its query.
const WITH_QUERY: &str = "/api/v1/executions/stream";
/// The header of an answer that names the attributes that are not kept.
const DROPPED_ATTRIBUTES: (&str, &str) =
    ("X-Sluice-Dropped-Attributes", "The attributes of the call that are not kept");

/// The header by which a call is made once.
const IDEMPOTENCY_KEY: (&str, &str) = (
    "Idempotency-Key",
    "A name for this request, of 1 to 255 characters: sent again with the same one within 24 hours, it gets the same \
     answer, and no model is called",
);
/// The header of an answer that was given before.
const REPLAYED: (&str, &str) = (
    "Idempotency-Replayed",
    "`true` if this is the answer that the same Idempotency-Key got before",
);
const KEY_IN_USE: (&str, &str) = (
    "409",
    "The request with this Idempotency-Key is still running, or its answer is not known, or was not kept",
);

/// The headers of an answer that tell what is left of the requests of a key.
const QUOTA: &[(&str, &str)] = &[
    (
        "RateLimit",
        "`\"requests\";r=..;t=..`: requests that are left, seconds until there is one more",
    ),
    (
        "RateLimit-Policy",
        "`\"requests\";q=..;w=3600`: the most requests in the seconds of the window",
    ),
    ("x-ratelimit-limit-requests", "The most requests of the key in an hour"),
    ("x-ratelimit-remaining-requests", "Requests that are left"),
    ("x-ratelimit-reset-requests", "The time until there is one more, as `59m58s`"),
];

/// Adds to every operation of a group the parts that its kind shares. `error` names the schema of
/// their errors.
pub(crate) fn complete(mut document: Document, credential: Credential, error: &str) -> Document {
    // The router's sign for a parameter with slashes is none of the description's.
    let paths = std::mem::take(&mut document.paths.paths);
    let described = |(path, item): (String, _)| (path.replace("{*", "{"), item);
    document.paths.paths = paths.into_iter().map(described).collect();
    for (path, item) in &mut document.paths.paths {
        if let Some(post) = item.post.as_mut().filter(|_| credential.spends()) {
            describe_idempotency(post, error);
        }
        let operations =
            [&mut item.get, &mut item.post, &mut item.patch, &mut item.put, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            let has_attributes =
                operation.request_body.is_some() && !WITHOUT_ATTRIBUTES.contains(&&**path);
            if credential.is_key() && (has_attributes || path == WITH_QUERY) {
                describe_attributes(operation);
            }
            complete_operation(operation, credential, error);
            if credential.is_key() || credential == Credential::Either {
                describe_quota(operation);
            }
        }
    }
    document
}

fn complete_operation(operation: &mut Operation, credential: Credential, error: &str) {
    let mut shared: Vec<&(&str, &str)> = Vec::new();
    if credential.is_root_key() {
        shared.extend(WITH_ROOT_KEY);
    }
    shared.extend(ANY);
    if credential != Credential::None {
        shared.extend(WITH_CREDENTIAL);
    }
    if credential.is_key() || credential == Credential::Either {
        shared.extend(WITH_KEY);
    }
    if operation.request_body.is_some() {
        shared.extend(WITH_BODY);
        // Signing in has a body and no credential yet.
        shared.extend(WITH_CREDENTIAL);
    }
    for described in shared {
        describe_error(operation, *described, error);
    }
    let none: [String; 0] = [];
    let requirement = |name: &str| SecurityRequirement::new(name, none.clone());
    operation.security = match credential {
        Credential::None => None,
        Credential::Key | Credential::SpendingKey => {
            Some(vec![requirement("key"), requirement("x-api-key")])
        }
        Credential::RootKey | Credential::SpendingRootKey => {
            Some(["key", "x-api-key", "x-goog-api-key", "key-in-query"].map(requirement).to_vec())
        }
        Credential::Session => Some(vec![requirement("session")]),
        Credential::Member => Some(["session", "service-token"].map(requirement).to_vec()),
        Credential::Either => {
            Some(["key", "x-api-key", "session", "service-token"].map(requirement).to_vec())
        }
    };
}

/// Adds an error to the responses of an operation, unless its status is there.
fn describe_error(operation: &mut Operation, (status, description): (&str, &str), error: &str) {
    let content =
        ContentBuilder::new().schema(Some(RefOr::Ref(Ref::from_schema_name(error)))).build();
    let response =
        ResponseBuilder::new().description(description).content("application/json", content);
    let responses = &mut operation.responses.responses;
    responses.entry(status.to_owned()).or_insert_with(|| RefOr::T(response.build()));
}

/// Adds the headers of attributes to an operation, and to its own answers.
fn describe_attributes(operation: &mut Operation) {
    describe_parameters(operation, ATTRIBUTES);
    describe_headers(operation, &[DROPPED_ATTRIBUTES], |_| true);
}

/// Adds the header that has a call made once, and what follows from it.
fn describe_idempotency(operation: &mut Operation, error: &str) {
    describe_parameters(operation, &[IDEMPOTENCY_KEY]);
    describe_headers(operation, &[REPLAYED], |_| true);
    describe_error(operation, KEY_IN_USE, error);
}

/// Adds the headers that tell what is left of the requests of a key.
fn describe_quota(operation: &mut Operation) {
    describe_headers(operation, QUOTA, |status| status.starts_with('2') || status == "429");
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

fn describe_parameters(operation: &mut Operation, described: &[(&str, &str)]) {
    let parameters = described.iter().map(|(name, description)| {
        let parameter = ParameterBuilder::new().name(*name).parameter_in(ParameterIn::Header);
        RefOr::T(parameter.description(Some(*description)).schema(Some(text())).build())
    });
    operation.parameters.get_or_insert_default().extend(parameters);
}

/// Adds headers to the responses of an operation that are there, of some statuses.
fn describe_headers(
    operation: &mut Operation,
    described: &[(&str, &str)],
    is_meant: impl Fn(&str) -> bool,
) {
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        for (name, description) in described.iter().filter(|_| is_meant(status)) {
            let header = HeaderBuilder::new().schema(Some(text())).description(Some(*description));
            response.headers.insert((*name).to_owned(), RefOr::T(header.build()));
        }
    }
}

/// Adds the credentials themselves.
pub(crate) fn with_credentials(mut document: Document) -> Document {
    let components = document.components.get_or_insert_default();
    let cookie = ApiKey::Cookie(ApiKeyValue::with_description(
        COOKIE_NAME,
        "Where `public_url` is https, browsers have to send the cookie `__Host-sluice_session_own`, which is set with \
         it, as well",
    ));
    components.add_security_scheme("session", SecurityScheme::ApiKey(cookie));
    for name in ["x-api-key", "x-goog-api-key"] {
        let header = ApiKey::Header(ApiKeyValue::new(name));
        components.add_security_scheme(name, SecurityScheme::ApiKey(header));
    }
    let query = ApiKey::Query(ApiKeyValue::new("key"));
    components.add_security_scheme("key-in-query", SecurityScheme::ApiKey(query));
    let bearer = || SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    components.add_security_scheme("key", bearer());
    components.add_security_scheme("service-token", bearer());
    document
}

/// This description, for machines.
#[utoipa::path(get, path = "/api/v1/openapi.json", tag = "Health",
    responses((status = 200, body = Object)))]
pub async fn show(State(app): State<App>) -> Json<std::sync::Arc<Document>> {
    Json(app.document())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    #[test]
    fn the_statuses_of_a_root_are_its_vendors() {
        let document = serde_json::to_value(crate::router::document()).unwrap();
        let told = |path: &str, status: &str| {
            let responses = &document["paths"][path]["post"]["responses"];
            responses[status]["description"].as_str().unwrap_or_default().to_owned()
        };
        for path in ["/openai/v1/responses", "/anthropic/v1/messages"] {
            assert!(told(path, "400").contains("invalid"), "{path}");
            assert!(told(path, "422").contains("address"), "{path}");
        }
        assert_eq!(told("/api/v1/messages", "422"), "Well-formed but invalid");
    }

    #[test]
    fn a_call_may_have_attributes_and_reading_may_not() {
        let document = serde_json::to_value(crate::router::document()).unwrap();
        let headers = |path: &str, method: &str| -> Vec<String> {
            let parameters = document["paths"][path][method]["parameters"].as_array().cloned();
            let names = parameters.into_iter().flatten().filter(|one| one["in"] == "header");
            let names = names.filter(|one| one["name"] != "Idempotency-Key");
            names.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
        };
        for (path, status) in [
            ("/api/v1/executions", "200"),
            ("/anthropic/v1/messages", "200"),
            ("/openai/v1/embeddings", "200"),
            ("/api/v1/replay", "200"),
            ("/api/v1/replay", "202"),
        ] {
            let headers = headers(path, "post");
            for name in ["X-Sluice-User", "X-Sluice-Session", "X-Sluice-Tags"] {
                assert!(headers.iter().any(|header| header == name), "{path}: {headers:?}");
            }
            let answer = &document["paths"][path]["post"]["responses"][status]["headers"];
            assert!(answer["X-Sluice-Dropped-Attributes"].is_object(), "{path}: {answer}");
        }
        assert!(headers("/api/v1/executions/stream", "get").len() > 2);
        assert!(headers("/api/v1/logs", "post").len() > 2);
        for (path, method) in [
            ("/api/v1/traces", "get"),
            ("/api/v1/traces", "post"),
            ("/api/v1/simulate", "post"),
            ("/api/v1/replay/{job_id}", "get"),
            ("/api/v1/projects", "post"),
        ] {
            assert_eq!(headers(path, method), [""; 0], "{path}");
        }
    }

    #[test]
    fn a_call_may_be_made_once_and_every_answer_to_a_key_tells_what_is_left() {
        let document = serde_json::to_value(crate::router::document()).unwrap();
        let paths = document["paths"].as_object().unwrap();
        let mut calls = Vec::new();
        for (path, item) in paths {
            for (method, operation) in item.as_object().unwrap() {
                let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
                let takes_key = parameters.iter().any(|one| one["name"] == "Idempotency-Key");
                assert_eq!(
                    operation["responses"]["409"]["description"]
                        .as_str()
                        .is_some_and(|told| told.contains("Idempotency-Key")),
                    takes_key,
                    "{method} {path}"
                );
                if takes_key {
                    assert_eq!(method, "post", "{path}");
                    let answers = operation["responses"].as_object().unwrap();
                    let good = answers.iter().find(|(status, _)| status.starts_with('2')).unwrap();
                    assert!(good.1["headers"]["Idempotency-Replayed"].is_object(), "{path}");
                    calls.push(path.as_str());
                }
            }
        }
        for path in [
            "/api/v1/executions",
            "/api/v1/executions/stream",
            "/api/v1/replay",
            "/api/v1/messages",
            "/openai/v1/images/generations",
            "/gemini/v1beta/models/{model}",
        ] {
            assert!(calls.contains(&path), "{path} is not among {calls:?}");
        }
        assert!(!calls.contains(&"/api/v1/traces"));
        for (path, method, status, has) in [
            ("/api/v1/traces", "get", "200", true),
            ("/api/v1/stats", "get", "200", true),
            ("/api/v1/chat/completions", "post", "429", true),
            ("/api/v1/projects", "get", "200", false),
        ] {
            let headers = &document["paths"][path][method]["responses"][status]["headers"];
            assert_eq!(headers["RateLimit"].is_object(), has, "{method} {path}");
        }
    }

    #[test]
    fn every_credential_that_works_is_declared() {
        let document = serde_json::to_value(crate::router::document()).unwrap();
        let [key, header, session] = ["key", "x-api-key", "session"].map(|name| json!({name: []}));
        let token = json!({"service-token": []});
        let [google, query] = ["x-goog-api-key", "key-in-query"].map(|name| json!({name: []}));
        for (path, method, wanted) in [
            ("/api/v1/stats", "get", json!([key, header, session, token])),
            ("/api/v1/executions", "post", json!([key, header])),
            ("/api/v1/projects", "get", json!([session, token])),
            ("/api/v1/users/{user_id}", "delete", json!([session, token])),
            ("/api/v1/users/{user_id}", "patch", json!([session])),
            ("/api/v1/service-tokens", "post", json!([session])),
            ("/api/v1/session/password", "post", json!([session])),
            ("/gemini/v1beta/models/{model}", "post", json!([key, header, google, query])),
            ("/up", "get", Value::Null),
        ] {
            assert_eq!(document["paths"][path][method]["security"], wanted, "{path}");
        }
    }
}
