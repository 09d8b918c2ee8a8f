//! The size of a request by its parts, as the token estimate counts it.

use super::{
    context_budget,
    target::{ModelTarget, RequestLimits},
};
use crate::view::{cost, tokens};
use adk::model::{ContentRef, LlmRequest, RequestSize};
use provider::{ModelRequest, Role};

impl ModelTarget {
    /// The size of the next request within the known limits, and its budget.
    pub(super) fn size(&self, request: &LlmRequest) -> RequestSize {
        let context = self.known().0.context;
        let mut built = self.next_request(request).with_all_messages().into_owned();
        let conversation = built.messages.iter().filter(|message| message.role != Role::System);
        let conversation = conversation.map(cost::of_message).fold(0, u32::saturating_add);
        built.messages.retain(|message| message.role == Role::System);
        let configured = self.sent(&RequestLimits::default(), None).budget;
        let left = context.map(|context| context_budget::of_context(context, &built));
        let notes = request.all_contents().filter(|content| matches!(content, ContentRef::Note(..)));
        let notes = notes.map(|content| cost::of_content(content)).fold(0, u32::saturating_add);
        let notes = notes.min(conversation);
        RequestSize {
            context,
            budget: left.map_or(configured, |left| configured.min(left)),
            system: built.messages.iter().map(cost::of_message).fold(0, u32::saturating_add),
            tools: tool_tokens(&built),
            history: conversation - notes,
            notes,
        }
    }
}

fn tool_tokens(request: &ModelRequest) -> u32 {
    let texts = request.tools.iter().flat_map(|tool| {
        [
            tokens::estimate(&tool.name),
            tokens::estimate(&tool.description),
            tokens::estimate(&tool.parameters.to_string()),
        ]
    });
    texts.fold(0, u32::saturating_add)
}
