//! Estimates the memory that an event holds.

use adk::{
    content::{Content, Data, Part},
    event::Event,
};
use serde_json::{Map, Value};

/// What an allocator adds to an allocation.
const ALLOCATION: usize = 16;
/// The allocation of a shared text without its characters.
const SHARED_TEXT: usize = 48 + ALLOCATION;
/// An entry of a JSON object besides key and value: its hash and its place in the index.
const ENTRY: usize = 16;
/// The rows beside the events, and the pointer to the event.
const LOG_ENTRY: usize = 32;

/// The memory of an event in bytes, with the entries of the log that refer to it.
pub(super) fn by_event(event: &Event) -> usize {
    let texts = [&event.id, &event.author, &event.invocation_id, &event.node_info.path];
    let optional = [
        &event.model_version,
        &event.finish_reason,
        &event.error_code,
        &event.error_message,
        &event.branch,
        &event.actions.transfer_to_agent,
    ];
    let actions = &event.actions;
    let maps = [
        &actions.state_delta,
        &actions.artifact_delta,
        &actions.requested_auth_configs,
        &actions.requested_tool_confirmations,
        &actions.extra,
        &event.node_info.extra,
        &event.extra,
    ];
    let usage = event.usage_metadata.as_ref().map(|usage| &usage.extra);
    let optional_maps = event.custom_metadata.iter().chain(usage);
    LOG_ENTRY
        + size_of::<Event>()
        + ALLOCATION
        + texts.into_iter().map(string).sum::<usize>()
        + optional.into_iter().flatten().map(string).sum::<usize>()
        + event.long_running_tool_ids.iter().flatten().map(string).sum::<usize>()
        + maps.into_iter().chain(optional_maps).map(object).sum::<usize>()
        + event.content.as_ref().map_or(0, by_content)
}

fn by_content(content: &Content) -> usize {
    let origin = content.origin.as_ref().map_or(0, |origin| string(&origin.provider) + string(&origin.model));
    let parts: usize = content.parts.iter().map(by_part).sum();
    let list = ALLOCATION + content.parts.capacity() * size_of::<Part>();
    list + parts + origin + content.role.as_ref().map_or(0, string)
}

fn by_part(part: &Part) -> usize {
    let data = match &part.data {
        Data::Text(text) => SHARED_TEXT + text.len(),
        Data::FunctionCall(call) => {
            ALLOCATION
                + size_of_val(&**call)
                + string(&call.name)
                + call.id.as_ref().map_or(0, string)
                + call.args.as_ref().map_or(0, object)
        }
        Data::FunctionResponse(response) => {
            ALLOCATION
                + size_of_val(&**response)
                + string(&response.name)
                + response.id.as_ref().map_or(0, string)
                + response.response.as_ref().map_or(0, object)
        }
        Data::InlineData(blob) => ALLOCATION + size_of_val(&**blob) + string(&blob.data),
        Data::FileData(file) => ALLOCATION + size_of_val(&**file) + string(&file.file_uri),
        Data::Unknown => 0,
    };
    data + part.thought_signature.as_ref().map_or(0, string) + object(&part.extra)
}

fn string(text: &String) -> usize {
    if text.capacity() == 0 { 0 } else { text.capacity() + ALLOCATION }
}

fn object(map: &Map<String, Value>) -> usize {
    map.iter().map(|(key, value)| ENTRY + size_of::<(String, Value)>() + string(key) + json(value)).sum()
}

/// What a value holds besides itself.
fn json(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => string(text),
        Value::Array(items) => {
            ALLOCATION + items.iter().map(|item| size_of::<Value>() + json(item)).sum::<usize>()
        }
        Value::Object(map) => object(map),
    }
}
