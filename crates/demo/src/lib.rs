//! The built-in rule-driven model `demo`: it answers a few kinds of requests, calls real tools for them, and says that
//! it is not a language model.
//!
//! It makes the whole product work offline and without a key. A response depends only on the request, so it is
//! deterministic.
//!
//! | module | contents |
//! |---|---|
//! | `input_words`, `clause` | the message as words and clauses |
//! | `intent` | the intents of a message |
//! | `arithmetic`, `lexer`, `number_words`, `unit_conversion` | arithmetic in words and digits |
//! | `clock`, `file_requests`, `memory`, `small_talk` | the other kinds of requests |
//! | `reply` | answers from tool results |

mod arithmetic;
mod clause;
mod clock;
mod file_requests;
mod input_words;
mod intent;
mod lexer;
mod memory;
mod number_words;
mod reply;
mod small_talk;
mod unit_conversion;

use futures::{StreamExt as _, stream};
use intent::Intent;
use memory::{ConversationMemory, RecallQuestion};
use provider::{
    Done, FinishReason, ModelRequest, ModelStream, Provider, StreamEvent, TokenUsage, ToolCall, ToolSpec,
    split_words,
};

#[derive(Clone, Copy, Debug, Default)]
pub struct DemoProvider;

impl Provider for DemoProvider {
    fn name(&self) -> &'static str {
        "demo"
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        stream::iter(respond(&request)).boxed()
    }
}

/// The complete response, as the events of its stream.
pub fn respond(request: &ModelRequest) -> Vec<StreamEvent> {
    let messages = &request.messages;
    let question_at = messages.iter().rposition(memory::is_user_text);
    let text = question_at.map(|at| memory::text_of(&messages[at])).unwrap_or_default();
    let memory = ConversationMemory::new(&messages[..question_at.unwrap_or(0)]);
    let intents = intent::find_intents(&text, memory, &request.tools);
    let results = memory::pair_results(messages);
    if !results.is_empty() {
        return to_events(request, &reply::format_results(&results, &intents), Vec::new());
    }
    let (answer, calls) = plan(&intents, memory, &request.tools);
    let is_understood = !answer.is_empty() || !calls.is_empty();
    let answer = if is_understood { answer } else { small_talk::not_understood(&text, &request.tools) };
    to_events(request, &answer, calls)
}

/// The text that is sent at once, and the tool calls. Requests in one message do not depend on each other.
fn plan(intents: &[Intent], memory: ConversationMemory<'_>, tools: &[ToolSpec]) -> (String, Vec<ToolCall>) {
    let (mut sentences, mut calls) = (Vec::new(), Vec::new());
    for intent in intents {
        match intent.call() {
            Some((name, args)) if tools.iter().any(|tool| tool.name == name) => {
                let call = ToolCall { name: name.to_owned(), args, ..ToolCall::default() };
                // One call may answer two questions.
                if !calls.contains(&call) {
                    calls.push(call);
                }
            }
            Some((name, _)) => sentences.push(small_talk::missing_tool(name)),
            None => sentences.extend(direct_answer(intent, memory, tools)),
        }
    }
    (sentences.join(" "), calls)
}

fn direct_answer(intent: &Intent, memory: ConversationMemory<'_>, tools: &[ToolSpec]) -> Option<String> {
    match intent {
        Intent::Talk(talk) => Some(small_talk::answer(*talk, memory.name().as_deref(), tools)),
        Intent::Name(name) => Some(format!("Nice to meet you, {name}.")),
        Intent::Note(_) => Some("I will remember that in this session.".to_owned()),
        Intent::Recall(recall) => Some(answer_recall(recall, memory, tools)),
        Intent::Clock(_) | Intent::Calculate(_) | Intent::Files(_) | Intent::Tool { .. } => None,
    }
}

fn answer_recall(recall: &RecallQuestion, memory: ConversationMemory<'_>, tools: &[ToolSpec]) -> String {
    let texts = memory.user_texts();
    let unknown = || "You have not told me that in this session.".to_owned();
    match recall {
        RecallQuestion::Name => memory.name().map_or_else(
            || "You have not told me your name in this session.".to_owned(),
            |name| format!("Your name is {name}."),
        ),
        RecallQuestion::LastMessage => texts.last().map_or_else(
            || "This is the first thing you say in this session.".to_owned(),
            |text| format!("You said: «{text}»"),
        ),
        RecallQuestion::FirstMessage => texts.first().map_or_else(
            || "This is the first thing you say in this session.".to_owned(),
            |text| format!("The first thing you said was: «{text}»"),
        ),
        RecallQuestion::AllMessages if texts.is_empty() => {
            "This is the first thing you say in this session.".to_owned()
        }
        RecallQuestion::AllMessages => {
            let list: Vec<String> = texts.iter().map(|text| format!("- {text}")).collect();
            format!("So far you said:\n{}", list.join("\n"))
        }
        RecallQuestion::LastAnswer => memory
            .last_answer()
            .map_or_else(|| "I have not said anything yet.".to_owned(), |text| format!("I said: «{text}»")),
        RecallQuestion::LastResult => last_result(memory, tools),
        RecallQuestion::About(subject) => matching_fact(subject, memory).unwrap_or_else(unknown),
        RecallQuestion::Everything => {
            let facts = memory.facts();
            if facts.is_empty() { unknown() } else { format!("You told me: «{}»", facts.join("», «")) }
        }
    }
}

fn last_result(memory: ConversationMemory<'_>, tools: &[ToolSpec]) -> String {
    let results = memory.last_results();
    if results.is_empty() {
        return "No tool has been used in this session yet.".to_owned();
    }
    // The question may be several messages back.
    let requests = std::iter::successors(memory.last_request(), |(_, before)| before.last_request());
    let intents: Vec<Intent> =
        requests.flat_map(|(text, before)| intent::find_intents(&text, before, tools)).collect();
    reply::format_results(&results, &intents)
}

/// The newest fact about the user that shares most words with the subject.
fn matching_fact(subject: &str, memory: ConversationMemory<'_>) -> Option<String> {
    let keys: Vec<&str> = subject.split(' ').filter(|word| word.len() > 2).collect();
    let score = |fact: &str| {
        let fact = fact.to_lowercase();
        keys.iter().filter(|key| fact.contains(key.trim_end_matches('s'))).count()
    };
    let facts = memory.facts();
    let best = facts.iter().filter(|fact| score(fact) > 0).max_by_key(|fact| score(fact))?;
    Some(format!("You told me: «{best}»"))
}

fn to_events(request: &ModelRequest, text: &str, calls: Vec<ToolCall>) -> Vec<StreamEvent> {
    let mut events: Vec<StreamEvent> = split_words(text).map(StreamEvent::text).collect();
    let call_bytes: usize =
        calls.iter().map(|call| call.name.len() + serde_json::json!(call.args).to_string().len()).sum();
    let input_bytes: usize = request.messages.iter().map(|message| memory::text_of(message).len()).sum();
    events.extend(calls.into_iter().map(StreamEvent::ToolCall));
    events.push(StreamEvent::Usage(TokenUsage {
        input: estimate_tokens(input_bytes),
        output: estimate_tokens(text.len() + call_bytes),
        ..TokenUsage::default()
    }));
    let model_version = Some("demo-1".to_owned());
    events.push(StreamEvent::Done(Done::new(FinishReason::Stop, model_version)));
    events
}

/// A rough estimate: rules have no tokenizer.
fn estimate_tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
