//! Error codes and phrases that providers use.

use super::ReportedError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorClass {
    Auth,
    Quota,
    RateLimited,
    Overflow,
    Refused,
    /// No such model, or no such URL.
    Missing,
    BadRequest,
    Transient,
}

struct ErrorPattern {
    class: ErrorClass,
    /// Exact codes or types, in lower case.
    codes: &'static [&'static str],
    /// Substrings of the message, in lower case.
    phrases: &'static [&'static str],
}

/// Patterns that are unambiguous whatever the status is. The first match wins.
const UNAMBIGUOUS: [ErrorPattern; 7] = [
    ErrorPattern {
        class: ErrorClass::Overflow,
        codes: &[
            "context_length_exceeded",
            "exceed_context_size_error",
            "request_too_large",
            "string_above_max_length",
            "tokens_limit_reached",
        ],
        phrases: &[
            "context length",
            "context size",
            "context window",
            "exceed context limit",
            "input is too long",
            "maximum number of tokens allowed",
            "maximum prompt length",
            "prompt is too long",
            "prompt too long",
            "reduce the length of the messages",
            // A single request above the limit per minute: only a shorter request helps.
            "tokens must be reduced",
            "tokens to keep from the initial prompt",
        ],
    },
    ErrorPattern {
        class: ErrorClass::Quota,
        codes: &[
            "billing_error",
            "billing_hard_limit_reached",
            "billing_not_active",
            "insufficient_balance",
            "insufficient_credits",
            "insufficient_quota",
            "payment_required",
            "quota_exceeded",
            "quota_per_day",
            "usage_limit_reached",
        ],
        phrases: &[
            "credit balance is too low",
            "insufficient balance",
            "insufficient credits",
            "requires more credits",
        ],
    },
    ErrorPattern {
        class: ErrorClass::Refused,
        codes: &[
            "content_filter",
            "content_policy_violation",
            "data_inspection_failed",
            "invalid_prompt",
            "moderation_blocked",
            "prohibited_content",
            "responsibleaipolicyviolation",
        ],
        phrases: &[
            "content filtering policy",
            "content management policy",
            "usage policy",
            "usage policies",
            "your input was flagged",
        ],
    },
    ErrorPattern {
        class: ErrorClass::Auth,
        codes: &["api_key_invalid", "authentication_error", "invalid_api_key", "unauthenticated"],
        phrases: &["api key not valid", "api key expired"],
    },
    ErrorPattern {
        class: ErrorClass::Missing,
        codes: &["model_not_found", "not_found", "not_found_error"],
        phrases: &[],
    },
    ErrorPattern {
        class: ErrorClass::RateLimited,
        codes: &["rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "too_many_requests"],
        phrases: &[],
    },
    ErrorPattern {
        class: ErrorClass::Transient,
        codes: &["engine_overloaded", "overloaded", "overloaded_error", "slow_down", "unavailable"],
        phrases: &[],
    },
];

/// Patterns that are less specific than a status.
const AMBIGUOUS: [ErrorPattern; 2] = [
    ErrorPattern {
        class: ErrorClass::Auth,
        codes: &["forbidden", "permission_denied", "permission_error", "unauthorized"],
        phrases: &[],
    },
    ErrorPattern {
        class: ErrorClass::BadRequest,
        codes: &[
            "bad_request",
            "badrequesterror",
            "failed_precondition",
            "invalid_argument",
            "invalid_request_error",
            "invalid_value",
            "out_of_range",
            "unsupported_parameter",
            "unsupported_value",
        ],
        phrases: &[],
    },
];

/// Gemini uses this phrase for all limits. It means an exhausted quota only without a retry delay.
const QUOTA_OR_RATE: &str = "exceeded your current quota";

pub(super) fn unambiguous(reported: &ReportedError<'_>) -> Option<ErrorClass> {
    let message = reported.message.to_ascii_lowercase();
    match find_class(&UNAMBIGUOUS, reported, &message) {
        None | Some(ErrorClass::RateLimited)
            if message.contains(QUOTA_OR_RATE) && reported.retry_after.is_none() =>
        {
            Some(ErrorClass::Quota)
        }
        class => class,
    }
}

pub(super) fn ambiguous(reported: &ReportedError<'_>) -> Option<ErrorClass> {
    find_class(&AMBIGUOUS, reported, "")
}

fn find_class(patterns: &[ErrorPattern], reported: &ReportedError<'_>, message: &str) -> Option<ErrorClass> {
    let has_code =
        |word: &&str| reported.code.eq_ignore_ascii_case(word) || reported.kind.eq_ignore_ascii_case(word);
    let has_phrase = |phrase: &&str| message.contains(phrase);
    let matches = |pattern: &&ErrorPattern| {
        pattern.codes.iter().any(has_code) || pattern.phrases.iter().any(has_phrase)
    };
    patterns.iter().find(matches).map(|pattern| pattern.class)
}
