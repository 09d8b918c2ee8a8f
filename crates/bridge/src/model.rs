//! ModelAdapter: a provider's stream as ADK's responses.

use crate::{budget::Budget, history, messages};
use adk::{
    content::{Content, Data, FunctionCall, Origin, Part},
    error::LlmError,
    event::UsageMetadata,
    model::{Llm, LlmRequest, LlmResponse, LlmStream},
};
use futures::{StreamExt, stream};
use provider::{Done, EventStream, Finish, Provider, Request, StreamEvent, ToolCall, Usage};
use std::{fmt, sync::Arc};

/// One model of one provider, with the budget of history that it is shown.
pub struct ModelAdapter {
    provider: Arc<dyn Provider>,
    model: String,
    name: String,
    budget: Budget,
}

impl ModelAdapter {
    pub fn new(provider: Arc<dyn Provider>, model: impl Into<String>, budget: Budget) -> Self {
        let model = model.into();
        let name = if model.is_empty() {
            provider.name().to_owned()
        } else {
            format!("{}/{model}", provider.name())
        };
        Self { provider, model, name, budget }
    }

    /// The request as the provider gets it.
    pub fn request(&self, request: LlmRequest) -> Request {
        let target =
            provider::Origin { provider: self.provider.name().to_owned(), model: self.model.clone() };
        request_for(target, request, self.budget)
    }
}

/// The request as a model gets it: the system message first, then a history that is legal and fits.
pub fn request_for(target: provider::Origin, request: LlmRequest, budget: Budget) -> Request {
    let spoken = messages::convert(request.contents, &target);
    let all = messages::system(&request.config).into_iter().chain(spoken).collect();
    Request {
        messages: history::prepare(all, budget),
        model: target.model,
        tools: messages::tools(request.tools),
        options: messages::options(&request.config),
    }
}

impl Llm for ModelAdapter {
    fn name(&self) -> &str {
        &self.name
    }

    fn generate(&self, request: LlmRequest, stream: bool) -> LlmStream {
        let origin = Origin { provider: self.provider.name().to_owned(), model: self.model.clone() };
        let events = self.provider.stream(self.request(request));
        responses(events, Answer { stream, origin, parts: Vec::new(), usage: None })
    }
}

/// Partial responses as they come, if asked for; then exactly one that is whole, or the error, and nothing after it.
fn responses(events: EventStream, answer: Answer) -> LlmStream {
    stream::unfold(Some((events, answer)), |state| async {
        let (mut events, mut answer) = state?;
        loop {
            let Some(event) = events.next().await else {
                let error = LlmError::new("TRUNCATED", "the model's answer ended before it was complete");
                return Some((Err(error), None));
            };
            match answer.take(event) {
                Taken::Nothing => {}
                Taken::Partial(response) => return Some((Ok(*response), Some((events, answer)))),
                Taken::Whole(result) => return Some((*result, None)),
            }
        }
    })
    .boxed()
}

/// An answer as far as it has come.
struct Answer {
    stream: bool,
    origin: Origin,
    parts: Vec<Part>,
    usage: Option<Usage>,
}

enum Taken {
    Nothing,
    Partial(Box<LlmResponse>),
    Whole(Box<Result<LlmResponse, LlmError>>),
}

impl Answer {
    fn take(&mut self, event: StreamEvent) -> Taken {
        match event {
            StreamEvent::TextDelta { text, signature } => self.extend(Part::text(text), signature),
            StreamEvent::Thought { text, signature } => self.extend(Part::thought(text), signature),
            StreamEvent::ToolCall(call) => {
                self.parts.push(call_part(call));
                Taken::Nothing
            }
            StreamEvent::Usage(usage) => {
                self.usage = Some(usage);
                Taken::Nothing
            }
            StreamEvent::Warning(_) => Taken::Nothing,
            StreamEvent::Done(done) => Taken::Whole(Box::new(Ok(self.finish(done)))),
            StreamEvent::Error(error) => Taken::Whole(Box::new(Err(LlmError {
                code: error.code().to_owned(),
                message: error.to_string(),
                source: Some(Box::new(error)),
            }))),
        }
    }

    /// Adds a piece to the part that it continues. A signature closes its part, and is in no partial response.
    fn extend(&mut self, piece: Part, signature: Option<String>) -> Taken {
        if piece.is_empty() && signature.is_none() {
            return Taken::Nothing;
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
            return Taken::Nothing;
        }
        let content = Some(Content::new("model", vec![shown]));
        Taken::Partial(Box::new(LlmResponse { content, partial: true, ..LlmResponse::default() }))
    }

    fn finish(&mut self, done: Done) -> LlmResponse {
        let parts: Vec<Part> = self.parts.drain(..).filter(|part| !part.is_empty()).collect();
        let content = Content { parts, role: Some("model".to_owned()), origin: Some(self.origin.clone()) };
        let (finish_reason, refusal) = match done.finish {
            Finish::Stop => (Some("STOP"), None),
            Finish::Length => (Some("MAX_TOKENS"), None),
            Finish::Refused { code, message } => (None, Some((code, message))),
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
        }
    }
}

fn call_part(call: ToolCall) -> Part {
    let id = Some(call.id).filter(|id| !id.is_empty());
    let function = FunctionCall { id, args: Some(call.args), name: call.name, extra: serde_json::Map::new() };
    Part { thought_signature: call.signature, ..function.into() }
}

fn usage(usage: Usage) -> UsageMetadata {
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

impl fmt::Debug for ModelAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelAdapter")
            .field("name", &self.name)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}
