//! Decodes a streamed response of the Anthropic Messages API.
//!
//! Text and thoughts are emitted at once up to the first call. Everything after it is deferred to the end of the
//! message, so parts keep their order: a call must not be emitted before the message is complete.

use super::{
    redacted_thinking,
    wire::{AnthropicBlock, AnthropicDelta, AnthropicEvent, AnthropicMessage, AnthropicUsage},
};
use crate::{
    Done, Error, FinishReason, ModelRequest, StreamEvent, StreamFrame, TokenUsage, ToolCall,
    citations::Citations, classify, decoding, tool_names::ToolNames,
};
use serde_json::{Map, Value};
use std::collections::HashSet;

#[derive(Debug)]
pub struct AnthropicDecoder {
    provider: String,
    names: ToolNames,
    model: Option<String>,
    usage: AnthropicUsage,
    /// The finish reason, once the server has sent it.
    finish: Option<FinishReason>,
    /// The signature of the open thinking block.
    signature: String,
    deferred: Vec<DeferredPart>,
    /// The indexes of blocks that are no calls of declared tools.
    other_blocks: HashSet<u64>,
    /// Fragments of calls that have not begun, by the index of their block.
    early_fragments: Vec<(u64, String)>,
    citations: Citations,
}

/// A part that is deferred to the end of the message.
#[derive(Debug)]
enum DeferredPart {
    Event(StreamEvent),
    Call(PartialToolUse),
}

#[derive(Debug)]
struct PartialToolUse {
    index: u64,
    id: String,
    name: String,
    /// The input at the start of the block, for servers that send complete arguments.
    input: Option<Value>,
    json: String,
}

impl AnthropicDecoder {
    pub fn new(provider: &str, request: &ModelRequest) -> Self {
        Self {
            provider: provider.to_owned(),
            names: ToolNames::for_request(request),
            model: None,
            usage: AnthropicUsage::default(),
            finish: None,
            signature: String::new(),
            deferred: Vec::new(),
            other_blocks: HashSet::new(),
            early_fragments: Vec::new(),
            citations: Citations::default(),
        }
    }

    fn emit(&mut self, event: StreamEvent, out: &mut Vec<StreamEvent>) {
        if self.deferred.is_empty() {
            out.push(event);
        } else {
            self.deferred.push(DeferredPart::Event(event));
        }
    }

    fn emit_text(&mut self, text: Option<String>, out: &mut Vec<StreamEvent>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.emit(StreamEvent::text(text), out);
        }
    }

    fn emit_thought(&mut self, text: Option<String>, signature: Option<&str>, out: &mut Vec<StreamEvent>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            self.emit(StreamEvent::thought_delta(text, None), out);
        }
        self.signature.push_str(signature.unwrap_or_default());
    }

    /// Emits the signature that ends a thought. A thinking block without text and signature is dropped.
    fn end_thought(&mut self, out: &mut Vec<StreamEvent>) {
        let signature = std::mem::take(&mut self.signature);
        if !signature.is_empty() {
            self.emit(StreamEvent::thought_delta(String::new(), Some(signature)), out);
        }
    }

    fn start_block(&mut self, index: u64, block: AnthropicBlock, out: &mut Vec<StreamEvent>) {
        self.end_thought(out);
        block.citations.iter().flatten().for_each(|citation| self.citations.add_anthropic(citation));
        match block.kind.as_deref().unwrap_or_default() {
            "thinking" => self.emit_thought(block.thinking, block.signature.as_deref(), out),
            "redacted_thinking" => {
                self.signature =
                    block.data.map(|data| redacted_thinking::to_signature(&data)).unwrap_or_default();
                self.end_thought(out);
            }
            "tool_use" => {
                let early = self.early_fragments.extract_if(.., |(of, _)| *of == index);
                let json = early.map(|(_, fragment)| fragment).collect();
                self.deferred.push(DeferredPart::Call(PartialToolUse {
                    index,
                    id: block.id.unwrap_or_default(),
                    name: self.names.original_name(&block.name.unwrap_or_default()),
                    input: block.input,
                    json,
                }));
            }
            // Server-side tools are never declared. The text of unknown blocks is kept.
            _ => {
                self.other_blocks.insert(index);
                self.emit_text(block.text, out);
            }
        }
    }

    /// The fields of a delta determine what it extends: a gateway may omit its type. Without an index, a fragment
    /// belongs to the newest call.
    fn apply_delta(&mut self, index: Option<u64>, delta: AnthropicDelta, out: &mut Vec<StreamEvent>) {
        self.emit_thought(delta.thinking, delta.signature.as_deref(), out);
        self.citations.add_anthropic(&delta.citation);
        if let Some(fragment) = delta.partial_json.filter(|fragment| !fragment.is_empty()) {
            let is_other = index.is_some_and(|index| self.other_blocks.contains(&index));
            let call = self.calls().rfind(|call| index.is_none_or(|index| call.index == index));
            if let Some(call) = call {
                call.json.push_str(&fragment);
            } else if !is_other {
                self.early_fragments.push((index.unwrap_or_default(), fragment));
            }
        }
        self.emit_text(delta.text, out);
    }

    fn calls(&mut self) -> impl DoubleEndedIterator<Item = &mut PartialToolUse> {
        self.deferred.iter_mut().filter_map(|deferred| match deferred {
            DeferredPart::Call(call) => Some(call),
            DeferredPart::Event(_) => None,
        })
    }

    fn finish_message(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        self.end_thought(out);
        if !self.early_fragments.is_empty() {
            let message = "the beginning of a tool call is missing".to_owned();
            return Err(Error::Protocol { provider: self.provider.clone(), message });
        }
        let finish = self.finish.take().unwrap_or_default();
        if finish == FinishReason::Length {
            self.drop_truncated_call();
        }
        let emit_calls = !matches!(finish, FinishReason::Filtered { .. } | FinishReason::Refused { .. });
        out.extend(self.deferred.drain(..).filter_map(|deferred| match deferred {
            DeferredPart::Event(event) => Some(event),
            DeferredPart::Call(call) => emit_calls.then(|| StreamEvent::ToolCall(call.into_tool_call())),
        }));
        out.extend(token_usage(self.usage).map(StreamEvent::Usage));
        out.push(StreamEvent::Done(Done {
            metadata: self.citations.take_metadata(),
            ..Done::new(finish, self.model.take())
        }));
        Ok(())
    }

    /// The token limit can truncate only the last call.
    fn drop_truncated_call(&mut self) {
        let last = self.deferred.iter().rposition(|deferred| matches!(deferred, DeferredPart::Call(_)));
        let is_truncated =
            |deferred: &DeferredPart| matches!(deferred, DeferredPart::Call(call) if call.is_truncated());
        if let Some(at) = last.filter(|at| is_truncated(&self.deferred[*at])) {
            self.deferred.remove(at);
        }
    }

    fn read_message(&mut self, data: &str, out: &mut Vec<StreamEvent>) {
        let message: AnthropicMessage = serde_json::from_str(data).unwrap_or_default();
        self.model = message.model;
        for (index, block) in (0..).zip(message.content.into_iter().flatten()) {
            self.start_block(index, block, out);
        }
        self.end_thought(out);
        self.finish =
            finish_reason(AnthropicDelta { stop_reason: message.stop_reason, ..AnthropicDelta::default() });
    }

    fn error_in_frame(&self, data: &str) -> Error {
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
        if let Some(error) = decoding::named_error(&self.provider, frame) {
            return Err(error);
        }
        decoding::expect_object(&self.provider, frame.data)?;
        let Ok(event) = serde_json::from_str::<AnthropicEvent>(frame.data) else {
            return Err(self.error_in_frame(frame.data));
        };
        if event.error.is_some() {
            return Err(self.error_in_frame(frame.data));
        }
        self.usage.raise(event.usage.unwrap_or_default());
        let index = event.index;
        let kind = event.kind.as_deref().filter(|kind| !kind.is_empty()).unwrap_or(frame.event);
        match (kind, event.message, event.content_block, event.delta) {
            ("message_start", Some(start), ..) => {
                self.model = start.model;
                self.usage.raise(start.usage.unwrap_or_default());
            }
            ("content_block_start", _, Some(block), _) => {
                self.start_block(index.unwrap_or_default(), block, out);
            }
            ("content_block_delta", .., Some(delta)) => self.apply_delta(index, delta, out),
            ("content_block_stop", ..) => self.end_thought(out),
            ("message_delta", .., Some(delta)) => {
                self.finish = finish_reason(delta).or(self.finish.take());
            }
            ("message_stop", ..) => return self.finish_message(out),
            // A server that does not stream sends the whole message.
            ("message", ..) => self.read_message(frame.data, out),
            ("error", ..) => return Err(self.error_in_frame(frame.data)),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if self.finish.is_none() {
            return Err(Error::Truncated { provider: self.provider.clone() });
        }
        self.finish_message(out)
    }
}

