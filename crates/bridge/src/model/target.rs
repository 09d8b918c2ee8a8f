//! A model of a provider, its name, and the token budget of its requests.

use super::{
    context_budget,
    memory::{KnownLimits, ModelAddress, ModelMemory},
    prefix,
};
use crate::{
    digest::sha256_hex,
    view::{
        budget::{Budget, DEFAULT_RETAINED},
        cost, history, messages, options,
    },
};
use adk::{
    model::{ContentRef, EncodedRequest, LlmRequest, PromptScope},
    recipe::SentRequest,
    session::SessionKey,
    window::WindowShare,
};
use provider::{
    EncodedBody, MessagePrefix, ModelId, ModelMessage, ModelRequest, ModelStream, Omission, Provider,
};
use serde_json::{Map, Value};
use std::{fmt, sync::Arc};

#[derive(Clone)]
pub struct ModelTarget {
    provider: Arc<dyn Provider>,
    model: String,
    name: String,
    /// The origin of opaque data (reasoning, signatures) that this model produces.
    origin: String,
    budget: Budget,
    context: Option<u32>,
    output: Option<u32>,
    memory: Arc<ModelMemory>,
    address: ModelAddress,
    settings: Arc<ModelSettings>,
}

/// What the configuration of a model decides about its requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelSettings {
    /// Whether an answer may contain several tool calls.
    pub parallel_tool_calls: Option<bool>,
    /// Whether requests have a `prompt_cache_key`.
    pub prompt_cache_key: bool,
    /// Whether the model is known to enforce a schema.
    pub enforces_schema: bool,
    /// Fields that are added to the body.
    pub extra_body: Map<String, Value>,
    /// What the model does not support.
    pub missing: Vec<Omission>,
    /// What the model supports, whatever its server said.
    pub confirmed: Vec<Omission>,
}

/// The limits of one request. They are fixed when it is built, because the memory may change meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestLimits {
    /// Token budget of a conversation that was too long.
    pub(super) room: Option<u32>,
    /// The context size.
    pub(super) context: Option<u32>,
    /// The maximum output of the model.
    pub(super) output: Option<u32>,
    /// What the server does not support.
    pub(super) omitted: Vec<Omission>,
    pub(super) options: FixedOptions,
}

/// The options of a request that its model's settings decide.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FixedOptions {
    parallel_tool_calls: Option<bool>,
    cache_key: Option<String>,
    enforces_schema: bool,
    extra_body: Map<String, Value>,
}

impl ModelTarget {
    pub fn new(provider: Arc<dyn Provider>, model: impl Into<String>, budget: Budget) -> Self {
        let model = model.into();
        let name = match &*model {
            "" => provider.name().to_owned(),
            model => format!("{}/{model}", provider.name()),
        };
        let origin = provider.name().to_owned();
        let address = ModelAddress { model: name.clone(), ..ModelAddress::default() };
        Self {
            provider,
            model,
            name,
            origin,
            budget,
            context: None,
            output: None,
            memory: Arc::default(),
            address,
            settings: Arc::default(),
        }
    }

    /// Sets the memory, and the address by which it knows this model.
    pub fn with_memory(self, memory: Arc<ModelMemory>, address: ModelAddress) -> Self {
        Self { memory, address, ..self }
    }

    pub fn with_settings(self, settings: ModelSettings) -> Self {
        Self { settings: Arc::new(settings), ..self }
    }

    /// Sets the context size in tokens.
    pub fn with_context(self, context: Option<u32>) -> Self {
        Self { context, ..self }
    }

