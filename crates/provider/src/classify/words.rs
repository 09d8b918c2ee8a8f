//! The words in which providers say what is wrong.

use super::ReportedError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorClass {
    Auth,
    Quota,
    RateLimited,
    Overflow,
    Refused,
    /// No such model, or nothing at this address.
    Missing,
    BadRequest,
    Transient,
}

struct ErrorPattern {
    class: ErrorClass,
    /// A code or a type that is this word.
    codes: &'static [&'static str],
    /// A message, in small letters, that has these words in it.
    phrases: &'static [&'static str],
}

/// Words that mean one thing, whatever the status is. The first that fits counts.
const PLAIN: [ErrorPattern; 7] = [
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
            // A single request beyond the limit of a minute: no wait helps, less does.
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

/// Words that say less than a status does.
const VAGUE: [ErrorPattern; 2] = [
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

/// Gemini says it of every limit; only without a wait is it the end.
const QUOTA_OR_RATE: &str = "exceeded your current quota";

pub(super) fn plain(fault: &ReportedError<'_>) -> Option<ErrorClass> {
    let message = fault.message.to_ascii_lowercase();
    match find(&PLAIN, fault, &message) {
        None | Some(ErrorClass::RateLimited)
            if message.contains(QUOTA_OR_RATE) && fault.retry_after.is_none() =>
        {
            Some(ErrorClass::Quota)
        }
        class => class,
    }
}

pub(super) fn vague(fault: &ReportedError<'_>) -> Option<ErrorClass> {
    find(&VAGUE, fault, "")
}

fn find(rules: &[ErrorPattern], fault: &ReportedError<'_>, message: &str) -> Option<ErrorClass> {
    let is = |word: &&str| fault.code.eq_ignore_ascii_case(word) || fault.kind.eq_ignore_ascii_case(word);
    let says = |phrase: &&str| message.contains(phrase);
    let fits = |rule: &&ErrorPattern| rule.codes.iter().any(is) || rule.phrases.iter().any(says);
    rules.iter().find(fits).map(|rule| rule.class)
}
