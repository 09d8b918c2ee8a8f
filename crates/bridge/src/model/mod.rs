//! ModelAdapter: a provider's stream as ADK's responses.
//!
//! | read | for |
//! |---|---|
//! | `target` | a model, and the request that it gets |
//! | `answer` | its stream as one answer |
//! | `attempts` | asking again, asking for less, asking another |
//! | `retries`, `room` | when, and how much less: pure decisions |
//! | `notice` | how those who look on are told |
//!
//! **Invariant.** What is shown and what is stored is one answer of one model: an attempt that failed leaves no piece behind,
//! and after the first piece that was shown nobody else is asked.

mod answer;
mod attempts;
mod notice;
mod retries;
mod room;
mod target;

pub use notice::{NOTICE, Notice, NoticeKind};
pub use retries::Retries;
pub use target::{ModelTarget, request_for};

use crate::view::budget::Budget;
use adk::model::{Llm, LlmRequest, LlmStream};
use attempts::{Attempts, GivenWarnings};
use provider::{ModelRequest, Provider};
use std::sync::Arc;

/// A model, and those that are asked if it cannot answer.
#[derive(Debug)]
pub struct ModelAdapter {
    targets: Arc<[ModelTarget]>,
    retries: Retries,
    told: Arc<GivenWarnings>,
}

impl ModelAdapter {
    pub fn new(provider: Arc<dyn Provider>, model: impl Into<String>, budget: Budget) -> Self {
        Self::of(ModelTarget::new(provider, model, budget), Vec::new())
    }

    /// The model with its fallbacks, in the order in which they are asked.
    pub fn of(model: ModelTarget, fallbacks: Vec<ModelTarget>) -> Self {
        let targets = std::iter::once(model).chain(fallbacks).collect();
        Self { targets, retries: Retries::default(), told: Arc::default() }
    }

    pub fn retrying(self, retries: Retries) -> Self {
        Self { retries, ..self }
    }

    /// The request as the model gets it.
    pub fn request(&self, request: &LlmRequest) -> ModelRequest {
        self.targets[0].request(request, None)
    }
}

impl Llm for ModelAdapter {
    fn name(&self) -> &str {
        self.targets[0].name()
    }

    fn generate(&self, request: LlmRequest, stream: bool) -> LlmStream {
        let (targets, told) = (Arc::clone(&self.targets), Arc::clone(&self.told));
        Attempts::new(targets, request, stream, self.retries, told).responses()
    }
}
