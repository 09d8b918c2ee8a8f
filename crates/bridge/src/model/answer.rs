//! An answer as it comes, piece by piece, and the whole of it.

use adk::{
    content::{Content, Data, FunctionCall, Origin, Part},
    event::UsageMetadata,
    model::LlmResponse,
};
use provider::{Done, Error, FinishReason, StreamEvent, TokenUsage, ToolCall};

/// An answer as far as it has come.
pub(super) struct ResponseBuilder {
    /// Whether pieces are wanted as they come.
    stream: bool,
    origin: Origin,
    parts: Vec<Part>,
    usage: Option<TokenUsage>,
}

/// What an event of the stream comes to.
pub(super) enum Progress {
    Nothing,
    Partial(Box<LlmResponse>),
    Whole(Box<LlmResponse>),
    Warning(String),
    Failed(Error),
}

impl ResponseBuilder {
    pub(super) fn new(origin: provider::ModelId, stream: bool) -> Self {
        let origin = Origin { provider: origin.provider, model: origin.model };
        Self { stream, origin, parts: Vec::new(), usage: None }
    }

    pub(super) fn take(&mut self, event: StreamEvent) -> Progress {
        match event {
            StreamEvent::TextDelta { text, signature } => self.extend(Part::text(text), signature),
            StreamEvent::Thought { text, signature } => self.extend(Part::thought(text), signature),
            StreamEvent::ToolCall(call) => {
                self.parts.push(call_part(call));
                Progress::Nothing
            }
            StreamEvent::Usage(usage) => {
                self.usage = Some(usage);
                Progress::Nothing
            }
            StreamEvent::Warning(text) => Progress::Warning(text),
            StreamEvent::Done(done) => Progress::Whole(Box::new(self.finish(done))),
            StreamEvent::Error(error) => Progress::Failed(error),
        }
    }

    /// Adds a piece to the part that it continues. A signature closes its part, and is in no partial response.
    fn extend(&mut self, piece: Part, signature: Option<String>) -> Progress {
        if piece.is_empty() && signature.is_none() {
            return Progress::Nothing;
        }
        let shown = piece.clone();
        let continues = |last: &&mut Part| last.thought == piece.thought && last.thought_signature.is_none();
        match self.parts.last_mut().filter(continues).map(|last| &mut last.data) {
            Some(Data::Text(text)) => text.push_str(piece.as_text().unwrap_or_default()),
            _ => self.parts.push(piece),
        }
        if let Some(last) = self.parts.last_mut().filter(|_| signature.is_some()) {
            last.thought_signature = signature;
        }
        if !self.stream || shown.is_empty() {
            return Progress::Nothing;
        }
        let content = Some(Content::new("model", vec![shown]));
        Progress::Partial(Box::new(LlmResponse { content, partial: true, ..LlmResponse::default() }))
    }

    fn finish(&mut self, done: Done) -> LlmResponse {
        let parts: Vec<Part> = self.parts.drain(..).filter(|part| !part.is_empty()).collect();
        let content = Content { parts, role: Some("model".to_owned()), origin: Some(self.origin.clone()) };
        let (finish_reason, refusal) = match done.finish {
            FinishReason::Stop => (Some("STOP"), None),
            FinishReason::Length => (Some("MAX_TOKENS"), None),
            FinishReason::Refused { code, message } => (None, Some((code, message))),
        };
        let (error_code, error_message) = refusal.unzip();
        let content = Some(content).filter(|content| error_code.is_none() || !content.parts.is_empty());
        LlmResponse {
            content,
            partial: false,
            turn_complete: true,
            finish_reason: finish_reason.map(str::to_owned),
            error_code,
            error_message,
            usage_metadata: self.usage.map(usage),
            model_version: done.model_version,
            custom_metadata: None,
        }
    }
}

fn call_part(call: ToolCall) -> Part {
    let id = Some(call.id).filter(|id| !id.is_empty());
    let function = match call.malformed {
        Some(written) => FunctionCall::malformed(id, call.name, written),
        None => FunctionCall { id, args: Some(call.args), name: call.name, extra: serde_json::Map::new() },
    };
    Part { thought_signature: call.signature, ..function.into() }
}

fn usage(usage: TokenUsage) -> UsageMetadata {
    let said = |count: u64| (count > 0).then_some(count);
    UsageMetadata {
        cached_content_token_count: said(usage.cached),
        candidates_token_count: Some(usage.output),
        prompt_token_count: Some(usage.input),
        thoughts_token_count: said(usage.reasoning),
        total_token_count: Some(usage.input + usage.output + usage.reasoning),
        ..UsageMetadata::default()
    }
}
