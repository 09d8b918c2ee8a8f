//! The prefix of a conversation as messages for a model, kept between requests and extended with what is new.

use crate::view::{budget::Budget, cost, history, messages};
use adk::{
    model::LlmRequest,
    prefix::{ContentsPrefix, ConvertedPrefix},
};
use provider::{MessagePrefix, ModelId};
use std::{any::Any, sync::Arc};

/// How many models keep a prefix: the model of the agent and a fallback.
const MODELS: usize = 2;

/// The messages of a prefix for each model that was called with it, the newest last.
#[derive(Debug, Default)]
struct ModelPrefixes(Vec<ModelPrefix>);

#[derive(Debug)]
struct ModelPrefix {
    target: ModelId,
    /// The text that stands for the messages before the window.
    preamble: Option<String>,
    /// How many contents are converted.
    contents: usize,
    messages: Arc<MessagePrefix>,
}

impl ConvertedPrefix for ModelPrefixes {
    fn bytes(&self) -> usize {
        self.0.iter().map(|prefix| prefix.messages.bytes()).sum()
    }
}

/// The prefix of a request as legal messages for `target`, with the preamble that the budget allows. `None` if the request has no
/// prefix, or its messages do not stand for themselves.
pub(super) fn messages_of(
    request: &LlmRequest,
    target: &ModelId,
    budget: Budget,
) -> Option<Arc<MessagePrefix>> {
    let prefix = request.prefix.as_deref()?;
    let mut slot = prefix.converted();
    let converted: &mut dyn Any = &mut **slot.get_or_insert_with(|| Box::<ModelPrefixes>::default());
    let ModelPrefixes(models) = converted.downcast_mut()?;
    let preamble = history::preamble_text(request.user_request.as_deref(), budget);
    let at = models.iter().position(|known| known.target == *target);
    let known = at.map(|at| models.remove(at)).filter(|known| known.preamble == preamble);
    let known = known.unwrap_or_else(|| ModelPrefix {
        target: target.clone(),
        preamble,
        contents: 0,
        messages: Arc::default(),
    });
    let extended = known.extended(prefix, budget, request.user_request.as_deref())?;
    let messages = Arc::clone(&extended.messages);
    if models.len() == MODELS {
        models.remove(0);
    }
    models.push(extended);
    Some(messages)
}

impl ModelPrefix {
    fn extended(mut self, prefix: &ContentsPrefix, budget: Budget, before: Option<&str>) -> Option<Self> {
        let new = prefix.contents().get(self.contents..)?;
        if new.is_empty() {
            return Some(self);
        }
        let converted = messages::convert(new, &self.target);
        let section = if self.contents == 0 {
            history::opened(history::repair_beginning(converted)?, before, budget)
        } else {
            history::repair_continuation(converted)?
        };
        let tokens = cost::of_messages(&section);
        Arc::make_mut(&mut self.messages).extend(section, tokens);
        self.contents = prefix.contents().len();
        Some(self)
    }
}