/// `pause_turn` concerns server-side tools, which are never declared. It counts as a normal stop, like unknown reasons.
fn finish_reason(delta: AnthropicDelta) -> Option<FinishReason> {
    Some(match delta.stop_reason?.as_str() {
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "refusal" => {
            let explanation = delta.stop_details.and_then(|details| details.explanation);
            let message = explanation.unwrap_or_else(|| "the model declined to answer".to_owned());
            FinishReason::Refused { code: "REFUSAL".to_owned(), message }
        }
        _ => FinishReason::Stop,
    })
}

fn token_usage(usage: AnthropicUsage) -> Option<TokenUsage> {
    let count = |tokens: Option<u64>| tokens.unwrap_or_default();
    let by_lifetime = usage.written_by_lifetime.unwrap_or_default();
    let hour = count(by_lifetime.hour);
    let written = usage.written.unwrap_or_else(|| count(by_lifetime.minutes) + hour);
    // Thinking is part of the output.
    let reasoning = count(usage.output_details.and_then(|details| details.thinking_tokens));
    let reasoning = reasoning.min(count(usage.output));
    let total = TokenUsage {
        input: count(usage.new) + written + count(usage.cached),
        cached: count(usage.cached),
        output: count(usage.output) - reasoning,
        reasoning,
        cache_written: written,
        cache_written_hour: hour.min(written),
    };
    (total != TokenUsage::default()).then_some(total)
}

impl PartialToolUse {
    /// The arguments if they are an object; no arguments are an empty object.
    fn parse_args(&self) -> Option<Map<String, Value>> {
        let raw = match self.json.trim() {
            "" => self.input.clone().unwrap_or_default(),
            json => serde_json::from_str(json).ok()?,
        };
        match raw {
            Value::Object(args) => Some(args),
            Value::Null => Some(Map::new()),
            Value::String(text) => serde_json::from_str(&text).ok(),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
        }
    }

    /// Whether the token limit truncated the call. A call without arguments may have been cut before its first one.
    fn is_truncated(&self) -> bool {
        self.parse_args().is_none_or(|args| args.is_empty() && self.json.trim().is_empty())
    }

    fn into_tool_call(self) -> ToolCall {
        let args = self.parse_args();
        let raw =
            if self.json.is_empty() { self.input.map(|input| input.to_string()) } else { Some(self.json) };
        ToolCall {
            id: self.id,
            name: self.name,
            malformed: raw.filter(|_| args.is_none()),
            args: args.unwrap_or_default(),
            signature: None,
        }
    }
}

#[cfg(test)]
mod tests;
