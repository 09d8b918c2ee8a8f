//! Generator for histories in the form that the repair produces: the system message first, every call answered in the
//! next message. Ids, texts, names and schemas are arbitrary.

use base64::{Engine, engine::general_purpose::STANDARD};
use proptest::{collection::vec, option, prelude::*, sample::select};
use provider::{
    GenerationOptions, Media, MediaSource, MessagePart, ModelMessage, ModelRequest, ReasoningEffort, Role,
    ToolCall, ToolChoice, ToolResult, ToolSpec,
};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use testkit::ProviderApi;

/// A generated request and its calls.
#[derive(Clone, Debug)]
pub(crate) struct GeneratedRequest {
    pub(crate) request: ModelRequest,
    pub(crate) calls: Vec<GeneratedCall>,
}

#[derive(Clone, Debug)]
pub(crate) struct GeneratedCall {
    pub(crate) id: String,
    /// Appears in the arguments and in the response, which shows that the two belong together.
    pub(crate) number: u64,
}

impl GeneratedRequest {
    /// The lengths of possible earlier requests of this conversation: each ends where the model is called.
    pub(crate) fn earlier_lengths(&self) -> impl Iterator<Item = usize> {
        let calls_model = |message: &ModelMessage| matches!(message.role, Role::User | Role::Tool);
        self.request
            .messages
            .iter()
            .enumerate()
            .filter(move |(_, message)| calls_model(message))
            .map(|(at, _)| at + 1)
    }

    /// The signatures that must be sent back to this provider.
    pub(crate) fn signatures(&self, api: ProviderApi) -> Vec<String> {
        let assistants = self.request.messages.iter().filter(|message| message.role == Role::Assistant);
        assistants
            .flat_map(|message| {
                // Anthropic rejects trailing thoughts.
                let last_visible = message.parts.iter().rposition(|part| match part {
                    MessagePart::Text { text, .. } => !text.trim().is_empty(),
                    MessagePart::Call(_) | MessagePart::Media(_) => true,
                    MessagePart::Thought { .. } | MessagePart::Result(_) => false,
                });
                let visible = last_visible.map_or(0, |at| at + 1);
                message.parts.iter().enumerate().filter_map(move |(at, part)| match (api, part) {
                    (ProviderApi::Anthropic, MessagePart::Thought { signature, .. }) => {
                        signature.clone().filter(|_| at < visible)
                    }
                    (
                        ProviderApi::Gemini,
                        MessagePart::Thought { signature, .. } | MessagePart::Text { signature, .. },
                    ) => signature.clone(),
                    (ProviderApi::Gemini, MessagePart::Call(call)) => call.signature.clone(),
                    (ProviderApi::Responses, MessagePart::Thought { signature, .. }) => {
                        signature.as_deref().and_then(encrypted_content).filter(|_| at < visible)
                    }
                    (
                        ProviderApi::OpenAi
                        | ProviderApi::Responses
                        | ProviderApi::Anthropic
                        | ProviderApi::Gemini
                        | ProviderApi::Ollama,
                        _,
                    ) => None,
                })
            })
            .collect()
    }
}

/// The encrypted content of a reasoning item in a signature.
fn encrypted_content(signature: &str) -> Option<String> {
    let item: Value = serde_json::from_slice(&STANDARD.decode(signature).ok()?).ok()?;
    item["encrypted_content"].as_str().map(str::to_owned)
}

/// Counts of hard cases: a run without them proves nothing.
#[derive(Debug, Default)]
pub(crate) struct CaseTally {
    parallel: usize,
    collisions: usize,
    odd_ids: usize,
    blank: usize,
    unicode: usize,
    media: usize,
    signatures: usize,
    swapped: usize,
}

