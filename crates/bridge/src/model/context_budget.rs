//! Computes how many tokens of a model's context are left for the conversation.

use crate::view::{
    budget::{Budget, LEAST_TOKENS},
    cost, tokens,
};
use provider::{ModelRequest, Role};

/// Smaller numbers in an error message are not context sizes.
const LEAST_CONTEXT: u32 = 1_000;

/// A smaller output limit cuts off most answers; the estimate may be too high.
const LEAST_OUTPUT: u32 = 1_024;

/// The tokens that a context leaves for the conversation, after instruction, tools, maximum output and the error
/// margin of the estimate.
pub(super) fn of_context(context: u32, request: &ModelRequest) -> u32 {
    let counted = context / 5 * 4;
    let answer = request.options.max_output_tokens.unwrap_or_default();
    counted.saturating_sub(fixed(request)).saturating_sub(answer).max(LEAST_TOKENS)
}

/// The budget for a conversation that was too long: half of its tokens, and at most what the stated context leaves.
/// `None` if it cannot be shortened further.
pub(super) fn shorter(sent: &ModelRequest, context: Option<u32>) -> Option<u32> {
    let cost = conversation_cost(sent);
    let stated = context.map_or(u32::MAX, |context| of_context(context, sent));
    let tokens = (cost / 2).min(stated).max(LEAST_TOKENS);
    (tokens < cost).then_some(tokens)
}

/// The context size that leaves `tokens` for the conversation of a request: the inverse of [`of_context`].
pub(super) fn context_for(tokens: u32, request: &ModelRequest) -> u32 {
    let answer = request.options.max_output_tokens.unwrap_or_default();
    let counted = tokens.saturating_add(fixed(request)).saturating_add(answer);
    counted.div_ceil(4).saturating_mul(5)
}

/// The context size that a request needs by the estimate: the size that leaves what its conversation uses.
pub(super) fn size_of(request: &ModelRequest) -> u32 {
    let conversation = request.messages.iter().filter(|message| message.role != Role::System);
    context_for(conversation.map(cost::of_message).fold(0, u32::saturating_add), request)
}

/// The smaller of the model's maximum output and what a request leaves of the context, with the error margin of the estimate.
pub(super) fn output_room(context: Option<u32>, output: u32, request: &ModelRequest) -> u32 {
    let cost = fixed(request).saturating_add(conversation_cost(request));
    let used = cost.div_ceil(4).saturating_mul(5);
    context.map_or(output, |context| output.min(context.saturating_sub(used).max(LEAST_OUTPUT.min(output))))
}

/// Tokens of the messages without the instruction.
fn conversation_cost(request: &ModelRequest) -> u32 {
    let messages = request.messages.iter().filter(|message| message.role != Role::System);
    let prefix = request.prefix.as_ref().map_or(0, |prefix| prefix.tokens());
    messages.map(cost::of_message).fold(prefix, u32::saturating_add)
}

/// Tokens of instruction and tools.
fn fixed(request: &ModelRequest) -> u32 {
    let system = request.messages.iter().filter(|message| message.role == Role::System);
    let tools = request.tools.iter().map(|tool| {
        [&*tool.name, &*tool.description, &*tool.parameters.to_string()].map(tokens::estimate).iter().sum()
    });
    system.map(cost::of_message).chain(tools).fold(0, u32::saturating_add)
}

/// Parses the context size in a provider's error message: a number beside a word for a limit.
pub(super) fn limit_in(complaint: &str) -> Option<u32> {
    let words = complaint.to_lowercase();
    let mut limit = None;
    let mut at = 0;
    while let Some(start) = words[at..].find(|letter: char| letter.is_ascii_digit()).map(|found| at + found) {
        let end = words[start..].find(|letter: char| !letter.is_ascii_digit() && letter != ',');
        let end = end.map_or(words.len(), |length| start + length);
        let number: Option<u32> = words[start..end].replace(',', "").parse().ok();
        let is_limit = is_about_a_limit(&words[at..start], &words[end..]);
        let number = number.filter(|number| *number >= LEAST_CONTEXT && is_limit);
        limit = limit.into_iter().chain(number).min();
        at = end;
    }
    limit
}

/// Whether the words between the previous number and this one, or the word after it, name a limit.
fn is_about_a_limit(before: &str, behind: &str) -> bool {
    let next = behind.split_whitespace().next().unwrap_or_default();
    let names = [
        "maximum",
        "limit",
        "context length",
        "context size",
        "context window",
        "allowed",
        "not exceed",
        "<=",
        "at most",
        "less than",
        "smaller than",
        "up to",
        "max length",
        "larger than",
        "longer than",
    ];
    names.iter().any(|name| before.contains(name)) || next.starts_with("max")
}

impl Budget {
    /// The smaller of this budget and `tokens`.
    pub(super) fn at_most(self, tokens: u32) -> Self {
        self.limited(tokens.max(LEAST_TOKENS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use provider::{ModelMessage, ToolSpec};

    #[test]
    fn context_size_is_parsed_from_error_messages() {
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
            ("`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens", Some(4_096)),
            ("the number of tokens in the prompt cannot exceed 4081 - received 4211", Some(4_081)),
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
    fn shortened_budget_is_half_or_the_stated_context() {
        assert_eq!(shorter(&request(4_000), None), Some(2_022));
        assert_eq!(shorter(&request(4_000), Some(1_000)), Some(793));
        assert_eq!(shorter(&request(400), Some(100_000)), Some(LEAST_TOKENS));
        assert_eq!(shorter(&request(100), None), None, "at the minimum budget");
    }

    #[test]
    fn instruction_tools_and_output_are_subtracted_from_the_context() {
        let bare = of_context(10_000, &ModelRequest::default());
        assert_eq!(bare, 8_000);
        let parameters = serde_json::json!({"type": "object", "properties": {}});
        let tool = ToolSpec { name: "look".to_owned(), description: "Looks. ".repeat(100), parameters };
        let full = ModelRequest { tools: vec![tool], ..request(0) };
        assert_eq!(of_context(10_000, &full), 7_780);
    }

    #[test]
    fn output_is_the_smaller_of_the_models_maximum_and_the_rest_of_the_context() {
        assert_eq!(output_room(None, 64_000, &request(4_000)), 64_000);
        assert_eq!(output_room(Some(200_000), 64_000, &request(4_000)), 64_000);
        assert_eq!(output_room(Some(10_000), 64_000, &request(4_000)), 4_935);
        assert_eq!(output_room(Some(4_000), 64_000, &request(4_000)), 1_024);
        assert_eq!(output_room(Some(4_000), 512, &request(4_000)), 512);
    }

    #[test]
    fn context_for_a_budget_leaves_that_budget() {
        for tokens in [300, 2_000, 50_000] {
            let left = of_context(context_for(tokens, &request(10)), &request(10));
            assert!((tokens..tokens + 8).contains(&left), "{tokens}: {left}");
        }
    }
}
