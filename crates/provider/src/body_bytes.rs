//! Encodes a body to bytes. The messages are written one after the other, so that the JSON of a long conversation is never a
//! value in memory, and those of a prefix are copied.

use crate::{
    MessagePrefix, ModelMessage, ModelRequest, WireApi, anthropic, extra_body, gemini,
    message_list::{ListEncoder, ListFormat, ListSection, ListState, split_system},
    message_prefix::{push_elements, write_json},
    ollama,
    openai::{self, Dialect},
    responses,
    tool_names::ToolNames,
};
use serde_json::{Map, Value};

/// What a body depends on besides the request.
#[derive(Clone, Copy)]
pub(crate) struct BodyFrame<'a> {
    pub(crate) api: WireApi,
    pub(crate) base_url: &'a str,
    /// Fields that are merged into the body.
    pub(crate) extra: &'a Map<String, Value>,
}

/// The body of a request whose list of messages continues its prefix. `None` if the messages after the prefix change how it is
/// encoded.
pub(crate) fn continued(
    frame: BodyFrame<'_>,
    request: &ModelRequest,
    prefix: &MessagePrefix,
) -> Option<Vec<u8>> {
    let names = ToolNames::for_request(request);
    let encoder = frame.encoder(request, &names);
    let mut list = leading(request, &encoder);
    let mut state = prefix.encode(&encoder, &mut list)?;
    let messages = split_system(&request.messages).1;
    push_elements(&mut list, encoder.encode(&mut state, ListSection { messages, is_last: true })?);
    Some(frame.around(request, &encoder, (&state, &list)))
}

/// The body of a request.
pub(crate) fn whole(frame: BodyFrame<'_>, request: &ModelRequest) -> Vec<u8> {
    let request = &*request.with_all_messages();
    let names = ToolNames::for_request(request);
    let encoder = frame.encoder(request, &names);
    let mut list = leading(request, &encoder);
    let mut state = encoder.format.initial_state();
    let messages: &[ModelMessage] = split_system(&request.messages).1;
    push_elements(&mut list, encoder.encode_whole(&mut state, messages));
    if list.is_empty() {
        push_elements(&mut list, empty(frame.api).into_iter().collect());
    }
    frame.around(request, &encoder, (&state, &list))
}

/// The elements of the list before the conversation.
fn leading(request: &ModelRequest, encoder: &ListEncoder<'_>) -> Vec<u8> {
    let mut list = Vec::new();
    let elements = match encoder.format.api {
        WireApi::Chat => openai::encode_leading(request, encoder),
        WireApi::Ollama => ollama::encode_leading(request, encoder),
        WireApi::Responses | WireApi::Anthropic | WireApi::Gemini => Vec::new(),
    };
    push_elements(&mut list, elements);
    list
}

/// The element of a list that has no other one.
fn empty(api: WireApi) -> Option<Value> {
    match api {
        WireApi::Chat => Some(openai::empty_message()),
        WireApi::Responses => Some(responses::empty_item()),
        WireApi::Ollama => Some(ollama::empty_message()),
        // Their lists are never empty.
        WireApi::Anthropic | WireApi::Gemini => None,
    }
}

impl BodyFrame<'_> {
    fn encoder<'a>(self, request: &ModelRequest, names: &'a ToolNames) -> ListEncoder<'a> {
        let dialect = match self.api {
            WireApi::Chat => Dialect::for_base_url(self.base_url),
            WireApi::Responses | WireApi::Anthropic | WireApi::Gemini | WireApi::Ollama => {
                Dialect::COMPATIBLE
            }
        };
        ListEncoder { names, format: ListFormat::new(self.api, dialect, request) }
    }

    /// The body around the elements of its list.
    fn around(
        self,
        request: &ModelRequest,
        encoder: &ListEncoder<'_>,
        (state, list): (&ListState, &[u8]),
    ) -> Vec<u8> {
        // The list is inserted where the field of this name stands.
        let (field, mut body) = match encoder.format.api {
            WireApi::Chat => ("messages", openai::encode_around(request, true, encoder, Value::Null)),
            WireApi::Responses => ("input", responses::encode_around(request, true, encoder, Value::Null)),
            WireApi::Anthropic => {
                ("messages", anthropic::encode_around(request, true, encoder, (Value::Null, state)))
            }
            WireApi::Gemini => ("contents", gemini::encode_around(request, encoder, Value::Null)),
            WireApi::Ollama => ("messages", ollama::encode_around(request, true, encoder, Value::Null)),
        };
        extra_body::merge(self.api, self.extra, &mut body);
        let mut json = Vec::with_capacity(list.len() + 1024);
        for (key, value) in body.as_object().into_iter().flatten() {
            json.push(if json.is_empty() { b'{' } else { b',' });
            write_json(&mut json, &Value::from(key.as_str()));
            json.push(b':');
            if key == field {
                json.push(b'[');
                json.extend_from_slice(list);
                json.push(b']');
            } else {
                write_json(&mut json, value);
            }
        }
        json.push(b'}');
        json
    }
}
