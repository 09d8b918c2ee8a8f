//! What a message asks for, as a list of intents in the order of its words.

use crate::{
    arithmetic, clause, clock, files,
    memory::{self, Memory, Recall},
    talk::{self, Talk},
    units,
    words::{self, Word},
};
use provider::ToolSpec;
use serde_json::{Map, Value, json};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Intent {
    Clock(clock::Question),
    Calculate(String),
    Files(files::Request),
    /// A tool called by its name.
    Tool {
        name: String,
        args: Map<String, Value>,
    },
    Recall(Recall),
    /// The user says who they are.
    Name(String),
    Note(String),
    Talk(Talk),
}

impl Intent {
    /// The tool that serves it, and its arguments; none for what is only talk.
    pub(crate) fn call(&self) -> Option<(&str, Map<String, Value>)> {
        let (name, args) = match self {
            Self::Clock(question) => {
                ("now", question.zone.map_or(json!({}), |zone| json!({"timezone": zone})))
            }
            Self::Calculate(expression) => ("calculate", json!({"expression": expression})),
            Self::Files(files::Request::Read { path, .. }) => ("read_file", json!({"path": path})),
            Self::Files(files::Request::List { path, .. }) => ("list_files", json!({"path": path})),
            Self::Files(files::Request::Find { .. }) => ("list_files", json!({"path": "."})),
            Self::Files(files::Request::Search { pattern, path: None, .. }) => {
                ("search_files", json!({"pattern": pattern}))
            }
            Self::Files(files::Request::Search { pattern, path: Some(path), .. }) => {
                ("search_files", json!({"pattern": pattern, "path": path}))
            }
            Self::Tool { name, args } => return Some((name, args.clone())),
            Self::Recall(_) | Self::Name(_) | Self::Note(_) | Self::Talk(_) => return None,
        };
        let Value::Object(args) = args else { return None };
        Some((name, args))
    }
}

pub(crate) fn of(text: &str, memory: Memory<'_>, tools: &[ToolSpec]) -> Vec<Intent> {
    let words = words::split(text);
    if let Some(named) = named_tool(text, &words, tools) {
        return vec![named];
    }
    let mut intents: Vec<Intent> = Vec::new();
    let clauses = clause::split(&words);
    // One who asks many things at once does not refer back with each of them.
    let memory = if clauses.len() > 3 { memory.without_requests() } else { memory };
    for clause in clauses {
        let more = of_clause(clause, memory, &intents, tools);
        if more.iter().any(|intent| path(intent).is_some()) {
            // «read a.txt and tell me how many lines it has» asks one thing of one file.
            intents.retain(|old| path(old).is_none() || !more.iter().any(|new| path(new) == path(old)));
        }
        intents.extend(more.into_iter().filter(|intent| !intents.contains(intent)).collect::<Vec<_>>());
    }
    // «how many apples do I have» belongs to the sum before it.
    if intents.iter().any(|intent| intent.call().is_some()) {
        intents.retain(|intent| !matches!(intent, Intent::Recall(Recall::About(_))));
    }
    // Politeness needs no answer of its own beside a request.
    if intents.iter().any(|intent| !matches!(intent, Intent::Talk(_))) {
        intents.retain(|intent| !matches!(intent, Intent::Talk(_)));
    }
    intents
}

