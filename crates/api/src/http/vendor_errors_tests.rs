use gateway::Error;

use super::*;

#[test]
fn every_status_has_the_vendors_word() {
    let table = [
        (400, "invalid_request_error", "invalid_request_error"),
        (401, "authentication_error", "authentication_error"),
        (402, "billing_error", "insufficient_quota"),
        (403, "permission_error", "permission_error"),
        (404, "not_found_error", "invalid_request_error"),
        (413, "request_too_large", "invalid_request_error"),
        (422, "invalid_request_error", "invalid_request_error"),
        (429, "rate_limit_error", "rate_limit_error"),
        (500, "api_error", "server_error"),
        (502, "api_error", "server_error"),
        (503, "overloaded_error", "server_error"),
    ];
    for (status, messages, responses) in table {
        let status = StatusCode::from_u16(status).unwrap();
        let body = || Failure::new(status, "no").into_body();
        assert_eq!(MessagesError::told(status, body(), None).error.kind, messages);
        assert_eq!(ResponsesError::told(status, body()).error.kind, responses);
    }
}

#[test]
fn an_invalid_request_is_400_to_a_vendors_clients() {
    let invalid = || Failure::from(Error::invalid("no"));
    for (failure, ours, theirs) in [
        (invalid(), 422, 400),
        (Failure::from(Error::InvalidMessage { index: 0, fault: "no".to_owned() }), 422, 400),
        (invalid().reaches_address(), 422, 422),
        (invalid().unknown_model(), 422, 404),
        (Failure::from(Error::Malformed("no".to_owned())), 400, 400),
        (
            Failure::from(Error::ProviderRejected {
                status: 422,
                message: "no".to_owned(),
                code: None,
            }),
            502,
            422,
        ),
    ] {
        let (status, body) = (failure.status(), failure.into_body());
        assert_eq!((status.as_u16(), of_vendor(status, body).0.as_u16()), (ours, theirs));
    }
}

#[test]
fn every_status_has_geminis_word() {
    for (status, told, word) in [
        (400, 400, "INVALID_ARGUMENT"),
        (401, 401, "UNAUTHENTICATED"),
        (402, 402, "FAILED_PRECONDITION"),
        (403, 403, "PERMISSION_DENIED"),
        (404, 404, "NOT_FOUND"),
        (408, 408, "DEADLINE_EXCEEDED"),
        (413, 413, "INVALID_ARGUMENT"),
        (422, 400, "INVALID_ARGUMENT"),
        (429, 429, "RESOURCE_EXHAUSTED"),
        (500, 500, "INTERNAL"),
        (502, 502, "UNAVAILABLE"),
        (503, 503, "UNAVAILABLE"),
    ] {
        let status = StatusCode::from_u16(status).unwrap();
        let response = at_gemini_root(Failure::new(status, "no").into_response());
        assert_eq!(response.status().as_u16(), told);
        let error = serde_json::to_value(GeminiError::of(Failure::new(status, "no"))).unwrap();
        assert_eq!(error["error"], json!({"code": told, "message": "no", "status": word}));
    }
}

#[test]
fn a_failure_keeps_its_sentence_and_code() {
    let failure = || Failure::from(Error::LoopDetected);
    let told = serde_json::to_value(MessagesError::of(failure(), Dialect::Sluice)).unwrap();
    let sentence = "Recursive loop detected. Account throttled.";
    let error = json!({"type": "rate_limit_error", "message": sentence, "code": "LOOP_DETECTED"});
    assert_eq!(told, json!({"type": "error", "error": error}));
    let (status, body) = (failure().status(), failure().into_body());
    let told = serde_json::to_value(ResponsesError::told(status, body)).unwrap();
    let error = json!({"message": sentence, "type": "rate_limit_error", "param": null,
        "code": "LOOP_DETECTED"});
    assert_eq!(told, json!({"error": error}));
}

#[test]
fn a_providers_status_is_told() {
    let rejected =
        || Error::ProviderRejected { status: 413, message: "Too much.".to_owned(), code: None };
    let failure = || Failure::from(rejected());
    let told = serde_json::to_value(MessagesError::of(failure(), Dialect::Sluice)).unwrap();
    let error = json!({"type": "api_error", "message": "Too much.",
        "code": "provider_rejected", "provider_status": 413});
    assert_eq!(told["error"], error);
    let (status, body) = (failure().status(), failure().into_body());
    let told = serde_json::to_value(ResponsesError::told(status, body)).unwrap();
    let error = json!({"message": "Too much.", "type": "server_error", "param": null,
        "code": "provider_rejected", "provider_status": 413});
    assert_eq!(told["error"], error);
}

#[test]
fn details_are_for_their_vendors_clients_alone() {
    let failure = || Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "no").details(json!({"a": 1}));
    let told = serde_json::to_value(MessagesError::of(failure(), Dialect::Sluice)).unwrap();
    let error = json!({"type": "invalid_request_error", "message": "no", "details": {"a": 1}});
    assert_eq!(told, json!({"type": "error", "error": error}));
    let told = serde_json::to_value(failure().into_body()).unwrap();
    assert_eq!(told, json!({"error": "no"}));
}
