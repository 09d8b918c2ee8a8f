//! What a model call learns from rejected requests: a shorter conversation, or a request without a part that the server does
//! not support. It is remembered once a request succeeds with it.

use super::{Attempts, Stage, head};
use crate::model::{
    context_budget,
    memory::{ContextEstimate, KnownLimits},
    notice::{Notice, NoticeKind},
    target::RequestLimits,
};
use adk::model::LlmResponse;
use provider::{Error, ModelRequest, Omission};

/// How many parts a call leaves out before it fails. A server that rejects more does not know the wire format.
const MAX_OMISSIONS: usize = 8;

impl Attempts {
    /// The next request, within what is known of the model.
    pub(super) fn next_request(&mut self) -> ModelRequest {
        let target = &self.targets[self.at];
        let (mut known, warning) = target.known();
        let mut omitted = std::mem::take(&mut known.omitted);
        let learned = self.learned.omitted.iter().filter(|what| !omitted.contains(what)).cloned();
        omitted.extend(learned.collect::<Vec<_>>());
        self.estimate = known.estimate;
        // The estimate does not limit a request that was shortened already.
        let estimate = known.estimate.filter(|_| self.limits.room.is_none());
        let known = KnownLimits { omitted: Vec::new(), estimate, context: known.context };
        self.limits = RequestLimits {
            room: self.limits.room,
            context: known.size().into_iter().chain(self.stated).min(),
            output: target.output(),
            omitted,
            options: target.fixed_options(&self.request.scope),
        };
        let request = target.request(&self.request, &self.limits);
        if let Some(warning) = warning {
            self.warn(warning);
        }
        request
    }

    /// A known capability that the request uses and the model does not have.
    pub(super) fn missing_capability(&self, request: &ModelRequest) -> Option<Omission> {
        let mut missing =
            request.omitted.iter().filter(|what| what.is_capability() && what.applies_to(request));
        missing.find(|what| !self.learned.omitted.contains(what)).cloned()
    }

    /// Warns of what the request leaves out although it was asked for.
    pub(super) fn warn_of_missing_parts(&mut self, request: &ModelRequest) {
        let target = &self.targets[self.at];
        let is_reported = |what: &&Omission| {
            (what.is_capability() || **what == Omission::Reasoning)
                && what.applies_to(request)
                && !self.learned.omitted.contains(what)
        };
        let source = |what: &Omission| {
            if target.is_missing(what) {
                format!("; if it does, set `capabilities` in [models.\"{}\"] of lango.toml", target.name())
            } else {
                "; `lango models` shows more".to_owned()
            }
        };
        let texts: Vec<String> = request
            .omitted
            .iter()
            .filter(is_reported)
            .map(|what| format!("without {what}, which the model does not support{}", source(what)))
            .collect();
        for text in texts {
            self.warn(text);
        }
    }

    /// Shortens a conversation that is too long, once. If the model rejects it again, the error is final for this
    /// target.
    pub(super) fn shorten(&mut self, error: &Error) -> bool {
        if self.limits.room.is_some() {
            return false;
        }
        let sent = self.targets[self.at].request(&self.request, &self.limits);
        let stated = context_budget::limit_in(&error.to_string());
        let rejected = context_budget::size_of(&sent);
        // A request of this size was accepted before.
        let accepted = self.estimate.map(|estimate| estimate.accepted).filter(|size| *size < rejected);
        let accepted =
            accepted.filter(|_| stated.is_none()).map(|size| context_budget::of_context(size, &sent));
        let Some(room) = accepted.or_else(|| context_budget::shorter(&sent, stated)) else { return false };
        // A limit that the rejected request keeps by the estimate does not prevent the next rejection.
        let is_effective = |context: &u32| context_budget::of_context(*context, &sent) == room;
        self.stated = stated;
        self.learned.context = stated.filter(is_effective);
        let accepted = context_budget::context_for(room, &sent).min(rejected);
        let estimate = ContextEstimate { accepted, rejected };
        self.learned.estimate = self.learned.context.is_none().then_some(estimate);
        self.limits.room = Some(room);
        let message = format!("{}; retrying with a shortened conversation", head(error));
        self.notify(Notice::new(NoticeKind::Shorter, message, self.targets[self.at].name()));
        self.stage = Stage::Ask;
        true
    }

    /// Leaves out a part that the server does not support, each once.
    pub(super) fn leave_out(&mut self, error: &Error) -> bool {
        let Some(what) = error.omission() else { return false };
        if self.limits.omitted.contains(what) || self.learned.omitted.len() >= MAX_OMISSIONS {
            return false;
        }
        self.learned.omitted.push(what.clone());
        let message = format!("{}; retrying without it", head(error));
        self.notify(Notice::new(NoticeKind::Unsupported, message, self.targets[self.at].name()));
        self.stage = Stage::Ask;
        true
    }

    /// Remembers that the model does not have a capability, although no request succeeded without it: another model is
    /// called instead.
    pub(super) fn remember_missing(&mut self, what: &Omission) {
        let missing = KnownLimits { omitted: vec![what.clone()], ..KnownLimits::default() };
        if let Some(warning) = self.targets[self.at].learn(&missing) {
            self.warn(warning);
        }
    }

    /// Remembers what the successful request was built with. A request that is larger than those before raises the estimate of the
    /// context size.
    pub(super) fn remember(&mut self) {
        if self.learned.estimate.is_none()
            && let Some(estimate) = self.estimate.take()
        {
            let sent = self.targets[self.at].request(&self.request, &self.limits);
            self.learned.estimate = estimate.accept(context_budget::size_of(&sent));
        }
        if self.learned != KnownLimits::default()
            && let Some(warning) = self.targets[self.at].learn(&self.learned)
        {
            self.warn(warning);
        }
    }

    pub(super) fn forget_attempt(&mut self) {
        self.limits = RequestLimits::default();
        self.learned = KnownLimits::default();
        self.stated = None;
        self.estimate = None;
    }

    /// Marks an answer to a request without some parts, unless it has another notice.
    pub(super) fn with_unsupported_notice(&self, response: LlmResponse) -> LlmResponse {
        if self.learned.omitted.is_empty() || Notice::is_on(&response) {
            return response;
        }
        let target = &self.targets[self.at];
        let parts: Vec<String> = self.learned.omitted.iter().map(Omission::to_string).collect();
        let message =
            format!("{} answered without {}, which it does not support", target.name(), parts.join(", "));
        let notice = Notice::new(NoticeKind::Unsupported, message, target.name());
        notice.mark(response)
    }
}
