//! Reads the calls and results back from each wire format.

use serde_json::Value;
use testkit::ProviderApi;

/// Calls and results in order: the wire id, and the number that identifies the call.
#[derive(Debug, Default)]
pub(crate) struct WireCalls {
    pub(crate) calls: Vec<(String, u64)>,
    pub(crate) results: Vec<(String, u64)>,
}

impl WireCalls {
    pub(crate) fn read(api: ProviderApi, body: &Value) -> Self {
        let mut wire = Self::default();
        for message in messages(api, body) {
            match api {
                ProviderApi::OpenAi => wire.read_openai(&message),
                ProviderApi::Responses => wire.read_responses(&message),
                ProviderApi::Anthropic => {
                    list(&message, "content").for_each(|block| wire.read_anthropic(block));
                }
                ProviderApi::Gemini => list(&message, "parts").for_each(|part| wire.read_gemini(part)),
                ProviderApi::Ollama => wire.read_ollama(&message),
            }
        }
        wire
    }

    fn read_openai(&mut self, message: &Value) {
        self.calls.extend(
            list(message, "tool_calls")
                .map(|call| (text(call, "id"), number(&call["function"]["arguments"]))),
        );
        if message["role"] == "tool" {
            self.results.push((text(message, "tool_call_id"), number(&message["content"])));
        }
    }

    fn read_responses(&mut self, item: &Value) {
        match item["type"].as_str() {
            Some("function_call") => self.calls.push((text(item, "call_id"), number(&item["arguments"]))),
            Some("function_call_output") => {
                self.results.push((text(item, "call_id"), number(&item["output"])));
            }
            Some(_) | None => {}
        }
    }

    fn read_ollama(&mut self, message: &Value) {
        self.calls.extend(
            list(message, "tool_calls")
                .map(|call| (text(call, "id"), number(&call["function"]["arguments"]))),
        );
        if message["role"] == "tool" {
            self.results.push((text(message, "tool_call_id"), number(&message["content"])));
        }
    }

    fn read_anthropic(&mut self, block: &Value) {
        match block["type"].as_str() {
            Some("tool_use") => self.calls.push((text(block, "id"), number(&block["input"]))),
            Some("tool_result") => self.results.push((text(block, "tool_use_id"), number(&block["content"]))),
            Some(_) | None => {}
        }
    }

    fn read_gemini(&mut self, part: &Value) {
        let call = part.get("functionCall").map(|call| (text(call, "id"), number(&call["args"])));
        let result =
            part.get("functionResponse").map(|answer| (text(answer, "id"), number(&answer["response"])));
        self.calls.extend(call);
        self.results.extend(result);
    }
}

/// The messages without cache breakpoints.
pub(crate) fn messages(api: ProviderApi, body: &Value) -> Vec<Value> {
    let key = match api {
        ProviderApi::OpenAi | ProviderApi::Anthropic | ProviderApi::Ollama => "messages",
        ProviderApi::Responses => "input",
        ProviderApi::Gemini => "contents",
    };
    let mut messages: Vec<Value> = list(body, key).cloned().collect();
    let blocks =
        messages.iter_mut().filter_map(|message| message.get_mut("content")).filter_map(Value::as_array_mut);
    for block in blocks.flatten().filter_map(Value::as_object_mut) {
        block.shift_remove("cache_control");
    }
    messages
}

pub(crate) fn is_legal(api: ProviderApi, id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    !id.is_empty()
        && match api {
            ProviderApi::OpenAi => id.len() <= 40 && id.chars().all(plain),
            ProviderApi::Anthropic | ProviderApi::Responses | ProviderApi::Ollama => {
                id.len() <= 64 && id.chars().all(plain)
            }
            ProviderApi::Gemini => id.chars().count() <= 256,
        }
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// The first number with at least four digits.
fn number(value: &Value) -> u64 {
    let text = value.to_string();
    let digits = text.split(|c: char| !c.is_ascii_digit()).find(|digits| digits.len() >= 4);
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_default()
}
