//! The parts of a request that rules match: the user's last text, the final tool result, and the number of turns in
//! between.

use super::script::ScriptCondition;
use crate::{MessagePart, MessagePrefix, ModelMessage, ModelRequest, Role, ToolResult};

#[derive(Debug)]
pub(super) struct ScriptPrompt<'a> {
    /// The last text part of the last user message. Unanswered earlier texts precede it in the same message.
    pub(super) user: String,
    /// The last text part of the last assistant message.
    pub(super) model: String,
    /// The last result of the last message.
    pub(super) tool: Option<&'a ToolResult>,
    turn: usize,
}

impl<'a> ScriptPrompt<'a> {
    pub(super) fn from_request(request: &'a ModelRequest) -> Self {
        let prefix = request.prefix.as_deref().map(MessagePrefix::messages).unwrap_or_default();
        let newest_first = || request.messages.iter().rev().chain(prefix.iter().rev());
        let is_assistant = |message: &&ModelMessage| message.role == Role::Assistant;
        let since = newest_first().take_while(|message| !is_user_text(message));
        Self {
            user: newest_first().find(|message| is_user_text(message)).map(last_text).unwrap_or_default(),
            model: newest_first().find(is_assistant).map(last_text).unwrap_or_default(),
            tool: newest_first().next().and_then(|message| message.results().last()),
            turn: since.filter(is_assistant).count(),
        }
    }

    pub(super) fn matches(&self, when: &ScriptCondition) -> bool {
        let needs_result = when.tool.is_some() || when.result_contains.is_some();
        self.text_matches(when)
            && when.turn.is_none_or(|turn| turn == self.turn)
            && if needs_result {
                self.tool.is_some_and(|result| result_matches(result, when))
            } else {
                // A rule that matches only user text must not fire again for the tool results that it caused.
                self.tool.is_none() || when.turn.is_some() || !when.matches_text()
            }
    }

    fn text_matches(&self, when: &ScriptCondition) -> bool {
        let first = self.user.split_whitespace().next().unwrap_or_default();
        when.first_word.as_deref().is_none_or(|word| first.to_lowercase() == word.to_lowercase())
            && when.exact.as_deref().is_none_or(|text| self.user == text)
            && when.starts_with.as_deref().is_none_or(|text| self.user.starts_with(text))
            && when.contains.as_deref().is_none_or(|text| self.user.contains(text))
    }

    /// Describes the prompt for an error message.
    pub(super) fn describe(&self) -> String {
        match self.tool {
            Some(result) => format!("the result of {}: {}", result.name, result.response),
            None => format!("{:?}", self.user),
        }
    }
}

impl ScriptCondition {
    fn matches_text(&self) -> bool {
        [&self.first_word, &self.exact, &self.starts_with, &self.contains].into_iter().any(Option::is_some)
    }
}

fn result_matches(result: &ToolResult, when: &ScriptCondition) -> bool {
    when.tool.as_deref().is_none_or(|name| name == "any" || name == result.name)
        && when.result_contains.as_deref().is_none_or(|text| result.response.to_string().contains(text))
}

fn is_user_text(message: &ModelMessage) -> bool {
    message.role == Role::User && message.results().next().is_none()
}

fn last_text(message: &ModelMessage) -> String {
    let mut texts = message.parts.iter().filter_map(|part| match part {
        MessagePart::Text { text, .. } => Some(text.as_str()),
        MessagePart::Thought { .. }
        | MessagePart::Call(_)
        | MessagePart::Result(_)
        | MessagePart::Media(_) => None,
    });
    texts.next_back().unwrap_or_default().to_owned()
}
