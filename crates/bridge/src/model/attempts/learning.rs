//! What a model call learns from rejected requests: a shorter conversation, or a request without a part that the server does
//! not support. It is remembered once a request succeeds with it.

use super::{Attempts, Stage, head};
use crate::model::{
    context_budget,
    memory::KnownLimits,
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
        let (known, warning) = target.known();
        let mut omitted = known.omitted;
        let learned = self.learned.omitted.iter().filter(|what| !omitted.contains(what)).cloned();
        omitted.extend(learned.collect::<Vec<_>>());
        self.limits = RequestLimits {
            room: self.limits.room,
            context: known.context.into_iter().chain(self.stated).min(),
            output: target.output(),
            omitted,
        };
        let request = target.request(&self.request, &self.limits);
        if let Some(warning) = warning {
            self.warn(warning);
        }
        request
    }

    /// A remembered capability that the request uses and the model does not have.
    pub(super) fn missing_capability(&self, request: &ModelRequest) -> Option<Omission> {
        let mut missing =
            request.omitted.iter().filter(|what| what.is_capability() && what.applies_to(request));
        missing.find(|what| !self.learned.omitted.contains(what)).cloned()
    }

    /// Shortens a conversation that is too long, once. If the model rejects it again, the error is final for this
    /// target.
    pub(super) fn shorten(&mut self, error: &Error) -> bool {
        if self.limits.room.is_some() {
            return false;
        }
        let sent = self.targets[self.at].request(&self.request, &self.limits);
        let stated = context_budget::limit_in(&error.to_string());
        let Some(room) = context_budget::shorter(&sent, stated) else { return false };
        // A limit that the rejected request keeps by the estimate does not prevent the next rejection.
        let is_effective = |context: &u32| context_budget::of_context(*context, &sent) == room;
        self.stated = stated;
        self.learned.context =
            stated.filter(is_effective).or_else(|| Some(context_budget::context_for(room, &sent)));
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
        let missing = KnownLimits { omitted: vec![what.clone()], context: None };
        if let Some(warning) = self.targets[self.at].learn(&missing) {
            self.warn(warning);
        }
    }

    /// Remembers what the successful request was built with.
    pub(super) fn remember(&mut self) {
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
    }

    /// Marks an answer to a request without some parts, unless it has another notice.
    pub(super) fn with_unsupported_notice(&self, response: LlmResponse) -> LlmResponse {
        if self.learned.omitted.is_empty() || response.custom_metadata.is_some() {
            return response;
        }
        let target = &self.targets[self.at];
        let parts: Vec<String> = self.learned.omitted.iter().map(Omission::to_string).collect();
        let message =
            format!("{} answered without {}, which it does not support", target.name(), parts.join(", "));
        let notice = Notice::new(NoticeKind::Unsupported, message, target.name());
        LlmResponse { custom_metadata: notice.metadata(), ..response }
    }
}
