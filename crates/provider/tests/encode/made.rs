//! Histories as the repair leaves them: the system first, every call answered by the next message; all else is odd.

use base64::{Engine, engine::general_purpose::STANDARD};
use proptest::{collection::vec, option, prelude::*, sample::select};
use provider::{
    Effort, Media, MediaSource, Message, Options, Part, Request, Role, ToolCall, ToolChoice, ToolResult,
    ToolSpec,
};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use testkit::legal::Api;

/// A request, and what its calls were.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) request: Request,
    pub(crate) calls: Vec<Call>,
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) id: String,
    /// In the arguments and in the response, so that the two can be told to belong together.
    pub(crate) number: u64,
}

impl Made {
    /// How many messages older requests of this conversation may have had: one ends where the model is asked.
    pub(crate) fn cuts(&self) -> impl Iterator<Item = usize> {
        let asked = |message: &Message| matches!(message.role, Role::User | Role::Tool);
        self.request
            .messages
            .iter()
            .enumerate()
            .filter(move |(_, message)| asked(message))
            .map(|(at, _)| at + 1)
    }

    /// The signatures that this provider must be shown again.
    pub(crate) fn signatures(&self, api: Api) -> Vec<String> {
        let assistants = self.request.messages.iter().filter(|message| message.role == Role::Assistant);
        assistants
            .flat_map(|message| {
                // Thoughts that end a message have no place on Anthropic's wire.
                let spoken = message.parts.iter().rposition(|part| match part {
                    Part::Text { text, .. } => !text.trim().is_empty(),
                    Part::Call(_) | Part::Media(_) => true,
                    Part::Thought { .. } | Part::Result(_) => false,
                });
                let shown = spoken.map_or(0, |at| at + 1);
                message.parts.iter().enumerate().filter_map(move |(at, part)| match (api, part) {
                    (Api::Anthropic, Part::Thought { signature, .. }) => {
                        signature.clone().filter(|_| at < shown)
                    }
                    (Api::Gemini, Part::Thought { signature, .. } | Part::Text { signature, .. }) => {
                        signature.clone()
                    }
                    (Api::Gemini, Part::Call(call)) => call.signature.clone(),
                    (Api::Responses, Part::Thought { signature, .. }) => {
                        signature.as_deref().and_then(unsealed).filter(|_| at < shown)
                    }
                    (Api::OpenAi | Api::Responses | Api::Anthropic | Api::Gemini | Api::Ollama, _) => None,
                })
            })
            .collect()
    }
}

/// The encrypted content of a reasoning item, if that is what was signed.
fn unsealed(signature: &str) -> Option<String> {
    let item: Value = serde_json::from_slice(&STANDARD.decode(signature).ok()?).ok()?;
    item["encrypted_content"].as_str().map(str::to_owned)
}

/// What was made, so that a run without hard cases does not pass for one with them.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    parallel: usize,
    collisions: usize,
    odd_ids: usize,
    blank: usize,
    unicode: usize,
    media: usize,
    signatures: usize,
    swapped: usize,
}

impl Tally {
    pub(crate) fn count(&mut self, request: &Request) {
        let mut seen = HashSet::new();
        for message in &request.messages {
            let ids: Vec<&str> = message.calls().map(|call| call.id.as_str()).collect();
            self.parallel += usize::from(ids.len() > 1);
            self.collisions += ids.iter().filter(|id| !seen.insert(**id)).count();
            self.odd_ids +=
                ids.iter().filter(|id| !id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).count();
            let answers: Vec<&str> = message.results().map(|result| result.id.as_str()).collect();
            self.swapped += usize::from(!answers.is_sorted());
            message.parts.iter().for_each(|part| self.count_part(part));
        }
    }

    fn count_part(&mut self, part: &Part) {
        match part {
            Part::Text { text, signature, .. } | Part::Thought { text, signature } => {
                self.blank += usize::from(text.trim().is_empty());
                self.unicode += usize::from(!text.is_ascii());
                self.signatures += usize::from(signature.is_some());
            }
            Part::Call(call) => self.signatures += usize::from(call.signature.is_some()),
            Part::Media(_) => self.media += 1,
            Part::Result(_) => {}
        }
    }

    pub(crate) fn demand(&self) {
        let counts = [
            self.parallel,
            self.collisions,
            self.odd_ids,
            self.blank,
            self.unicode,
            self.media,
            self.signatures,
            self.swapped,
        ];
        assert!(counts.iter().all(|count| *count > 100), "the generator made too few hard cases: {self:?}");
    }
}

/// One step of a conversation, before its calls are numbered.
#[derive(Clone, Debug)]
enum Step {
    User(Vec<Part>),
    Assistant(Vec<Part>),
    Calls { before: Vec<Part>, calls: Vec<Asked>, swapped: bool, media: Option<Media> },
}

