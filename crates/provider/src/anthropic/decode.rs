//! An answer of Anthropic's Messages, event by event.
//!
//! Text and thoughts leave at once until the first call. From there on everything waits for the end, so that parts keep
//! their order: a call may not leave before the message is whole.

use super::{
    redacted,
    wire::{AnthropicBlock, AnthropicDelta, AnthropicEvent, AnthropicUsage},
};
use crate::{
    Done, Error, FinishReason, ModelRequest, StreamEvent, StreamFrame, TokenUsage, ToolCall, classify,
    decoding, tool_names::ToolNames,
};
use serde_json::{Map, Value};

#[derive(Debug)]
pub struct AnthropicDecoder {
    provider: String,
    names: ToolNames,
    model: Option<String>,
    tokens: AnthropicUsage,
    /// Why the model stopped, once the server has said it.
    finish: Option<FinishReason>,
    /// Of the block of thinking that is open.
    signature: String,
    held: Vec<DeferredPart>,
}

/// What waits for the end of the message.
#[derive(Debug)]
enum DeferredPart {
    Said(StreamEvent),
    Call(PartialToolUse),
}

#[derive(Debug)]
struct PartialToolUse {
    index: u64,
    id: String,
    name: String,
    /// What the block began with, for servers that send arguments whole.
    input: Option<Value>,
    json: String,
}

impl AnthropicDecoder {
    pub fn new(provider: &str, request: &ModelRequest) -> Self {
        Self {
            provider: provider.to_owned(),
            names: ToolNames::for_request(request),
            model: None,
            tokens: AnthropicUsage::default(),
            finish: None,
            signature: String::new(),
            held: Vec::new(),
        }
    }

    fn say(&mut self, event: StreamEvent, out: &mut Vec<StreamEvent>) {
        if self.held.is_empty() {
            out.push(event);
        } else {
            self.held.push(DeferredPart::Said(event));
        }
    }

    fn text(&mut self, text: Option<String>, out: &mut Vec<StreamEvent>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.say(StreamEvent::text(text), out);
        }
    }

    fn think(&mut self, text: Option<String>, signature: Option<&str>, out: &mut Vec<StreamEvent>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.say(StreamEvent::thought_delta(text, None), out);
        }
        self.signature.push_str(signature.unwrap_or_default());
    }

    /// A thought ends with its signature. One that has neither text nor signature was none.
    fn end_thought(&mut self, out: &mut Vec<StreamEvent>) {
        let signature = std::mem::take(&mut self.signature);
        if !signature.is_empty() {
            self.say(StreamEvent::thought_delta(String::new(), Some(signature)), out);
        }
    }

    fn begin(&mut self, index: u64, block: AnthropicBlock<'_>, out: &mut Vec<StreamEvent>) {
        self.end_thought(out);
        match block.kind.as_ref() {
            "thinking" => self.think(block.thinking, block.signature.as_deref(), out),
            "redacted_thinking" => {
                self.signature = block.data.map(|data| redacted::pack(&data)).unwrap_or_default();
                self.end_thought(out);
            }
            "tool_use" => self.held.push(DeferredPart::Call(PartialToolUse {
                index,
                id: block.id.unwrap_or_default(),
                name: self.names.original_name(&block.name.unwrap_or_default()),
                input: block.input,
                json: String::new(),
            })),
            // Tools of the server are never offered. Whatever else there may be, its text is not lost.
            _ => self.text(block.text, out),
        }
    }

    fn extend(&mut self, index: u64, delta: AnthropicDelta<'_>, out: &mut Vec<StreamEvent>) {
        match delta.kind.as_ref() {
            "thinking_delta" | "signature_delta" => {
                self.think(delta.thinking, delta.signature.as_deref(), out);
            }
            "input_json_delta" => {
                let piece = delta.partial_json.unwrap_or_default();
                if let Some(call) = self.calls().rfind(|call| call.index == index) {
                    call.json.push_str(&piece);
                }
            }
            _ => self.text(delta.text, out),
        }
    }

    fn calls(&mut self) -> impl DoubleEndedIterator<Item = &mut PartialToolUse> {
        self.held.iter_mut().filter_map(|held| match held {
            DeferredPart::Call(call) => Some(call),
            DeferredPart::Said(_) => None,
        })
    }

    fn complete(&mut self, out: &mut Vec<StreamEvent>) {
        self.end_thought(out);
        let finish = self.finish.take().unwrap_or_default();
        if finish == FinishReason::Length {
            self.drop_unfinished();
        }
        let runs = !matches!(finish, FinishReason::Refused { .. });
        out.extend(self.held.drain(..).filter_map(|held| match held {
            DeferredPart::Said(event) => Some(event),
            DeferredPart::Call(call) => runs.then(|| StreamEvent::ToolCall(call.whole())),
        }));
        out.extend(usage(self.tokens).map(StreamEvent::Usage));
        out.push(StreamEvent::Done(Done { finish, model_version: self.model.take() }));
    }

    /// The limit cuts the last call at most.
    fn drop_unfinished(&mut self) {
        let last = self.held.iter().rposition(|held| matches!(held, DeferredPart::Call(_)));
        let is_cut = |held: &DeferredPart| matches!(held, DeferredPart::Call(call) if call.is_cut());
        if let Some(at) = last.filter(|at| is_cut(&self.held[*at])) {
            self.held.remove(at);
        }
    }

    fn error(&self, data: &str) -> Error {
        let value = serde_json::from_str(data).unwrap_or_default();
        classify::error_in_json(&self.provider, None, &value)
            .unwrap_or_else(|| decoding::parse_error(&self.provider, data))
    }
}

