//! What a rule looks at: the user's last words, the tool result that ends the request, and the turns between.

use super::script::ScriptCondition;
use crate::{MessagePart, ModelMessage, Role, ToolResult};

#[derive(Debug)]
pub(super) struct ScriptPrompt<'a> {
    /// The last text of the user's last message: words that were never answered stand before it in the same message.
    pub(super) user: String,
    /// The last text of the model's last message.
    pub(super) model: String,
    /// The last result of the last message.
    pub(super) tool: Option<&'a ToolResult>,
    turn: usize,
}

impl<'a> ScriptPrompt<'a> {
    pub(super) fn of(messages: &'a [ModelMessage]) -> Self {
        let asked = messages.iter().rposition(is_spoken);
        let since = &messages[asked.map_or(0, |at| at + 1)..];
        Self {
            user: asked.map(|at| text(&messages[at])).unwrap_or_default(),
            model: messages
                .iter()
                .rfind(|message| message.role == Role::Assistant)
                .map(text)
                .unwrap_or_default(),
            tool: messages.last().and_then(|message| message.results().last()),
            turn: since.iter().filter(|message| message.role == Role::Assistant).count(),
        }
    }

    pub(super) fn fits(&self, when: &ScriptCondition) -> bool {
        let answers_a_tool = when.tool.is_some() || when.result_contains.is_some();
        self.words_fit(when)
            && when.turn.is_none_or(|turn| turn == self.turn)
            && if answers_a_tool {
                self.tool.is_some_and(|result| result_fits(result, when))
            } else {
                // What only looks at the user's words must not answer the results that they led to, again and again.
                self.tool.is_none() || when.turn.is_some() || !when.looks_at_words()
            }
    }

    fn words_fit(&self, when: &ScriptCondition) -> bool {
        let first = self.user.split_whitespace().next().unwrap_or_default();
        when.first_word.as_deref().is_none_or(|word| first.to_lowercase() == word.to_lowercase())
            && when.exact.as_deref().is_none_or(|text| self.user == text)
            && when.starts_with.as_deref().is_none_or(|text| self.user.starts_with(text))
            && when.contains.as_deref().is_none_or(|text| self.user.contains(text))
    }

    /// The question in an error message.
    pub(super) fn describe(&self) -> String {
        match self.tool {
            Some(result) => format!("the result of {}: {}", result.name, result.response),
            None => format!("{:?}", self.user),
        }
    }
}

impl ScriptCondition {
    fn looks_at_words(&self) -> bool {
        [&self.first_word, &self.exact, &self.starts_with, &self.contains].into_iter().any(Option::is_some)
    }
}

fn result_fits(result: &ToolResult, when: &ScriptCondition) -> bool {
    when.tool.as_deref().is_none_or(|name| name == "any" || name == result.name)
        && when.result_contains.as_deref().is_none_or(|text| result.response.to_string().contains(text))
}

fn is_spoken(message: &ModelMessage) -> bool {
    message.role == Role::User && message.results().next().is_none()
}

fn text(message: &ModelMessage) -> String {
    let mut texts = message.parts.iter().filter_map(|part| match part {
        MessagePart::Text { text, .. } => Some(text.as_str()),
        MessagePart::Thought { .. }
        | MessagePart::Call(_)
        | MessagePart::Result(_)
        | MessagePart::Media(_) => None,
    });
    texts.next_back().unwrap_or_default().to_owned()
}
