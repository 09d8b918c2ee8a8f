//! ModelAdapter: a provider's stream as ADK's responses.
//!
//! | module | contents |
//! |---|---|
//! | `target` | a model of a provider, and the request for it |
//! | `answer` | the provider's stream as one response |
//! | `attempts` | retries, shortened conversations, fallbacks |
//! | `retries`, `context_budget` | the decisions, as pure functions: the retry policy with its backoff, and how much to shorten |
//! | `prefix` | the messages with which the requests of a conversation begin, kept between requests |
//! | `size` | the tokens of a request by its parts |
//! | `think_tags` | reasoning in `<think>` tags |
//! | `memory` | what servers said about their models, remembered for a week |
//! | `notice` | notices to the client about retries and fallbacks |
//!
//! **Invariant.** The streamed and the stored response are one answer of one model: a failed attempt leaves no part
//! behind, and after the first streamed text there is no other attempt. An answer is never silently empty.

mod answer;
mod attempts;
mod context_budget;
pub mod memory;
mod notice;
mod prefix;
mod retries;
mod size;
mod target;
mod think_tags;

pub use answer::{CACHE_WRITE_HOUR_TOKENS, CACHE_WRITE_TOKENS};
pub use memory::{ModelAddress, ModelMemory};
pub use notice::{NOTICE, Notice, NoticeKind};
pub use retries::RetryPolicy;
/// The former name of [`RetryPolicy`].
pub use retries::RetryPolicy as Retries;
pub(crate) use target::rebuild_request;
pub use target::{ModelSettings, ModelTarget, request_for};

use crate::view::budget::Budget;
use adk::{
    model::{EncodedRequest, Llm, LlmRequest, LlmStream, RequestSize},
    recipe::SentRequest,
    window::WindowShare,
};
use attempts::{Attempts, GivenWarnings};
use provider::{ModelRequest, Provider};
use std::sync::Arc;

/// A model with its fallbacks.
#[derive(Debug)]
pub struct ModelAdapter {
    targets: Arc<[ModelTarget]>,
    retries: RetryPolicy,
    given_warnings: Arc<GivenWarnings>,
}

impl ModelAdapter {
    pub fn new(provider: Arc<dyn Provider>, model: impl Into<String>, budget: Budget) -> Self {
        Self::with_fallbacks(ModelTarget::new(provider, model, budget), Vec::new())
    }

    /// Sets the fallbacks, in the order in which they are tried.
    pub fn with_fallbacks(model: ModelTarget, fallbacks: Vec<ModelTarget>) -> Self {
        let targets = std::iter::once(model).chain(fallbacks).collect();
        Self { targets, retries: RetryPolicy::default(), given_warnings: Arc::default() }
    }

    pub fn with_retries(self, retries: RetryPolicy) -> Self {
        Self { retries, ..self }
    }

    /// The request for the first model.
    pub fn request(&self, request: &LlmRequest) -> ModelRequest {
        self.targets[0].next_request(request)
    }
}

impl Llm for ModelAdapter {
    fn name(&self) -> &str {
        self.targets[0].name()
    }

    fn generate(&self, request: LlmRequest, stream: bool) -> LlmStream {
        let (targets, given_warnings) = (Arc::clone(&self.targets), Arc::clone(&self.given_warnings));
        Attempts::new(targets, request, stream, self.retries, given_warnings).responses()
    }

    fn reads_prefix(&self) -> bool {
        true
    }

    fn fits(&self, request: &LlmRequest, share: WindowShare) -> bool {
        self.targets[0].fits(request, share)
    }

    fn size(&self, request: &LlmRequest) -> Option<RequestSize> {
        Some(self.targets[0].size(request))
    }

    /// `None` if the provider is not configured any more, or has no wire format.
    fn encode(&self, request: &LlmRequest, sent: &SentRequest) -> Option<EncodedRequest> {
        let of_provider = |target: &&ModelTarget| target.provider() == sent.provider;
        // The models of a provider may have variables of their own.
        let of_model = |target: &&ModelTarget| of_provider(target) && target.model() == sent.model;
        let target = self.targets.iter().find(of_model).or_else(|| self.targets.iter().find(of_provider))?;
        target.encode(&rebuild_request(request, sent))
    }
}
