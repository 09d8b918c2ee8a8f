//! Recognizes "the conversation is too long" by the shape of the message: a number, a unit of length, and a word for
//! exceeding a limit. A list of phrases would miss every server that is not on it.

use super::ReportedError;

/// Statuses of a request that the server rejects for its content.
const REJECTED: [u16; 3] = [400, 413, 422];

/// Numbers with fewer digits are counts of messages, tools or images rather than lengths.
const LEAST_DIGITS: usize = 3;

const UNITS: &[&str] = &["token", "character", "context", "prompt", "input length", "message size"];

const EXCEEDING: &[&str] = &[
    "exceed",
    "too large",
    "too long",
    "too many",
    "limit",
    "reduce",
    "less than",
    "smaller than",
    "at most",
    "must be <",
    "must be ≤",
    "greater than",
    "larger than",
    "longer than",
    "more than",
    "maximum",
    "max ",
    "should be [",
    "out of range",
    "overflow",
    "shorten",
    "truncate",
    "larger",
    "up to",
    " > ",
];

/// The names of the output limit. It is a setting, which a shorter conversation does not change.
const OUTPUT_LIMITS: &[&str] =
    &["max_tokens", "max_completion_tokens", "max_output_tokens", "maxoutputtokens", "output tokens"];

const INPUTS: &[&str] = &["input", "prompt", "message", "context", "conversation", "requested", "history"];

/// Whether the message says that the request is longer than the model, or a limit per request, allows.
pub(super) fn is_too_long(reported: &ReportedError<'_>) -> bool {
    let message = reported.message.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    match reported.status {
        Some(413 | 429) if exceeds_by_itself(&message) => true,
        Some(status) if REJECTED.contains(&status) => {
            let is_output_limit = has(OUTPUT_LIMITS) && !has(INPUTS);
            has_number(&message) && has(UNITS) && has(EXCEEDING) && !is_output_limit
        }
        Some(_) | None => false,
    }
}

/// Whether a single request is above a limit per minute: `Limit 6000, Requested 7215`. Waiting does not help.
fn exceeds_by_itself(message: &str) -> bool {
    let after = |word: &str| {
        let (_, rest) = message.split_once(word)?;
        let start = rest.find(|letter: char| letter.is_ascii_digit()).filter(|start| *start < 4)?;
        let digits = rest[start..].split(|letter: char| !letter.is_ascii_digit() && letter != ',').next()?;
        digits.replace(',', "").parse::<u64>().ok()
    };
    after("limit ").zip(after("requested ")).is_some_and(|(limit, requested)| requested > limit)
}

fn has_number(message: &str) -> bool {
    let mut numbers = message.split(|letter: char| !letter.is_ascii_digit() && letter != ',');
    numbers.any(|digits| digits.bytes().filter(u8::is_ascii_digit).count() >= LEAST_DIGITS)
}

#[cfg(test)]
mod tests {
    use crate::classify::{ReportedError, classify};

    fn code(status: u16, message: &str) -> String {
        let reported = ReportedError { status: Some(status), message, ..ReportedError::default() };
        classify("x", &reported).code().to_owned()
    }

    /// Messages in the manner of real servers, one per line.
    const TOO_LONG: &str = include_str!("too_long/phrasings.txt");

    #[test]
    fn forty_phrasings_are_recognized() {
        let phrasings: Vec<(&str, &str)> = TOO_LONG.lines().filter_map(|line| line.split_once(' ')).collect();
        assert!(phrasings.len() >= 40, "{}", phrasings.len());
        for (status, message) in phrasings {
            assert_eq!(code(status.parse().unwrap(), message), "CONTEXT_OVERFLOW", "{message}");
        }
    }

    #[test]
    fn other_limits_are_not_a_long_conversation() {
        let others = [
            (
                400,
                "max_tokens: 64000 > 8192, which is the maximum allowed number of output tokens",
                "BAD_REQUEST",
            ),
            (400, "max_completion_tokens must be less than or equal to 16384", "BAD_REQUEST"),
            (400, "temperature must be less than or equal to 2", "BAD_REQUEST"),
            (400, "too many tools: 200, the limit is 128", "BAD_REQUEST"),
            (400, "messages: at least one message is required", "BAD_REQUEST"),
            (
                429,
                "Rate limit reached on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.",
                "RATE_LIMITED",
            ),
            (500, "the prompt of 9000 tokens exceeds the limit", "TRANSIENT"),
        ];
        for (status, message, expected) in others {
            assert_eq!(code(status, message), expected, "{message}");
        }
    }
}
