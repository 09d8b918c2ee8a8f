//! An answer of OpenAI's Responses, event by event.
//!
//! Servers differ in which events they send, and under which ids. What the pieces of an item did not bring, the item when
//! it is done brings; what that did not bring, the response at the end. Nothing is told twice.
//!
//! Only the response at the end says that the answer is complete: a stream in which every item is done may still lack the
//! next one, so that without the end it is cut off.

use super::{
    items::{self, ItemKey, ItemKind, PartialItem},
    sealed::{SealedPhase, SealedReasoning},
    wire::{ResponsesBody, ResponsesContent, ResponsesEvent, ResponsesItem},
};
use crate::{
    Done, Error, FinishReason, ModelRequest, StreamEvent, StreamFrame, ToolCall, classify, decoding,
    tool_names::ToolNames,
};
use serde_json::{Value, json};

#[derive(Debug)]
pub struct ResponsesDecoder {
    provider: String,
    names: ToolNames,
    items: Vec<PartialItem>,
    /// Calls wait for the end, and what comes after one waits with it: reasoning belongs to the item that it stands before.
    held: Vec<DeferredItem>,
    last: Option<TextPosition>,
    refusal: String,
}

#[derive(Debug)]
enum DeferredItem {
    Event(StreamEvent),
    Call(usize),
}

