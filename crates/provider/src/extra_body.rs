//! Fields that the configuration adds to the body of a request: they are merged into the encoded body, and none of them
//! replaces the conversation.

use crate::{SecretString, WireApi};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// The fields that extra fields cannot replace: those that carry the conversation, and those that decide how the answer
/// arrives.
const fn reserved(api: WireApi) -> &'static [&'static str] {
    match api {
        WireApi::Chat => &["model", "messages", "tools", "functions", "stream"],
        WireApi::Responses => &[
            "model",
            "input",
            "instructions",
            "tools",
            "stream",
            "background",
            "conversation",
            "previous_response_id",
        ],
        WireApi::Anthropic => &["model", "messages", "system", "tools", "stream"],
        WireApi::Gemini => &["model", "contents", "systemInstruction", "tools", "stream"],
        WireApi::Ollama => &["model", "messages", "tools", "stream"],
    }
}

/// The first of the fields that must not be an extra field.
pub fn reserved_field(api: WireApi, extra: &Map<String, Value>) -> Option<&str> {
    let is_reserved = |name: &&String| reserved(api).iter().any(|reserved| is_same(name, reserved));
    extra.keys().find(is_reserved).map(String::as_str)
}

/// Merges two tables of extra fields. A value of `over` replaces the one of `base`, unless both are tables.
pub fn merge_tables(mut base: Map<String, Value>, over: Map<String, Value>) -> Map<String, Value> {
    merge_fields(&mut base, over, |one, other| one == other);
    base
}

/// Adds the extra fields to an encoded body. Tables are merged, other values replaced.
pub(crate) fn merge(api: WireApi, extra: &Map<String, Value>, body: &mut Value) {
    if let Value::Object(fields) = body {
        let mut extra = extra.clone();
        while let Some(name) = reserved_field(api, &extra).map(str::to_owned) {
            extra.shift_remove(&name);
        }
        // Gemini accepts two spellings of a field, and rejects a body that has both.
        let is_same = if api == WireApi::Gemini { is_same } else { |one: &str, other: &str| one == other };
        merge_fields(fields, extra, is_same);
    }
}

fn merge_fields(fields: &mut Map<String, Value>, extra: Map<String, Value>, is_same: fn(&str, &str) -> bool) {
    for (name, value) in extra {
        let name = fields.keys().find(|known| is_same(known, &name)).cloned().unwrap_or(name);
        match (fields.get_mut(&name), value) {
            (Some(Value::Object(known)), Value::Object(value)) => merge_fields(known, value, is_same),
            (_, value) => drop(fields.insert(name, value)),
        }
    }
}

/// Compares names in camelCase and `snake_case`.
fn is_same(one: &str, other: &str) -> bool {
    let letters = |name: &str| name.replace('_', "").to_ascii_lowercase();
    letters(one) == letters(other)
}

/// The variables in the strings of the fields, as they are written between `${` and `}`.
pub fn variables(fields: &Map<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    fields.values().for_each(|value| collect_variables(value, &mut found));
    found
}

fn collect_variables(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let after = text.split("${").skip(1);
            found.extend(after.filter_map(|after| Some(after.split_once('}')?.0.to_owned())));
        }
        Value::Array(values) => values.iter().for_each(|value| collect_variables(value, found)),
        Value::Object(fields) => fields.values().for_each(|value| collect_variables(value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

pub(crate) fn has_variables(fields: &Map<String, Value>) -> bool {
    !variables(fields).is_empty()
}

/// The fields with the values of their variables.
pub(crate) fn fill<'a>(
    fields: &'a Map<String, Value>,
    values: &[(String, SecretString)],
) -> Cow<'a, Map<String, Value>> {
    if !has_variables(fields) {
        return Cow::Borrowed(fields);
    }
    let filled = fields.iter().map(|(name, value)| (name.clone(), fill_value(value, values)));
    Cow::Owned(filled.collect())
}

