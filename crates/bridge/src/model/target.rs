//! A model of a provider, its name, and the token budget of its requests.

use super::context_budget;
use crate::view::{budget::Budget, history, messages, options};
use adk::{
    model::{ContentRef, LlmRequest},
    recipe::SentRequest,
};
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
    origin: String,
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
        let origin = provider.name().to_owned();
        Self { provider, model, name, origin, budget, context: None, learned: Arc::default() }
    }

    /// Sets the context size in tokens.
    pub fn with_context(self, context: Option<u32>) -> Self {
        Self { context, ..self }
    }

    /// Sets the origin of opaque data: one provider may have several wire formats.
    pub fn with_origin(self, origin: String) -> Self {
        Self { origin, ..self }
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
        ModelId { provider: self.origin.clone(), model: self.model.clone() }
    }

    pub(super) fn ask(&self, request: ModelRequest) -> ModelStream {
        self.provider.stream(request)
    }

    /// The request for this model, with at most `most` tokens of conversation.
    pub(super) fn request(&self, request: &LlmRequest, most: Option<u32>) -> ModelRequest {
        request_within(self.origin(), request, self.budget_within(most), self.context())
    }

    /// How a request with at most `most` tokens of conversation is built.
    pub(super) fn sent(&self, most: Option<u32>, sha256: Option<String>) -> SentRequest {
        let budget = self.budget_within(most);
        SentRequest {
            provider: self.provider.name().to_owned(),
            origin: self.origin.clone(),
            model: self.model.clone(),
            budget: budget.tokens(),
            max_messages: budget.max_messages(),
            context: self.context(),
            sha256,
        }
    }

    fn budget_within(&self, most: Option<u32>) -> Budget {
        most.map_or(self.budget, |most| self.budget.at_most(most))
    }

    /// The smaller of the configured and the learned context size.
    fn context(&self) -> Option<u32> {
        let learned = Some(self.learned.load(Ordering::Relaxed)).filter(|tokens| *tokens > 0);
        self.context.into_iter().chain(learned).min()
    }

    /// The body of a request; `None` if the provider has no wire format.
    pub(super) fn encode(&self, request: &ModelRequest) -> Option<Vec<u8>> {
        self.provider.encode(request).map(Vec::from)
    }

    /// The budget for a conversation after `sent` was too long; `None` if it cannot be shortened.
    pub(super) fn shorter(&self, sent: &ModelRequest, complaint: &str) -> Option<u32> {
        let stated = context_budget::limit_in(complaint);
        if let Some(context) = stated {
            self.learned.store(context, Ordering::Relaxed);
        }
        context_budget::shorter(sent, stated)
    }
}

/// The request for a model: the system message, then a legal history within the budget.
pub fn request_for(target: ModelId, request: &LlmRequest, budget: Budget) -> ModelRequest {
    request_within(target, request, budget, None)
}

/// Rebuilds the request that was sent.
pub(crate) fn rebuild_request(request: &LlmRequest, sent: &SentRequest) -> ModelRequest {
    let target = ModelId { provider: sent.origin.clone(), model: sent.model.clone() };
    request_within(target, request, Budget::restored(sent.budget, sent.max_messages), sent.context)
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
    let budget =
        context.map_or(budget, |context| budget.at_most(context_budget::of_context(context, &built)));
    built.messages = history::prepare(built.messages, request.user_request.as_deref(), budget);
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
