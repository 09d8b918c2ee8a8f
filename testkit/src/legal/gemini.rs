//! Rules of Gemini's `generateContent`.

use super::{WireRule, each, each_in, failing, in_range, repeated, text, unless};
use serde_json::Value;

pub(super) const RULES: &[WireRule] = &[
    WireRule {
        id: "gemini/contents",
        says: "* GenerateContentRequest.contents: contents is not specified",
        broken: |body| unless(!each(body, "contents").is_empty(), "contents"),
    },
    WireRule {
        id: "gemini/role",
        says: "Please use a valid role: user, model.",
        broken: |body| {
            failing(each(body, "contents"), |content| ["user", "model"].contains(&text(content, "role")))
        },
    },
    WireRule {
        id: "gemini/parts",
        says: "* GenerateContentRequest.contents[0].parts: contents.parts must not be empty.",
        broken: |body| failing(each(body, "contents"), |content| !each(content, "parts").is_empty()),
    },
    WireRule {
        id: "gemini/part-data",
        says: "* GenerateContentRequest.contents[0].parts[0].data: required oneof field 'data' must have one initialized field",
        broken: |body| failing(parts(body), has_data),
    },
    WireRule {
        id: "gemini/call-turn",
        says: "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
        broken: |body| {
            let contents = each(body, "contents");
            let early = contents.iter().enumerate().filter(|(at, (_, content))| {
                let before = at.checked_sub(1).and_then(|at| contents.get(at));
                holds(content, "functionCall") && before.is_none_or(|(_, before)| before["role"] != "user")
            });
            early.map(|(_, (place, _))| place.clone()).collect()
        },
    },
    WireRule {
        id: "gemini/response-turn",
        says: "Please ensure that function response turn comes immediately after a function call turn.",
        broken: |body| {
            let contents = each(body, "contents");
            let stray = contents.iter().enumerate().filter(|(at, (_, content))| {
                let before = at.checked_sub(1).and_then(|at| contents.get(at));
                holds(content, "functionResponse")
                    && !before.is_some_and(|(_, before)| holds(before, "functionCall"))
            });
            stray.map(|(_, (place, _))| place.clone()).collect()
        },
    },
    WireRule {
        id: "gemini/response-count",
        says: "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.",
        broken: |body| {
            let wrong = turns(body).into_iter().filter(|(_, call, next)| {
                held(call, "functionCall").len()
                    != next.map_or(0, |next| held(next, "functionResponse").len())
            });
            wrong.map(|(place, ..)| place).collect()
        },
    },
    WireRule {
        id: "gemini/response-matches",
        says: "The identifier of the function call this response is for. Populated by the client to match the corresponding function call `id`.",
        broken: |body| {
            let wrong = turns(body).into_iter().filter(|(_, call, next)| {
                let named = |part: &&Value| (text(part, "id").to_owned(), text(part, "name").to_owned());
                let calls: Vec<_> = held(call, "functionCall").iter().map(named).collect();
                let answers: Vec<_> = next
                    .map(|next| held(next, "functionResponse").iter().map(named).collect())
                    .unwrap_or_default();
                calls.len() == answers.len() && calls != answers
            });
            wrong.map(|(place, ..)| place).collect()
        },
    },
    WireRule {
        id: "gemini/response-role",
        says: "FunctionResponse: the result of a FunctionCall made based on model prediction is sent with the role `user`.",
        broken: |body| {
            failing(each(body, "contents"), |content| {
                (content["role"] == "user" || !holds(content, "functionResponse"))
                    && (content["role"] == "model" || !holds(content, "functionCall"))
            })
        },
    },
    WireRule {
        id: "gemini/id-unique",
        says: "Unique identifier of the function call. If populated, the client to execute the functionCall and return the response with the matching `id`.",
        broken: |body| {
            let named = called(body).into_iter().map(|(place, call)| (place, text(call, "id")));
            repeated(named.filter(|(_, id)| !id.is_empty()))
        },
    },
    WireRule {
        id: "gemini/args",
        says: "Invalid value at 'contents[1].parts[0].function_call.args' (type.googleapis.com/google.protobuf.Struct)",
        broken: |body| failing(called(body), |call| call.get("args").is_none_or(Value::is_object)),
    },
    WireRule {
        id: "gemini/response",
        says: "Invalid value at 'contents[2].parts[0].function_response.response' (type.googleapis.com/google.protobuf.Struct)",
        broken: |body| failing(answered(body), |answer| answer["response"].is_object()),
    },
    WireRule {
        id: "gemini/last-user",
        says: "Please ensure that single turn requests end with a user role or the role field is empty.",
        broken: |body| {
            unless(each(body, "contents").last().is_none_or(|(_, last)| last["role"] == "user"), "contents")
        },
    },
    WireRule {
        id: "gemini/function-name",
        says: "Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 64.",
        broken: |body| {
            let named = declared(body).into_iter().chain(called(body)).chain(answered(body));
            failing(named, |item| is_name(text(item, "name")))
        },
    },
    WireRule {
        id: "gemini/function-unique",
        says: "Duplicate function declaration found.",
        broken: |body| repeated(declared(body).into_iter().map(|(place, tool)| (place, text(tool, "name")))),
    },
    WireRule {
        id: "gemini/parameters-empty",
        says: "* GenerateContentRequest.tools[0].function_declarations[2].parameters.properties: should be non-empty for OBJECT type",
        broken: |body| {
            let empty =
                |schema: &Value| schema["properties"].as_object().is_none_or(serde_json::Map::is_empty);
            failing(declared(body), |tool| tool.get("parameters").is_none_or(|schema| !empty(schema)))
        },
    },
    WireRule {
        id: "gemini/schema-field",
        says: "Invalid JSON payload received. Unknown name \"additionalProperties\" at 'tools[0].function_declarations[8].parameters': Cannot find field.",
        broken: |body| {
            failing(schemas(body), |schema| {
                schema
                    .as_object()
                    .is_some_and(|fields| fields.keys().all(|key| FIELDS.contains(&key.as_str())))
            })
        },
    },
    WireRule {
        id: "gemini/schema-type",
        says: "type: must be specified when not using one_of, any_of or all_of fields",
        broken: |body| {
            let known = ["string", "number", "integer", "boolean", "array", "object"];
            failing(schemas(body), |schema| {
                schema.get("anyOf").is_some() || known.contains(&text(schema, "type").to_lowercase().as_str())
            })
        },
    },
    WireRule {
        id: "gemini/schema-items",
        says: "items: missing field.",
        broken: |body| {
            failing(schemas(body), |schema| schema["type"] != "array" || schema.get("items").is_some())
        },
    },
    WireRule {
        id: "gemini/schema-items-type",
        says: "items: field predicate failed: $type == Type.ARRAY",
        broken: |body| {
            failing(schemas(body), |schema| schema["type"] == "array" || schema.get("items").is_none())
        },
    },
    WireRule {
        id: "gemini/schema-required",
        says: "parameters.required[0]: property is not defined",
        broken: |body| {
            failing(schemas(body), |schema| {
                let required = each(schema, "required");
                required.iter().all(|(_, name)| {
                    name.as_str().is_some_and(|name| schema["properties"].get(name).is_some())
                })
            })
        },
    },
    WireRule {
        id: "gemini/schema-enum",
        says: "enum: only allowed for STRING type; enum[0]: cannot be empty",
        broken: |body| {
            failing(schemas(body), |schema| {
                let words = each(schema, "enum");
                let are_texts =
                    words.iter().all(|(_, word)| word.as_str().is_some_and(|word| !word.is_empty()));
                schema.get("enum").is_none() || (schema["type"] == "string" && are_texts)
            })
        },
    },
    WireRule {
        id: "gemini/schema-format",
        says: "format: only 'enum' and 'date-time' are supported for STRING type",
        broken: |body| {
            failing(schemas(body), |schema| {
                schema["type"] != "string" || ["", "enum", "date-time"].contains(&text(schema, "format"))
            })
        },
    },
    WireRule {
        id: "gemini/json-and-tools",
        says: "Function calling with a response mime type: 'application/json' is unsupported",
        broken: |body| {
            let json = body["generationConfig"]["responseMimeType"] == "application/json";
            unless(!json || declared(body).is_empty(), "generationConfig.responseMimeType")
        },
    },
    WireRule {
        id: "gemini/tool-config",
        says: "Function calling config is set without function_declarations; allowedFunctionNames should only be set when the mode is ANY, and should match FunctionDeclaration.name",
        broken: |body| {
            let config = &body["toolConfig"]["functionCallingConfig"];
            let tools = declared(body);
            let known = each(config, "allowedFunctionNames").into_iter().all(|(_, name)| {
                config["mode"] == "ANY" && tools.iter().any(|(_, tool)| tool["name"] == *name)
            });
            unless(config.is_null() || (known && !tools.is_empty()), "toolConfig")
        },
    },
    WireRule {
        id: "gemini/thinking",
        says: "You can only set only one of thinking budget and thinking level.",
        broken: |body| {
            let config = &body["generationConfig"]["thinkingConfig"];
            let both = config.get("thinkingBudget").is_some() && config.get("thinkingLevel").is_some();
            unless(!both, "generationConfig.thinkingConfig")
        },
    },
    WireRule {
        id: "gemini/stop",
        says: "stopSequences: the set of character sequences (up to 5) that will stop output generation.",
        broken: |body| {
            unless(
                each(&body["generationConfig"], "stopSequences").len() <= 5,
                "generationConfig.stopSequences",
            )
        },
    },
    WireRule {
        id: "gemini/temperature",
        says: "temperature: values can range from [0.0, 2.0].",
        broken: |body| in_range(&body["generationConfig"], "temperature", 0.0, 2.0),
    },
    WireRule {
        id: "gemini/top-p",
        says: "topP: the maximum cumulative probability of tokens to consider when sampling; must be in the range [0.0, 1.0].",
        broken: |body| in_range(&body["generationConfig"], "topP", 0.0, 1.0),
    },
];

