//! Decodes a streamed chat completion.
//!
//! A finish reason ends the answer. Usage may follow it, so the response is complete at `[DONE]` or at the end of the
//! body. Some servers send `[DONE]` without a finish reason: the response is complete unless a call is cut off. A body
//! that ends with neither is truncated.

use super::{
    reasoning_details::ReasoningDetails,
    usage::OpenAiUsage,
    wire::{ChatChoice, ChatChunk, ChatDelta, ChatFunctionDelta, ChatToolCallDelta},
};
use crate::{
    Done, Error, FinishReason, ModelRequest, StreamEvent, StreamFrame, TokenUsage, ToolCall,
    citations::Citations, classify, decoding, tool_names::ToolNames,
};
use serde_json::{Map, Value, json};

#[derive(Debug)]
pub struct ChatDecoder {
    provider: String,
    names: ToolNames,
    calls: Vec<PartialChatCall>,
    details: ReasoningDetails,
    refusal: String,
    finish: Option<String>,
    /// The index of the first choice. Other choices are ignored.
    choice: Option<u64>,
    usage: Option<TokenUsage>,
    usage_details: Map<String, Value>,
    model: Option<String>,
    citations: Citations,
}

/// A tool call whose deltas are still arriving.
#[derive(Debug, Default)]
struct PartialChatCall {
    index: Option<u64>,
    id: String,
    name: String,
    /// A string that grows with each delta, or a complete object.
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
            choice: None,
            usage: None,
            usage_details: Map::new(),
            model: None,
            citations: Citations::default(),
        }
    }

    fn read_choice(&mut self, choice: ChatChoice, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        // The form of completions.
        if choice.delta.is_none() && choice.message.is_none() {
            emit(choice.text.unwrap_or_default(), false, out);
        }
        for delta in choice.delta.into_iter().chain(choice.message) {
            self.read_delta(delta, out);
        }
        self.read_usage(choice.usage.as_ref());
        self.finish = choice.finish_reason.filter(|reason| !reason.is_empty()).or(self.finish.take());
        if choice.error.is_null() {
            return Ok(());
        }
        let error = classify::error_in_json(&self.provider, None, &json!({"error": choice.error}));
        error.map_or(Ok(()), Err)
    }

    fn read_delta(&mut self, delta: ChatDelta, out: &mut Vec<StreamEvent>) {
        // Some servers send the same thought in several fields.
        let thoughts =
            [delta.reasoning_content, delta.reasoning, delta.thinking].into_iter().map(thought_text);
        let details = delta.reasoning_details.unwrap_or_default();
        let thought =
            thoughts.chain([super::reasoning_details::text(&details)]).find(|text| !text.is_empty());
        emit(thought.unwrap_or_default(), true, out);
        let is_thought =
            delta.extra_content.pointer("/google/thought").is_some_and(|thought| *thought == true);
        match delta.content {
            Value::Array(parts) => parts.into_iter().for_each(|part| emit_part(part, out)),
            content => emit(decoding::string_or_empty(content), is_thought, out),
        }
        self.citations.add_annotations(delta.annotations.iter().flatten());
        self.details.extend(details);
        self.refusal.push_str(&decoding::string_or_empty(delta.refusal));
        let old = delta
            .function_call
            .map(|function| ChatToolCallDelta { function: Some(function), ..ChatToolCallDelta::default() });
        delta.tool_calls.into_iter().flatten().chain(old).for_each(|delta| self.merge_call_delta(delta));
    }

    /// Keeps the newest counts. Some servers end with an empty object.
    fn read_usage(&mut self, usage: Option<&OpenAiUsage>) {
        let Some(usage) = usage else { return };
        let counts = usage.normalized();
        if counts != TokenUsage::default() {
            self.usage = Some(counts);
            self.usage_details = usage.details();
        }
    }

    fn merge_call_delta(&mut self, delta: ChatToolCallDelta) {
        let id = delta.id.unwrap_or_default();
        let ChatFunctionDelta { name, arguments } = delta.function.unwrap_or_default();
        let name = name.unwrap_or_default();
        let at = self.find_call(delta.index, &id, &name, &arguments).unwrap_or_else(|| {
            self.calls.push(PartialChatCall { index: delta.index, ..PartialChatCall::default() });
            self.calls.len() - 1
        });
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            call.id = id;
        }
        if is_blank(&call.arguments) || call.name.is_empty() {
            call.append_name(name);
        }
        call.append_arguments(arguments);
        let signature = delta.extra_content.pointer("/google/thought_signature").and_then(Value::as_str);
        call.signature = signature.map(str::to_owned).or(call.signature.take());
    }

    /// Finds the call that a delta continues: the call with its id, or, without an id, the newest call with its index.
    /// Servers that use one index for all calls send an id with each; without ids, a name after complete arguments
    /// starts the next call.
    fn find_call(&self, index: Option<u64>, id: &str, name: &str, arguments: &Value) -> Option<usize> {
        let newest = self.calls.iter().rposition(|call| index.is_none() || call.index == index);
        let same = |call: &PartialChatCall| call.index == index && call.id == id;
        match newest {
            Some(_) if !id.is_empty() && self.calls.iter().any(same) => self.calls.iter().rposition(same),
            Some(at) if !id.is_empty() => {
                // A late id belongs to the call that has none.
                (self.calls[at].id.is_empty() && name.is_empty()).then_some(at)
            }
            Some(at) => {
                let call = &self.calls[at];
                let starts_call = !name.is_empty() && !is_blank(arguments) && call.is_complete();
                // Neither name is a piece of the other.
                let has_own_name = self.names.is_declared(&call.name)
                    && self.names.is_declared(name)
                    && call.name != name
                    && !self.names.is_declared(&format!("{}{name}", call.name));
                (!starts_call && !has_own_name).then_some(at)
            }
            None => None,
        }
    }

    fn finish_response(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
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
            "content_filter" => FinishReason::Filtered {
                code: reason,
                message: "the provider's content filter stopped the answer".to_owned(),
            },
            "error" | "insufficient_system_resource" => {
                let message = format!("the answer ended with finish_reason {reason}");
                return Err(Error::Transient { provider, message, retry_after: None, source: None });
            }
            "abort" => return Err(Error::Truncated { provider }),
            _ => FinishReason::Stop,
        };
        if let Some(signature) = self.details.take_signature() {
            out.push(StreamEvent::thought_delta(String::new(), Some(signature)));
        }
        out.extend(self.complete_calls(&finish).into_iter().map(StreamEvent::ToolCall));
        out.extend(self.usage.take().map(StreamEvent::Usage));
        let mut metadata = self.citations.take_metadata();
        metadata.usage = std::mem::take(&mut self.usage_details);
        out.push(StreamEvent::Done(Done { metadata, ..Done::new(finish, self.model.take()) }));
        Ok(())
    }

    /// Returns the calls of a complete response. At the token limit a call that does not parse was truncated; a refused
    /// response has no calls.
    fn complete_calls(&mut self, finish: &FinishReason) -> Vec<ToolCall> {
        let mut calls: Vec<PartialChatCall> = self.calls.drain(..).filter(|call| !call.is_empty()).collect();
        match finish {
            FinishReason::Stop => {}
            FinishReason::Length => {
                // A call without arguments is complete if another call follows it.
                let last = calls.pop().filter(PartialChatCall::is_complete);
                calls.retain(PartialChatCall::is_readable);
                calls.extend(last);
            }
            FinishReason::Filtered { .. } | FinishReason::Refused { .. } => calls.clear(),
        }
        calls.into_iter().map(|call| call.into_tool_call(&self.names)).collect()
    }
}

