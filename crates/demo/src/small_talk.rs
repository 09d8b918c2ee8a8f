//! Small talk. The model says that it is a set of rules, and what it can do with the declared tools.

use crate::input_words::{self, InputWord};
use provider::ToolSpec;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SmallTalk {
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

/// Small talk that has no other meaning.
pub(crate) fn unambiguous(words: &[InputWord]) -> Option<SmallTalk> {
    let has = |phrases: &str| input_words::has_any_phrase(words, phrases);
    if has("\
        who are you|what are you|your name|are you a|are you an|are you human|are you real|\
        are you chatgpt|are you claude|are you gemini|are you gpt|which model|what model|what llm|\
        who made you|who built you|about yourself|introduce yourself")
    {
        Some(SmallTalk::WhoAreYou)
    } else if has("\
        what can you do|what can i do|what do you do|can you do|help me|how do you work|\
        how does this work|your capabilities|capabilities|what can i ask|which tools|what tools|\
        your tools|available tools|what commands|your skills")
        || (words.len() <= 2 && has("help|commands|usage"))
    {
        Some(SmallTalk::Help).filter(|_| words.len() < 12)
    } else if has("\
        how are you|how is it going|how are things|how do you do|how you doing|how have you been|\
        what is up")
    {
        Some(SmallTalk::HowAreYou)
    } else if has("joke|something funny") {
        Some(SmallTalk::Joke)
    } else {
        None
    }
}

/// Small talk, if no other intent was recognized.
pub(crate) fn fallback(words: &[InputWord]) -> Option<SmallTalk> {
    let first = |keys: &str| input_words::starts_with_any(words, keys);
    if first(
        "\
        hi|hello|hey|heya|hiya|howdy|greetings|good morning|good afternoon|good evening|good day|yo|\
        helo|hallo|welcome|nice to meet",
    ) {
        Some(SmallTalk::Hello)
    } else if input_words::has_any_phrase(words, "thanks|thank you|thank|cheers|much appreciated|appreciate")
    {
        Some(SmallTalk::Thanks)
    } else if input_words::has_any_phrase(words, "bye|goodbye|see you|see ya|good night|farewell|later|cya") {
        Some(SmallTalk::Bye)
    } else if words.len() <= 4 && first("sorry|my bad|apologies|oops") {
        Some(SmallTalk::Sorry)
    } else if words.len() <= 5
        && input_words::has_any_phrase(
            words,
            "great|nice|cool|awesome|perfect|good job|well done|amazing|wow|good|excellent|lovely",
        )
    {
        Some(SmallTalk::Praise)
    } else if words.len() <= 3 && first("yes|no|ok|okay|sure|yep|nope|fine|alright|right|yeah") {
        Some(SmallTalk::Agreement)
    } else {
        None
    }
}

pub(crate) fn answer(talk: SmallTalk, name: Option<&str>, tools: &[ToolSpec]) -> String {
    let address = name.map_or_else(String::new, |name| format!(", {name}"));
    match talk {
        SmallTalk::Hello => format!("Hello{address}! I am Lango's built-in demo model. {}", offer(tools)),
        SmallTalk::HowAreYou => {
            format!("I am a set of rules, so I am always the same{address}. {}", offer(tools))
        }
        SmallTalk::Thanks => format!("You are welcome{address}."),
        SmallTalk::Bye => format!("Goodbye{address}!"),
        SmallTalk::WhoAreYou => format!(
            "I am Lango's built-in demo: a small set of rules, not a language model. I work offline and call real tools. {}",
            offer(tools)
        ),
        SmallTalk::Help => format!("I am a small rule-driven demo, not a language model. {}", offer(tools)),
        SmallTalk::Agreement => "All right. What shall I do next?".to_owned(),
        SmallTalk::Praise => format!("Glad to hear that{address}."),
        SmallTalk::Sorry => "No harm done.".to_owned(),
        SmallTalk::Joke => {
            "I know one: a rule walks into a bar, and it matches. That is all the humour my rules hold."
                .to_owned()
        }
    }
}

pub(crate) fn not_understood(text: &str, tools: &[ToolSpec]) -> String {
    let opening = if text.trim().is_empty() {
        "I was given no text to answer".to_owned()
    } else {
        format!("I did not understand «{}»", first_line(text))
    };
    format!(
        "{opening}: I am a small rule-driven demo, not a language model. {} What would you like me to do?",
        offer(tools)
    )
}

pub(crate) fn missing_tool(tool: &str) -> String {
    format!("For that I need the tool `{tool}`, which this agent does not have.")
}

fn first_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    if line.chars().count() > 80 {
        format!("{}…", line.chars().take(80).collect::<String>())
    } else {
        line.to_owned()
    }
}

/// Describes the capabilities of the model with the declared tools.
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
