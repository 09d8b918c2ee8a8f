//! From rows to the request that leaves, through the adapters.

use adk::{
    agent::IncludeContents,
    content::Content,
    flow::contents::{HistoryView, contents},
    model::{FunctionDeclaration, LlmRequest},
};
use bridge::{Budget, EventsAdapter, ModelAdapter};
use futures::StreamExt;
use provider::{EventStream, Provider, Request};
use serde_json::{Value, json};
use session::Stored;
use std::sync::Arc;
use testkit::legal::Api;

/// The agent whose view is built.
pub(crate) const AGENT: &str = "helper";
/// The model that it asks: contents of this model go back to it with their signatures.
pub(crate) const PROVIDER: &str = "maker";
pub(crate) const MODEL: &str = "one";

/// A provider that is never asked.
struct Silent;

impl Provider for Silent {
    fn name(&self) -> &str {
        PROVIDER
    }

    fn stream(&self, _: Request) -> EventStream {
        futures::stream::empty().boxed()
    }
}

/// What the agent's model is sent for the rows of a session; `cut` says that older rows were not read.
pub(crate) fn request(rows: &[Stored], budget: Budget, cut: bool) -> Request {
    of_events(&EventsAdapter::new(AGENT, rows, budget, cut), budget)
}

pub(crate) fn of_events(events: &EventsAdapter, budget: Budget) -> Request {
    let (task, events) = (events.task().cloned(), events.all());
    let view =
        HistoryView { agent: AGENT, branch: None, include: IncludeContents::Default, events, deferred: &[] };
    let mut asked =
        LlmRequest { contents: contents(view), task, tools: vec![tool()], ..LlmRequest::default() };
    asked.config.system_instruction = Some(Content::user("You are of help."));
    ModelAdapter::new(Arc::new(Silent), MODEL, budget).request(&asked)
}

fn tool() -> FunctionDeclaration {
    FunctionDeclaration {
        name: "look".to_owned(),
        description: "Looks somewhere".to_owned(),
        parameters_json_schema: json!({"type": "object", "properties": {"at": {"type": "integer"}}}),
    }
}

/// The request in the words of each provider, with the name of its list of messages.
pub(crate) fn encodings(request: &Request) -> [(Api, Value, &'static str); 5] {
    [
        (Api::OpenAi, provider::openai::encode(request, true), "messages"),
        (Api::Responses, provider::responses::encode(request, true), "input"),
        (Api::Anthropic, provider::anthropic::encode(request, true), "messages"),
        (Api::Gemini, provider::gemini::encode(request, true), "contents"),
        (Api::Ollama, provider::ollama::encode(request, true), "messages"),
    ]
}
