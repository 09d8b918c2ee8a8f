//! A model that can be asked: who has it, what it is called there, and how much of a conversation it is shown.

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
    /// Who makes opaque data here, as it is stamped.
    stamp: String,
    budget: Budget,
    context: Option<u32>,
    /// What the provider has said that the model holds, so that no further call has to learn it; zero for not known.
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

    /// With what the model holds in all, in tokens.
    pub fn holding(self, context: Option<u32>) -> Self {
        Self { context, ..self }
    }

    /// With another name for whoever makes its opaque data: one provider may speak several wire formats.
    pub fn stamped(self, stamp: String) -> Self {
        Self { stamp, ..self }
    }

    /// As people write it: `provider/model`.
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

    /// The request as this model gets it, with a conversation of so many tokens at most.
    pub(super) fn request(&self, request: &LlmRequest, most: Option<u32>) -> ModelRequest {
        let budget = most.map_or(self.budget, |most| self.budget.at_most(most));
        let learned = Some(self.learned.load(Ordering::Relaxed)).filter(|tokens| *tokens > 0);
        request_within(self.origin(), request, budget, self.context.into_iter().chain(learned).min())
    }

    /// How long a conversation may be, now that `sent` was too long; `None` if there is nothing to leave out.
    pub(super) fn shorter(&self, sent: &ModelRequest, complaint: &str) -> Option<u32> {
        let said = room::limit_in(complaint);
        if let Some(context) = said {
            self.learned.store(context, Ordering::Relaxed);
        }
        room::shorter(sent, said)
    }
}

/// The request as a model gets it: the system message first, then a history that is legal and fits.
pub fn request_for(target: ModelId, request: &LlmRequest, budget: Budget) -> ModelRequest {
    request_within(target, request, budget, None)
}

fn request_within(
    target: ModelId,
    request: &LlmRequest,
    budget: Budget,
    context: Option<u32>,
) -> ModelRequest {
    let spoken = messages::convert(&request.contents, &target);
    let all = messages::system(&request.config).into_iter().chain(spoken).collect();
    let mut made = ModelRequest {
        messages: all,
        model: target.model,
        tools: options::allowed(&request.config, messages::tools(request.tools.clone())),
        options: options::options(&request.config, has_answers(&request.contents)),
    };
    let budget = context.map_or(budget, |context| budget.at_most(room::of_context(context, &made)));
    made.messages = history::prepare(made.messages, request.task.as_deref(), budget);
    made
}

/// Whether the model is asked what it makes of its tools' answers.
fn has_answers(contents: &[ContentRef]) -> bool {
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
