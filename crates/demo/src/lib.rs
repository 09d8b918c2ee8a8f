//! A model without a model: rules that understand a few things, call real tools for them, and say so honestly.
//!
//! It makes every part of the product work at once, offline. It decides from the request alone, so the same request
//! always gets the same answer.

mod arithmetic;
mod clause;
mod clock;
mod files;
mod intent;
mod lexer;
mod memory;
mod numbers;
mod reply;
mod talk;
mod units;
mod words;

use futures::{StreamExt as _, stream};
use intent::Intent;
use memory::{Memory, Recall};
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
        stream::iter(answer(&request)).boxed()
    }
}

/// The whole answer, in the pieces in which it streams.
pub fn answer(request: &ModelRequest) -> Vec<StreamEvent> {
    let messages = &request.messages;
    let asked = messages.iter().rposition(memory::is_spoken);
    let text = asked.map(|at| memory::text_of(&messages[at])).unwrap_or_default();
    let memory = Memory::of(&messages[..asked.unwrap_or(0)]);
    let intents = intent::of(&text, memory, &request.tools);
    let results = memory::paired(messages);
    if !results.is_empty() {
        return events(request, &reply::sentences(&results, &intents), Vec::new());
    }
    let (said, calls) = plan(&intents, memory, &request.tools);
    let nothing = said.is_empty() && calls.is_empty();
    let said = if nothing { talk::not_understood(&text, &request.tools) } else { said };
    events(request, &said, calls)
}

/// What is said at once, and what tools are asked for. Requests in one message do not wait for each other.
fn plan(intents: &[Intent], memory: Memory<'_>, tools: &[ToolSpec]) -> (String, Vec<ToolCall>) {
    let (mut said, mut calls) = (Vec::new(), Vec::new());
    for intent in intents {
        match intent.call() {
            Some((name, args)) if tools.iter().any(|tool| tool.name == name) => {
                let call = ToolCall { name: name.to_owned(), args, ..ToolCall::default() };
                // Two questions that one call answers need only one.
                if !calls.contains(&call) {
                    calls.push(call);
                }
            }
            Some((name, _)) => said.push(talk::missing(name)),
            None => said.extend(say(intent, memory, tools)),
        }
    }
    (said.join(" "), calls)
}

fn say(intent: &Intent, memory: Memory<'_>, tools: &[ToolSpec]) -> Option<String> {
    match intent {
        Intent::Talk(talk) => Some(talk::say(*talk, memory.name().as_deref(), tools)),
        Intent::Name(name) => Some(format!("Nice to meet you, {name}.")),
        Intent::Note(_) => Some("I will remember that in this session.".to_owned()),
        Intent::Recall(recall) => Some(recollect(recall, memory, tools)),
        Intent::Clock(_) | Intent::Calculate(_) | Intent::Files(_) | Intent::Tool { .. } => None,
    }
}

fn recollect(recall: &Recall, memory: Memory<'_>, tools: &[ToolSpec]) -> String {
    let said = memory.said();
    let nothing = || "You have not told me that in this session.".to_owned();
    match recall {
        Recall::Name => memory.name().map_or_else(
            || "You have not told me your name in this session.".to_owned(),
            |name| format!("Your name is {name}."),
        ),
        Recall::LastSaid => said.last().map_or_else(
            || "This is the first thing you say in this session.".to_owned(),
            |text| format!("You said: «{text}»"),
        ),
        Recall::FirstSaid => said.first().map_or_else(
            || "This is the first thing you say in this session.".to_owned(),
            |text| format!("The first thing you said was: «{text}»"),
        ),
        Recall::AllSaid if said.is_empty() => "This is the first thing you say in this session.".to_owned(),
        Recall::AllSaid => {
            let list: Vec<String> = said.iter().map(|text| format!("- {text}")).collect();
            format!("So far you said:\n{}", list.join("\n"))
        }
        Recall::MyAnswer => memory
            .last_answer()
            .map_or_else(|| "I have not said anything yet.".to_owned(), |text| format!("I said: «{text}»")),
        Recall::LastResult => last_result(memory, tools),
        Recall::About(subject) => about(subject, memory).unwrap_or_else(nothing),
        Recall::Everything => {
            let facts = memory.facts();
            if facts.is_empty() { nothing() } else { format!("You told me: «{}»", facts.join("», «")) }
        }
    }
}

fn last_result(memory: Memory<'_>, tools: &[ToolSpec]) -> String {
    let results = memory.last_results();
    if results.is_empty() {
        return "No tool has been used in this session yet.".to_owned();
    }
    // The question may lie some messages back.
    let requests = std::iter::successors(memory.last_request(), |(_, before)| before.last_request());
    let intents: Vec<Intent> = requests.flat_map(|(text, before)| intent::of(&text, before, tools)).collect();
    reply::sentences(&results, &intents)
}

/// The newest thing the user told that shares the most words with the subject.
fn about(subject: &str, memory: Memory<'_>) -> Option<String> {
    let keys: Vec<&str> = subject.split(' ').filter(|word| word.len() > 2).collect();
    let score = |fact: &str| {
        let fact = fact.to_lowercase();
        keys.iter().filter(|key| fact.contains(key.trim_end_matches('s'))).count()
    };
    let facts = memory.facts();
    let best = facts.iter().filter(|fact| score(fact) > 0).max_by_key(|fact| score(fact))?;
    Some(format!("You told me: «{best}»"))
}

fn events(request: &ModelRequest, said: &str, calls: Vec<ToolCall>) -> Vec<StreamEvent> {
    let mut events: Vec<StreamEvent> = split_words(said).map(StreamEvent::text).collect();
    let asked: usize =
        calls.iter().map(|call| call.name.len() + serde_json::json!(call.args).to_string().len()).sum();
    let read: usize = request.messages.iter().map(|message| memory::text_of(message).len()).sum();
    events.extend(calls.into_iter().map(StreamEvent::ToolCall));
    events.push(StreamEvent::Usage(TokenUsage {
        input: tokens(read),
        output: tokens(said.len() + asked),
        ..TokenUsage::default()
    }));
    let model_version = Some("demo-1".to_owned());
    events.push(StreamEvent::Done(Done { finish: FinishReason::Stop, model_version }));
    events
}

/// A rough count: there is no tokenizer behind rules.
fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes.div_ceil(4)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
