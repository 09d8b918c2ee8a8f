//! A valid request to Ollama, and the mutations that make it invalid.

use super::Mutation;
use serde_json::{Value, json};

pub(super) fn valid() -> Value {
    json!({
        "model": "llama", "stream": true, "think": "low", "format": {"type": "object"},
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "hi", "images": ["QUJD"]},
            {"role": "assistant", "content": "", "thinking": "hm", "tool_calls": [
                {"id": "a", "function": {"name": "f", "arguments": {}}},
                {"id": "b", "function": {"name": "f", "arguments": {"x": 1}}},
            ]},
            {"role": "tool", "tool_name": "f", "tool_call_id": "a", "content": ""},
            {"role": "tool", "tool_name": "f", "tool_call_id": "b", "content": "2"},
            {"role": "user", "content": "thanks"},
        ],
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {
            "x": {"type": ["integer", "null"], "description": "d"},
            "y": {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "array", "items": {"type": "string"}}]},
        }, "required": ["x"]}}}],
        "options": {"temperature": 1.0, "top_p": 1, "num_predict": 5, "seed": -1, "stop": ["END"]},
    })
}

pub(super) const MUTATIONS: &[Mutation] = &[
    ("ollama/model", |body| body["model"] = json!("")),
    ("ollama/messages", |body| body["messages"] = json!([])),
    ("ollama/role", |body| body["messages"][5]["role"] = json!("model")),
    ("ollama/content", |body| body["messages"][5]["content"] = json!([{"type": "text", "text": "hi"}])),
    ("ollama/thinking", |body| body["messages"][2]["thinking"] = json!(["hm"])),
    ("ollama/images", |body| body["messages"][1]["images"][0] = json!("data:image/png;base64,QUJD")),
    ("ollama/arguments", |body| body["messages"][2]["tool_calls"][0]["function"]["arguments"] = json!("{}")),
    ("ollama/calls-named", |body| body["messages"][2]["tool_calls"][0]["function"]["name"] = json!("")),
    ("ollama/calls-unique", |body| body["messages"][2]["tool_calls"][0]["id"] = json!("b")),
    ("ollama/calls-answered", |body| body["messages"][4] = json!({"role": "user", "content": "wait"})),
    ("ollama/tool-name", |body| body["messages"][4]["tool_name"] = json!(null)),
    ("ollama/tool", |body| body["tools"][0] = json!({"type": "function", "name": "f"})),
    ("ollama/property", |body| {
        body["tools"][0]["function"]["parameters"]["properties"]["x"] = json!({"$ref": "#/$defs/x"});
    }),
    ("ollama/options", |body| body["options"]["seed"] = json!(1.5)),
    ("ollama/format", |body| body["format"] = json!("xml")),
    ("ollama/think", |body| body["think"] = json!("none")),
];
