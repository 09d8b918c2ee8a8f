//! Rules of OpenAI's chat completions API.

use super::{WireRule, each, each_in, failing, in_range, is_name, repeated, text, unless};
use serde_json::Value;

pub(super) const RULES: &[WireRule] = &[
    WireRule {
        id: "openai/model",
        says: "you must provide a model parameter",
        broken: |body| unless(!text(body, "model").is_empty(), "model"),
    },
    WireRule {
        id: "openai/messages",
        says: "[] is too short - 'messages'",
        broken: |body| unless(!each(body, "messages").is_empty(), "messages"),
    },
    WireRule {
        id: "openai/role",
        says: "Invalid value. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
        broken: |body| {
            let known = ["system", "assistant", "user", "function", "tool", "developer"];
            failing(each(body, "messages"), |message| known.contains(&text(message, "role")))
        },
    },
    WireRule {
        id: "openai/content",
        says: "Invalid value for 'content': expected a string, got null.",
        broken: |body| failing(each(body, "messages"), has_content),
    },
    WireRule {
        id: "openai/part",
        says: "Missing required parameter: 'messages[0].content[0].type'.",
        broken: |body| {
            let parts = each_in(&each(body, "messages"), "content");
            failing(parts, |part| part.get(text(part, "type")).is_some())
        },
    },
    WireRule {
        id: "openai/calls-answered",
        says: "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
        broken: calls_without_result,
    },
    WireRule {
        id: "openai/answers-called",
        says: "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        broken: results_without_call,
    },
    WireRule {
        id: "openai/calls-not-empty",
        says: "Invalid 'messages[1].tool_calls': empty array. Expected an array with minimum length 1.",
        broken: |body| {
            let empty = |calls: &Value| calls.as_array().is_some_and(Vec::is_empty);
            failing(each(body, "messages"), |message| !message.get("tool_calls").is_some_and(empty))
        },
    },
    WireRule {
        id: "openai/id-length",
        says: "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40.",
        broken: |body| failing(calls(body), |call| (1..=40).contains(&text(call, "id").chars().count())),
    },
    WireRule {
        id: "openai/id-unique",
        says: "Invalid parameter: Duplicate value for 'tool_call_id' in message.",
        broken: |body| repeated(calls(body).into_iter().map(|(place, call)| (place, text(call, "id")))),
    },
    WireRule {
        id: "openai/arguments",
        says: "Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string, but got an object instead.",
        broken: |body| {
            let json = |text: &str| serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object());
            failing(calls(body), |call| call["function"]["arguments"].as_str().is_some_and(json))
        },
    },
    WireRule {
        id: "openai/function-name",
        says: "Invalid 'tools[0].function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'; maximum length 64.",
        broken: |body| {
            let named = calls(body).into_iter().chain(each(body, "tools"));
            failing(named, |item| is_name(text(&item["function"], "name"), 64))
        },
    },
    WireRule {
        id: "openai/tools-not-empty",
        says: "[] is too short - 'tools'",
        broken: |body| unless(body.get("tools").is_none() || !each(body, "tools").is_empty(), "tools"),
    },
    WireRule {
        id: "openai/parameters-type",
        says: "Invalid schema for function: schema must be a JSON Schema of 'type: \"object\"', got 'type: \"None\"'.",
        broken: |body| {
            failing(each(body, "tools"), |tool| tool["function"]["parameters"]["type"] == "object")
        },
    },
    WireRule {
        id: "openai/parameters-properties",
        says: "Invalid schema for function: In context=(), object schema missing properties.",
        broken: |body| {
            failing(each(body, "tools"), |tool| tool["function"]["parameters"]["properties"].is_object())
        },
    },
    WireRule {
        id: "openai/parameters-top",
        says: "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
        broken: |body| {
            let refused = ["oneOf", "anyOf", "allOf", "enum", "not"];
            failing(each(body, "tools"), |tool| {
                refused.iter().all(|key| tool["function"]["parameters"].get(key).is_none())
            })
        },
    },
    WireRule {
        id: "openai/strict",
        says: "In context=(), 'additionalProperties' is required to be supplied and to be false; 'required' is required to be supplied and to be an array including every key in properties.",
        broken: |body| {
            failing(each(body, "tools"), |tool| {
                tool["function"]["strict"] != true || is_strict(&tool["function"]["parameters"])
            })
        },
    },
    WireRule {
        id: "openai/tool-choice",
        says: "'tool_choice' is only allowed when 'tools' are specified. Tool choice 'f' not found in 'tools' parameter.",
        broken: |body| {
            let tools = each(body, "tools");
            let named = |choice: &Value| {
                tools.iter().any(|(_, tool)| tool["function"]["name"] == choice["function"]["name"])
            };
            let good = match body.get("tool_choice") {
                None => true,
                Some(Value::String(choice)) => {
                    ["auto", "none", "required"].contains(&choice.as_str()) && !tools.is_empty()
                }
                Some(choice) => choice["type"] == "function" && named(choice),
            };
            unless(good, "tool_choice")
        },
    },
    WireRule {
        id: "openai/response-format",
        says: "Invalid schema for response_format 'answer': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"array\"'.",
        broken: |body| {
            let format = &body["response_format"]["json_schema"];
            let schema = &format["schema"];
            let good = schema["type"] == "object" && (format["strict"] != true || is_strict(schema));
            unless(body.get("response_format").is_none() || good, "response_format")
        },
    },
    WireRule {
        id: "openai/reasoning-effort",
        says: "Invalid value: 'off'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', and 'xhigh'.",
        broken: |body| {
            let known = ["none", "minimal", "low", "medium", "high", "xhigh"];
            let good = |effort: &Value| effort.as_str().is_some_and(|effort| known.contains(&effort));
            unless(body.get("reasoning_effort").is_none_or(good), "reasoning_effort")
        },
    },
    WireRule {
        id: "openai/description-length",
        says: "Invalid 'tools[1].function.description': string too long. Expected a string with maximum length 1024.",
        broken: |body| {
            failing(each(body, "tools"), |tool| {
                text(&tool["function"], "description").chars().count() <= 1024
            })
        },
    },
    WireRule {
        id: "openai/stop",
        says: "Invalid 'stop': array too long. Expected an array with maximum length 4.",
        broken: |body| unless(each(body, "stop").len() <= 4, "stop"),
    },
    WireRule {
        id: "openai/temperature",
        says: "Invalid 'temperature': decimal above maximum value. Expected a value <= 2.",
        broken: |body| in_range(body, "temperature", 0.0, 2.0),
    },
    WireRule {
        id: "openai/top-p",
        says: "Invalid 'top_p': decimal above maximum value. Expected a value <= 1.",
        broken: |body| in_range(body, "top_p", 0.0, 1.0),
    },
    WireRule {
        id: "openai/stream-options",
        says: "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        broken: |body| {
            unless(body.get("stream_options").is_none() || body["stream"] == true, "stream_options")
        },
    },
];