impl crate::StreamDecoder for ChatDecoder {
    fn read(&mut self, frame: StreamFrame<'_>, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        match frame.data.trim() {
            "" => return Ok(()),
            "[DONE]" => {
                if self.calls.iter().all(PartialChatCall::is_readable) {
                    self.finish.get_or_insert_with(|| "stop".to_owned());
                }
                return self.finish_response(out);
            }
            _ => {}
        }
        if let Some(error) = decoding::named_error(&self.provider, frame) {
            return Err(error);
        }
        decoding::expect_object(&self.provider, frame.data)?;
        let chunk: ChatChunk = decoding::parse_frame(&self.provider, frame.data)?;
        if !chunk.error.is_null()
            && let Some(error) = classify::error_in_json(&self.provider, None, &json!({"error": chunk.error}))
        {
            return Err(error);
        }
        self.model = chunk.model.filter(|model| !model.is_empty()).or(self.model.take());
        self.read_usage(chunk.x_groq.and_then(|holder| holder.usage).as_ref());
        self.read_usage(chunk.usage.as_ref());
        self.citations.add_sources(chunk.search_results.iter().chain(&chunk.citations).flatten());
        if chunk.choices.is_none()
            && let Ok(value) = serde_json::from_str(frame.data)
            && let Some(error) = classify::error_in_json(&self.provider, None, &value)
        {
            return Err(error);
        }
        // The request asks for one choice.
        for choice in chunk.choices.into_iter().flatten() {
            let index = choice.index.unwrap_or_default();
            if *self.choice.get_or_insert(index) == index {
                self.read_choice(choice, out)?;
            }
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        self.finish_response(out)
    }
}

