//! The intents of a message, in the order of its words.

use crate::{
    arithmetic, clause, clock, file_requests,
    input_words::{self, InputWord},
    memory::{self, ConversationMemory, RecallQuestion},
    small_talk::{self, SmallTalk},
    unit_conversion,
};
use provider::ToolSpec;
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Intent {
    Clock(clock::ClockQuestion),
    Calculate(String),
    Files(file_requests::FileRequest),
    /// A tool that is called by its name.
    Tool {
        name: String,
        args: Map<String, Value>,
    },
    Recall(RecallQuestion),
    /// The user states their name.
    Name(String),
    Note(String),
    Talk(SmallTalk),
}

impl Intent {
    /// The tool call that serves the intent; `None` for conversation.
    pub(crate) fn call(&self) -> Option<(&str, Map<String, Value>)> {
        let (name, args) = match self {
            Self::Clock(question) => {
                ("now", question.zone.map_or(json!({}), |zone| json!({"timezone": zone})))
            }
            Self::Calculate(expression) => ("calculate", json!({"expression": expression})),
            Self::Files(file_requests::FileRequest::Read { path, .. }) => {
                ("read_file", json!({"path": path}))
            }
            Self::Files(file_requests::FileRequest::List { path, .. }) => {
                ("list_files", json!({"path": path}))
            }
            Self::Files(file_requests::FileRequest::Find { .. }) => ("list_files", json!({"path": "."})),
            Self::Files(file_requests::FileRequest::Search { pattern, path: None, .. }) => {
                ("search_files", json!({"pattern": pattern}))
            }
            Self::Files(file_requests::FileRequest::Search { pattern, path: Some(path), .. }) => {
                ("search_files", json!({"pattern": pattern, "path": path}))
            }
            Self::Tool { name, args } => return Some((name, args.clone())),
            Self::Recall(_) | Self::Name(_) | Self::Note(_) | Self::Talk(_) => return None,
        };
        let Value::Object(args) = args else { return None };
        Some((name, args))
    }
}

pub(crate) fn find_intents(text: &str, memory: ConversationMemory<'_>, tools: &[ToolSpec]) -> Vec<Intent> {
    let words = input_words::split_input(text);
    if let Some(named) = named_tool(text, &words, tools) {
        return vec![named];
    }
    let mut intents: Vec<Intent> = Vec::new();
    let clauses = clause::split_clauses(&words);
    // A message with many clauses does not refer to earlier requests.
    let memory = if clauses.len() > 3 { memory.without_reach() } else { memory };
    for clause in clauses {
        let more = clause_intents(clause, memory, &intents, tools);
        if more.iter().any(|intent| path_of(intent).is_some()) {
            // «read a.txt and tell me how many lines it has» is one request about one file.
            intents
                .retain(|old| path_of(old).is_none() || !more.iter().any(|new| path_of(new) == path_of(old)));
        }
        intents.extend(more.into_iter().filter(|intent| !intents.contains(intent)).collect::<Vec<_>>());
    }
    // «how many apples do I have» belongs to the preceding calculation.
    if intents.iter().any(|intent| intent.call().is_some()) {
        intents.retain(|intent| !matches!(intent, Intent::Recall(RecallQuestion::About(_))));
    }
    // Greetings and thanks need no answer next to a request.
    if intents.iter().any(|intent| !matches!(intent, Intent::Talk(_))) {
        intents.retain(|intent| !matches!(intent, Intent::Talk(_)));
    }
    intents
}

fn clause_intents(
    words: &[InputWord],
    memory: ConversationMemory<'_>,
    before: &[Intent],
    tools: &[ToolSpec],
) -> Vec<Intent> {
    if is_repetition(words) {
        return repeated_intents(memory, tools);
    }
    if let Some(talk) = small_talk::unambiguous(words) {
        return vec![Intent::Talk(talk)];
    }
    let computed = || !arithmetic::find_expressions(words, None).0.is_empty();
    match memory::find_recall(words) {
        // «what is the answer to 5 * 5» is a new calculation.
        Some(RecallQuestion::LastResult) if computed() => {}
        Some(recall) => return vec![Intent::Recall(recall)],
        None => {}
    }
    let files = file_requests::find_requests(words);
    if !files.is_empty() {
        return files.into_iter().map(Intent::Files).collect();
    }
    if let Some(expression) =
        unit_conversion::find_conversion(words).or_else(|| unit_conversion::find_each_product(words))
    {
        return vec![Intent::Calculate(expression)];
    }
    let previous = before.iter().rev().find_map(expression_of).or_else(|| memory.last_number());
    let (expressions, rest) = arithmetic::find_expressions(words, previous.as_deref());
    let mut intents: Vec<Intent> = expressions.into_iter().map(Intent::Calculate).collect();
    intents.extend(clock::find_questions(&rest).into_iter().map(Intent::Clock));
    if intents.is_empty() {
        intents.extend(follow_up(words, memory, before, tools));
    }
    if intents.is_empty() {
        let question = memory::find_personal_question(words).map(Intent::Recall);
        let name = question.or_else(|| memory::find_name(words).map(Intent::Name));
        let note = || memory::find_fact(words).map(Intent::Note);
        intents.extend(name.or_else(note).or_else(|| small_talk::fallback(words).map(Intent::Talk)));
    }
    intents
}