fn calls(body: &Value) -> Vec<(String, &Value)> {
    each_in(&each(body, "messages"), "tool_calls")
}

/// Whether a schema is that of an object, without keywords that are refused at the top level.
pub(super) fn is_parameters(schema: &Value) -> bool {
    let refused = ["oneOf", "anyOf", "allOf", "enum", "not"];
    let bare = refused.iter().all(|key| schema.get(key).is_none());
    schema["type"] == "object" && schema["properties"].is_object() && bare
}

/// Whether all objects of a schema, at any depth, are closed and all their properties required.
pub(super) fn is_strict(schema: &Value) -> bool {
    let Some(fields) = schema.as_object() else { return true };
    let properties = schema["properties"].as_object().into_iter().flatten();
    let required = each(schema, "required");
    let all_required = properties.clone().all(|(name, _)| required.iter().any(|(_, other)| *other == name));
    let names_object =
        schema["type"] == "object" || each(schema, "type").iter().any(|(_, kind)| *kind == "object");
    let closed =
        !names_object || (fields.get("additionalProperties") == Some(&Value::Bool(false)) && all_required);
    let definitions = schema["$defs"].as_object().into_iter().flatten();
    let below = properties.chain(definitions).map(|(_, schema)| schema);
    let beside = each(schema, "anyOf").into_iter().map(|(_, schema)| schema).chain(schema.get("items"));
    closed && below.chain(beside).all(is_strict)
}

fn has_content(message: &Value) -> bool {
    match &message["content"] {
        Value::String(_) => true,
        Value::Array(parts) => !parts.is_empty(),
        _ => text(message, "role") == "assistant" && message.get("tool_calls").is_some(),
    }
}

/// Messages with a call that the tool messages that follow do not answer.
fn calls_without_result(body: &Value) -> Vec<String> {
    let messages = each(body, "messages");
    let mut open = Vec::new();
    for (at, (place, message)) in messages.iter().enumerate() {
        let after = messages[at + 1..].iter().take_while(|(_, next)| text(next, "role") == "tool");
        let answered: Vec<&str> = after.map(|(_, next)| text(next, "tool_call_id")).collect();
        let missing = |call: &Value| !answered.contains(&text(call, "id"));
        open.extend(
            each(message, "tool_calls").iter().filter(|(_, call)| missing(call)).map(|_| place.clone()),
        );
    }
    open
}

/// Tool messages that answer no call of the last assistant message, or a call that is already answered.
fn results_without_call(body: &Value) -> Vec<String> {
    let mut called: Vec<&str> = Vec::new();
    let mut stray = Vec::new();
    for (place, message) in each(body, "messages") {
        if text(message, "role") != "tool" {
            called = each(message, "tool_calls").into_iter().map(|(_, call)| text(call, "id")).collect();
        } else if let Some(at) = called.iter().position(|id| *id == text(message, "tool_call_id")) {
            called.remove(at);
        } else {
            stray.push(place);
        }
    }
    stray
}