fn fill_value(value: &Value, values: &[(String, SecretString)]) -> Value {
    match value {
        Value::String(text) => fill_text(text, values).into(),
        Value::Array(elements) => elements.iter().map(|element| fill_value(element, values)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), fill_value(value, values))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// A variable without a value stays as it is written.
fn fill_text(text: &str, values: &[(String, SecretString)]) -> String {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${")
        && let Some((name, behind)) = after.split_once('}')
    {
        filled.push_str(before);
        match values.iter().find(|(known, _)| known == name) {
            Some((_, value)) => filled.push_str(value.reveal()),
            None => filled.extend(["${", name, "}"]),
        }
        rest = behind;
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ModelRequest, test_fixture};
    use serde_json::json;

    fn table(value: Value) -> Map<String, Value> {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn extra_fields_are_added_in_every_format_and_tables_are_merged() {
        let request = test_fixture::request();
        for (api, path) in [
            (WireApi::Chat, "/stream_options"),
            (WireApi::Responses, "/text"),
            (WireApi::Anthropic, "/output_config"),
            (WireApi::Gemini, "/generationConfig"),
            (WireApi::Ollama, "/options"),
        ] {
            let before = api.encode("", &request);
            let group = path.trim_start_matches('/');
            let extra_body = table(json!({"service_tier": "flex", group: {"future": [1]}}));
            let after = api.encode("", &ModelRequest { extra_body, ..request.clone() });
            assert_eq!(after["service_tier"], "flex");
            assert_eq!(after[group]["future"], json!([1]));
            for (name, value) in before[group].as_object().into_iter().flatten() {
                assert_eq!(&after[group][name], value, "{api:?}");
            }
        }
    }

    #[test]
    fn extra_field_replaces_a_setting_and_never_the_conversation() {
        for api in [WireApi::Chat, WireApi::Responses, WireApi::Anthropic, WireApi::Gemini, WireApi::Ollama] {
            let request = test_fixture::request();
            let before = api.encode("", &request);
            for name in reserved(api) {
                let extra_body = table(json!({*name: "other"}));
                assert_eq!(reserved_field(api, &extra_body), Some(*name));
                assert_eq!(api.encode("", &ModelRequest { extra_body, ..request.clone() }), before);
            }
            assert_eq!(reserved_field(api, &table(json!({"temperature": 1, "service_tier": "flex"}))), None);
        }
        let extra_body = table(json!({"temperature": 0.25}));
        let body = WireApi::Chat.encode("", &ModelRequest { extra_body, ..test_fixture::request() });
        assert_eq!(body["temperature"], 0.25);
        assert_eq!(
            reserved_field(WireApi::Gemini, &table(json!({"system_instruction": {}}))),
            Some("system_instruction")
        );
    }

    #[test]
    fn either_spelling_of_a_field_of_gemini_is_the_same_field() {
        let extra_body =
            table(json!({"generation_config": {"max_output_tokens": 7, "media_resolution": "LOW"}}));
        let body = WireApi::Gemini.encode("", &ModelRequest { extra_body, ..test_fixture::request() });
        assert_eq!(body.get("generation_config"), None);
        assert_eq!(body["generationConfig"]["maxOutputTokens"], 7);
        assert_eq!(body["generationConfig"]["media_resolution"], "LOW");
    }

    #[test]
    fn variables_are_replaced_in_strings_at_any_depth() {
        let fields = table(
            json!({"a": ["x ${ONE} ${TWO:-2}", 1], "b": {"c": "${ONE}${NONE} ${open"}, "${ONE}": true}),
        );
        assert_eq!(variables(&fields), ["ONE", "TWO:-2", "ONE", "NONE"]);
        let values = [
            ("ONE".to_owned(), SecretString::new("${TWO:-2}")),
            ("TWO:-2".to_owned(), SecretString::new("v")),
        ];
        let filled = fill(&fields, &values).into_owned();
        let expected =
            json!({"a": ["x ${TWO:-2} v", 1], "b": {"c": "${TWO:-2}${NONE} ${open"}, "${ONE}": true});
        assert_eq!(Value::from(filled), expected);
    }

    #[test]
    fn model_fields_precede_provider_fields() {
        let base = table(json!({"a": {"x": 1, "y": 2}, "b": 1}));
        let merged = merge_tables(base, table(json!({"a": {"y": 3}, "b": {"z": 1}})));
        assert_eq!(Value::from(merged), json!({"a": {"x": 1, "y": 3}, "b": {"z": 1}}));
    }
}
