//! The kinds of faults, and their application to a recorded stream.

use crate::{
    ProviderApi, fakeprov,
    mutation::{json_field, other_type},
    random::SplitMix64,
};
use serde_json::{Value, json};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// The body ends after any byte.
    Cut,
    /// The bytes arrive in other chunks.
    Split,
    /// A frame is sent twice.
    Duplicate,
    /// Two frames are exchanged.
    Reorder,
    /// A field has another JSON type.
    Retype,
    /// A field is absent.
    Drop,
    /// A frame that the format does not define is inserted.
    Unknown,
}

impl FaultKind {
    pub const ALL: [Self; 7] =
        [Self::Cut, Self::Split, Self::Duplicate, Self::Reorder, Self::Retype, Self::Drop, Self::Unknown];
}

/// The permitted ends of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedEnd {
    /// The recorded answer.
    Answer,
    /// The recorded answer, or an error.
    AnswerOrError,
    /// Any answer, or an error: the stream is well-formed and its content differs.
    Any,
}

/// A recorded stream with one fault.
#[derive(Clone, Debug)]
pub struct MutatedStream {
    pub api: ProviderApi,
    pub recording: &'static str,
    pub kind: FaultKind,
    /// What the fault changes, for the message of a failed test.
    pub fault: String,
    /// The body, in the chunks that are sent.
    pub chunks: Vec<Vec<u8>>,
    /// The status line and headers; `None` for a stream with status 200.
    pub head: Option<String>,
    /// Whether the connection closes before the last chunk.
    pub closes: bool,
    pub outcome: ExpectedEnd,
}

/// Fields that carry the answer, by name.
const NEEDED: [&str; 14] = [
    "choices",
    "candidates",
    "content",
    "content_block",
    "delta",
    "function",
    "functionCall",
    "item",
    "message",
    "partial_json",
    "parts",
    "response",
    "text",
    "tool_calls",
];

/// Fields that no answer needs, by name.
const UNNEEDED: [&str; 24] = [
    "usage",
    "usageMetadata",
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "prompt_tokens_details",
    "completion_tokens_details",
    "input_tokens",
    "output_tokens",
    "promptTokenCount",
    "candidatesTokenCount",
    "totalTokenCount",
    "cached_tokens",
    "reasoning_tokens",
    "created",
    "created_at",
    "object",
    "model",
    "modelVersion",
    "responseId",
    "system_fingerprint",
    "sequence_number",
    "eval_count",
    "prompt_eval_count",
];

pub(super) fn apply(
    random: &mut SplitMix64,
    api: ProviderApi,
    recording: &'static str,
    kind: FaultKind,
) -> MutatedStream {
    let mut frames = fakeprov::recorded_events(api, recording);
    let mut closes = false;
    let (fault, outcome) = match kind {
        FaultKind::Cut => {
            let body = frames.concat();
            let end = below(random, body.len());
            frames = split(random, &body[..end]);
            closes = random.below(2) == 0;
            (
                format!("{end} of {} bytes, connection closed: {closes}", body.len()),
                ExpectedEnd::AnswerOrError,
            )
        }
        FaultKind::Split => {
            frames = split(random, &frames.concat());
            (format!("{} chunks", frames.len()), ExpectedEnd::Answer)
        }
        FaultKind::Duplicate => {
            let at = below(random, frames.len());
            frames.insert(at, frames[at].clone());
            (format!("frame {at}"), ExpectedEnd::Any)
        }
        FaultKind::Reorder => {
            let (first, second) = (below(random, frames.len()), below(random, frames.len()));
            frames.swap(first, second);
            (format!("frames {first} and {second}"), ExpectedEnd::Any)
        }
        FaultKind::Retype | FaultKind::Drop => change_field(random, &mut frames, kind),
        FaultKind::Unknown => {
            let (at, frame) = (below(random, frames.len()), unknown_frame(random, api));
            let fault = format!("{} before frame {at}", String::from_utf8_lossy(&frame).trim());
            frames.insert(at, frame);
            (fault, ExpectedEnd::Answer)
        }
    };
    MutatedStream { api, recording, kind, fault, chunks: frames, head: None, closes, outcome }
}

/// A number below `bound`; 0 if there is none.
fn below(random: &mut SplitMix64, bound: usize) -> usize {
    usize::try_from(random.below(bound.max(1) as u64)).unwrap_or_default()
}

/// Chunks of 1 to 64 bytes, or of up to 1 KB.
fn split(random: &mut SplitMix64, body: &[u8]) -> Vec<Vec<u8>> {
    let most = *random.choose(&[1, 7, 64, 1024]).unwrap_or(&64);
    let (mut rest, mut chunks) = (body, Vec::new());
    while !rest.is_empty() {
        let (chunk, others) = rest.split_at((below(random, most) + 1).min(rest.len()));
        chunks.push(chunk.to_vec());
        rest = others;
    }
    chunks
}

/// Removes a field of a frame, or replaces it by a value of another type.
fn change_field(random: &mut SplitMix64, frames: &mut [Vec<u8>], kind: FaultKind) -> (String, ExpectedEnd) {
    let at = below(random, frames.len());
    let text = String::from_utf8_lossy(&frames[at]).into_owned();
    let Some(start) = text.find('{') else { return (format!("frame {at} is not JSON"), ExpectedEnd::Answer) };
    let (prefix, data) = text.split_at(start);
    let json = data.trim_end();
    let end = &data[json.len()..];
    let Ok(mut value) = serde_json::from_str::<Value>(json) else {
        return (format!("frame {at} is not JSON"), ExpectedEnd::Answer);
    };
    let paths = json_field::paths(&value);
    let path = random.choose(&paths).cloned().unwrap_or_default();
    let key = path.rsplit('/').find(|key| key.parse::<usize>().is_err()).unwrap_or_default();
    let mut outcome = if UNNEEDED.contains(&key) { ExpectedEnd::Answer } else { ExpectedEnd::Any };
    let fault = if kind == FaultKind::Drop {
        json_field::remove(&mut value, &path);
        format!("frame {at} without {path}")
    } else {
        let with = other_type(random, value.pointer(&path).unwrap_or(&Value::Null));
        let fault = format!("frame {at} with {path} = {with}");
        // An empty value is a well-formed part without content, and an object in a list may be of an unknown kind.
        if NEEDED.contains(&key) && (with == json!(true) || with == json!([true, {"a": "b"}])) {
            outcome = ExpectedEnd::AnswerOrError;
        }
        json_field::replace(&mut value, &path, with);
        fault
    };
    frames[at] = format!("{prefix}{value}{end}").into_bytes();
    (fault, outcome)
}

fn unknown_frame(random: &mut SplitMix64, api: ProviderApi) -> Vec<u8> {
    let lines = ["{\"future\":{\"a\":[1]}}\n", "\n", "{}\n", "{\"type\":\"ping\"}\n"];
    let events = [
        ": a comment\n\n",
        "event: ping\ndata: {\"type\": \"ping\"}\n\n",
        "event: future\ndata: {\"type\": \"future\", \"a\": {\"b\": [1]}}\n\n",
        "data: {\"type\":\"future.event\",\"item\":{\"type\":\"future\"},\"delta\":{\"type\":\"future\"}}\n\n",
        "data: {}\n\n",
        "id: 7\nretry: 10\n\n",
        "event: future\n\n",
    ];
    let frames: &[&str] = if api == ProviderApi::Ollama { &lines } else { &events };
    random.choose(frames).map(|frame| frame.as_bytes().to_vec()).unwrap_or_default()
}
