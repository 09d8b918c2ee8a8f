//! A valid request to OpenAI's Responses API, and the mutations that make it invalid.

use super::Mutation;
use serde_json::{Value, json};

pub(super) fn valid() -> Value {
    json!({
        "model": "gpt", "store": false, "stream": true, "instructions": "Be kind.", "include": ["reasoning.encrypted_content"],
        "input": [
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "hi"},
                {"type": "input_image", "detail": "auto", "image_url": "data:"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:"},
            ]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
            {"type": "reasoning", "id": "rs_2", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "y"},
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
            {"type": "function_call", "call_id": "b", "name": "f", "arguments": "{\"x\":1}"},
            {"type": "function_call_output", "call_id": "b", "output": "2"},
            {"type": "function_call_output", "call_id": "a", "output": ""},
            {"type": "reasoning", "id": "rs_3", "summary": [], "encrypted_content": "z"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]},
            {"type": "message", "role": "user", "content": "thanks"},
        ],
        "tools": [
            {"type": "function", "name": "f", "description": "d", "strict": true, "parameters": {
                "type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": false,
            }},
            {"type": "function", "name": "g", "description": "d", "strict": false, "parameters": {"type": "object", "properties": {}}},
        ],
        "tool_choice": {"type": "function", "name": "f"},
        "text": {"format": {"type": "json_schema", "name": "answer", "strict": false, "schema": {"type": "object"}}},
        "reasoning": {"effort": "low", "summary": "auto"}, "max_output_tokens": 16, "temperature": 1.0, "top_p": 1.0,
    })
}

pub(super) const MUTATIONS: &[Mutation] = &[
    ("responses/model", |body| body["model"] = json!("")),
    ("responses/parameter", |body| body["seed"] = json!(7)),
    ("responses/input", |body| body["input"] = json!([])),
    ("responses/item", |body| body["input"][9] = json!({"role": "user", "content": "hi"})),
    ("responses/role", |body| body["input"][9]["role"] = json!("tool")),
    ("responses/content", |body| body["input"][9]["content"] = json!([])),
    ("responses/content-type", |body| body["input"][8]["content"][0]["type"] = json!("input_text")),
    ("responses/calls-answered", |body| body["input"][6]["call_id"] = json!("b")),
    ("responses/answers-called", |body| body["input"][6]["call_id"] = json!("b")),
    ("responses/call-id", |body| {
        body["input"][3]["call_id"] = json!("x".repeat(65));
        body["input"][6]["call_id"] = json!("x".repeat(65));
    }),
    ("responses/call-unique", |body| body["input"][4]["call_id"] = json!("a")),
    ("responses/arguments", |body| body["input"][4]["arguments"] = json!({})),
    ("responses/output", |body| body["input"][5]["output"] = json!({"x": 2})),
    ("responses/reasoning-followed", |body| {
        body["input"][8] = json!({"type": "message", "role": "user", "content": "no"});
    }),
    ("responses/reasoning-encrypted", |body| body["input"][7]["encrypted_content"] = json!(null)),
    ("responses/reasoning-id", |body| body["input"][7]["id"] = json!("")),
    ("responses/reasoning-unique", |body| body["input"][7]["id"] = json!("rs_1")),
    ("responses/reasoning-summary", |body| body["input"][7]["summary"] = json!(null)),
    ("responses/reasoning-content", |body| {
        body["input"][7]["content"] = json!([{"type": "reasoning_text", "text": "hm"}]);
    }),
    ("responses/tool-name", |body| body["tools"][1] = json!({"type": "function", "function": {"name": "g"}})),
    ("responses/tool-description", |body| body["tools"][1]["description"] = json!("d".repeat(1025))),
    ("responses/parameters", |body| body["tools"][1]["parameters"]["anyOf"] = json!([])),
    ("responses/tool-strict", |body| body["tools"][1]["strict"] = json!(null)),
    ("responses/tool-choice", |body| body["tool_choice"]["name"] = json!("h")),
    ("responses/format", |body| body["text"]["format"]["schema"] = json!({"type": "array"})),
    ("responses/max-output-tokens", |body| body["max_output_tokens"] = json!(15)),
    ("responses/temperature", |body| body["temperature"] = json!(2.5)),
    ("responses/top-p", |body| body["top_p"] = json!(1.5)),
];
