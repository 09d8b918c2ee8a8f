//! From rows to the request, through the adapters.

use adk::{
    agent::IncludeContents,
    content::Content,
    event::Event,
    flow::contents::{HistoryView, contents},
    model::{FunctionDeclaration, LlmRequest},
};
use bridge::{Budget, EventsAdapter, ModelAdapter};
use futures::StreamExt;
use provider::{ModelRequest, ModelStream, Provider};
use serde_json::{Value, json};
use session::StoredMessage;
use std::sync::Arc;
use testkit::ProviderApi;

/// The agent whose view is built.
pub(crate) const AGENT: &str = "helper";
/// The requested model: contents of this model return to it with their signatures.
pub(crate) const PROVIDER: &str = "maker";
pub(crate) const MODEL: &str = "one";

/// A provider that is never called.
pub(crate) struct Silent;

impl Provider for Silent {
    fn name(&self) -> &str {
        PROVIDER
    }

    fn reads_prefix(&self) -> bool {
        true
    }

    fn stream(&self, _: ModelRequest) -> ModelStream {
        futures::stream::empty().boxed()
    }
}

/// The request for the rows of a session; `cut` means that older rows were not read.
pub(crate) fn request(rows: &[StoredMessage], budget: Budget, cut: bool) -> ModelRequest {
    of_events(&EventsAdapter::new(AGENT, rows, budget, cut), budget)
}

pub(crate) fn of_events(events: &EventsAdapter, budget: Budget) -> ModelRequest {
    let asked = LlmRequest { contents: contents(history(events.all())), ..frame(events) };
    ModelAdapter::new(Arc::new(Silent), MODEL, budget).request(&asked)
}

/// The history of the agent.
pub(crate) fn history(events: &[Arc<Event>]) -> HistoryView<'_> {
    HistoryView { agent: AGENT, branch: None, include: IncludeContents::Default, events, deferred: &[] }
}

/// A request without contents.
pub(crate) fn frame(events: &EventsAdapter) -> LlmRequest {
    let user_request = events.user_request().cloned();
    let mut asked = LlmRequest { user_request, tools: vec![tool()], ..LlmRequest::default() };
    asked.config.system_instruction = Some(Content::user("You are of help."));
    asked
}

fn tool() -> FunctionDeclaration {
    FunctionDeclaration {
        name: "look".to_owned(),
        description: "Looks somewhere".to_owned(),
        parameters_json_schema: json!({"type": "object", "properties": {"at": {"type": "integer"}}}),
    }
}

/// The request in the encoding of each provider, with the name of its list of messages.
pub(crate) fn encodings(request: &ModelRequest) -> [(ProviderApi, Value, &'static str); 5] {
    [
        (ProviderApi::OpenAi, provider::openai::encode(request, true), "messages"),
        (ProviderApi::Responses, provider::responses::encode(request, true), "input"),
        (ProviderApi::Anthropic, provider::anthropic::encode(request, true), "messages"),
        (ProviderApi::Gemini, provider::gemini::encode(request, true), "contents"),
        (ProviderApi::Ollama, provider::ollama::encode(request, true), "messages"),
    ]
}
