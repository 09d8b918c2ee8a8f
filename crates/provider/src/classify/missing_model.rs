//! Recognizes "there is no such model, or not any more" by shape: the word "model", shortly before a word for absence.

use super::ReportedError;

/// How many words may be between "model" and the word for absence: its name, "has been", "is".
const MAX_DISTANCE: usize = 6;

const ABSENT: &[&str] = &[
    "decommissioned",
    "retired",
    "deprecated",
    "discontinued",
    "sunset",
    "removed",
    "no longer",
    "not found",
    "not exist",
    "n't exist",
    "not available",
    "unavailable",
    "end of life",
    "shut down",
];

const BEFORE: &[&str] = &[
    "no such model",
    "unknown model",
    "invalid model",
    "unrecognized model",
    "not a valid model",
    "no model named",
    "model not found",
];

/// Whether the error says that the model does not exist, or not any more.
pub(super) fn is_missing_model(reported: &ReportedError<'_>) -> bool {
    // An overloaded model is unavailable, too.
    if !matches!(reported.status, None | Some(400 | 403 | 404 | 410 | 422)) {
        return false;
    }
    let code = reported.code.to_lowercase();
    let message = reported.message.to_lowercase().replace(['`', '\'', '"'], "");
    let in_code = code.contains("model") && ABSENT.iter().any(|word| code.contains(&word.replace(' ', "_")));
    in_code || BEFORE.iter().any(|phrase| message.contains(phrase)) || is_absent(&message)
}

fn is_absent(message: &str) -> bool {
    let words: Vec<&str> = message.split_whitespace().collect();
    let starts = words.iter().enumerate().filter(|(_, word)| {
        let word = word.trim_matches(|letter: char| !letter.is_alphanumeric() && letter != '/');
        matches!(word, "model" | "models") || word.starts_with("models/")
    });
    starts.map(|(at, _)| &words[at + 1..words.len().min(at + 2 + MAX_DISTANCE)]).any(|after| {
        let after = after.join(" ");
        ABSENT.iter().any(|absent| after.contains(absent))
    })
}

#[cfg(test)]
mod tests {
    use crate::classify::{ReportedError, classify};

    fn code(status: u16, code: &str, message: &str) -> String {
        let reported = ReportedError { status: Some(status), code, message, ..ReportedError::default() };
        classify("x", &reported).code().to_owned()
    }

    #[test]
    fn retired_models_are_recognized_in_any_phrasing() {
        for (status, kind, message) in [
            (
                400,
                "model_decommissioned",
                "The model `llama-2` has been decommissioned and is no longer supported.",
            ),
            (400, "", "The model `gpt-4-32k` has been deprecated, learn more here"),
            (410, "", "Gone"),
            (404, "", "models/gemini-1.0-pro is not found for API version v1beta, or is not supported"),
            (400, "", "Model claude-2 was retired on July 21"),
            (400, "invalid_model", "Invalid model: mistral-tiny"),
            (400, "", "foo/bar is not a valid model ID"),
            (422, "", "unknown model 'x'"),
            (400, "", "This model is no longer available"),
            (403, "", "The model gpt-x does not exist or you do not have access to it"),
            (404, "", "model \"llama9\" not found, try pulling it first"),
        ] {
            assert_eq!(code(status, kind, message), "MODEL_NOT_FOUND", "{message}");
        }
    }

    #[test]
    fn other_errors_are_not_about_a_missing_model() {
        for (status, message, expected) in [
            (400, "`temperature` is deprecated for this model", "BAD_REQUEST"),
            (503, "The model is not available, try again later", "TRANSIENT"),
            (429, "The model is unavailable: too many requests", "RATE_LIMITED"),
            (400, "this model does not support tools", "BAD_REQUEST"),
            (401, "no such model for this key", "AUTH"),
        ] {
            assert_eq!(code(status, "", message), expected, "{message}");
        }
    }
}
