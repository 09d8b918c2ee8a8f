//! Builds ADK responses from a provider's stream: partial responses as they arrive, and the final response.

use super::think_tags::{Segment, ThinkTags};
use adk::{
    content::{Content, Data, FunctionCall, Origin, Part},
    event::UsageMetadata,
    model::LlmResponse,
};
use bytes::Bytes;
use provider::{Done, Error, FinishReason, StreamEvent, TokenUsage, ToolCall};
use serde_json::{Map, Value};

/// ADK's finish reason of an answer that the output limit cut off.
pub(super) const MAX_TOKENS: &str = "MAX_TOKENS";

/// The key of the number of input tokens that were written to the provider's prompt cache, in an event's `customMetadata`.
pub const CACHE_WRITE_TOKENS: &str = "lango:cacheWriteTokens";
/// The key of the number of those that are cached for an hour.
pub const CACHE_WRITE_HOUR_TOKENS: &str = "lango:cacheWriteHourTokens";

/// A response in progress.
pub(super) struct ResponseBuilder {
    /// Whether partial responses are requested.
    stream: bool,
    /// The provider's name, for errors.
    provider: String,
    origin: Origin,
    parts: Vec<Part>,
    tags: ThinkTags,
    usage: Option<TokenUsage>,
    /// Usage that was not reported to the caller.
    new_usage: Option<TokenUsage>,
}

/// The effect of one stream event.
pub(super) enum Progress {
    Nothing,
    Partial(Box<LlmResponse>),
    Whole(Box<LlmResponse>),
    Warning(String),
    /// The body of the request, which was encoded.
    Sent(Bytes),
    Failed(Error),
}

impl ResponseBuilder {
    pub(super) fn new(provider: &str, origin: provider::ModelId, stream: bool) -> Self {
        let origin = Origin { provider: origin.provider, model: origin.model };
        let provider = provider.to_owned();
        Self {
            stream,
            provider,
            origin,
            parts: Vec::new(),
            tags: ThinkTags::default(),
            usage: None,
            new_usage: None,
        }
    }

    pub(super) fn push(&mut self, event: StreamEvent) -> Progress {
        match event {
            StreamEvent::TextDelta { text, signature } => self.extend_text(&text, signature),
            StreamEvent::Thought { text, signature } => {
                let delta = self.extend(Part::thought(text), signature);
                self.partial(delta.into_iter().collect())
            }
            StreamEvent::ToolCall(call) => {
                self.parts.push(call_part(call));
                Progress::Nothing
            }
            StreamEvent::Usage(usage) => {
                (self.usage, self.new_usage) = (Some(usage), Some(usage));
                Progress::Nothing
            }
            StreamEvent::Sent(body) => Progress::Sent(body),
            StreamEvent::Warning(text) => Progress::Warning(text),
            StreamEvent::Done(done) => {
                let rest = self.tags.finish();
                self.extend(segment_part(rest), None);
                match self.missing_answer(&done.finish) {
                    Some(error) => Progress::Failed(error),
                    None => Progress::Whole(Box::new(self.finish(done))),
                }
            }
            StreamEvent::Error(error) => Progress::Failed(error),
        }
    }

    /// The usage of the last event, if it was one.
    pub(super) fn take_new_usage(&mut self) -> Option<UsageMetadata> {
        self.new_usage.take().map(usage)
    }

    /// Appends text of the answer, which may contain reasoning in tags. A signature belongs to the last segment.
    fn extend_text(&mut self, text: &str, mut signature: Option<String>) -> Progress {
        let mut segments = self.tags.push(text);
        if signature.is_some() && segments.is_empty() {
            segments.push(self.tags.finish());
        }
        let last = segments.len().saturating_sub(1);
        let mut deltas = Vec::new();
        for (at, segment) in segments.into_iter().enumerate() {
            let signature = if at == last { signature.take() } else { None };
            deltas.extend(self.extend(segment_part(segment), signature));
        }
        self.partial(deltas)
    }

    /// Appends text to the part that it continues, and returns it if it is not empty. A signature closes its part.
    fn extend(&mut self, chunk: Part, signature: Option<String>) -> Option<Part> {
        if chunk.is_empty() && signature.is_none() {
            return None;
        }
        let delta = chunk.clone();
        let continues = |last: &&mut Part| last.thought == chunk.thought && last.thought_signature.is_none();
        match self.parts.last_mut().filter(continues).map(|last| &mut last.data) {
            Some(Data::Text(text)) => text.push_str(chunk.as_text().unwrap_or_default()),
            _ => self.parts.push(chunk),
        }
        if let Some(last) = self.parts.last_mut().filter(|_| signature.is_some()) {
            last.thought_signature = signature;
        }
        Some(delta).filter(|delta| !delta.is_empty())
    }

