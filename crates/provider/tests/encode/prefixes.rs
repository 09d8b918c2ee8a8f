//! A body that continues an encoded prefix equals the body that is encoded as a whole.

use crate::{for_all, generated::GeneratedRequest};
use provider::{MessagePrefix, ModelMessage, ModelRequest, Role, WireApi};
use std::{cell::Cell, sync::Arc};
use testkit::ProviderApi;

/// Servers whose dialects send reasoning back, in different ways.
const SERVERS: [&str; 4] = [
    "https://api.openai.com/v1",
    "https://api.deepseek.com/v1",
    "https://openrouter.ai/api/v1",
    "https://generativelanguage.googleapis.com/v1beta/openai",
];

fn wire_api(api: ProviderApi) -> WireApi {
    match api {
        ProviderApi::OpenAi => WireApi::Chat,
        ProviderApi::Responses => WireApi::Responses,
        ProviderApi::Anthropic => WireApi::Anthropic,
        ProviderApi::Gemini => WireApi::Gemini,
        ProviderApi::Ollama => WireApi::Ollama,
    }
}

/// The index of the first message after the system message.
fn conversation(request: &ModelRequest) -> usize {
    usize::from(request.messages.first().is_some_and(|first| first.role == Role::System))
}

/// The lengths of the prefixes that end before a message of the user.
fn prefix_lengths(generated: &GeneratedRequest) -> Vec<usize> {
    let conversation = &generated.request.messages[conversation(&generated.request)..];
    let is_by_user = |at: &usize| conversation[*at].role == Role::User;
    (1..conversation.len()).filter(is_by_user).collect()
}

fn with_prefix(request: &ModelRequest, prefix: &Arc<MessagePrefix>) -> ModelRequest {
    let mut messages = request.messages.clone();
    let begin = conversation(request);
    messages.drain(begin..begin + prefix.messages().len());
    ModelRequest { messages, prefix: Some(Arc::clone(prefix)), ..request.clone() }
}

#[test]
fn body_that_continues_a_prefix_equals_the_whole_one() {
    let (reused, encoded) = (Cell::new(0), Cell::new(0));
    for_all(|generated, api, _| {
        let request = &generated.request;
        let servers = if api == ProviderApi::OpenAi { &SERVERS[..] } else { &SERVERS[..1] };
        for server in servers {
            let whole = wire_api(api).encode(server, request).to_string();
            let bytes = |request: &ModelRequest| {
                String::from_utf8(wire_api(api).encode_to_bytes(server, request)).unwrap()
            };
            if bytes(request) != whole {
                return Err(format!("{}\nis not\n{whole}", bytes(request)));
            }
            let mut prefix = Arc::new(MessagePrefix::default());
            let messages: &[ModelMessage] = &request.messages[conversation(request)..];
            for length in prefix_lengths(generated) {
                // The prefix grows, and what it has encoded is kept.
                let new = messages[prefix.messages().len()..length].to_vec();
                Arc::get_mut(&mut prefix).unwrap().extend(new, 0);
                let before = prefix.bytes();
                let continued = with_prefix(request, &prefix);
                if continued.with_all_messages().into_owned() != *request {
                    return Err("the request has other messages".to_owned());
                }
                if bytes(&continued) != whole {
                    return Err(format!("{}\nis not\n{whole}\nfor {length}", bytes(&continued)));
                }
                encoded.set(encoded.get() + 1);
                reused.set(reused.get() + usize::from(prefix.bytes() > before));
            }
        }
        Ok(())
    });
    assert!(reused.get() > 1_000, "{} of {} prefixes were encoded", reused.get(), encoded.get());
}

#[test]
fn prefix_is_encoded_again_for_other_tools_and_another_format() {
    for_all(|generated, _, _| {
        let Some(length) = prefix_lengths(generated).pop() else { return Ok(()) };
        let messages = &generated.request.messages[conversation(&generated.request)..][..length];
        let prefix = Arc::new(MessagePrefix::new(messages.to_vec(), 0));
        let fewer_tools =
            ModelRequest { tools: generated.request.tools[..0].to_vec(), ..generated.request.clone() };
        for api in [WireApi::Chat, WireApi::Anthropic, WireApi::Gemini] {
            for request in [&generated.request, &fewer_tools] {
                let bytes = api.encode_to_bytes(SERVERS[0], &with_prefix(request, &prefix));
                let whole = api.encode(SERVERS[0], request).to_string();
                if bytes != whole.as_bytes() {
                    return Err(format!("{}\nis not\n{whole}", String::from_utf8_lossy(&bytes)));
                }
            }
        }
        Ok(())
    });
}