/// Where a piece of text stands: the item, and the part of it.
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
            held: Vec::new(),
            last: None,
            refusal: String::new(),
        }
    }

    fn event(
        &mut self,
        kind: &str,
        event: ResponsesEvent<'_>,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        let id = event.item_id.as_deref().unwrap_or_default();
        let key = |kind: ItemKind| ItemKey { kind, id, call_id: "", index: event.output_index };
        match kind {
            "response.output_item.added" => self.begin_item(event.output_index, event.item),
            "response.output_item.done" => self.end_item(event.output_index, event.item, out),
            "response.output_text.delta" => {
                let at = self.place(key(ItemKind::Message));
                self.tell(
                    at,
                    event.content_index.unwrap_or_default(),
                    decoding::string_or_empty(event.delta),
                    out,
                );
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                let at = self.place(key(ItemKind::Reasoning));
                let part = event.summary_index.or(event.content_index).unwrap_or_default();
                self.tell(at, part, decoding::string_or_empty(event.delta), out);
            }
            "response.refusal.delta" => self.refusal.push_str(&decoding::string_or_empty(event.delta)),
            "response.function_call_arguments.delta" => {
                let at = self.place(key(ItemKind::Call));
                self.items[at].extend(&decoding::string_or_empty(event.delta));
            }
            "response.function_call_arguments.done" => {
                let at = self.place(key(ItemKind::Call));
                self.items[at].settle(event.arguments);
                self.items[at].done = true;
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                let status = kind.trim_start_matches("response.");
                return self.finish(status, event.response.unwrap_or_default(), out);
            }
            "error" => {
                let fault = json!({"error": {"code": event.code, "message": event.message}});
                return Err(self.failed(&fault));
            }
            _ => {}
        }
        Ok(())
    }

    fn failed(&self, body: &Value) -> Error {
        classify::error_in_json(&self.provider, None, body).unwrap_or_else(|| Error::Transient {
            provider: self.provider.clone(),
            message: "the answer failed".to_owned(),
            retry_after: None,
            source: None,
        })
    }

    fn begin_item(&mut self, index: Option<u64>, item: Value) {
        let item = item_of(item);
        let Some(key) = ItemKey::of(&item, index) else { return };
        let at = items::announced(&self.items, key).unwrap_or_else(|| self.begin(key));
        if let ResponsesItem::FunctionCall { name, arguments, .. } = item {
            fill(&mut self.items[at].name, name);
            self.items[at].settle(arguments);
        }
    }

    fn begin(&mut self, key: ItemKey<'_>) -> usize {
        let at = self.items.len();
        self.items.push(PartialItem::new(key));
        if key.kind == ItemKind::Call {
            self.held.push(DeferredItem::Call(at));
        }
        at
    }

    fn place(&mut self, key: ItemKey<'_>) -> usize {
        let found = items::known(&self.items, key).or_else(|| items::open(&self.items, key));
        found.unwrap_or_else(|| self.begin(key))
    }

    fn end_item(&mut self, index: Option<u64>, item: Value, out: &mut Vec<StreamEvent>) {
        let item = item_of(item);
        let Some(key) = ItemKey::of(&item, index) else { return };
        let at = self.place(key);
        self.complete(at, item, out);
    }

    /// Takes from a whole item what its pieces did not bring.
    fn complete(&mut self, at: usize, item: ResponsesItem, out: &mut Vec<StreamEvent>) {
        if self.items[at].done && self.items[at].kind != ItemKind::Call {
            return;
        }
        self.items[at].done = true;
        match item {
            ResponsesItem::Message { content, phase, .. } => {
                let content = content.unwrap_or_default();
                if self.refusal.is_empty() {
                    self.refusal = content.iter().filter_map(|part| part.refusal.as_deref()).collect();
                }
                self.tell_rest(at, content.into_iter().map(|part| part.text), out);
                let phase = phase.and_then(|phase| SealedPhase { phase }.seal());
                if self.items[at].told > 0 && phase.is_some() {
                    self.close(StreamEvent::text_delta(String::new(), phase), out);
                }
            }
            ResponsesItem::Reasoning { id, summary, content, encrypted_content } => {
                let summary = summary.unwrap_or_default();
                let text = |part: &Value| part.get("text").and_then(Value::as_str).map(str::to_owned);
                let thought = content.unwrap_or_default().into_iter().map(|part: ResponsesContent| part.text);
                let texts: Vec<Option<String>> = summary.iter().map(text).chain(thought).collect();
                self.tell_rest(at, texts.into_iter(), out);
                let (id, encrypted_content) = (id.unwrap_or_default(), encrypted_content.unwrap_or_default());
                let sealed = SealedReasoning { id, summary, encrypted_content }.seal();
                if sealed.is_some() {
                    self.close(StreamEvent::thought_delta(String::new(), sealed), out);
                }
            }
            ResponsesItem::FunctionCall { id, call_id, name, arguments, status } => {
                let call = &mut self.items[at];
                fill(&mut call.id, id);
                fill(&mut call.call_id, call_id);
                fill(&mut call.name, name);
                call.settle(arguments);
                call.done = status.as_deref() != Some("incomplete");
            }
            ResponsesItem::Other => {}
        }
    }

    fn tell_rest(
        &mut self,
        at: usize,
        texts: impl Iterator<Item = Option<String>>,
        out: &mut Vec<StreamEvent>,
    ) {
        let mut told = self.items[at].told;
        for (part, text) in (0..).zip(texts.map(Option::unwrap_or_default)) {
            let rest = text.get(told.min(text.len())..).unwrap_or_default().to_owned();
            told = told.saturating_sub(text.len());
            self.tell(at, part, rest, out);
        }
    }

    /// A blank line stands between texts of different items or parts.
    fn tell(&mut self, item: usize, part: u64, text: String, out: &mut Vec<StreamEvent>) {
        if text.is_empty() {
            return;
        }
        let kind = self.items[item].kind;
        self.items[item].told += text.len();
        let spot = TextPosition { item, part };
        let apart = self.last.is_some_and(|last| last != spot && self.items[last.item].kind == kind);
        let text = if apart { format!("\n\n{text}") } else { text };
        self.last = Some(spot);
        let piece = match kind {
            ItemKind::Reasoning => StreamEvent::thought_delta,
            ItemKind::Message | ItemKind::Call => StreamEvent::text_delta,
        };
        self.send(piece(text, None), out);
    }

    fn close(&mut self, signed: StreamEvent, out: &mut Vec<StreamEvent>) {
        self.last = None;
        self.send(signed, out);
    }

    fn send(&mut self, event: StreamEvent, out: &mut Vec<StreamEvent>) {
        if self.held.is_empty() {
            out.push(event);
        } else {
            self.held.push(DeferredItem::Event(event));
        }
    }

    fn finish(
        &mut self,
        status: &str,
        response: ResponsesBody,
        out: &mut Vec<StreamEvent>,
    ) -> Result<(), Error> {
        let status = response.status.as_deref().unwrap_or(status);
        if !response.error.is_null() || status == "failed" {
            return Err(self.failed(&json!({"error": response.error})));
        }
        if status == "cancelled" {
            return Err(Error::Truncated { provider: self.provider.clone() });
        }
        self.complete_all(response.output.unwrap_or_default(), out);
        let reason = response.incomplete_details.and_then(|details| details.reason).unwrap_or_default();
        let finish = match status {
            _ if !self.refusal.is_empty() => FinishReason::Refused {
                code: "refusal".to_owned(),
                message: std::mem::take(&mut self.refusal),
            },
            "incomplete" if reason == "content_filter" => FinishReason::Refused {
                code: reason,
                message: "the provider's filter stopped the answer".to_owned(),
            },
            "incomplete" => FinishReason::Length,
            _ => FinishReason::Stop,
        };
        for held in std::mem::take(&mut self.held) {
            match held {
                DeferredItem::Event(event) => out.push(event),
                DeferredItem::Call(at) => out.extend(self.call(at, &finish).map(StreamEvent::ToolCall)),
            }
        }
        out.extend(response.usage.map(|counts| StreamEvent::Usage(counts.usage())));
        out.push(StreamEvent::Done(Done { finish, model_version: response.model }));
        Ok(())
    }

    /// The items of the whole response: those that are known by an id or by their place among their kind, and new ones.
    fn complete_all(&mut self, output: Vec<Value>, out: &mut Vec<StreamEvent>) {
        let mut seen: Vec<ItemKind> = Vec::new();
        for item in output.into_iter().map(item_of) {
            let Some(key) = ItemKey::of(&item, None) else { continue };
            let before = seen.iter().filter(|kind| **kind == key.kind).count();
            seen.push(key.kind);
            let at = items::nth(&self.items, key, before).unwrap_or_else(|| self.begin(key));
            self.complete(at, item, out);
        }
    }

    /// A call that was cut off is none, and an answer that was refused asks for nothing.
    fn call(&mut self, at: usize, finish: &FinishReason) -> Option<ToolCall> {
        let call = &mut self.items[at];
        let is_whole = match finish {
            FinishReason::Stop => true,
            FinishReason::Length => call.done,
            FinishReason::Refused { .. } => false,
        };
        let id = if call.call_id.is_empty() { call.id.clone() } else { call.call_id.clone() };
        is_whole.then(|| decoding::tool_call(id, self.names.original_name(&call.name), call.arguments.take()))
    }
}