    /// Sets the maximum output in tokens, for formats that require an output limit.
    pub fn with_output(self, output: Option<u32>) -> Self {
        Self { output, ..self }
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

    /// What is known of the model, and a warning if the memory is damaged.
    pub(super) fn known(&self) -> (KnownLimits, Option<String>) {
        let (mut known, warning) = self.memory.known(&self.address);
        known.omitted.retain(|what| !self.settings.confirmed.contains(what));
        let missing = self.settings.missing.iter().filter(|what| !known.omitted.contains(what)).cloned();
        known.omitted.extend(missing.collect::<Vec<_>>());
        (KnownLimits { context: self.context.into_iter().chain(known.context).min(), ..known }, warning)
    }

    /// Whether the configuration or the model catalogue says that the model does not support a part of a request.
    pub(super) fn is_missing(&self, what: &Omission) -> bool {
        self.settings.missing.contains(what)
    }

    /// The options that the settings decide, for a request of this scope.
    pub(super) fn fixed_options(&self, scope: &PromptScope) -> FixedOptions {
        let ModelSettings { parallel_tool_calls, prompt_cache_key, enforces_schema, extra_body, .. } =
            &*self.settings;
        FixedOptions {
            parallel_tool_calls: *parallel_tool_calls,
            cache_key: prompt_cache_key.then(|| cache_key(scope)).flatten(),
            enforces_schema: *enforces_schema,
            extra_body: extra_body.clone(),
        }
    }

    /// Remembers facts about the model; a warning if they cannot be stored.
    pub(super) fn learn(&self, learned: &KnownLimits) -> Option<String> {
        self.memory.learn(&self.address, learned)
    }

    /// The request for this model within the limits.
    pub(super) fn request(&self, request: &LlmRequest, limits: &RequestLimits) -> ModelRequest {
        let built = request_within(&self.origin(), request, self.budget_within(limits.room), limits);
        if self.provider.reads_prefix() { built } else { built.with_all_messages().into_owned() }
    }

    /// Whether the conversation uses at most a share of the budget. The budget is that of the configuration: what is learned from
    /// a server's errors shows a suffix of the window and does not move its front.
    pub(super) fn fits(&self, request: &LlmRequest, share: WindowShare) -> bool {
        let context = self.context.map(|context| (context, frame(self.origin(), request)));
        let budget = context
            .map_or(self.budget, |(context, frame)| within_context(self.budget, Some(context), &frame));
        if let Some(prefix) = prefix::messages_of(request, &self.origin(), budget) {
            let rest = history::repair(messages::convert(&request.contents, &self.origin()));
            return is_within(&prefix, &rest, budget.share(share));
        }
        let conversation = history::repair(messages::convert(request.all_contents(), &self.origin()));
        history::fits(conversation, request.user_request.as_deref(), budget, share)
    }

    /// The request for this model within the known limits.
    pub(super) fn next_request(&self, request: &LlmRequest) -> ModelRequest {
        let known = self.known().0;
        let options = self.fixed_options(&request.scope);
        let context = known.size();
        let omitted = known.omitted;
        self.request(request, &RequestLimits { room: None, context, output: self.output, omitted, options })
    }

    pub(super) fn output(&self) -> Option<u32> {
        self.output
    }

    /// How a request within the limits is built.
    pub(super) fn sent(&self, limits: &RequestLimits, sha256: Option<String>) -> SentRequest {
        let budget = self.budget_within(limits.room);
        SentRequest {
            provider: self.provider.name().to_owned(),
            origin: self.origin.clone(),
            model: self.model.clone(),
            budget: budget.tokens(),
            max_messages: budget.max_messages(),
            retained: Some(budget.retained_percent()),
            context: limits.context,
            output: limits.output,
            omitted: limits.omitted.iter().map(Omission::key).collect(),
            parallel_tool_calls: limits.options.parallel_tool_calls,
            cache_key: limits.options.cache_key.clone(),
            enforces_schema: limits.options.enforces_schema,
            extra_body: limits.options.extra_body.clone(),
            sha256,
        }
    }

    fn budget_within(&self, most: Option<u32>) -> Budget {
        most.map_or(self.budget, |most| self.budget.at_most(most))
    }

    /// The body of a request; `None` if the provider has no wire format.
    pub(super) fn encode(&self, request: &ModelRequest) -> Option<EncodedRequest> {
        let EncodedBody { sent, shown } = self.provider.encode(request)?;
        Some(EncodedRequest { sha256: sha256_hex(&sent), body: shown.into() })
    }
}

/// The request for a model: the system message, then a legal history within the budget.
pub fn request_for(target: &ModelId, request: &LlmRequest, budget: Budget) -> ModelRequest {
    request_within(target, request, budget, &RequestLimits::default()).with_all_messages().into_owned()
}

/// Rebuilds the request that was sent.
pub(crate) fn rebuild_request(request: &LlmRequest, sent: &SentRequest) -> ModelRequest {
    let target = ModelId { provider: sent.origin.clone(), model: sent.model.clone() };
    let limits = RequestLimits {
        room: None,
        context: sent.context,
        output: sent.output,
        omitted: sent.omitted.iter().filter_map(|key| key.parse().ok()).collect(),
        options: FixedOptions {
            parallel_tool_calls: sent.parallel_tool_calls,
            cache_key: sent.cache_key.clone(),
            enforces_schema: sent.enforces_schema,
            extra_body: sent.extra_body.clone(),
        },
    };
    let budget = Budget::restored(sent.budget, sent.max_messages, sent.retained.unwrap_or(DEFAULT_RETAINED));
    request_within(&target, request, budget, &limits).with_all_messages().into_owned()
}

fn request_within(
    target: &ModelId,
    request: &LlmRequest,
    budget: Budget,
    limits: &RequestLimits,
) -> ModelRequest {
    let mut built = frame(target.clone(), request);
    built.omitted.clone_from(&limits.omitted);
    let FixedOptions { parallel_tool_calls, cache_key, enforces_schema, extra_body } = &limits.options;
    built.options.parallel_tool_calls = *parallel_tool_calls;
    built.options.cache_key.clone_from(cache_key);
    built.options.enforces_schema = *enforces_schema;
    built.extra_body.clone_from(extra_body);
    let budget = within_context(budget, limits.context, &built);
    if let Some((prefix, rest)) = after_prefix(target, request, budget) {
        built.prefix = Some(prefix);
        built.messages.extend(rest);
    } else {
        built.messages.extend(messages::convert(request.all_contents(), target));
        built.messages = history::prepare(built.messages, request.user_request.as_deref(), budget);
    }
    built.options.default_output_tokens =
        limits.output.map(|output| context_budget::output_room(limits.context, output, &built));
    built
}

/// The prefix of a conversation that is within the budget, and the messages after it.
fn after_prefix(
    target: &ModelId,
    request: &LlmRequest,
    budget: Budget,
) -> Option<(Arc<MessagePrefix>, Vec<ModelMessage>)> {
    let prefix = prefix::messages_of(request, target, budget)?;
    let rest = history::repair(messages::convert(&request.contents, target));
    is_within(&prefix, &rest, budget).then_some((prefix, rest))
}

fn is_within(prefix: &MessagePrefix, rest: &[ModelMessage], budget: Budget) -> bool {
    let cost = prefix.tokens().saturating_add(cost::of_messages(rest));
    history::is_within(cost, prefix.messages().len() + rest.len(), budget)
}

/// A request without its conversation.
fn frame(target: ModelId, request: &LlmRequest) -> ModelRequest {
    ModelRequest {
        messages: messages::system(&request.config).into_iter().collect(),
        model: target.model,
        tools: options::allowed_tools(&request.config, messages::tools(request.tools.clone())),
        options: options::options(&request.config, ends_with_results(&request.contents)),
        ..ModelRequest::default()
    }
}

/// The key of a session and an agent in the provider's prompt cache: a hash, so that no id leaves.
fn cache_key(scope: &PromptScope) -> Option<String> {
    const DIGITS: usize = 32;
    let (SessionKey { app_name, user_id, session_id }, agent) = scope.get()?;
    // Lengths keep the ids apart.
    let ids = [app_name, user_id, session_id, agent].map(|id| format!("{}:{id}", id.len()));
    let mut hash = sha256_hex(ids.concat().as_bytes());
    hash.truncate(DIGITS);
    Some(hash)
}

/// The smaller of the budget and what the context leaves for the conversation of a request.
fn within_context(budget: Budget, context: Option<u32>, frame: &ModelRequest) -> Budget {
    context.map_or(budget, |context| budget.at_most(context_budget::of_context(context, frame)))
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
