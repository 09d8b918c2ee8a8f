//! A model of a provider, its name, and the token budget of its requests.

use super::room;
use crate::view::{budget::Budget, history, messages, options};
use adk::model::{ContentRef, LlmRequest};
use provider::{ModelId, ModelRequest, ModelStream, Provider};
use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

#[derive(Clone)]
pub struct ModelTarget {
    provider: Arc<dyn Provider>,
    model: String,
    name: String,
    /// The origin of opaque data (reasoning, signatures) that this model produces.
    stamp: String,
    budget: Budget,
    context: Option<u32>,
    /// The context size that the provider stated in an error, so that later calls respect it; zero if unknown.
    learned: Arc<AtomicU32>,
}

impl ModelTarget {
    pub fn new(provider: Arc<dyn Provider>, model: impl Into<String>, budget: Budget) -> Self {
        let model = model.into();
        let name = match &*model {
            "" => provider.name().to_owned(),
            model => format!("{}/{model}", provider.name()),
        };
        let stamp = provider.name().to_owned();
        Self { provider, model, name, stamp, budget, context: None, learned: Arc::default() }
    }

    /// Sets the context size in tokens.
    pub fn with_context(self, context: Option<u32>) -> Self {
        Self { context, ..self }
    }

    /// Sets the origin of opaque data: one provider may have several wire formats.
    pub fn with_stamp(self, stamp: String) -> Self {
        Self { stamp, ..self }
    }

    /// The name `provider/model`.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn model(&self) -> &str {
        &self.model
    }

    pub(super) fn provider(&self) -> &str {
        self.provider.name()
    }

    pub(super) fn origin(&self) -> ModelId {
        ModelId { provider: self.stamp.clone(), model: self.model.clone() }
    }

    pub(super) fn ask(&self, request: ModelRequest) -> ModelStream {
        self.provider.stream(request)
    }

    /// The request for this model, with at most `most` tokens of conversation.
    pub(super) fn request(&self, request: &LlmRequest, most: Option<u32>) -> ModelRequest {
        let budget = most.map_or(self.budget, |most| self.budget.at_most(most));
        let learned = Some(self.learned.load(Ordering::Relaxed)).filter(|tokens| *tokens > 0);
        request_within(self.origin(), request, budget, self.context.into_iter().chain(learned).min())
    }

    /// The budget for a conversation after `sent` was too long; `None` if it cannot be shortened.
    pub(super) fn shorter(&self, sent: &ModelRequest, complaint: &str) -> Option<u32> {
        let stated = room::limit_in(complaint);
        if let Some(context) = stated {
            self.learned.store(context, Ordering::Relaxed);
        }
        room::shorter(sent, stated)
    }
}

/// The request for a model: the system message, then a legal history within the budget.
pub fn request_for(target: ModelId, request: &LlmRequest, budget: Budget) -> ModelRequest {
    request_within(target, request, budget, None)
}

fn request_within(
    target: ModelId,
    request: &LlmRequest,
    budget: Budget,
    context: Option<u32>,
) -> ModelRequest {
    let conversation = messages::convert(&request.contents, &target);
    let all = messages::system(&request.config).into_iter().chain(conversation).collect();
    let mut built = ModelRequest {
        messages: all,
        model: target.model,
        tools: options::allowed_tools(&request.config, messages::tools(request.tools.clone())),
        options: options::options(&request.config, ends_with_results(&request.contents)),
    };
    let budget = context.map_or(budget, |context| budget.at_most(room::of_context(context, &built)));
    built.messages = history::prepare(built.messages, request.task.as_deref(), budget);
    built
}

/// Whether the request ends with tool results.
fn ends_with_results(contents: &[ContentRef]) -> bool {
    contents.last().is_some_and(|last| last.responses().next().is_some())
}

impl fmt::Debug for ModelTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelTarget")
            .field("name", &self.name)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}