#[derive(Clone, Debug)]
struct Asked {
    id: String,
    name: String,
    signature: Option<String>,
    response: usize,
}

pub(crate) fn requests() -> impl Strategy<Value = Made> {
    let system = option::of(vec(text(), 1..3));
    let tools = vec(tool(), 0..3);
    (system, vec(step(), 0..8), tools, options(), model()).prop_map(
        |(system, steps, tools, options, model)| {
            let mut messages: Vec<Message> = Vec::new();
            messages.extend(system.map(|texts| Message::new(Role::System, texts)));
            let mut calls = Vec::new();
            for step in steps {
                messages.extend(said(step, &mut calls));
            }
            let mut tools = tools;
            tools.dedup_by(|a, b| a.name == b.name);
            let mut names = HashSet::new();
            tools.retain(|tool| names.insert(tool.name.clone()));
            Made { request: Request { model, messages, tools, options }, calls }
        },
    )
}

fn said(step: Step, calls: &mut Vec<Call>) -> Vec<Message> {
    match step {
        Step::User(parts) => vec![Message::new(Role::User, parts)],
        Step::Assistant(parts) => vec![Message::new(Role::Assistant, parts)],
        Step::Calls { mut before, calls: asked, swapped, media } => {
            let mut results = Vec::new();
            for asked in asked {
                let number = 1000 + u64::try_from(calls.len()).unwrap_or_default();
                calls.push(Call { id: asked.id.clone(), number });
                let args = Map::from_iter([("n".to_owned(), Value::from(number))]);
                let Asked { id, name, signature, response } = asked;
                results.push(Part::from(ToolResult {
                    id: id.clone(),
                    name: name.clone(),
                    response: answer(response, number),
                }));
                before.push(Part::from(ToolCall { id, name, args, signature, malformed: None }));
            }
            // Results with one id can only be told apart by their order.
            let distinct: HashSet<_> = results.iter().map(|part| format!("{:?}", part_id(part))).collect();
            if swapped && distinct.len() == results.len() {
                results.reverse();
            }
            results.extend(media.map(Part::from));
            vec![Message::new(Role::Assistant, before), Message::new(Role::Tool, results)]
        }
    }
}

fn part_id(part: &Part) -> Option<&str> {
    match part {
        Part::Result(result) => Some(&result.id),
        Part::Text { .. } | Part::Thought { .. } | Part::Call(_) | Part::Media(_) => None,
    }
}

fn answer(kind: usize, number: u64) -> Value {
    match kind {
        0 => json!({"n": number, "more": [null, {"ü": "\u{0}"}]}),
        1 => json!(format!("n {number}")),
        2 => json!([number]),
        3 => json!(number),
        _ => json!({"error": format!("n {number}")}),
    }
}

fn step() -> impl Strategy<Value = Step> {
    let calls = (vec(spoken(), 0..3), vec(asked(), 1..4), any::<bool>(), option::weighted(0.1, media()));
    prop_oneof![
        2 => vec(prop_oneof![4 => text(), 1 => media().prop_map(Part::from)], 0..3).prop_map(Step::User),
        1 => vec(spoken(), 0..4).prop_map(Step::Assistant),
        3 => calls.prop_map(|(before, calls, swapped, media)| Step::Calls { before, calls, swapped, media }),
    ]
}

fn asked() -> impl Strategy<Value = Asked> {
    let name = select(vec!["get_weather", "now", "server.tool/list", "9lives", ""]);
    (id(), name, option::weighted(0.3, signature()), 0..5_usize)
        .prop_map(|(id, name, signature, response)| Asked { id, name: name.to_owned(), signature, response })
}

fn id() -> impl Strategy<Value = String> {
    let usual = select(vec!["call_0", "call_1", "", "call_0_2", "call_get_weather", "call", "call_0_3"])
        .prop_map(str::to_owned);
    prop_oneof![
        4 => usual,
        2 => "adk-[0-9a-f]{36}",
        1 => "toolu_[a-zA-Z0-9]{20}",
        1 => "[a-z]{1,3}[.:/ üß]{1,2}[0-9]{1,2}",
        1 => Just("x".repeat(80)),
        1 => "call_[a-z]{38,60}",
    ]
}

fn words() -> impl Strategy<Value = String> {
    let odd = select(vec![
        "",
        " ",
        "\n\t",
        "ends with a space ",
        "日本語 🦀",
        "e\u{301}",
        "{\"a\": 1}",
        "\u{200b}",
    ]);
    prop_oneof![3 => odd.prop_map(str::to_owned), 2 => "[ -~]{1,20}", 1 => "\\PC{1,8}"]
}