fn expression_of(intent: &Intent) -> Option<String> {
    match intent {
        Intent::Calculate(expression) => Some(format!("({expression})")),
        Intent::Clock(_)
        | Intent::Files(_)
        | Intent::Tool { .. }
        | Intent::Recall(_)
        | Intent::Name(_)
        | Intent::Note(_)
        | Intent::Talk(_) => None,
    }
}

fn path_of(intent: &Intent) -> Option<&String> {
    match intent {
        Intent::Files(file_requests::FileRequest::Read { path, .. }) => Some(path),
        Intent::Files(_)
        | Intent::Clock(_)
        | Intent::Calculate(_)
        | Intent::Tool { .. }
        | Intent::Recall(_)
        | Intent::Name(_)
        | Intent::Note(_)
        | Intent::Talk(_) => None,
    }
}

fn is_repetition(words: &[InputWord]) -> bool {
    let short = words.len() <= 5;
    short
        && (input_words::has_any_phrase(
            words,
            "again|once more|one more time|redo|repeat that|same again|try again",
        ) || (words.len() == 1 && words[0].is("repeat")))
        && !input_words::has_any_phrase(words, "say|what")
}

/// The intents of the last request that was not itself a repetition.
fn repeated_intents(memory: ConversationMemory<'_>, tools: &[ToolSpec]) -> Vec<Intent> {
    let requests = std::iter::successors(memory.last_request(), |(_, before)| before.last_request());
    let mut asked = requests.filter(|(text, _)| !is_repetition(&input_words::split_input(text)));
    let last = asked.next().and_then(|(text, before)| Some((text, before.with_less_reach()?)));
    last.map(|(text, before)| find_intents(&text, before, tools)).unwrap_or_default()
}

/// «and in Tokyo?» repeats the previous question for another time zone.
fn follow_up(
    words: &[InputWord],
    memory: ConversationMemory<'_>,
    before: &[Intent],
    tools: &[ToolSpec],
) -> Vec<Intent> {
    let file = before.iter().rev().find_map(path_of).cloned().or_else(|| memory.last_path());
    if let Some(request) = file.and_then(|file| file_requests::follow_up(words, &file)) {
        return vec![Intent::Files(request)];
    }
    let zones = clock::find_zones(words);
    if zones.is_empty() || words.len() > 5 {
        return Vec::new();
    }
    let earlier = if before.is_empty() { repeated_intents(memory, tools) } else { before.to_vec() };
    let asked = earlier.iter().rev().find_map(|intent| match intent {
        Intent::Clock(question) => Some(question.aspect),
        Intent::Calculate(_)
        | Intent::Files(_)
        | Intent::Tool { .. }
        | Intent::Recall(_)
        | Intent::Name(_)
        | Intent::Note(_)
        | Intent::Talk(_) => None,
    });
    let Some(aspect) = asked else { return Vec::new() };
    zones.into_iter().map(|zone| Intent::Clock(clock::ClockQuestion { aspect, zone: Some(zone) })).collect()
}

/// «call get_weather with city=Paris», «use get_weather {"city": "Paris"}», «transfer me to helper»
fn named_tool(text: &str, words: &[InputWord], tools: &[ToolSpec]) -> Option<Intent> {
    let asked = input_words::has_any_phrase(words, "use|call|run|invoke|execute|tool");
    let name = |tool: &&ToolSpec| words.iter().any(|word| word.text == tool.name);
    if let Some(tool) = tools.iter().find(name).filter(|tool| asked || tool.name.contains('_')) {
        return Some(Intent::Tool { name: tool.name.clone(), args: parse_arguments(text, words) });
    }
    let transfer = tools.iter().find(|tool| tool.name == "transfer_to_agent")?;
    let moved =
        input_words::has_any_phrase(words, "transfer|talk to|speak to|speak with|switch to|hand over");
    let agents = transfer.parameters.pointer("/properties/agent_name/enum").and_then(Value::as_array);
    let named = agents.into_iter().flatten().filter_map(Value::as_str);
    let agent = named.into_iter().find(|agent| words.iter().any(|word| word.key == agent.to_lowercase()));
    let args = Map::from_iter([("agent_name".to_owned(), Value::from(agent.filter(|_| moved)?))]);
    Some(Intent::Tool { name: transfer.name.clone(), args })
}

fn parse_arguments(text: &str, words: &[InputWord]) -> Map<String, Value> {
    let json = text.find('{').and_then(|open| text.rfind('}').and_then(|close| text.get(open..=close)));
    if let Some(Ok(Value::Object(args))) = json.map(serde_json::from_str) {
        return args;
    }
    let pairs = words.iter().filter_map(|word| word.text.split_once('='));
    pairs
        .map(|(key, value)| {
            let value = value.trim_matches(['"', '\'']);
            (key.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| Value::from(value)))
        })
        .collect()
}
