//! Decodes a streamed response of the OpenAI Responses API.
//!
//! Servers differ in which events they send and which ids they use. Content is taken from the deltas of an item, then
//! from the completed item, then from the final response; nothing is emitted twice.
//!
//! Only the final response says that the answer is complete. A stream in which every item is done may still lack the
//! next item, so a stream without the final response is truncated.

use super::{
    items::{self, ItemKey, ItemKind, PartialItem},
    opaque::{OpaquePhase, OpaqueReasoning},
    wire::{ResponsesBody, ResponsesContent, ResponsesEvent, ResponsesItem},
};
use crate::{
    Done, Error, FinishReason, ModelRequest, StreamEvent, StreamFrame, ToolCall, citations::Citations,
    classify, decoding, tool_names::ToolNames,
};
use serde_json::{Value, json};

#[derive(Debug)]
pub struct ResponsesDecoder {
    provider: String,
    names: ToolNames,
    items: Vec<PartialItem>,
    /// Calls are deferred to the end, together with everything after the first call: a reasoning item belongs to the
    /// item that follows it.
    deferred: Vec<DeferredItem>,
    last_position: Option<TextPosition>,
    refusal: String,
    citations: Citations,
}

#[derive(Debug)]
enum DeferredItem {
    Event(StreamEvent),
    Call(usize),
}

/// The item and the part that a chunk of text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TextPosition {
    item: usize,
    part: u64,
}

impl ResponsesDecoder {
    pub fn new(provider: &str, request: &ModelRequest) -> Self {
        Self {
            provider: provider.to_owned(),
            names: ToolNames::for_request(request),
            items: Vec::new(),
            deferred: Vec::new(),
            last_position: None,
            refusal: String::new(),
            citations: Citations::default(),
        }
    }

