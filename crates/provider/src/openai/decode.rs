//! An answer of chat completions, chunk by chunk.
//!
//! The reason for stopping ends an answer. The usage may follow it, so the answer is complete with `[DONE]` or with the end
//! of the body; without a reason it is cut off, whatever else the server says.

use super::{
    details::ReasoningDetails,
    wire::{ChatChoice, ChatChunk, ChatDelta, ChatFunctionDelta, ChatToolCallDelta},
};
use crate::{
    Done, Error, FinishReason, ModelRequest, StreamEvent, StreamFrame, TokenUsage, ToolCall, classify,
    decoding, tool_names::ToolNames,
};
use serde_json::{Value, json};

#[derive(Debug)]
pub struct ChatDecoder {
    provider: String,
    names: ToolNames,
    calls: Vec<PartialChatCall>,
    details: ReasoningDetails,
    refusal: String,
    finish: Option<String>,
    usage: Option<TokenUsage>,
    model: Option<String>,
}

/// A call as far as it has come.
#[derive(Debug, Default)]
struct PartialChatCall {
    index: Option<u64>,
    id: String,
    name: String,
    /// Text that grows, or an object that came whole.
    arguments: Value,
    signature: Option<String>,
}

impl ChatDecoder {
    pub fn new(provider: &str, request: &ModelRequest) -> Self {
        Self {
            provider: provider.to_owned(),
            names: ToolNames::for_request(request),
            calls: Vec::new(),
            details: ReasoningDetails::default(),
            refusal: String::new(),
            finish: None,
            usage: None,
            model: None,
        }
    }

    fn choice(&mut self, choice: ChatChoice, out: &mut Vec<StreamEvent>) {
        for delta in choice.delta.into_iter().chain(choice.message) {
            self.delta(delta, out);
        }
        self.finish = choice.finish_reason.filter(|reason| !reason.is_empty()).or(self.finish.take());
    }

    fn delta(&mut self, delta: ChatDelta, out: &mut Vec<StreamEvent>) {
        // Some servers give one thought under both names.
        let thought = decoding::string_or_empty(delta.reasoning_content);
        let thought = if thought.is_empty() { decoding::string_or_empty(delta.reasoning) } else { thought };
        say(thought, true, out);
        match delta.content {
            Value::Array(parts) => parts.into_iter().for_each(|part| say_part(part, out)),
            content => say(decoding::string_or_empty(content), false, out),
        }
        self.details.extend(delta.reasoning_details.unwrap_or_default());
        self.refusal.push_str(&decoding::string_or_empty(delta.refusal));
        delta.tool_calls.into_iter().flatten().for_each(|piece| self.piece(piece));
    }

