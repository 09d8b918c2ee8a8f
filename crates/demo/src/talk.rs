//! Small talk, and honesty: this model says that it is a set of rules, and what it can do with the tools at hand.

use crate::words::{self, Word};
use provider::ToolSpec;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Talk {
    Hello,
    HowAreYou,
    Thanks,
    Bye,
    WhoAreYou,
    Help,
    Agreement,
    Praise,
    Sorry,
    Joke,
}

/// Small talk that nothing else can be meant by.
pub(crate) fn certain(words: &[Word]) -> Option<Talk> {
    let has = |phrases: &str| words::has_any(words, phrases);
    if has("\
        who are you|what are you|your name|are you a|are you an|are you human|are you real|\
        are you chatgpt|are you claude|are you gemini|are you gpt|which model|what model|what llm|\
        who made you|who built you|about yourself|introduce yourself")
    {
        Some(Talk::WhoAreYou)
    } else if has("\
        what can you do|what can i do|what do you do|can you do|help me|how do you work|\
        how does this work|your capabilities|capabilities|what can i ask|which tools|what tools|\
        your tools|available tools|what commands|your skills")
        || (words.len() <= 2 && has("help|commands|usage"))
    {
        Some(Talk::Help).filter(|_| words.len() < 12)
    } else if has("\
        how are you|how is it going|how are things|how do you do|how you doing|how have you been|\
        what is up")
    {
        Some(Talk::HowAreYou)
    } else if has("joke|something funny") {
        Some(Talk::Joke)
    } else {
        None
    }
}

/// Small talk, if nothing else was recognised.
pub(crate) fn possible(words: &[Word]) -> Option<Talk> {
    let first = |keys: &str| words::starts(words, keys);
    if first(
        "\
        hi|hello|hey|heya|hiya|howdy|greetings|good morning|good afternoon|good evening|good day|yo|\
        helo|hallo|welcome|nice to meet",
    ) {
        Some(Talk::Hello)
    } else if words::has_any(words, "thanks|thank you|thank|cheers|much appreciated|appreciate") {
        Some(Talk::Thanks)
    } else if words::has_any(words, "bye|goodbye|see you|see ya|good night|farewell|later|cya") {
        Some(Talk::Bye)
    } else if words.len() <= 4 && first("sorry|my bad|apologies|oops") {
        Some(Talk::Sorry)
    } else if words.len() <= 5
        && words::has_any(
            words,
            "great|nice|cool|awesome|perfect|good job|well done|amazing|wow|good|excellent|lovely",
        )
    {
        Some(Talk::Praise)
    } else if words.len() <= 3 && first("yes|no|ok|okay|sure|yep|nope|fine|alright|right|yeah") {
        Some(Talk::Agreement)
    } else {
        None
    }
}

pub(crate) fn say(talk: Talk, name: Option<&str>, tools: &[ToolSpec]) -> String {
    let named = name.map_or_else(String::new, |name| format!(", {name}"));
    match talk {
        Talk::Hello => format!("Hello{named}! I am Lango's built-in demo model. {}", offer(tools)),
        Talk::HowAreYou => format!("I am a set of rules, so I am always the same{named}. {}", offer(tools)),
        Talk::Thanks => format!("You are welcome{named}."),
        Talk::Bye => format!("Goodbye{named}!"),
        Talk::WhoAreYou => format!(
            "I am Lango's built-in demo: a small set of rules, not a language model. I work offline and call real tools. {}",
            offer(tools)
        ),
        Talk::Help => format!("I am a small rule-driven demo, not a language model. {}", offer(tools)),
        Talk::Agreement => "All right. What shall I do next?".to_owned(),
        Talk::Praise => format!("Glad to hear that{named}."),
        Talk::Sorry => "No harm done.".to_owned(),
        Talk::Joke => {
            "I know one: a rule walks into a bar, and it matches. That is all the humour my rules hold."
                .to_owned()
        }
    }
}

pub(crate) fn not_understood(text: &str, tools: &[ToolSpec]) -> String {
    let said = if text.trim().is_empty() {
        "I was given no text to answer".to_owned()
    } else {
        format!("I did not understand «{}»", shortened(text))
    };
    format!(
        "{said}: I am a small rule-driven demo, not a language model. {} What would you like me to do?",
        offer(tools)
    )
}

pub(crate) fn missing(tool: &str) -> String {
    format!("For that I need the tool `{tool}`, which this agent does not have.")
}

fn shortened(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    if line.chars().count() > 80 {
        format!("{}…", line.chars().take(80).collect::<String>())
    } else {
        line.to_owned()
    }
}

/// What can be asked for, with the tools that are there.
fn offer(tools: &[ToolSpec]) -> String {
    const SKILLS: [(&str, &str); 5] = [
        ("now", "tell the time and the date («what time is it in Tokyo?»)"),
        ("calculate", "calculate («15% of 240»)"),
        ("read_file", "read a file («what is in README.md?»)"),
        ("list_files", "list files («list the files in src»)"),
        ("search_files", "search in files («find 'TODO' in src»)"),
    ];
    let offered = |name: &str| tools.iter().any(|tool| tool.name == name);
    let skills: Vec<&str> =
        SKILLS.iter().filter(|(name, _)| offered(name)).map(|(_, skill)| *skill).collect();
    let others: Vec<String> = tools
        .iter()
        .filter(|tool| !SKILLS.iter().any(|(name, _)| tool.name == *name))
        .map(|tool| format!("`{}`", tool.name))
        .collect();
    let mut offer = match skills.as_slice() {
        [] => "I can remember what you tell me in this session.".to_owned(),
        [one] => format!("I can {one}, and remember what you tell me in this session."),
        many => format!("I can {}, and remember what you tell me in this session.", many.join(", ")),
    };
    if !others.is_empty() {
        offer.push_str(" Say «call <tool> with key=value» for ");
        offer.push_str(&others.join(", "));
        offer.push('.');
    }
    offer
}
