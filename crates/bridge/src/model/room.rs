//! How much of a conversation fits into a model beside all the rest.

use crate::view::{
    budget::{Budget, LEAST_TOKENS},
    cost, tokens,
};
use provider::{ModelRequest, Role};

/// No model holds less; a smaller number means something else.
const LEAST_CONTEXT: u32 = 1_000;

/// What a model that holds so many tokens has left for the conversation: not what the instruction, the tools and the
/// answer take, nor what our estimate may be wrong by.
pub(super) fn of_context(context: u32, request: &ModelRequest) -> u32 {
    let counted = context / 5 * 4;
    let answer = request.options.max_output_tokens.unwrap_or_default();
    counted.saturating_sub(fixed(request)).saturating_sub(answer).max(LEAST_TOKENS)
}

/// A budget for the conversation of a request that was too long: half of what was sent, and no more than the provider says
/// that it takes. `None` if there is nothing left to leave out.
pub(super) fn shorter(sent: &ModelRequest, context: Option<u32>) -> Option<u32> {
    let spoken = sent.messages.iter().filter(|message| message.role != Role::System);
    let weight = spoken.map(cost::of_message).fold(0, u32::saturating_add);
    let said = context.map_or(u32::MAX, |context| of_context(context, sent));
    let tokens = (weight / 2).min(said).max(LEAST_TOKENS);
    (tokens < weight).then_some(tokens)
}

/// What a request holds beside the conversation.
fn fixed(request: &ModelRequest) -> u32 {
    let system = request.messages.iter().filter(|message| message.role == Role::System);
    let tools = request.tools.iter().map(|tool| {
        [&*tool.name, &*tool.description, &*tool.parameters.to_string()].map(tokens::estimate).iter().sum()
    });
    system.map(cost::of_message).chain(tools).fold(0, u32::saturating_add)
}

/// The number of tokens that a provider says a model takes: one that has a word for a limit beside it.
pub(super) fn limit_in(complaint: &str) -> Option<u32> {
    let words = complaint.to_lowercase();
    let mut limit = None;
    let mut at = 0;
    while let Some(start) = words[at..].find(|letter: char| letter.is_ascii_digit()).map(|found| at + found) {
        let end = words[start..].find(|letter: char| !letter.is_ascii_digit() && letter != ',');
        let end = end.map_or(words.len(), |length| start + length);
        let number: Option<u32> = words[start..end].replace(',', "").parse().ok();
        let limits = is_about_a_limit(&words[at..start], &words[end..]);
        let number = number.filter(|number| *number >= LEAST_CONTEXT && limits);
        limit = limit.into_iter().chain(number).min();
        at = end;
    }
    limit
}

/// Whether the words between the last number and this one, or right behind it, speak of a limit.
fn is_about_a_limit(before: &str, behind: &str) -> bool {
    let next = behind.split_whitespace().next().unwrap_or_default();
    let names = ["maximum", "limit", "context length", "context size", "context window", "allowed"];
    names.iter().any(|name| before.contains(name)) || next.starts_with("max")
}

impl Budget {
    /// This, or less.
    pub(super) fn at_most(self, tokens: u32) -> Self {
        Self::new(self.tokens().min(tokens.max(LEAST_TOKENS)), self.max_messages()).unwrap_or(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use provider::{ModelMessage, ToolSpec};

    #[test]
    fn a_provider_says_in_its_own_words_how_much_it_takes() {
        let complaints = [
            (
                "This model's maximum context length is 128000 tokens. However, your messages resulted in 140000 tokens.",
                Some(128_000),
            ),
            (
                "This model's maximum context length is 8192 tokens. However, you requested 10000 tokens (6000 in the messages, 4000 in the completion).",
                Some(8_192),
            ),
            ("prompt is too long: 210000 tokens > 200000 maximum", Some(200_000)),
            (
                "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
            ),
            (
                "request (5301 tokens) exceeds the available context size (4096 tokens), try increasing it",
                Some(4_096),
            ),
            ("the limit is 131,072 tokens", Some(131_072)),
            ("input length exceeds maximum context length", None),
            ("error 413: over the limit", None),
            ("", None),
        ];
        for (complaint, limit) in complaints {
            assert_eq!(limit_in(complaint), limit, "{complaint}");
        }
    }

    fn request(words: usize) -> ModelRequest {
        let messages = vec![
            ModelMessage::text(Role::System, "Be brief."),
            ModelMessage::text(Role::User, "word ".repeat(words)),
        ];
        ModelRequest { messages, ..ModelRequest::default() }
    }

    #[test]
    fn a_request_that_is_too_long_becomes_half_as_long_or_shorter() {
        assert_eq!(shorter(&request(4_000), None), Some(2_022));
        assert_eq!(shorter(&request(4_000), Some(1_000)), Some(793));
        assert_eq!(shorter(&request(400), Some(100_000)), Some(LEAST_TOKENS));
        assert_eq!(shorter(&request(100), None), None, "there is nothing to leave out");
    }

    #[test]
    fn instruction_tools_and_answer_take_their_place_first() {
        let bare = of_context(10_000, &ModelRequest::default());
        assert_eq!(bare, 8_000);
        let parameters = serde_json::json!({"type": "object", "properties": {}});
        let tool = ToolSpec { name: "look".to_owned(), description: "Looks. ".repeat(100), parameters };
        let full = ModelRequest { tools: vec![tool], ..request(0) };
        assert_eq!(of_context(10_000, &full), 7_780);
    }
}