impl crate::StreamDecoder for AnthropicDecoder {
    fn read(&mut self, frame: StreamFrame<'_>, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if decoding::is_empty_frame(frame.data) {
            return Ok(());
        }
        let Ok(event) = serde_json::from_str::<AnthropicEvent<'_>>(frame.data) else {
            return Err(self.error(frame.data));
        };
        if event.error.is_some() {
            return Err(self.error(frame.data));
        }
        self.tokens.raise(event.usage.unwrap_or_default());
        let kind = if event.kind.is_empty() { frame.event } else { event.kind.as_ref() };
        match (kind, event.message, event.content_block, event.delta) {
            ("message_start", Some(opening), ..) => {
                self.model = opening.model;
                self.tokens.raise(opening.usage.unwrap_or_default());
            }
            ("content_block_start", _, Some(block), _) => self.begin(event.index, block, out),
            ("content_block_delta", .., Some(delta)) => self.extend(event.index, delta, out),
            ("content_block_stop", ..) => self.end_thought(out),
            ("message_delta", .., Some(delta)) => {
                self.finish = finish(delta).or(self.finish.take());
            }
            ("message_stop", ..) => self.complete(out),
            ("error", ..) => return Err(self.error(frame.data)),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if self.finish.is_none() {
            return Err(Error::Truncated { provider: self.provider.clone() });
        }
        self.complete(out);
        Ok(())
    }
}

/// `pause_turn` is for tools of the server, which are never offered: what was said stands, as for a reason yet unknown.
fn finish(delta: AnthropicDelta<'_>) -> Option<FinishReason> {
    Some(match delta.stop_reason?.as_str() {
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "refusal" => {
            let said = delta.stop_details.and_then(|details| details.explanation);
            let message = said.unwrap_or_else(|| "the model declines to answer this".to_owned());
            FinishReason::Refused { code: "REFUSAL".to_owned(), message }
        }
        _ => FinishReason::Stop,
    })
}

fn usage(tokens: AnthropicUsage) -> Option<TokenUsage> {
    let count = |tokens: Option<u64>| tokens.unwrap_or_default();
    let usage = TokenUsage {
        input: count(tokens.new) + count(tokens.written) + count(tokens.cached),
        cached: count(tokens.cached),
        output: count(tokens.output),
        reasoning: 0,
    };
    (usage != TokenUsage::default()).then_some(usage)
}

impl PartialToolUse {
    /// The arguments, if the model wrote an object; a call that has none is whole too.
    fn args(&self) -> Option<Map<String, Value>> {
        let written = match self.json.trim() {
            "" => self.input.clone().unwrap_or_default(),
            json => serde_json::from_str(json).ok()?,
        };
        match written {
            Value::Object(args) => Some(args),
            Value::Null => Some(Map::new()),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => None,
        }
    }

    /// Whether the limit has cut it. One without a single argument may have been about to get some.
    fn is_cut(&self) -> bool {
        self.args().is_none_or(|args| args.is_empty() && self.json.trim().is_empty())
    }

    fn whole(self) -> ToolCall {
        let args = self.args();
        let written =
            if self.json.is_empty() { self.input.map(|input| input.to_string()) } else { Some(self.json) };
        ToolCall {
            id: self.id,
            name: self.name,
            malformed: written.filter(|_| args.is_none()),
            args: args.unwrap_or_default(),
            signature: None,
        }
    }
}

#[cfg(test)]
mod tests;
