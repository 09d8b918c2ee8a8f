//! What was said before: the messages are shown to the model, so it can look them up.

use crate::{clause, reply, words, words::Word};
use provider::{MessagePart, ModelMessage, Role, ToolCall, ToolResult};

/// Questions about the conversation itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Recall {
    Name,
    LastSaid,
    FirstSaid,
    AllSaid,
    LastResult,
    MyAnswer,
    /// Something that the user told about themselves.
    About(String),
    Everything,
}

/// The messages before the one that is being answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory<'a> {
    messages: &'a [ModelMessage],
    /// How many requests back «again» may still look. Without an end, repetitions of repetitions would cost without end.
    reach: u8,
}

impl<'a> Memory<'a> {
    pub(crate) fn of(messages: &'a [ModelMessage]) -> Self {
        Self { messages, reach: 3 }
    }

    /// The same past, for one who must not follow it back.
    pub(crate) fn without_requests(self) -> Self {
        Self { reach: 0, ..self }
    }

    /// The same past with a shorter reach, if there is any left.
    pub(crate) fn nearer(self) -> Option<Self> {
        self.reach.checked_sub(1).map(|reach| Self { reach, ..self })
    }

    pub(crate) fn said(self) -> Vec<String> {
        self.messages
            .iter()
            .filter(|message| is_spoken(message))
            .map(text_of)
            .filter(|text| !text.is_empty())
            .collect()
    }

    /// The last request and what came before it.
    pub(crate) fn last_request(self) -> Option<(String, Memory<'a>)> {
        let at = self.messages.iter().rposition(is_spoken)?;
        Some((text_of(&self.messages[at]), Memory { messages: &self.messages[..at], ..self }))
    }

    pub(crate) fn name(self) -> Option<String> {
        self.said().iter().rev().find_map(|text| {
            let words = words::split(text);
            clause::split(&words).into_iter().rev().find_map(name_in)
        })
    }

    /// The newest result of each call in the last round of calls.
    pub(crate) fn last_results(self) -> Vec<(&'a ToolCall, &'a ToolResult)> {
        let at = self.messages.iter().rposition(|message| message.results().next().is_some());
        at.map(|at| paired(&self.messages[..=at])).unwrap_or_default()
    }

    /// What «that» is: the last number that a calculation gave.
    pub(crate) fn last_number(self) -> Option<String> {
        let results = self
            .messages
            .iter()
            .rev()
            .flat_map(|message| message.results().collect::<Vec<_>>().into_iter().rev());
        results.filter(|result| result.name == "calculate").find_map(|result| reply::number(&result.response))
    }

    /// What «it» is, where files are spoken of.
    pub(crate) fn last_path(self) -> Option<String> {
        let calls = self
            .messages
            .iter()
            .rev()
            .flat_map(|message| message.calls().collect::<Vec<_>>().into_iter().rev());
        let path =
            calls.filter(|call| call.name == "read_file").find_map(|call| call.args.get("path")?.as_str());
        path.map(str::to_owned)
    }

    pub(crate) fn last_answer(self) -> Option<String> {
        let answers = self.messages.iter().rev().filter(|message| message.role == Role::Assistant);
        answers.map(text_of).find(|text| !text.is_empty())
    }

    /// What the user told about themselves, newest last.
    pub(crate) fn facts(self) -> Vec<String> {
        let said = self.said();
        said.iter()
            .flat_map(|text| {
                let words = words::split(text);
                clause::split(&words).into_iter().filter_map(fact_in).collect::<Vec<_>>()
            })
            .collect()
    }
}

/// The calls that the last message answers, each with its answer; ids first, else by position.
pub(crate) fn paired(messages: &[ModelMessage]) -> Vec<(&ToolCall, &ToolResult)> {
    let Some((last, before)) = messages.split_last() else { return Vec::new() };
    let Some(calls) = before.iter().rev().find(|message| message.calls().next().is_some()) else {
        return Vec::new();
    };
    let results: Vec<&ToolResult> = last.results().collect();
    let pair = |(at, call): (usize, &'_ ToolCall)| {
        let by_id = results.iter().find(|result| result.id == call.id && result.name == call.name);
        by_id.or_else(|| results.get(at)).copied()
    };
    calls.calls().enumerate().filter_map(|(at, call)| pair((at, call)).map(|result| (call, result))).collect()
}

pub(crate) fn is_spoken(message: &ModelMessage) -> bool {
    message.role == Role::User && message.results().next().is_none()
}