fn signature() -> impl Strategy<Value = String> {
    prop_oneof!["sig[A-Za-z0-9+/=]{8,24}", ("rs_[0-9a-f]{16}", "gAAA[A-Za-z0-9+/=]{8,24}").prop_map(sealed)]
}

/// A reasoning item of OpenAI's, as it is kept.
fn sealed((id, encrypted): (String, String)) -> String {
    let summary = json!([{"type": "summary_text", "text": "hm"}]);
    STANDARD.encode(json!({"id": id, "summary": summary, "encrypted_content": encrypted}).to_string())
}

fn text() -> impl Strategy<Value = Part> {
    words().prop_map(Part::text)
}

/// What a model may say beside calls.
fn spoken() -> impl Strategy<Value = Part> {
    prop_oneof![
        3 => (words(), option::weighted(0.2, signature())).prop_map(|(text, signature)| Part::Text { text: text.into(), signature, note: false }),
        2 => (words(), option::weighted(0.7, signature())).prop_map(|(text, signature)| Part::Thought { text: text.into(), signature }),
    ]
}

fn media() -> impl Strategy<Value = Media> {
    let kind = select(vec![
        "image/png",
        "application/pdf",
        "audio/wav",
        "text/csv",
        "application/zip",
        "image/tiff",
        "",
    ]);
    let source = prop_oneof![
        Just(MediaSource::Base64("QUJD".to_owned())),
        Just(MediaSource::Uri("https://example.org/a".to_owned())),
        Just(MediaSource::Uri("gs://bucket/a".to_owned())),
    ];
    (kind, source, option::of(words())).prop_map(|(kind, source, name)| Media {
        mime_type: kind.to_owned(),
        source,
        name,
    })
}

fn tool() -> impl Strategy<Value = ToolSpec> {
    let name =
        select(vec!["get_weather", "now", "transfer_to_agent", "mcp-list", "server.tool/list", "9lives"]);
    let parameters = select(vec![
        json!({"type": "object", "properties": {"city": {"type": "string", "format": "city", "enum": ["a", ""]}}, "required": ["city", "x"]}),
        json!({}),
        json!(null),
        json!({"$defs": {"T": {"type": ["array", "null"], "items": {"$ref": "#/$defs/T"}}}, "properties": {"t": {"$ref": "#/$defs/T"}}}),
        json!({"anyOf": [{"properties": {"a": {}}}], "properties": {"n": {"enum": [1, "two", null]}, "o": {"oneOf": [{"type": "object"}, {"const": 3}]}}}),
        json!({"type": "object", "properties": {"a": {"type": "string"}, "p": {"type": ["object", "null"], "properties": {"x": {"type": "number"}}, "required": ["x"]}}, "required": ["a", "p"]}),
        json!({"type": "object", "properties": {"m": {"type": "object", "additionalProperties": {"type": "string"}}, "l": {"type": ["string", "array"]}, "b": true}}),
    ]);
    (name, "[ -~]{0,30}", parameters, any::<bool>()).prop_map(|(name, description, parameters, long)| {
        let description = if long { description.repeat(60) } else { description };
        ToolSpec { name: name.to_owned(), description, parameters }
    })
}

fn options() -> impl Strategy<Value = Options> {
    let numbers = (
        option::of(-1.0..3.0_f64),
        option::of(0.0..2.0_f64),
        option::of(1..9000_u32),
        option::of(any::<i64>()),
    );
    let schema = option::of(select(vec![
        json!({"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": false}),
        json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}),
        json!({"type": "array"}),
    ]));
    (numbers, vec(words(), 0..7), schema, option::of(effort()), option::of(tool_choice())).prop_map(
        |(numbers, stop, response_schema, reasoning, tool_choice)| {
            let (temperature, top_p, max_output_tokens, seed) = numbers;
            Options {
                temperature,
                top_p,
                max_output_tokens,
                stop,
                seed,
                response_schema,
                reasoning,
                tool_choice,
            }
        },
    )
}

fn effort() -> impl Strategy<Value = Effort> {
    let named = [Effort::Off, Effort::Minimal, Effort::Low, Effort::Medium, Effort::High];
    prop_oneof![5 => select(named.to_vec()), 1 => (0..100_000_u32).prop_map(Effort::Tokens)]
}

fn tool_choice() -> impl Strategy<Value = ToolChoice> {
    let named = |name: &str| ToolChoice::Named(name.to_owned());
    select(vec![
        ToolChoice::Auto,
        ToolChoice::None,
        ToolChoice::Required,
        named("now"),
        named("server.tool/list"),
        named("gone"),
    ])
}

/// The newest models and older ones take different settings.
fn model() -> impl Strategy<Value = String> {
    let names = ["gemini-3-m", "gemini-2.5-flash", "gemini-3.7-flash", "claude-sonnet-4-5", "claude-opus-5"];
    select(names.to_vec()).prop_map(str::to_owned)
}
