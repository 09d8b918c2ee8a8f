//! The fields of an encoded body that can be left out, as paths of names.

use crate::WireApi;
use serde_json::Value;

/// Which fields of a wire format can be left out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldRules {
    /// Top-level fields without which the request is invalid, or whose omission has its own variant.
    required: &'static [&'static str],
    /// Objects of independent settings, which are left out one by one.
    groups: &'static [&'static str],
    /// Fields of messages and tools, with all their places.
    nested: &'static [(&'static str, &'static [&'static str])],
    /// The fields with the schema of the answer. Without them, the schema becomes an instruction.
    pub(crate) schema: &'static [&'static str],
    /// The fields with the reasoning effort.
    pub(crate) reasoning: &'static [&'static str],
}

const CHAT: FieldRules = FieldRules {
    required: &["model", "messages", "tools"],
    groups: &["stream_options"],
    nested: &[
        ("strict", &["tools.function.strict", "response_format.json_schema.strict"]),
        ("reasoning_content", &["messages.reasoning_content"]),
        ("reasoning_details", &["messages.reasoning_details"]),
        ("extra_content", &["messages.tool_calls.extra_content"]),
    ],
    schema: &["response_format"],
    reasoning: &["reasoning_effort"],
};

const RESPONSES: FieldRules = FieldRules {
    required: &["model", "input", "instructions", "tools"],
    groups: &["reasoning", "text"],
    nested: &[("strict", &["tools.strict", "text.format.strict"])],
    schema: &["text.format"],
    reasoning: &["reasoning"],
};

const ANTHROPIC: FieldRules = FieldRules {
    required: &["model", "messages", "max_tokens", "system", "tools"],
    groups: &["output_config"],
    nested: &[
        ("cache_control", &["system.cache_control", "tools.cache_control", "messages.content.cache_control"]),
        ("disable_parallel_tool_use", &["tool_choice.disable_parallel_tool_use"]),
    ],
    schema: &["output_config.format"],
    reasoning: &["thinking", "output_config.effort"],
};

const GEMINI: FieldRules = FieldRules {
    required: &["contents", "systemInstruction", "tools"],
    groups: &["generationConfig", "generationConfig.thinkingConfig"],
    nested: &[
        ("thoughtSignature", &["contents.parts.thoughtSignature"]),
        ("id", &["contents.parts.functionCall.id", "contents.parts.functionResponse.id"]),
    ],
    schema: &[
        "generationConfig.responseSchema",
        "generationConfig.responseJsonSchema",
        "generationConfig.responseMimeType",
    ],
    reasoning: &["generationConfig.thinkingConfig"],
};

const OLLAMA: FieldRules = FieldRules {
    required: &["model", "messages", "tools"],
    groups: &["options"],
    nested: &[("tool_name", &["messages.tool_name"]), ("thinking", &["messages.thinking"])],
    schema: &["format"],
    reasoning: &["think"],
};

impl FieldRules {
    pub(crate) const fn of(api: WireApi) -> &'static Self {
        match api {
            WireApi::Chat => &CHAT,
            WireApi::Responses => &RESPONSES,
            WireApi::Anthropic => &ANTHROPIC,
            WireApi::Gemini => &GEMINI,
            WireApi::Ollama => &OLLAMA,
        }
    }

    /// All places of the field that a path names.
    pub(super) fn places<'a>(&self, path: &'a str) -> Vec<&'a str> {
        let nested = self.nested.iter().find(|(name, _)| *name == path);
        nested.map_or_else(|| vec![path], |(_, places)| places.to_vec())
    }

    pub(crate) fn is_group(&self, path: &str) -> bool {
        self.groups.contains(&path)
    }
}

/// A field of a body that can be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SentField {
    pub(crate) path: String,
    /// Whether a server that names something inside the field means the field.
    pub(crate) is_atomic: bool,
}

/// The fields of a body that can be left out.
pub(crate) fn sent_fields(rules: &FieldRules, body: &Value) -> Vec<SentField> {
    let mut fields = Vec::new();
    for (name, value) in body.as_object().into_iter().flatten() {
        if !rules.required.contains(&name.as_str()) {
            collect(rules, name.clone(), value, &mut fields);
        }
    }
    for (name, places) in rules.nested {
        if places.iter().any(|place| contains(body, place)) {
            fields.push(SentField { path: (*name).to_owned(), is_atomic: false });
        }
    }
    fields
}

fn collect(rules: &FieldRules, path: String, value: &Value, fields: &mut Vec<SentField>) {
    let is_group = rules.is_group(&path);
    if is_group {
        for (name, value) in value.as_object().into_iter().flatten() {
            collect(rules, format!("{path}.{name}"), value, fields);
        }
    }
    fields.push(SentField { path, is_atomic: !is_group });
}

/// Whether a body has a field; an array has the fields of its elements.
fn contains(value: &Value, path: &str) -> bool {
    if let Value::Array(elements) = value {
        return elements.iter().any(|element| contains(element, path));
    }
    match path.split_once('.') {
        Some((name, rest)) => value.get(name).is_some_and(|inner| contains(inner, rest)),
        None => value.get(path).is_some(),
    }
}
