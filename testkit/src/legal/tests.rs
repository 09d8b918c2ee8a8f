//! Valid requests pass; each rule rejects an invalid request.

mod ollama;
mod responses;

use super::*;
use serde_json::json;

/// The id of a rule, and a change that makes a valid request violate it.
type Mutation = (&'static str, fn(&mut Value));

fn openai() -> Value {
    json!({
        "model": "gpt", "stream": true, "stream_options": {"include_usage": true}, "stop": ["END"], "temperature": 1.0, "top_p": 1.0,
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {"url": "data:"}}]},
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}},
            ]},
            {"role": "tool", "tool_call_id": "b", "content": "2"},
            {"role": "tool", "tool_call_id": "a", "content": ""},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "thanks"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}}],
    })
}

const OPENAI: &[Mutation] = &[
    ("openai/model", |body| body["model"] = json!("")),
    ("openai/messages", |body| body["messages"] = json!([])),
    ("openai/role", |body| body["messages"][6]["role"] = json!("model")),
    ("openai/content", |body| body["messages"][5]["content"] = json!(null)),
    ("openai/part", |body| body["messages"][1]["content"][0] = json!({"text": "hi"})),
    ("openai/calls-answered", |body| body["messages"][4] = json!({"role": "user", "content": "wait"})),
    ("openai/answers-called", |body| body["messages"][4]["tool_call_id"] = json!("b")),
    ("openai/calls-not-empty", |body| body["messages"][5]["tool_calls"] = json!([])),
    ("openai/id-length", |body| {
        body["messages"][2]["tool_calls"][0]["id"] = json!("x".repeat(41));
        body["messages"][4]["tool_call_id"] = json!("x".repeat(41));
    }),
    ("openai/id-unique", |body| {
        let turn: Vec<Value> = (2..5).map(|at| body["messages"][at].clone()).collect();
        if let Some(messages) = body["messages"].as_array_mut() {
            messages.splice(5..5, turn);
        }
    }),
    ("openai/arguments", |body| body["messages"][2]["tool_calls"][0]["function"]["arguments"] = json!({})),
    ("openai/function-name", |body| body["tools"][0]["function"]["name"] = json!("a.b")),
    ("openai/tools-not-empty", |body| body["tools"] = json!([])),
    ("openai/parameters-type", |body| body["tools"][0]["function"]["parameters"] = json!({"properties": {}})),
    ("openai/parameters-properties", |body| {
        body["tools"][0]["function"]["parameters"] = json!({"type": "object"});
    }),
    ("openai/parameters-top", |body| body["tools"][0]["function"]["parameters"]["anyOf"] = json!([])),
    ("openai/strict", |body| body["tools"][0]["function"]["strict"] = json!(true)),
    ("openai/tool-choice", |body| {
        body["tool_choice"] = json!({"type": "function", "function": {"name": "g"}});
    }),
    ("openai/response-format", |body| {
        body["response_format"] =
            json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "array"}}});
    }),
    ("openai/reasoning-effort", |body| body["reasoning_effort"] = json!("off")),
    ("openai/description-length", |body| {
        body["tools"][0]["function"]["description"] = json!("d".repeat(1025));
    }),
    ("openai/stop", |body| body["stop"] = json!(["a", "b", "c", "d", "e"])),
    ("openai/temperature", |body| body["temperature"] = json!(2.5)),
    ("openai/top-p", |body| body["top_p"] = json!(1.5)),
    ("openai/stream-options", |body| body["stream"] = json!(false)),
];

fn anthropic() -> Value {
    json!({
        "model": "claude", "max_tokens": 100, "stop_sequences": ["END"], "temperature": 1.0,
        "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "d"},
                {"type": "tool_use", "id": "a", "name": "f", "input": {}},
                {"type": "tool_use", "id": "b", "name": "f", "input": {"x": 1}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "a"},
                {"type": "tool_result", "tool_use_id": "b", "content": "no", "is_error": true},
                {"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}},
            ]},
            {"role": "assistant", "content": "done"},
            {"role": "user", "content": "thanks"},
        ],
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {}}}],
    })
}