    fn piece(&mut self, piece: ChatToolCallDelta) {
        let id = piece.id.unwrap_or_default();
        let ChatFunctionDelta { name, arguments } = piece.function.unwrap_or_default();
        let name = name.unwrap_or_default();
        let at = self.place(piece.index, &id, &name, &arguments).unwrap_or_else(|| {
            self.calls.push(PartialChatCall { index: piece.index, ..PartialChatCall::default() });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = name;
        }
        call.extend(arguments);
        let signature = piece.extra_content.pointer("/google/thought_signature").and_then(Value::as_str);
        call.signature = signature.map(str::to_owned).or(call.signature.take());
    }

    /// The call that a piece continues: the one of its id, or without an id the newest of its index. Servers that number
    /// all calls alike give each an id; where they give none, a name after whole arguments begins the next call.
    fn place(&self, index: Option<u64>, id: &str, name: &str, arguments: &Value) -> Option<usize> {
        let newest = self.calls.iter().rposition(|call| index.is_none() || call.index == index);
        let same = |call: &PartialChatCall| call.index == index && call.id == id;
        match newest {
            Some(_) if !id.is_empty() && self.calls.iter().any(same) => self.calls.iter().rposition(same),
            Some(at) if !id.is_empty() => {
                // An id that comes late is the id of the call that has none.
                (self.calls[at].id.is_empty() && name.is_empty()).then_some(at)
            }
            Some(at) => {
                let more = !name.is_empty() && !is_blank(arguments);
                (!more || !self.calls[at].is_whole()).then_some(at)
            }
            None => None,
        }
    }

    fn complete(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let provider = self.provider.clone();
        let Some(reason) = self.finish.take() else {
            return Err(Error::Truncated { provider });
        };
        let finish = match reason.as_str() {
            _ if !self.refusal.is_empty() => FinishReason::Refused {
                code: "refusal".to_owned(),
                message: std::mem::take(&mut self.refusal),
            },
            "length" | "max_tokens" | "model_length" => FinishReason::Length,
            "content_filter" => FinishReason::Refused {
                code: reason,
                message: "the provider's filter stopped the answer".to_owned(),
            },
            "error" | "insufficient_system_resource" => {
                let message = format!("the answer ended with: {reason}");
                return Err(Error::Transient { provider, message, retry_after: None, source: None });
            }
            "abort" => return Err(Error::Truncated { provider }),
            _ => FinishReason::Stop,
        };
        if let Some(sealed) = self.details.seal() {
            out.push(StreamEvent::thought_delta(String::new(), Some(sealed)));
        }
        out.extend(self.whole_calls(&finish).into_iter().map(StreamEvent::ToolCall));
        out.extend(self.usage.take().map(StreamEvent::Usage));
        out.push(StreamEvent::Done(Done { finish, model_version: self.model.take() }));
        Ok(())
    }

    /// An answer that reached its limit was cut in the middle of a call, if that call cannot be read; one that was refused
    /// asks for nothing.
    fn whole_calls(&mut self, finish: &FinishReason) -> Vec<ToolCall> {
        let mut calls: Vec<PartialChatCall> = self.calls.drain(..).filter(|call| !call.is_empty()).collect();
        match finish {
            FinishReason::Stop => {}
            FinishReason::Length => {
                // A call without arguments is whole if another follows it.
                let last = calls.pop().filter(PartialChatCall::is_whole);
                calls.retain(|call| call.is_whole() || is_blank(&call.arguments));
                calls.extend(last);
            }
            FinishReason::Refused { .. } => calls.clear(),
        }
        calls.into_iter().map(|call| call.made(&self.names)).collect()
    }
}

impl crate::StreamDecoder for ChatDecoder {
    fn read(&mut self, frame: StreamFrame<'_>, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        match frame.data.trim() {
            "" => return Ok(()),
            "[DONE]" => return self.complete(out),
            _ => {}
        }
        let chunk: ChatChunk = decoding::parse_frame(&self.provider, frame.data)?;
        if !chunk.error.is_null()
            && let Some(error) = classify::error_in_json(&self.provider, None, &json!({"error": chunk.error}))
        {
            return Err(error);
        }
        self.model = chunk.model.filter(|model| !model.is_empty()).or(self.model.take());
        self.usage = chunk.usage.map(|counts| counts.usage()).or(self.usage);
        // One answer was asked for.
        if let Some(choice) = chunk.choices.into_iter().flatten().next() {
            self.choice(choice, out);
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        self.complete(out)
    }
}

impl PartialChatCall {
    fn extend(&mut self, piece: Value) {
        match (&mut self.arguments, piece) {
            (Value::String(text), Value::String(piece)) => text.push_str(&piece),
            (_, Value::Null) => {}
            (arguments, piece) => *arguments = piece,
        }
    }

    fn is_empty(&self) -> bool {
        self.name.is_empty() && is_blank(&self.arguments)
    }

    fn is_whole(&self) -> bool {
        match &self.arguments {
            Value::String(text) => serde_json::from_str::<serde_json::Map<String, Value>>(text).is_ok(),
            arguments => arguments.is_object(),
        }
    }

    fn made(self, names: &ToolNames) -> ToolCall {
        ToolCall {
            signature: self.signature,
            ..decoding::tool_call(self.id, names.original_name(&self.name), self.arguments)
        }
    }
}

fn is_blank(arguments: &Value) -> bool {
    arguments.is_null() || arguments.as_str().is_some_and(|text| text.trim().is_empty())
}

fn say(text: String, thought: bool, out: &mut Vec<StreamEvent>) {
    if !text.is_empty() {
        let piece = if thought { StreamEvent::thought_delta } else { StreamEvent::text_delta };
        out.push(piece(text, None));
    }
}

/// Mistral's parts: text, or thinking that is a list of texts.
fn say_part(mut part: Value, out: &mut Vec<StreamEvent>) {
    match take(&mut part, "thinking") {
        Value::Array(texts) => {
            for mut text in texts {
                say(decoding::string_or_empty(take(&mut text, "text")), true, out);
            }
        }
        Value::String(text) => say(text, true, out),
        _ => say(decoding::string_or_empty(take(&mut part, "text")), false, out),
    }
}

fn take(object: &mut Value, key: &str) -> Value {
    object.get_mut(key).map(Value::take).unwrap_or_default()
}

#[cfg(test)]
mod tests;