/// The fields of Gemini's `Schema` message.
const FIELDS: [&str; 22] = [
    "type",
    "format",
    "title",
    "description",
    "nullable",
    "enum",
    "maxItems",
    "minItems",
    "properties",
    "required",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "example",
    "anyOf",
    "propertyOrdering",
    "default",
    "items",
    "minimum",
    "maximum",
];

fn parts(body: &Value) -> Vec<(String, &Value)> {
    let system = body.get("systemInstruction").map(|content| ("systemInstruction".to_owned(), content));
    let contents: Vec<(String, &Value)> = system.into_iter().chain(each(body, "contents")).collect();
    each_in(&contents, "parts")
}

/// Whether a part has exactly one kind of data. Empty text counts only with a signature.
fn has_data(part: &Value) -> bool {
    let kinds = [
        "text",
        "inlineData",
        "fileData",
        "functionCall",
        "functionResponse",
        "executableCode",
        "codeExecutionResult",
    ];
    let there = kinds.iter().filter(|kind| part.get(kind).is_some()).count();
    let empty = part["text"] == "" && text(part, "thoughtSignature").is_empty();
    there == 1 && !empty
}

/// The calls or responses in a content.
fn held<'a>(content: &'a Value, key: &str) -> Vec<&'a Value> {
    each(content, "parts").into_iter().filter_map(|(_, part)| part.get(key)).collect()
}