const ANTHROPIC: &[Mutation] = &[
    ("anthropic/model", |body| body["model"] = json!(null)),
    ("anthropic/max-tokens", |body| body["max_tokens"] = json!(null)),
    ("anthropic/messages", |body| body["messages"] = json!([])),
    ("anthropic/role", |body| body["messages"][0]["role"] = json!("system")),
    ("anthropic/first-user", |body| body["messages"][0]["role"] = json!("assistant")),
    ("anthropic/alternate", |body| body["messages"][3]["role"] = json!("user")),
    ("anthropic/last-user", |body| body["messages"][4] = json!({"role": "assistant", "content": "prefill"})),
    ("anthropic/content", |body| body["messages"][3]["content"] = json!([])),
    ("anthropic/text-empty", |body| body["messages"][0]["content"][0]["text"] = json!("")),
    ("anthropic/text-whitespace", |body| body["messages"][0]["content"][0]["text"] = json!(" \n")),
    ("anthropic/trailing-whitespace", |body| {
        body["messages"][4] = json!({"role": "assistant", "content": [{"type": "text", "text": "so "}]});
    }),
    ("anthropic/calls-answered", |body| {
        body["messages"][2]["content"] = json!([{"type": "tool_result", "tool_use_id": "a"}]);
    }),
    ("anthropic/answers-called", |body| body["messages"][2]["content"][0]["tool_use_id"] = json!("z")),
    ("anthropic/answered-once", |body| body["messages"][2]["content"][1]["tool_use_id"] = json!("a")),
    ("anthropic/results-first", |body| {
        if let Some(blocks) = body["messages"][2]["content"].as_array_mut() {
            blocks.reverse();
        }
    }),
    ("anthropic/result-error", |body| body["messages"][2]["content"][1]["content"] = json!("")),
    ("anthropic/id-unique", |body| body["messages"][1]["content"][3]["id"] = json!("a")),
    ("anthropic/id-pattern", |body| body["messages"][1]["content"][3]["id"] = json!("call:1")),
    ("anthropic/input", |body| body["messages"][1]["content"][3]["input"] = json!("{}")),
    ("anthropic/thinking-last", |body| {
        body["messages"][3]["content"] = json!([{"type": "thinking", "thinking": "hm", "signature": "s"}]);
    }),
    ("anthropic/thinking-signature", |body| body["messages"][1]["content"][0]["signature"] = json!(null)),
    ("anthropic/thinking-role", |body| {
        body["messages"][4]["content"] =
            json!([{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "t"}]);
    }),
    ("anthropic/thinking-budget", |body| {
        body["thinking"] = json!({"type": "enabled", "budget_tokens": 1024});
    }),
    ("anthropic/thinking-temperature", |body| {
        body["thinking"] = json!({"type": "adaptive"});
        body["temperature"] = json!(0.5);
    }),
    ("anthropic/thinking-tool-choice", |body| {
        body["thinking"] = json!({"type": "adaptive"});
        body["tool_choice"] = json!({"type": "any"});
    }),
    ("anthropic/thinking-first", |body| {
        body["max_tokens"] = json!(2048);
        body["thinking"] = json!({"type": "enabled", "budget_tokens": 1024});
        if let Some(messages) = body["messages"].as_array_mut() {
            messages.truncate(3);
            messages[1]["content"][0] = json!({"type": "text", "text": "well"});
        }
    }),
    ("anthropic/cache-count", |body| {
        for at in 0..4 {
            body["messages"][1]["content"][at]["cache_control"] = json!({"type": "ephemeral"});
        }
    }),
    ("anthropic/cache-thinking", |body| {
        body["messages"][1]["content"][0]["cache_control"] = json!({"type": "ephemeral"});
    }),
    ("anthropic/tool-name", |body| body["tools"][0]["name"] = json!("a.b")),
    ("anthropic/tool-unique", |body| body["tools"] = json!([body["tools"][0], body["tools"][0]])),
    ("anthropic/tool-choice", |body| body["tool_choice"] = json!({"type": "tool", "name": "g"})),
    ("anthropic/schema-type", |body| body["tools"][0]["input_schema"] = json!({})),
    ("anthropic/schema-top", |body| body["tools"][0]["input_schema"]["oneOf"] = json!([])),
    ("anthropic/temperature", |body| body["temperature"] = json!(1.5)),
    ("anthropic/temperature-and-top-p", |body| body["top_p"] = json!(0.5)),
    ("anthropic/stop", |body| body["stop_sequences"] = json!([" "])),
];