fn of_clause(words: &[Word], memory: Memory<'_>, before: &[Intent], tools: &[ToolSpec]) -> Vec<Intent> {
    if is_again(words) {
        return again(memory, tools);
    }
    if let Some(talk) = talk::certain(words) {
        return vec![Intent::Talk(talk)];
    }
    let computed = || !arithmetic::find(words, None).0.is_empty();
    match memory::recall(words) {
        // «what is the answer to 5 * 5» asks for a new one.
        Some(Recall::LastResult) if computed() => {}
        Some(recall) => return vec![Intent::Recall(recall)],
        None => {}
    }
    let files = files::requests(words);
    if !files.is_empty() {
        return files.into_iter().map(Intent::Files).collect();
    }
    if let Some(expression) = units::conversion(words).or_else(|| units::of_each(words)) {
        return vec![Intent::Calculate(expression)];
    }
    let previous = before.iter().rev().find_map(expression).or_else(|| memory.last_number());
    let (expressions, rest) = arithmetic::find(words, previous.as_deref());
    let mut intents: Vec<Intent> = expressions.into_iter().map(Intent::Calculate).collect();
    intents.extend(clock::questions(&rest).into_iter().map(Intent::Clock));
    if intents.is_empty() {
        intents.extend(follow_up(words, memory, before, tools));
    }
    if intents.is_empty() {
        let told = memory::about(words).map(Intent::Recall);
        let name = told.or_else(|| memory::name_in(words).map(Intent::Name));
        let note = || memory::fact_in(words).map(Intent::Note);
        intents.extend(name.or_else(note).or_else(|| talk::possible(words).map(Intent::Talk)));
    }
    intents
}

fn expression(intent: &Intent) -> Option<String> {
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

fn path(intent: &Intent) -> Option<&String> {
    match intent {
        Intent::Files(files::Request::Read { path, .. }) => Some(path),
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

fn is_again(words: &[Word]) -> bool {
    let short = words.len() <= 5;
    short
        && (words::has_any(words, "again|once more|one more time|redo|repeat that|same again|try again")
            || (words.len() == 1 && words[0].is("repeat")))
        && !words::has_any(words, "say|what")
}

/// What the last request asked for that was not a mere repetition itself.
fn again(memory: Memory<'_>, tools: &[ToolSpec]) -> Vec<Intent> {
    let requests = std::iter::successors(memory.last_request(), |(_, before)| before.last_request());
    let mut asked = requests.filter(|(text, _)| !is_again(&words::split(text)));
    let last = asked.next().and_then(|(text, before)| Some((text, before.nearer()?)));
    last.map(|(text, before)| of(&text, before, tools)).unwrap_or_default()
}

/// «and in Tokyo?» goes on with the question before it.
fn follow_up(words: &[Word], memory: Memory<'_>, before: &[Intent], tools: &[ToolSpec]) -> Vec<Intent> {
    let file = before.iter().rev().find_map(path).cloned().or_else(|| memory.last_path());
    if let Some(request) = file.and_then(|file| files::follow_up(words, &file)) {
        return vec![Intent::Files(request)];
    }
    let zones = clock::zones(words);
    if zones.is_empty() || words.len() > 5 {
        return Vec::new();
    }
    let earlier = if before.is_empty() { again(memory, tools) } else { before.to_vec() };
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
    zones.into_iter().map(|zone| Intent::Clock(clock::Question { aspect, zone: Some(zone) })).collect()
}

/// «call get_weather with city=Paris», «use get_weather {"city": "Paris"}», «transfer me to helper»
fn named_tool(text: &str, words: &[Word], tools: &[ToolSpec]) -> Option<Intent> {
    let asked = words::has_any(words, "use|call|run|invoke|execute|tool");
    let name = |tool: &&ToolSpec| words.iter().any(|word| word.text == tool.name);
    if let Some(tool) = tools.iter().find(name).filter(|tool| asked || tool.name.contains('_')) {
        return Some(Intent::Tool { name: tool.name.clone(), args: arguments(text, words) });
    }
    let transfer = tools.iter().find(|tool| tool.name == "transfer_to_agent")?;
    let moved = words::has_any(words, "transfer|talk to|speak to|speak with|switch to|hand over");
    let agents = transfer.parameters.pointer("/properties/agent_name/enum").and_then(Value::as_array);
    let named = agents.into_iter().flatten().filter_map(Value::as_str);
    let agent = named.into_iter().find(|agent| words.iter().any(|word| word.key == agent.to_lowercase()));
    let args = Map::from_iter([("agent_name".to_owned(), Value::from(agent.filter(|_| moved)?))]);
    Some(Intent::Tool { name: transfer.name.clone(), args })
}

fn arguments(text: &str, words: &[Word]) -> Map<String, Value> {
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