fn holds(content: &Value, key: &str) -> bool {
    !held(content, key).is_empty()
}

/// The contents with calls, each with the next content.
fn turns(body: &Value) -> Vec<(String, &Value, Option<&Value>)> {
    let contents = each(body, "contents");
    let calling = contents.iter().enumerate().filter(|(_, (_, content))| holds(content, "functionCall"));
    calling
        .map(|(at, (place, call))| (place.clone(), *call, contents.get(at + 1).map(|(_, next)| *next)))
        .collect()
}

fn called(body: &Value) -> Vec<(String, &Value)> {
    parts(body).into_iter().filter_map(|(place, part)| Some((place, part.get("functionCall")?))).collect()
}

fn answered(body: &Value) -> Vec<(String, &Value)> {
    parts(body).into_iter().filter_map(|(place, part)| Some((place, part.get("functionResponse")?))).collect()
}

fn declared(body: &Value) -> Vec<(String, &Value)> {
    each_in(&each(body, "tools"), "functionDeclarations")
}

/// The schemas of all tools and of the response, with all nested schemas.
fn schemas(body: &Value) -> Vec<(String, &Value)> {
    let tools = declared(body).into_iter().filter_map(|(place, tool)| Some((place, tool.get("parameters")?)));
    let answer =
        body["generationConfig"].get("responseSchema").map(|schema| ("responseSchema".to_owned(), schema));
    let mut all: Vec<(String, &Value)> = tools.chain(answer).collect();
    let mut at = 0;
    while at < all.len() {
        let (place, schema) = all[at].clone();
        let properties = schema["properties"].as_object().into_iter().flatten();
        let below = properties.map(|(name, schema)| (format!("{place}.{name}"), schema));
        let items = schema.get("items").map(|items| (format!("{place}.items"), items));
        let branches =
            each(schema, "anyOf").into_iter().map(|(name, schema)| (format!("{place}.{name}"), schema));
        all.extend(below.chain(items).chain(branches).collect::<Vec<_>>());
        at += 1;
    }
    all
}

fn is_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-');
    name.len() <= 64
        && name.chars().all(legal)
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}
