//! Rules of Ollama's `/api/chat`. The server is written in Go: a field of the wrong type makes the whole request invalid.

use super::{WireRule, each, each_in, failing, repeated, text, unless};
use serde_json::Value;

pub(super) const RULES: &[WireRule] = &[
    WireRule {
        id: "ollama/model",
        says: "model is required",
        broken: |body| unless(!text(body, "model").is_empty(), "model"),
    },
    WireRule {
        id: "ollama/messages",
        says: "done_reason: load. If the messages array is empty, the model will be loaded into memory.",
        broken: |body| unless(!each(body, "messages").is_empty(), "messages"),
    },
    WireRule {
        id: "ollama/role",
        says: "role: the role of the message, either `system`, `user`, `assistant`, or `tool`.",
        broken: |body| {
            let known = ["system", "user", "assistant", "tool"];
            failing(each(body, "messages"), |message| known.contains(&text(message, "role")))
        },
    },
    WireRule {
        id: "ollama/content",
        says: "json: cannot unmarshal array into Go struct field ChatRequest.messages.content of type string",
        broken: |body| failing(each(body, "messages"), |message| message["content"].is_string()),
    },
    WireRule {
        id: "ollama/thinking",
        says: "json: cannot unmarshal array into Go struct field ChatRequest.messages.thinking of type string",
        broken: |body| {
            failing(each(body, "messages"), |message| {
                message
                    .get("thinking")
                    .is_none_or(|thinking| thinking.is_string() && message["role"] == "assistant")
            })
        },
    },
    WireRule {
        id: "ollama/images",
        says: "illegal base64 data at input byte 4",
        broken: |body| {
            let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
            failing(each_in(&each(body, "messages"), "images"), |image| {
                image.as_str().is_some_and(|data| !data.is_empty() && data.chars().all(legal))
            })
        },
    },
    WireRule {
        id: "ollama/arguments",
        says: "json: cannot unmarshal string into Go struct field ToolCallFunction.messages.tool_calls.function.arguments of type api.ToolCallFunctionArguments",
        broken: |body| failing(calls(body), |call| call["function"]["arguments"].is_object()),
    },
    WireRule {
        id: "ollama/calls-named",
        says: "tool_calls: a list of tools in JSON that the model wants to use; function.name is the name of the function to call.",
        broken: |body| failing(calls(body), |call| !text(&call["function"], "name").is_empty()),
    },
    WireRule {
        id: "ollama/calls-unique",
        says: "tool_call_id: the id of the call that this message is the result of.",
        broken: |body| repeated(calls(body).into_iter().map(|(place, call)| (place, text(call, "id")))),
    },
    WireRule {
        id: "ollama/calls-answered",
        says: "append the assistant message with its tool_calls, then one tool message with the result of each call, and ask again.",
        broken: calls_without_result,
    },
    WireRule {
        id: "ollama/tool-name",
        says: "tool_name (optional): add the name of the tool that was executed to inform the model of the result.",
        broken: |body| {
            failing(each(body, "messages"), |message| {
                message["role"] != "tool" || !text(message, "tool_name").is_empty()
            })
        },
    },
    WireRule {
        id: "ollama/tool",
        says: "tools: list of tools in JSON for the model to use; each is {\"type\": \"function\", \"function\": {\"name\", \"description\", \"parameters\"}}.",
        broken: |body| {
            failing(each(body, "tools"), |tool| {
                let function = &tool["function"];
                let named = !text(function, "name").is_empty() && function["description"].is_string();
                tool["type"] == "function" && named && function["parameters"]["type"] == "object"
            })
        },
    },
    WireRule {
        id: "ollama/property",
        says: "json: cannot unmarshal bool into Go struct field .tools.function.parameters.properties of type api.ToolProperty",
        broken: |body| failing(properties(body), is_property),
    },
    WireRule {
        id: "ollama/options",
        says: "option \"seed\" must be of type integer; option \"stop\" must be of an array of strings",
        broken: |body| {
            let Some(options) = body.get("options").and_then(Value::as_object) else {
                return unless(body.get("options").is_none(), "options");
            };
            let wrong = options.iter().filter(|(key, value)| !match key.as_str() {
                "temperature" | "top_p" => value.is_number(),
                "num_predict" | "seed" => value.is_i64() || value.is_u64(),
                "stop" => value.as_array().is_some_and(|all| all.iter().all(Value::is_string)),
                _ => false,
            });
            wrong.map(|(key, _)| format!("options.{key}")).collect()
        },
    },
    WireRule {
        id: "ollama/format",
        says: "invalid format: \"xml\"; expected \"json\" or a valid JSON Schema object",
        broken: |body| {
            let format = &body["format"];
            unless(format.is_null() || format.is_object() || format == "json", "format")
        },
    },
    WireRule {
        id: "ollama/think",
        says: "invalid think value: \"none\" (must be \"high\", \"medium\", \"low\", true, or false)",
        broken: |body| {
            let level = |level: &str| ["low", "medium", "high"].contains(&level);
            let good = |think: &Value| think.is_boolean() || think.as_str().is_some_and(level);
            unless(body.get("think").is_none_or(good), "think")
        },
    },
];

fn calls(body: &Value) -> Vec<(String, &Value)> {
    each_in(&each(body, "messages"), "tool_calls")
}

/// Messages whose calls are not answered, in order, by the tool messages that follow.
fn calls_without_result(body: &Value) -> Vec<String> {
    let messages = each(body, "messages");
    let mut open = Vec::new();
    for (at, (place, message)) in messages.iter().enumerate() {
        let after = messages[at + 1..].iter().take_while(|(_, next)| next["role"] == "tool");
        let answered: Vec<&Value> = after.map(|(_, next)| &next["tool_call_id"]).collect();
        let called: Vec<&Value> =
            each(message, "tool_calls").into_iter().map(|(_, call)| &call["id"]).collect();
        if !called.is_empty() && called != answered {
            open.push(place.clone());
        }
    }
    open
}

/// The properties of all tools, with all nested properties.
fn properties(body: &Value) -> Vec<(String, &Value)> {
    let tools = each(body, "tools").into_iter();
    let mut all: Vec<(String, &Value)> =
        tools.map(|(place, tool)| (place, &tool["function"]["parameters"])).collect();
    let mut at = 0;
    while at < all.len() {
        let (place, schema) = all[at].clone();
        let named = schema["properties"].as_object().into_iter().flatten();
        let named = named.map(|(name, schema)| (format!("{place}.{name}"), schema));
        let branches =
            each(schema, "anyOf").into_iter().map(|(name, schema)| (format!("{place}.{name}"), schema));
        all.extend(named.chain(branches).collect::<Vec<_>>());
        at += 1;
    }
    all
}

fn is_property(schema: &Value) -> bool {
    let texts = |value: &Value| value.as_array().is_some_and(|all| all.iter().all(Value::is_string));
    schema.as_object().is_some_and(|fields| {
        fields.iter().all(|(key, value)| match key.as_str() {
            "type" => value.is_string() || texts(value),
            "description" => value.is_string(),
            "required" => texts(value),
            "enum" | "anyOf" => value.is_array(),
            "properties" => value.is_object(),
            "items" => true,
            // Other keywords are dropped by the server and do not reach the model.
            _ => false,
        })
    })
}