impl PartialChatCall {
    fn append_arguments(&mut self, delta: Value) {
        match (&mut self.arguments, delta) {
            (Value::String(text), Value::String(delta)) => text.push_str(&delta),
            (_, Value::Null) => {}
            (arguments, delta) if is_blank(&delta) && !arguments.is_null() => {}
            (arguments, delta) => *arguments = delta,
        }
    }

    /// Appends a piece of the name. Some servers repeat the whole name, or send all of it so far.
    fn append_name(&mut self, piece: String) {
        if piece.starts_with(&self.name) {
            self.name = piece;
        } else {
            self.name.push_str(&piece);
        }
    }

    fn is_readable(&self) -> bool {
        self.is_complete() || is_blank(&self.arguments)
    }

    fn is_empty(&self) -> bool {
        self.name.is_empty() && is_blank(&self.arguments)
    }

    fn is_complete(&self) -> bool {
        match &self.arguments {
            Value::String(text) => serde_json::from_str::<Map<String, Value>>(text).is_ok(),
            arguments => arguments.is_object(),
        }
    }

    fn into_tool_call(self, names: &ToolNames) -> ToolCall {
        ToolCall {
            signature: self.signature,
            ..decoding::tool_call(self.id, names.original_name(&self.name), self.arguments)
        }
    }
}

/// The text of reasoning, which some servers nest.
fn thought_text(mut thought: Value) -> String {
    let nested = ["content", "text", "summary"].into_iter().map(|key| take_field(&mut thought, key));
    let nested = nested.map(decoding::string_or_empty).find(|text| !text.is_empty());
    nested.unwrap_or_else(|| decoding::string_or_empty(thought))
}

fn is_blank(arguments: &Value) -> bool {
    arguments.is_null() || arguments.as_str().is_some_and(|text| text.trim().is_empty())
}

fn emit(text: String, thought: bool, out: &mut Vec<StreamEvent>) {
    if !text.is_empty() {
        let delta = if thought { StreamEvent::thought_delta } else { StreamEvent::text_delta };
        out.push(delta(text, None));
    }
}

/// Mistral's content parts: text, or thinking as an array of texts.
fn emit_part(mut part: Value, out: &mut Vec<StreamEvent>) {
    if !part.is_object() {
        return emit(decoding::string_or_empty(part), false, out);
    }
    match take_field(&mut part, "thinking") {
        Value::Array(texts) => {
            for mut text in texts {
                emit(decoding::string_or_empty(take_field(&mut text, "text")), true, out);
            }
        }
        Value::String(text) => emit(text, true, out),
        _ => emit(decoding::string_or_empty(take_field(&mut part, "text")), false, out),
    }
}

fn take_field(object: &mut Value, key: &str) -> Value {
    object.get_mut(key).map(Value::take).unwrap_or_default()
}

#[cfg(test)]
mod tests;