    fn handle_event(
        &mut self,
        kind: &str,
        event: ResponsesEvent,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        let id = event.item_id.as_deref().unwrap_or_default();
        let key = |kind: ItemKind| ItemKey { kind, id, call_id: "", index: event.output_index };
        match kind {
            "response.output_item.added" => self.start_item(event.output_index, event.item),
            "response.output_item.done" => {
                return self.finish_item(event.output_index, event.item, out);
            }
            "response.output_text.delta" => {
                let at = self.find_or_start(key(ItemKind::Message));
                self.emit_text(
                    at,
                    event.content_index.unwrap_or_default(),
                    decoding::string_or_empty(event.delta),
                    out,
                );
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                let at = self.find_or_start(key(ItemKind::Reasoning));
                let part = event.summary_index.or(event.content_index).unwrap_or_default();
                self.emit_text(at, part, decoding::string_or_empty(event.delta), out);
            }
            "response.output_text.annotation.added" => self.citations.add_annotations([&event.annotation]),
            // Servers that send no deltas.
            "response.output_text.done" => {
                let at = self.find_or_start(key(ItemKind::Message));
                if self.items[at].emitted.is_empty() {
                    let part = event.content_index.unwrap_or_default();
                    self.emit_text(at, part, decoding::string_or_empty(event.text), out);
                }
            }
            "response.refusal.done" if self.refusal.is_empty() => {
                self.refusal = decoding::string_or_empty(event.refusal);
            }
            "response.refusal.delta" => self.refusal.push_str(&decoding::string_or_empty(event.delta)),
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                let at = self.find_or_start(key(ItemKind::Call));
                self.items[at].append_arguments(&decoding::string_or_empty(event.delta));
            }
            "response.function_call_arguments.done" => {
                let at = self.find_or_start(key(ItemKind::Call));
                self.items[at].set_arguments(event.arguments);
                self.items[at].done = true;
            }
            "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
                let status = kind.trim_start_matches("response.");
                return self.finish_response(status, event.response.unwrap_or_default(), out);
            }
            "response.done" => {
                return self.finish_response("completed", event.response.unwrap_or_default(), out);
            }
            "error" => {
                let body = json!({"error": {"code": event.code, "message": event.message}});
                return Err(self.error_from(&body));
            }
            _ => {}
        }
        Ok(())
    }

    fn error_from(&self, body: &Value) -> Error {
        classify::error_in_json(&self.provider, None, body).unwrap_or_else(|| Error::Transient {
            provider: self.provider.clone(),
            message: "the response failed without an error message".to_owned(),
            retry_after: None,
            source: None,
        })
    }

    fn start_item(&mut self, index: Option<u64>, item: Value) {
        let item = parse_item(item);
        let Some(key) = ItemKey::from_item(&item, index) else { return };
        let at = items::find_announced(&self.items, key).unwrap_or_else(|| self.push_item(key));
        if let ResponsesItem::FunctionCall { name, arguments, .. } = item {
            set_if_present(&mut self.items[at].name, name);
            self.items[at].set_arguments(arguments);
        } else if let ResponsesItem::CustomToolCall { name, .. } = item {
            set_if_present(&mut self.items[at].name, name);
        }
    }

    fn push_item(&mut self, key: ItemKey<'_>) -> usize {
        let at = self.items.len();
        self.items.push(PartialItem::new(key));
        if key.kind == ItemKind::Call {
            self.deferred.push(DeferredItem::Call(at));
        }
        at
    }

    fn find_or_start(&mut self, key: ItemKey<'_>) -> usize {
        let found = items::find_known(&self.items, key).or_else(|| items::find_open(&self.items, key));
        found.unwrap_or_else(|| self.push_item(key))
    }

    fn finish_item(
        &mut self,
        index: Option<u64>,
        item: Value,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        let item = parse_item(item);
        let Some(key) = ItemKey::from_item(&item, index) else { return Ok(()) };
        let at = self.find_or_start(key);
        self.complete_item(at, item, out)
    }

    /// Takes from a completed item what its deltas did not contain.
    fn complete_item(
        &mut self,
        at: usize,
        item: ResponsesItem,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        if self.items[at].done && self.items[at].kind != ItemKind::Call {
            return Ok(());
        }
        self.items[at].done = true;
        match item {
            ResponsesItem::Message { content, phase, .. } => {
                let content = content.unwrap_or_default();
                let annotations = content.iter().flat_map(|part| &part.annotations).flatten();
                self.citations.add_annotations(annotations);
                if self.refusal.is_empty() {
                    self.refusal = content.iter().filter_map(|part| part.refusal.as_deref()).collect();
                }
                self.emit_missing_text(at, content.into_iter().map(|part| part.text).collect(), out)?;
                let phase = phase.and_then(|phase| OpaquePhase { phase }.to_signature());
                if !self.items[at].emitted.is_empty() && phase.is_some() {
                    self.emit_signature(StreamEvent::text_delta(String::new(), phase), out);
                }
            }
            ResponsesItem::Reasoning { id, summary, content, encrypted_content } => {
                let summary = summary.unwrap_or_default();
                let text = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
                let thought = content.unwrap_or_default().into_iter().map(|part: ResponsesContent| part.text);
                let texts: Vec<Option<String>> = summary.iter().map(text).chain(thought).collect();
                self.emit_missing_text(at, texts, out)?;
                let (id, encrypted_content) = (id.unwrap_or_default(), encrypted_content.unwrap_or_default());
                let signature = OpaqueReasoning { id, summary, encrypted_content }.to_signature();
                if signature.is_some() {
                    self.emit_signature(StreamEvent::thought_delta(String::new(), signature), out);
                }
            }
            ResponsesItem::FunctionCall { id, call_id, name, arguments, status } => {
                let call = &mut self.items[at];
                set_if_present(&mut call.id, id);
                set_if_present(&mut call.call_id, call_id);
                set_if_present(&mut call.name, name);
                call.set_arguments(arguments);
                call.done = status.as_deref() != Some("incomplete");
            }
            ResponsesItem::CustomToolCall { id, call_id, name, input } => {
                let call = &mut self.items[at];
                set_if_present(&mut call.id, id);
                set_if_present(&mut call.call_id, call_id);
                set_if_present(&mut call.name, name);
                call.set_input(input);
            }
            ResponsesItem::Other => {}
        }
        Ok(())
    }

    /// Emits the end of a text whose beginning was emitted. It is an error if a delta in the middle of an answer is
    /// missing; otherwise the emitted text stands.
    fn emit_missing_text(
        &mut self,
        at: usize,
        texts: Vec<Option<String>>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        let PartialItem { emitted, kind, .. } = &self.items[at];
        let whole: String = texts.iter().flatten().map(String::as_str).collect();
        if !whole.starts_with(emitted.as_str()) {
            let is_incomplete = *kind == ItemKind::Message && emitted.len() < whole.len();
            let message = "the streamed text lacks a part of the complete text".to_owned();
            let error = Error::Protocol { provider: self.provider.clone(), message };
            return if is_incomplete { Err(error) } else { Ok(()) };
        }
        let mut emitted = emitted.len();
        for (part, text) in (0..).zip(texts.into_iter().map(Option::unwrap_or_default)) {
            let rest = text.get(emitted.min(text.len())..).unwrap_or_default().to_owned();
            emitted = emitted.saturating_sub(text.len());
            self.emit_text(at, part, rest, out);
        }
        Ok(())
    }

    /// Emits text. A blank line separates texts of different items or parts.
    fn emit_text(&mut self, item: usize, part: u64, text: String, out: &mut Vec<StreamEvent>) {
        if text.is_empty() {
            return;
        }
        let kind = self.items[item].kind;
        self.items[item].emitted.push_str(&text);
        let position = TextPosition { item, part };
        let needs_separator =
            self.last_position.is_some_and(|last| last != position && self.items[last.item].kind == kind);
        let text = if needs_separator { format!("\n\n{text}") } else { text };
        self.last_position = Some(position);
        let delta = match kind {
            ItemKind::Reasoning => StreamEvent::thought_delta,
            ItemKind::Message | ItemKind::Call => StreamEvent::text_delta,
        };
        self.emit(delta(text, None), out);
    }

    fn emit_signature(&mut self, event: StreamEvent, out: &mut Vec<StreamEvent>) {
        self.last_position = None;
        self.emit(event, out);
    }

    fn emit(&mut self, event: StreamEvent, out: &mut Vec<StreamEvent>) {
        if self.deferred.is_empty() {
            out.push(event);
        } else {
            self.deferred.push(DeferredItem::Event(event));
        }
    }

    fn finish_response(
        &mut self,
        status: &str,
        response: ResponsesBody,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        let status = response.status.as_deref().unwrap_or(status);
        if !response.error.is_null() || status == "failed" {
            return Err(self.error_from(&json!({"error": response.error})));
        }
        if status == "cancelled" {
            return Err(Error::Truncated { provider: self.provider.clone() });
        }
        self.complete_items(response.output.unwrap_or_default(), out)?;
        let reason = response.incomplete_details.and_then(|details| details.reason).unwrap_or_default();
        let finish = match status {
            _ if !self.refusal.is_empty() => FinishReason::Refused {
                code: "refusal".to_owned(),
                message: std::mem::take(&mut self.refusal),
            },
            "incomplete" if reason == "content_filter" => FinishReason::Filtered {
                code: reason,
                message: "the provider's content filter stopped the answer".to_owned(),
            },
            "incomplete" => FinishReason::Length,
            _ => FinishReason::Stop,
        };
        for deferred in std::mem::take(&mut self.deferred) {
            match deferred {
                DeferredItem::Event(event) => out.push(event),
                DeferredItem::Call(at) => out.extend(self.take_call(at, &finish).map(StreamEvent::ToolCall)),
            }
        }
        let mut metadata = self.citations.take_metadata();
        if let Some(usage) = &response.usage {
            out.push(StreamEvent::Usage(usage.normalized()));
            metadata.usage = usage.details();
        }
        out.push(StreamEvent::Done(Done { metadata, ..Done::new(finish, response.model) }));
        Ok(())
    }

    /// Completes the items with those of the final response, matched by id or by position within their kind.
    fn complete_items(&mut self, output: Vec<Value>, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let mut seen: Vec<ItemKind> = Vec::new();
        for item in output.into_iter().map(parse_item) {
            let Some(key) = ItemKey::from_item(&item, None) else { continue };
            let before = seen.iter().filter(|kind| **kind == key.kind).count();
            seen.push(key.kind);
            let at = items::find_by_position(&self.items, key, before).unwrap_or_else(|| self.push_item(key));
            self.complete_item(at, item, out)?;
        }
        Ok(())
    }

    /// A truncated call is dropped, and a refused response has no calls.
    fn take_call(&mut self, at: usize, finish: &FinishReason) -> Option<ToolCall> {
        let call = &mut self.items[at];
        let is_complete = match finish {
            FinishReason::Stop => true,
            FinishReason::Length => call.done,
            FinishReason::Filtered { .. } | FinishReason::Refused { .. } => false,
        };
        let id = if call.call_id.is_empty() { call.id.clone() } else { call.call_id.clone() };
        is_complete
            .then(|| decoding::tool_call(id, self.names.original_name(&call.name), call.arguments.take()))
    }
}