impl CaseTally {
    pub(crate) fn count(&mut self, request: &ModelRequest) {
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

    fn count_part(&mut self, part: &MessagePart) {
        match part {
            MessagePart::Text { text, signature, .. } | MessagePart::Thought { text, signature } => {
                self.blank += usize::from(text.trim().is_empty());
                self.unicode += usize::from(!text.is_ascii());
                self.signatures += usize::from(signature.is_some());
            }
            MessagePart::Call(call) => self.signatures += usize::from(call.signature.is_some()),
            MessagePart::Media(_) => self.media += 1,
            MessagePart::Result(_) => {}
        }
    }

    pub(crate) fn assert_hard_cases(&self) {
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

/// One step of a conversation, before its calls get numbers.
#[derive(Clone, Debug)]
enum ConversationStep {
    User(Vec<MessagePart>),
    Assistant(Vec<MessagePart>),
    Calls { before: Vec<MessagePart>, calls: Vec<PlannedCall>, swapped: bool, media: Option<Media> },
}

#[derive(Clone, Debug)]
struct PlannedCall {
    id: String,
    name: String,
    signature: Option<String>,
    response: usize,
}

pub(crate) fn requests() -> impl Strategy<Value = GeneratedRequest> {
    let system = option::of(vec(text(), 1..3));
    let tools = vec(tool(), 0..3);
    (system, vec(step(), 0..8), tools, options(), model()).prop_map(
        |(system, steps, tools, options, model)| {
            let mut messages: Vec<ModelMessage> = Vec::new();
            messages.extend(system.map(|texts| ModelMessage::new(Role::System, texts)));
            let mut calls = Vec::new();
            for step in steps {
                messages.extend(messages_of(step, &mut calls));
            }
            let mut tools = tools;
            tools.dedup_by(|a, b| a.name == b.name);
            let mut names = HashSet::new();
            tools.retain(|tool| names.insert(tool.name.clone()));
            GeneratedRequest {
                request: ModelRequest { model, messages, tools, options, ..ModelRequest::default() },
                calls,
            }
        },
    )
}

fn messages_of(step: ConversationStep, calls: &mut Vec<GeneratedCall>) -> Vec<ModelMessage> {
    match step {
        ConversationStep::User(parts) => vec![ModelMessage::new(Role::User, parts)],
        ConversationStep::Assistant(parts) => vec![ModelMessage::new(Role::Assistant, parts)],
        ConversationStep::Calls { mut before, calls: planned, swapped, media } => {
            let mut results = Vec::new();
            for planned in planned {
                let number = 1000 + u64::try_from(calls.len()).unwrap_or_default();
                calls.push(GeneratedCall { id: planned.id.clone(), number });
                let args = Map::from_iter([("n".to_owned(), Value::from(number))]);
                let PlannedCall { id, name, signature, response } = planned;
                results.push(MessagePart::from(ToolResult {
                    id: id.clone(),
                    name: name.clone(),
                    response: make_response(response, number),
                }));
                before.push(MessagePart::from(ToolCall { id, name, args, signature, malformed: None }));
            }
            // Results with equal ids can be distinguished only by their order.
            let distinct: HashSet<_> = results.iter().map(|part| format!("{:?}", part_id(part))).collect();
            if swapped && distinct.len() == results.len() {
                results.reverse();
            }
            results.extend(media.map(MessagePart::from));
            vec![ModelMessage::new(Role::Assistant, before), ModelMessage::new(Role::Tool, results)]
        }
    }
}

fn part_id(part: &MessagePart) -> Option<&str> {
    match part {
        MessagePart::Result(result) => Some(&result.id),
        MessagePart::Text { .. }
        | MessagePart::Thought { .. }
        | MessagePart::Call(_)
        | MessagePart::Media(_) => None,
    }
}

fn make_response(kind: usize, number: u64) -> Value {
    match kind {
        0 => json!({"n": number, "more": [null, {"ü": "\u{0}"}]}),
        1 => json!(format!("n {number}")),
        2 => json!([number]),
        3 => json!(number),
        _ => json!({"error": format!("n {number}")}),
    }
}

fn step() -> impl Strategy<Value = ConversationStep> {
    let calls = (
        vec(assistant_part(), 0..3),
        vec(planned_call(), 1..4),
        any::<bool>(),
        option::weighted(0.1, media()),
    );
    prop_oneof![
        2 => vec(prop_oneof![4 => text(), 1 => media().prop_map(MessagePart::from)], 0..3).prop_map(ConversationStep::User),
        1 => vec(assistant_part(), 0..4).prop_map(ConversationStep::Assistant),
        3 => calls.prop_map(|(before, calls, swapped, media)| ConversationStep::Calls { before, calls, swapped, media }),
    ]
}

fn planned_call() -> impl Strategy<Value = PlannedCall> {
    let name = select(vec!["get_weather", "now", "server.tool/list", "9lives", ""]);
    (id(), name, option::weighted(0.3, signature()), 0..5_usize).prop_map(
        |(id, name, signature, response)| PlannedCall { id, name: name.to_owned(), signature, response },
    )
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

fn any_text() -> impl Strategy<Value = String> {
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
    prop_oneof![
        "sig[A-Za-z0-9+/=]{8,24}",
        ("rs_[0-9a-f]{16}", "gAAA[A-Za-z0-9+/=]{8,24}").prop_map(reasoning_signature)
    ]
}

/// A signature that holds an OpenAI reasoning item.
fn reasoning_signature((id, encrypted): (String, String)) -> String {
    let summary = json!([{"type": "summary_text", "text": "hm"}]);
    STANDARD.encode(json!({"id": id, "summary": summary, "encrypted_content": encrypted}).to_string())
}

fn text() -> impl Strategy<Value = MessagePart> {
    any_text().prop_map(MessagePart::text)
}

/// Text or a thought of an assistant message.
fn assistant_part() -> impl Strategy<Value = MessagePart> {
    prop_oneof![
        3 => (any_text(), option::weighted(0.2, signature())).prop_map(|(text, signature)| MessagePart::Text { text: text.into(), signature, note: false }),
        2 => (any_text(), option::weighted(0.7, signature())).prop_map(|(text, signature)| MessagePart::Thought { text: text.into(), signature }),
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
    (kind, source, option::of(any_text())).prop_map(|(kind, source, name)| Media {
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

fn options() -> impl Strategy<Value = GenerationOptions> {
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
    (numbers, vec(any_text(), 0..7), schema, option::of(effort()), option::of(tool_choice())).prop_map(
        |(numbers, stop, response_schema, reasoning, tool_choice)| {
            let (temperature, top_p, max_output_tokens, seed) = numbers;
            GenerationOptions {
                temperature,
                top_p,
                max_output_tokens,
                stop,
                seed,
                response_schema,
                reasoning,
                tool_choice,
                ..GenerationOptions::default()
            }
        },
    )
}

fn effort() -> impl Strategy<Value = ReasoningEffort> {
    let named = [
        ReasoningEffort::Off,
        ReasoningEffort::Minimal,
        ReasoningEffort::Low,
        ReasoningEffort::Medium,
        ReasoningEffort::High,
    ];
    prop_oneof![5 => select(named.to_vec()), 1 => (0..100_000_u32).prop_map(ReasoningEffort::Tokens)]
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

/// Old and new models, which accept different options.
fn model() -> impl Strategy<Value = String> {
    let names = ["gemini-3-m", "gemini-2.5-flash", "gemini-3.7-flash", "claude-sonnet-4-5", "claude-opus-5"];
    select(names.to_vec()).prop_map(str::to_owned)
}