fn gemini() -> Value {
    json!({
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}, {"inlineData": {"mimeType": "image/png", "data": ""}}]},
            {"role": "model", "parts": [
                {"text": "", "thoughtSignature": "s"},
                {"functionCall": {"id": "a", "name": "f", "args": {}}, "thoughtSignature": "s"},
                {"functionCall": {"id": "b", "name": "g", "args": {"x": 1}}},
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"id": "a", "name": "f", "response": {}}},
                {"functionResponse": {"id": "b", "name": "g", "response": {"result": 1}}},
            ]},
            {"role": "user", "parts": [{"text": "go on"}]},
        ],
        "tools": [{"functionDeclarations": [
            {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {
                "s": {"type": "string", "enum": ["a"], "format": "enum"},
                "l": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}},
            }, "required": ["s"]}},
            {"name": "g", "description": "without parameters"},
        ]}],
        "generationConfig": {"temperature": 2.0, "topP": 1.0, "stopSequences": ["END"]},
    })
}

const GEMINI: &[Mutation] = &[
    ("gemini/contents", |body| body["contents"] = json!([])),
    ("gemini/role", |body| body["contents"][0]["role"] = json!("assistant")),
    ("gemini/parts", |body| body["contents"][3]["parts"] = json!([])),
    ("gemini/part-data", |body| body["contents"][3]["parts"][0]["text"] = json!("")),
    ("gemini/call-turn", |body| body["contents"][0] = json!({"role": "model", "parts": [{"text": "hi"}]})),
    ("gemini/response-turn", |body| {
        let (answers, words) = (body["contents"][2].clone(), body["contents"][3].clone());
        (body["contents"][2], body["contents"][3]) = (words, answers);
    }),
    ("gemini/response-count", |body| {
        body["contents"][2]["parts"] =
            json!([{"functionResponse": {"id": "a", "name": "f", "response": {}}}]);
    }),
    ("gemini/response-matches", |body| {
        body["contents"][2]["parts"][1]["functionResponse"]["id"] = json!("c");
    }),
    ("gemini/response-role", |body| body["contents"][2]["role"] = json!("model")),
    ("gemini/id-unique", |body| {
        body["contents"][1]["parts"][2]["functionCall"]["id"] = json!("a");
        body["contents"][2]["parts"][1]["functionResponse"]["id"] = json!("a");
    }),
    ("gemini/args", |body| body["contents"][1]["parts"][1]["functionCall"]["args"] = json!("{}")),
    ("gemini/response", |body| {
        body["contents"][2]["parts"][1]["functionResponse"]["response"] = json!("rain");
    }),
    ("gemini/last-user", |body| body["contents"][3]["role"] = json!("model")),
    ("gemini/function-name", |body| body["tools"][0]["functionDeclarations"][1]["name"] = json!("1st tool")),
    ("gemini/function-unique", |body| body["tools"][0]["functionDeclarations"][1]["name"] = json!("f")),
    ("gemini/parameters-empty", |body| {
        body["tools"][0]["functionDeclarations"][1]["parameters"] =
            json!({"type": "object", "properties": {}});
    }),
    ("gemini/schema-field", |body| {
        set_property(body, json!({"type": "string", "additionalProperties": false}));
    }),
    ("gemini/schema-type", |body| set_property(body, json!({"description": "anything"}))),
    ("gemini/schema-items", |body| set_property(body, json!({"type": "array"}))),
    ("gemini/schema-items-type", |body| {
        set_property(
            body,
            json!({"anyOf": [{"type": "array", "items": {"type": "string"}}], "items": {"type": "string"}}),
        );
    }),
    ("gemini/schema-required", |body| set_property(body, json!({"type": "object", "required": ["x"]}))),
    ("gemini/schema-enum", |body| set_property(body, json!({"type": "integer", "enum": [1]}))),
    ("gemini/schema-format", |body| set_property(body, json!({"type": "string", "format": "email"}))),
    ("gemini/json-and-tools", |body| {
        body["generationConfig"]["responseMimeType"] = json!("application/json");
    }),
    ("gemini/tool-config", |body| {
        body["toolConfig"] = json!({"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["h"]}});
    }),
    ("gemini/thinking", |body| {
        body["generationConfig"]["thinkingConfig"] = json!({"thinkingBudget": 1, "thinkingLevel": "low"});
    }),
    ("gemini/stop", |body| body["generationConfig"]["stopSequences"] = json!(["a", "b", "c", "d", "e", "f"])),
    ("gemini/temperature", |body| body["generationConfig"]["temperature"] = json!(2.1)),
    ("gemini/top-p", |body| body["generationConfig"]["topP"] = json!(-1)),
];

/// Replaces a property of the first tool by a schema.
fn set_property(body: &mut Value, schema: Value) {
    body["tools"][0]["functionDeclarations"][0]["parameters"]["properties"]["s"] = schema;
}

/// An API, a valid request, and the mutations that make it invalid.
type Case = (ProviderApi, fn() -> Value, &'static [Mutation]);

fn apis() -> [Case; 5] {
    [
        (ProviderApi::OpenAi, openai, OPENAI),
        (ProviderApi::Responses, responses::valid, responses::MUTATIONS),
        (ProviderApi::Anthropic, anthropic, ANTHROPIC),
        (ProviderApi::Gemini, gemini, GEMINI),
        (ProviderApi::Ollama, ollama::valid, ollama::MUTATIONS),
    ]
}

#[test]
fn valid_requests_violate_no_rule() {
    for (api, valid, _) in apis() {
        assert_eq!(check(api, &valid()), [], "{api:?}");
    }
}

#[test]
fn every_rule_rejects_its_mutation() {
    for (api, valid, mutations) in apis() {
        for (rule, mutate) in mutations {
            let mut body = valid();
            mutate(&mut body);
            let broken = check(api, &body);
            assert!(broken.iter().any(|violation| violation.rule == *rule), "{rule} accepts {body}");
        }
    }
}

#[test]
fn every_rule_has_one_mutation_and_a_unique_id() {
    for (api, _, mutations) in apis() {
        let rules: Vec<&str> = rules(api).iter().map(|rule| rule.id).collect();
        let tested: Vec<&str> = mutations.iter().map(|(rule, _)| *rule).collect();
        assert_eq!(rules, tested, "{api:?}");
        assert_eq!(repeated(rules.iter().map(|rule| (String::new(), *rule))), Vec::<String>::new());
    }
}

#[test]
fn body_that_is_not_a_request_is_rejected_without_a_panic() {
    for (api, ..) in apis() {
        for body in [json!(null), json!([]), json!({"messages": 1, "contents": {"parts": 2}, "tools": "x"})] {
            assert!(!check(api, &body).is_empty());
        }
    }
}

#[test]
fn violation_displays_rule_path_and_message() {
    let mut body = openai();
    body["stream"] = json!(false);
    let messages: Vec<String> = check(ProviderApi::OpenAi, &body).iter().map(Violation::to_string).collect();
    assert_eq!(
        messages,
        [
            "openai/stream-options at stream_options: The 'stream_options' parameter is only allowed when 'stream' is enabled."
        ]
    );
}