impl crate::StreamDecoder for ResponsesDecoder {
    fn read(&mut self, frame: StreamFrame<'_>, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if decoding::is_empty_frame(frame.data) {
            return Ok(());
        }
        if let Some(error) = decoding::named_error(&self.provider, frame) {
            return Err(error);
        }
        decoding::expect_object(&self.provider, frame.data)?;
        let mut event: ResponsesEvent = decoding::parse_frame(&self.provider, frame.data)?;
        if !event.error.is_null() {
            return Err(self.error_from(&json!({"error": event.error})));
        }
        let kind = event.kind.take().unwrap_or_default();
        match if kind.is_empty() { frame.event } else { &kind } {
            // A server that does not stream sends the bare response.
            "" => {
                let response: ResponsesBody = decoding::parse_frame(&self.provider, frame.data)?;
                if response.output.is_none() {
                    Ok(())
                } else {
                    self.finish_response("completed", response, out)
                }
            }
            kind => self.handle_event(kind, event, out),
        }
    }

    fn end(&mut self, _: &mut Vec<StreamEvent>) -> Result<(), Error> {
        Err(Error::Truncated { provider: self.provider.clone() })
    }
}

fn parse_item(item: Value) -> ResponsesItem {
    serde_json::from_value(item).unwrap_or(ResponsesItem::Other)
}

fn set_if_present(field: &mut String, value: Option<String>) {
    if let Some(value) = value.filter(|value| !value.is_empty()) {
        *field = value;
    }
}

#[cfg(test)]
mod tests;
