//! Recognizes a missing capability: a noun for it, close to a word for missing support.

use crate::{
    ModelRequest, Omission, Role,
    omission::{FieldRules, MediaKind, media_kinds},
};
use serde_json::Value;

/// How many words may be between the noun and the word for missing support.
const MAX_DISTANCE: usize = 5;

const MISSING: &[&str] = &[
    "not support",
    "n't support",
    "unsupported",
    "no support",
    "without support",
    "only supported",
    // No endpoint was found that supports it.
    "found that support",
    "not enabled",
    "not available",
    "not implemented",
    "not permitted",
    "not allowed",
    "not accept",
    "n't accept",
    "cannot be used",
    "cannot use",
    "must be verified",
    "unknown variant",
    "lacks",
    "at most 0",
    "not a",
    // A server that was started without it names the flag.
    "requires --",
];

const TOOL_USE: &[&str] = &[
    "tool",
    "tools",
    "tool use",
    "tool calls",
    "tool calling",
    "function calling",
    "function calls",
    "functions",
];

const SYSTEM_ROLE: &[&str] = &[
    "system role",
    "role system",
    "system message",
    "system messages",
    "system instruction",
    "developer instruction",
    "system prompt",
];

const REASONING: &[&str] = &["thinking", "reasoning"];
const STREAMING: &[&str] = &["stream", "streaming"];
const SCHEMA: &[&str] = &[
    "structured output",
    "structured outputs",
    "json schema",
    "json mode",
    "response format",
    "response schema",
];

/// An error about a declaration or a file, and not about the capability.
const DECLARATION: &[&str] = &["schema", "parameters", "propert", "invalid function", "tools[", "tools."];
const FILE_FORMAT: &[&str] =
    &["format", "mime", "media type", "media_type", "base64", "size", "exceed", "decode"];

/// The capability that the message, in lower case, names as missing, if the request uses it.
pub(super) fn find(
    rules: &FieldRules,
    request: &ModelRequest,
    body: &Value,
    message: &str,
) -> Option<Omission> {
    let names = |nouns: &[&str]| is_near(message, nouns);
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if !request.tools.is_empty() && names(TOOL_USE) && !has(DECLARATION) {
        return Some(Omission::Tools);
    }
    let missing_kind = || media_kinds(request).find(|kind| names(nouns_of(*kind)));
    if let Some(kind) = Some(()).filter(|()| !has(FILE_FORMAT)).and_then(|()| missing_kind()) {
        return Some(Omission::Media(kind));
    }
    let has_system = request.messages.iter().any(|message| message.role == Role::System);
    if has_system && names(SYSTEM_ROLE) {
        return Some(Omission::SystemRole);
    }
    let sent = |paths: &[&'static str]| paths.iter().find(|path| is_sent(body, path)).copied();
    let reasoning = || sent(rules.reasoning).filter(|_| names(REASONING));
    let schema = || sent(rules.schema).filter(|_| names(SCHEMA));
    let stream = || sent(&["stream"]).filter(|_| names(STREAMING));
    reasoning().or_else(schema).or_else(stream).map(|path| Omission::Field(path.to_owned()))
}

fn is_sent(body: &Value, path: &str) -> bool {
    body.pointer(&format!("/{}", path.replace('.', "/"))).is_some_and(|value| *value != Value::Bool(false))
}

fn nouns_of(kind: MediaKind) -> &'static [&'static str] {
    match kind {
        MediaKind::Image => &[
            "image",
            "images",
            "image url",
            "input image",
            "vision",
            "multimodal",
            "multi modal",
            "multimodal model",
        ],
        MediaKind::Audio => &["audio", "input audio"],
        MediaKind::Video => &["video", "videos"],
        MediaKind::Document => &["pdf", "pdfs", "document", "documents", "file", "files"],
    }
}

/// Whether one of the nouns is within a few words of a word for missing support.
fn is_near(message: &str, nouns: &[&str]) -> bool {
    // Hyphens of flags stay, so that `requires --` is found.
    let plain: String = message
        .chars()
        .map(|letter| if letter.is_alphanumeric() || "-'".contains(letter) { letter } else { ' ' })
        .collect();
    let words: Vec<&str> = plain.split_whitespace().map(|word| word.trim_matches('\'')).collect();
    let positions = |phrase: &str| {
        let phrase: Vec<&str> = phrase.split(' ').collect();
        let len = phrase.len();
        let is_phrase = |window: &[&str]| {
            // The last word of a marker may go on: `support`, `supported`.
            window.iter().zip(&phrase).enumerate().all(|(at, (word, other))| {
                if at + 1 == len {
                    word.starts_with(other) || (other.starts_with("n't") && word.ends_with(other))
                } else {
                    word == other || (other.starts_with("n't") && word.ends_with(other))
                }
            })
        };
        words
            .windows(len)
            .enumerate()
            .filter(|(_, window)| is_phrase(window))
            .map(|(at, _)| (at, at + len))
            .collect::<Vec<_>>()
    };
    let missing: Vec<(usize, usize)> = MISSING.iter().flat_map(|phrase| positions(phrase)).collect();
    let named = |noun: &&str| {
        positions(noun).into_iter().any(|(start, end)| {
            missing.iter().any(|(from, to)| {
                let distance = if *from >= end { from - end } else { start.saturating_sub(*to) };
                distance <= MAX_DISTANCE
            })
        })
    };
    nouns.iter().any(named)
}