    /// A partial response; partial responses have no signatures.
    fn partial(&self, deltas: Vec<Part>) -> Progress {
        if !self.stream || deltas.is_empty() {
            return Progress::Nothing;
        }
        let content = Some(Content::new("model", deltas));
        Progress::Partial(Box::new(LlmResponse { content, partial: true, ..LlmResponse::default() }))
    }

    /// Why a complete stream has no answer: it has neither text nor calls. A refusal is an answer.
    fn missing_answer(&self, finish: &FinishReason) -> Option<Error> {
        let is_answer = |part: &Part| match &part.data {
            Data::Text(text) => part.thought != Some(true) && !text.trim().is_empty(),
            _ => true,
        };
        if self.parts.iter().any(is_answer) {
            return None;
        }
        let provider = self.provider.clone();
        match finish {
            FinishReason::Stop if self.parts.iter().any(|part| part.thought == Some(true)) => {
                Some(Error::ReasoningOnly { provider })
            }
            FinishReason::Stop => Some(Error::EmptyAnswer { provider }),
            FinishReason::Length => Some(Error::OutputLimit { provider }),
            FinishReason::Filtered { code, message } => {
                Some(Error::Filtered { provider, code: code.clone(), message: message.clone() })
            }
            FinishReason::Refused { .. } => None,
        }
    }

    fn finish(&mut self, done: Done) -> LlmResponse {
        let parts: Vec<Part> = self.parts.drain(..).filter(|part| !part.is_empty()).collect();
        let content = Content { parts, role: Some("model".to_owned()), origin: Some(self.origin.clone()) };
        let (finish_reason, refusal) = match done.finish {
            FinishReason::Stop => (Some("STOP"), None),
            FinishReason::Length => (Some(MAX_TOKENS), None),
            FinishReason::Filtered { code, message } | FinishReason::Refused { code, message } => {
                (None, Some((code, message)))
            }
        };
        let (error_code, error_message) = refusal.unzip();
        let content = Some(content).filter(|content| error_code.is_none() || !content.parts.is_empty());
        let provider::AnswerMetadata { fields: extra, usage: details } = *done.metadata;
        LlmResponse {
            content,
            partial: false,
            turn_complete: true,
            finish_reason: finish_reason.map(str::to_owned),
            error_code,
            error_message,
            usage_metadata: self.usage.map(|counts| UsageMetadata { extra: details, ..usage(counts) }),
            model_version: done.model_version,
            custom_metadata: self.usage.and_then(cache_writes),
            extra,
        }
    }
}

fn segment_part(segment: Segment) -> Part {
    match segment {
        Segment::Text(text) => Part::text(text),
        Segment::Thought(text) => Part::thought(text),
    }
}

fn call_part(call: ToolCall) -> Part {
    let id = Some(call.id).filter(|id| !id.is_empty());
    let function = match call.malformed {
        Some(raw) => FunctionCall::malformed(id, call.name, raw),
        None => FunctionCall { id, args: Some(call.args), name: call.name, extra: Map::new() },
    };
    Part { thought_signature: call.signature, ..function.into() }
}

/// The metadata with the tokens that were written to the provider's cache. ADK's usage has no field for them, and its clients reject
/// unknown ones.
fn cache_writes(usage: TokenUsage) -> Option<Map<String, Value>> {
    let counts =
        [(CACHE_WRITE_TOKENS, usage.cache_written), (CACHE_WRITE_HOUR_TOKENS, usage.cache_written_hour)];
    let written = counts.into_iter().filter(|(_, count)| *count > 0);
    let fields: Map<String, Value> = written.map(|(key, count)| (key.to_owned(), count.into())).collect();
    (!fields.is_empty()).then_some(fields)
}

fn usage(usage: TokenUsage) -> UsageMetadata {
    let nonzero = |count: u64| (count > 0).then_some(count);
    UsageMetadata {
        cached_content_token_count: nonzero(usage.cached),
        candidates_token_count: Some(usage.output),
        prompt_token_count: Some(usage.input),
        thoughts_token_count: nonzero(usage.reasoning),
        total_token_count: Some(usage.input + usage.output + usage.reasoning),
        ..UsageMetadata::default()
    }
}