pub(crate) fn text_of(message: &ModelMessage) -> String {
    let texts = message.parts.iter().filter_map(|part| match part {
        MessagePart::Text { text, .. } => Some(text.as_str()),
        MessagePart::Thought { .. }
        | MessagePart::Call(_)
        | MessagePart::Result(_)
        | MessagePart::Media(_) => None,
    });
    texts.collect::<Vec<_>>().join(" ").trim().to_owned()
}

pub(crate) fn recall(words: &[Word]) -> Option<Recall> {
    let has = |phrases: &str| words::has_any(words, phrases);
    let about_me = has("\
        i say|i ask|i said|i asked|i tell|i told|i just say|i just ask|i write|i request|i wrote|\
        i mention|i mentioned|my question|my last|my first|my previous");
    if has("my name|who am i|who i am|i am called") && has("what|who|do you|remember|tell|know|say") {
        Some(Recall::Name)
    } else if has("know about me|told you about|you remember about me|remember about me")
        || words::starts(
            words,
            "what do you remember|what did i ask you to remember|what did i tell you to remember",
        )
    {
        Some(Recall::Everything)
    } else if about_me && has("first|beginning|start") {
        Some(Recall::FirstSaid)
    } else if about_me && has("so far|everything|all|history|questions") {
        Some(Recall::AllSaid)
    } else if about_me && has("what|repeat|which|remember|remind") {
        Some(Recall::LastSaid)
    } else if has("\
        what did you say|what did you just say|what did you answer|repeat your answer|\
        your last answer|you say again|your answer")
    {
        Some(Recall::MyAnswer)
    } else if has("\
        the result|the results|the answer|last result|previous result|that result|the outcome|\
        the last answer|come out|came out")
        && has("what was|what were|remind|repeat|what is|tell|again|what came|what did")
    {
        Some(Recall::LastResult)
    } else {
        None
    }
}

/// «what is my favourite colour», «where do I live»
pub(crate) fn about(words: &[Word]) -> Option<Recall> {
    let asks = words::starts(words, "what|where|who|when|how|do you know|do you remember|which|tell me");
    let subject = if let Some(at) = words::find(words, "do i") {
        words::joined(&words[at..])
    } else {
        let at = words.iter().position(|word| word.key == "my" && !word.quoted)?;
        words::joined(&words[at + 1..])
    };
    let word = subject.split(' ').next_back().unwrap_or_default().to_lowercase();
    let ours = "files|file|folder|directory|workspace|project|code|time|do|say|notes";
    (asks && !word.is_empty() && !ours.split('|').any(|other| other == word))
        .then(|| Recall::About(subject.to_lowercase()))
}

/// A name that the user gives in this clause.
pub(crate) fn name_in(words: &[Word]) -> Option<String> {
    if recall(words).is_some() || about(words).is_some() {
        return None;
    }
    let told = ["my name is", "name is", "call me", "i am called"]
        .iter()
        .find_map(|phrase| words::find(words, phrase));
    let (at, strict) = match told {
        Some(at) => (at, false),
        None => (
            words::find(words, "i am").or_else(|| words::find(words, "this is")).filter(|at| *at == 2)?,
            true,
        ),
    };
    let capital = |word: &Word| word.text.starts_with(char::is_uppercase);
    let rest = &words[at..];
    let first = rest
        .first()
        .filter(|word| if strict { capital(word) } else { word.text.starts_with(char::is_alphabetic) })?;
    let more = rest[1..].iter().take_while(|word| capital(word) && !word.raw.is_empty()).take(2);
    let name: Vec<&str> = std::iter::once(first).chain(more).map(|word| word.text.as_str()).collect();
    Some(name.join(" "))
}

/// A statement about the user that may be asked for later.
pub(crate) fn fact_in(words: &[Word]) -> Option<String> {
    if recall(words).is_some() || about(words).is_some() {
        return None;
    }
    let told = words::starts(
        words,
        "i live|i like|i love|i work|i prefer|i hate|i am|i was born|i have|i study|i speak",
    );
    let mine = words.first().is_some_and(|word| word.key == "my")
        && words.iter().any(|word| word.is_any("is|are|was"));
    let asked =
        words::find(words, "remember").filter(|at| *at <= 2 && words::find(words, "do you").is_none());
    let from = match asked {
        Some(at) => at + usize::from(words.get(at).is_some_and(|word| word.key == "that")),
        None if told || mine => 0,
        None => return None,
    };
    let fact = words::joined(&words[from..]);
    (!fact.is_empty()).then_some(fact)
}