impl crate::StreamDecoder for ResponsesDecoder {
    fn read(&mut self, frame: StreamFrame<'_>, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if decoding::is_empty_frame(frame.data) {
            return Ok(());
        }
        let mut event: ResponsesEvent<'_> = decoding::parse_frame(&self.provider, frame.data)?;
        if !event.error.is_null() {
            return Err(self.failed(&json!({"error": event.error})));
        }
        let kind = std::mem::take(&mut event.kind);
        match if kind.is_empty() { frame.event } else { &kind } {
            // A server that does not stream sends the response as it is.
            "" => {
                let response: ResponsesBody = decoding::parse_frame(&self.provider, frame.data)?;
                if response.output.is_none() { Ok(()) } else { self.finish("completed", response, out) }
            }
            kind => self.event(kind, event, out),
        }
    }

    fn end(&mut self, _: &mut Vec<StreamEvent>) -> Result<(), Error> {
        Err(Error::Truncated { provider: self.provider.clone() })
    }
}

fn item_of(item: Value) -> ResponsesItem {
    serde_json::from_value(item).unwrap_or(ResponsesItem::Other)
}

fn fill(field: &mut String, value: Option<String>) {
    if let Some(value) = value.filter(|value| !value.is_empty()) {
        *field = value;
    }
}

#[cfg(test)]
mod tests;
