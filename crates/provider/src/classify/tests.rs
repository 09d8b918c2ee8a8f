//! Error bodies of all providers, and the class of each.

use super::*;
use serde_json::{Value, json};

/// The code, the delay and the message of each error.
fn table(errors: &[(Option<u16>, Value)]) -> String {
    let line = |(status, body): &(Option<u16>, Value)| {
        let error =
            error_in_json("x", *status, body).unwrap_or(Error::Truncated { provider: "no error".to_owned() });
        let wait = match &error {
            Error::RateLimited { retry_after: Some(wait), .. } => format!(" {wait:?}"),
            _ => String::new(),
        };
        format!("{}{wait}: {error}", error.code())
    };
    errors.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn openai(kind: &str, code: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

fn anthropic(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
}

fn gemini(code: u16, status: &str, message: &str, details: &[Value]) -> Value {
    json!({"error": {"code": code, "message": message, "status": status, "details": details}})
}

#[test]
fn openai_compatible_errors_are_classified() {
    insta::assert_snapshot!(table(&[
        (Some(401), openai("invalid_request_error", "invalid_api_key", "Incorrect API key provided")),
        (Some(403), openai("invalid_request_error", "unsupported_country_region_territory", "Country not supported")),
        (Some(404), openai("invalid_request_error", "model_not_found", "The model `m` does not exist")),
        (Some(429), openai("requests", "rate_limit_exceeded", "Rate limit reached")),
        (Some(429), openai("tokens", "rate_limit_exceeded", "Request too large for m: Limit 30000, Requested 36000. The input or output tokens must be reduced")),
        (Some(429), openai("insufficient_quota", "insufficient_quota", "You exceeded your current quota, please check your plan and billing details.")),
        (Some(400), openai("invalid_request_error", "context_length_exceeded", "This model's maximum context length is 128000 tokens.")),
        (Some(400), openai("invalid_request_error", "content_policy_violation", "Your request was rejected")),
        (Some(400), openai("invalid_request_error", "invalid_prompt", "Your prompt was flagged")),
        (Some(400), openai("invalid_request_error", "invalid_value", "messages: bad")),
        (Some(400), json!({"error": {"code": "content_filter", "message": "The response was filtered", "status": 400}})),
        (Some(500), openai("server_error", "", "The server had an error")),
        (Some(503), openai("server_error", "slow_down", "Slow down")),
        (Some(402), json!({"error": {"message": "Insufficient Balance"}})),
        (Some(413), json!({"error": {"code": "tokens_limit_reached", "message": "Request body too large. Max size: 8000 tokens."}})),
        (Some(400), json!({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": "prompt is too long: 9 > 8"}}})),
        (Some(403), json!({"error": {"message": "m requires moderation on y. Your input was flagged for \"z\".", "code": 403}})),
    ]), @r#"
    AUTH: x rejected the API key: Incorrect API key provided
    AUTH: x rejected the API key: Country not supported
    MODEL_NOT_FOUND: x rejected the request: no such model or URL: The model `m` does not exist
    RATE_LIMITED: rate limit at x reached: Rate limit reached
    CONTEXT_OVERFLOW: the conversation is too long for the model: Request too large for m: Limit 30000, Requested 36000. The input or output tokens must be reduced
    QUOTA: the quota at x is exhausted: You exceeded your current quota, please check your plan and billing details.
    CONTEXT_OVERFLOW: the conversation is too long for the model: This model's maximum context length is 128000 tokens.
    REFUSED: x declined to answer: Your request was rejected
    REFUSED: x declined to answer: Your prompt was flagged
    BAD_REQUEST: x rejected the request: messages: bad
    REFUSED: x declined to answer: The response was filtered
    TRANSIENT: x is temporarily unavailable: The server had an error
    TRANSIENT: x is temporarily unavailable: Slow down
    QUOTA: the quota at x is exhausted: Insufficient Balance
    CONTEXT_OVERFLOW: the conversation is too long for the model: Request body too large. Max size: 8000 tokens.
    CONTEXT_OVERFLOW: the conversation is too long for the model: Provider returned error: prompt is too long: 9 > 8
    REFUSED: x declined to answer: m requires moderation on y. Your input was flagged for "z".
    "#);
}

#[test]
fn errors_of_local_servers_are_classified() {
    insta::assert_snapshot!(table(&[
        (Some(400), json!({"error": {"code": 400, "message": "the request exceeds the available context size", "type": "exceed_context_size_error"}})),
        (Some(503), json!({"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}})),
        (Some(400), json!({"object": "error", "message": "This model's maximum context length is 4096 tokens.", "type": "BadRequestError", "code": 400})),
        (Some(404), json!({"object": "error", "message": "The model `m` does not exist.", "type": "NotFoundError", "code": 404})),
        (Some(422), json!({"detail": [{"loc": ["body", "messages"], "msg": "field required"}]})),
        (Some(404), json!({"error": "model 'm' not found"})),
        (Some(400), json!({"error": "input length exceeds maximum context length"})),
        (Some(400), json!({"error": "m does not support tools"})),
        (Some(429), json!({"error": "You exceeded your current quota"})),
        (None, json!({"error": "llama runner process has terminated"})),
    ]), @r#"
    CONTEXT_OVERFLOW: the conversation is too long for the model: the request exceeds the available context size
    TRANSIENT: x is temporarily unavailable: Loading model
    CONTEXT_OVERFLOW: the conversation is too long for the model: This model's maximum context length is 4096 tokens.
    MODEL_NOT_FOUND: x rejected the request: no such model or URL: The model `m` does not exist.
    BAD_REQUEST: x rejected the request: [{"loc":["body","messages"],"msg":"field required"}]
    MODEL_NOT_FOUND: x rejected the request: no such model or URL: model 'm' not found
    CONTEXT_OVERFLOW: the conversation is too long for the model: input length exceeds maximum context length
    BAD_REQUEST: x rejected the request: m does not support tools
    QUOTA: the quota at x is exhausted: You exceeded your current quota
    TRANSIENT: x is temporarily unavailable: llama runner process has terminated
    "#);
}

#[test]
fn anthropic_errors_are_classified() {
    insta::assert_snapshot!(table(&[
        (Some(401), anthropic("authentication_error", "invalid x-api-key")),
        (Some(403), anthropic("permission_error", "Your key may not use this")),
        (Some(404), anthropic("not_found_error", "model: m")),
        (Some(400), anthropic("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")),
        (Some(400), anthropic("invalid_request_error", "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000")),
        (Some(413), anthropic("request_too_large", "Request exceeds the maximum size")),
        (Some(400), anthropic("invalid_request_error", "Your credit balance is too low to access the API.")),
        (Some(402), anthropic("billing_error", "Pay first")),
        (Some(429), anthropic("rate_limit_error", "Rate limit reached")),
        (Some(429), anthropic("rate_limit_error", "You exceeded your current quota")),
        (Some(400), anthropic("invalid_request_error", "Output blocked by content filtering policy")),
        (Some(400), anthropic("invalid_request_error", "messages: bad")),
        (Some(500), anthropic("api_error", "Internal error")),
        (Some(529), anthropic("overloaded_error", "Overloaded")),
        (None, anthropic("overloaded_error", "Overloaded")),
        (None, anthropic("invalid_request_error", "messages: bad")),
    ]), @"
    AUTH: x rejected the API key: invalid x-api-key
    AUTH: x rejected the API key: Your key may not use this
    MODEL_NOT_FOUND: x rejected the request: no such model or URL: model: m
    CONTEXT_OVERFLOW: the conversation is too long for the model: prompt is too long: 210000 tokens > 200000 maximum
    CONTEXT_OVERFLOW: the conversation is too long for the model: input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000
    CONTEXT_OVERFLOW: the conversation is too long for the model: Request exceeds the maximum size
    QUOTA: the quota at x is exhausted: Your credit balance is too low to access the API.
    QUOTA: the quota at x is exhausted: Pay first
    RATE_LIMITED: rate limit at x reached: Rate limit reached
    QUOTA: the quota at x is exhausted: You exceeded your current quota
    REFUSED: x declined to answer: Output blocked by content filtering policy
    BAD_REQUEST: x rejected the request: messages: bad
    TRANSIENT: x is temporarily unavailable: Internal error
    TRANSIENT: x is temporarily unavailable: Overloaded
    TRANSIENT: x is temporarily unavailable: Overloaded
    BAD_REQUEST: x rejected the request: messages: bad
    ");
}

#[test]
fn gemini_errors_are_classified() {
    let retry = json!({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"});
    let quota = |id: &str| json!({"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id}]});
    let key = json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"});
    let spent = "You exceeded your current quota, please check your plan and billing details.";
    insta::assert_snapshot!(table(&[
        (Some(400), gemini(400, "INVALID_ARGUMENT", "API key not valid.", &[key])),
        (Some(403), gemini(403, "PERMISSION_DENIED", "Not allowed", &[])),
        (Some(404), gemini(404, "NOT_FOUND", "models/m is not found", &[])),
        (Some(400), gemini(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (8).", &[])),
        (Some(429), gemini(429, "RESOURCE_EXHAUSTED", "Rate limit reached", std::slice::from_ref(&retry))),
        (Some(429), gemini(429, "RESOURCE_EXHAUSTED", spent, &[quota("RequestsPerMinutePerModel"), retry.clone()])),
        (Some(429), gemini(429, "RESOURCE_EXHAUSTED", spent, &[quota("RequestsPerDayPerModel"), retry])),
        (Some(429), gemini(429, "RESOURCE_EXHAUSTED", spent, &[])),
        (Some(400), gemini(400, "FAILED_PRECONDITION", "User location is not supported", &[])),
        (Some(503), gemini(503, "UNAVAILABLE", "The model is overloaded.", &[])),
        (Some(504), gemini(504, "DEADLINE_EXCEEDED", "Too slow", &[])),
        (Some(429), json!([gemini(429, "RESOURCE_EXHAUSTED", "in a list", &[])])),
        (None, gemini(503, "UNAVAILABLE", "The model is overloaded.", &[])),
        (None, gemini(400, "INVALID_ARGUMENT", "contents: bad", &[])),
    ]), @"
    AUTH: x rejected the API key: API key not valid.
    AUTH: x rejected the API key: Not allowed
    MODEL_NOT_FOUND: x rejected the request: no such model or URL: models/m is not found
    CONTEXT_OVERFLOW: the conversation is too long for the model: The input token count (9) exceeds the maximum number of tokens allowed (8).
    RATE_LIMITED 1.5s: rate limit at x reached: Rate limit reached
    RATE_LIMITED 1.5s: rate limit at x reached: You exceeded your current quota, please check your plan and billing details.
    QUOTA: the quota at x is exhausted: You exceeded your current quota, please check your plan and billing details.
    QUOTA: the quota at x is exhausted: You exceeded your current quota, please check your plan and billing details.
    BAD_REQUEST: x rejected the request: User location is not supported
    TRANSIENT: x is temporarily unavailable: The model is overloaded.
    TRANSIENT: x is temporarily unavailable: Too slow
    RATE_LIMITED: rate limit at x reached: in a list
    TRANSIENT: x is temporarily unavailable: The model is overloaded.
    BAD_REQUEST: x rejected the request: contents: bad
    ");
}

#[test]
fn error_in_a_stream_is_classified_by_its_own_code() {
    insta::assert_snapshot!(table(&[
        (None, openai("server_error", "overloaded", "The server had an error")),
        (None, openai("upstream_error", "502", "upstream failed")),
        (Some(200), json!({"error": {"message": "upstream failed", "code": 502, "type": "upstream_error"}})),
        (None, json!({"type": "error", "code": "rate_limit_exceeded", "message": "Slow down"})),
        (None, openai("", "context_length_exceeded", "too long")),
        (None, openai("invalid_request_error", "", "bad")),
        (None, json!({"error": {}})),
        (None, json!({"error": {"code": 429}})),
    ]), @"
    TRANSIENT: x is temporarily unavailable: The server had an error
    TRANSIENT: x is temporarily unavailable: upstream failed
    TRANSIENT: x is temporarily unavailable: upstream failed
    RATE_LIMITED: rate limit at x reached: Slow down
    CONTEXT_OVERFLOW: the conversation is too long for the model: too long
    BAD_REQUEST: x rejected the request: bad
    TRANSIENT: x is temporarily unavailable: no error message given
    RATE_LIMITED: rate limit at x reached: HTTP 429 without an error message
    ");
}

#[test]
fn body_without_an_error_yields_none() {
    for body in
        [json!({"error": null}), json!({"message": "hello"}), json!([]), json!("x"), json!({"type": "error"})]
    {
        assert!(error_in_json("x", None, &body).is_none(), "{body}");
    }
}

#[test]
fn bare_status_is_classified() {
    let codes = |statuses: &[u16]| -> Vec<String> {
        let reported = |status: &u16| ReportedError { status: Some(*status), ..ReportedError::default() };
        statuses.iter().map(|status| classify("x", &reported(status)).code().to_owned()).collect()
    };
    assert_eq!(codes(&[401, 403]), ["AUTH", "AUTH"]);
    assert_eq!(codes(&[402, 413, 429]), ["QUOTA", "CONTEXT_OVERFLOW", "RATE_LIMITED"]);
    assert_eq!(codes(&[400, 405, 422, 501]), ["BAD_REQUEST"; 4]);
    assert_eq!(codes(&[404]), ["MODEL_NOT_FOUND"]);
    assert_eq!(codes(&[408, 409, 425, 500, 502, 503, 504, 520, 529]), ["TRANSIENT"; 9]);
    let error = classify("x", &ReportedError { status: Some(500), ..ReportedError::default() });
    assert_eq!(error.to_string(), "x is temporarily unavailable: HTTP 500 without an error message");
}
