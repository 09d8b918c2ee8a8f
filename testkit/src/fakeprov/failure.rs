//! Error responses before any event: a status, headers, and an error body in the format of the API.

use super::{ProviderApi, Rejection, http::FakeReply, script};
use serde_json::{Value, json};

/// The fields of an error in any API; each API uses those that it has.
struct ErrorFields<'a> {
    kind: &'a str,
    message: &'a str,
    code: &'a str,
    status: &'a str,
    details: Value,
}

/// Returns the error response of a scenario; `None` if the scenario has none.
pub(super) fn failure(api: ProviderApi, scenario: &str, key: &str) -> Option<FakeReply> {
    let kind = |anthropic: &'static str, others: &'static str| {
        if api == ProviderApi::Anthropic { anthropic } else { others }
    };
    let fail = |status, kind, message: &str, code, word| {
        let fields = ErrorFields { kind, message, code, status: word, details: json!([]) };
        FakeReply::json(status, &body(api, status, &fields))
    };
    let invalid = "invalid_request_error";
    let reply = match scenario {
        "r429" | "r429ms" | "r429date" => rate_limit(api, scenario),
        "quota" => {
            let message = "You exceeded your current quota, please check your plan and billing details.";
            let kind = kind("rate_limit_error", "insufficient_quota");
            fail(429, kind, message, "insufficient_quota", "RESOURCE_EXHAUSTED")
        }
        "ctx400" => fail(400, invalid, too_long(api), "context_length_exceeded", "INVALID_ARGUMENT"),
        "auth401" | "echokey" => {
            let echo = script::echo(key);
            let message = if scenario == "echokey" { &echo } else { "invalid x-api-key" };
            fail(401, kind("authentication_error", invalid), message, "invalid_api_key", "UNAUTHENTICATED")
        }
        "bad400" => fail(400, invalid, "messages: bad", "invalid_value", "INVALID_ARGUMENT"),
        "r500" => fail(500, "api_error", "Internal error", "server_error", "INTERNAL"),
        "r503" => {
            let reply = fail(503, "api_error", "Internal error", "server_error", "INTERNAL");
            reply.with("Retry-After", "3")
        }
        "o529" => {
            let reply = fail(529, "overloaded_error", "Overloaded", "overloaded", "UNAVAILABLE");
            reply.with("x-should-retry", "true")
        }
        _ => return None,
    };
    Some(reply)
}

/// The response to a request that a test rejects.
pub(super) fn rejection(api: ProviderApi, rejection: &Rejection) -> FakeReply {
    let Rejection { status, message, .. } = rejection;
    let kind = "invalid_request_error";
    let fields = ErrorFields { kind, message, code: "", status: "INVALID_ARGUMENT", details: json!([]) };
    FakeReply::json(*status, &body(api, *status, &fields))
}

fn rate_limit(api: ProviderApi, scenario: &str) -> FakeReply {
    let fields = ErrorFields {
        kind: if api == ProviderApi::Anthropic { "rate_limit_error" } else { "requests" },
        message: "Rate limit reached",
        code: "rate_limit_exceeded",
        status: "RESOURCE_EXHAUSTED",
        details: json!([{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1.5s"}]),
    };
    let reply = FakeReply::json(429, &body(api, 429, &fields));
    match scenario {
        "r429" => reply.with("Retry-After", "7"),
        "r429date" => {
            let reply = reply.with("Date", "Wed, 21 Oct 2015 07:28:00 GMT");
            reply.with("Retry-After", "Wed, 21 Oct 2015 07:28:07 GMT")
        }
        _ if api == ProviderApi::Gemini => reply,
        _ => reply.with("retry-after-ms", "1500"),
    }
}

fn too_long(api: ProviderApi) -> &'static str {
    match api {
        ProviderApi::OpenAi | ProviderApi::Responses => {
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 140000 tokens."
        }
        ProviderApi::Anthropic => "prompt is too long: 210000 tokens > 200000 maximum",
        ProviderApi::Gemini => {
            "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576)."
        }
        ProviderApi::Ollama => "input length exceeds maximum context length",
    }
}

fn body(api: ProviderApi, status: u16, fields: &ErrorFields<'_>) -> Value {
    let ErrorFields { kind, message, code, status: word, details } = fields;
    match api {
        ProviderApi::OpenAi | ProviderApi::Responses => {
            json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
        }
        ProviderApi::Anthropic => {
            json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
        }
        ProviderApi::Gemini => {
            json!({"error": {"code": status, "message": message, "status": word, "details": details}})
        }
        ProviderApi::Ollama => json!({"error": message}),
    }
}
