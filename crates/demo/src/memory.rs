//! The earlier conversation, which every request contains.

use crate::{
    clause,
    input_words::{self, InputWord},
    reply,
};
use provider::{MessagePart, ModelMessage, Role, ToolCall, ToolResult};

/// Questions about the conversation itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RecallQuestion {
    Name,
    LastMessage,
    FirstMessage,
    AllMessages,
    LastResult,
    LastAnswer,
    /// A fact that the user stated about themselves.
    About(String),
    Everything,
}

/// The messages in front of the one to answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConversationMemory<'a> {
    messages: &'a [ModelMessage],
    /// How many requests «again» may go back. Without a limit, repetitions of repetitions would take unbounded time.
    reach: u8,
}

impl<'a> ConversationMemory<'a> {
    pub(crate) fn new(messages: &'a [ModelMessage]) -> Self {
        Self { messages, reach: 3 }
    }

    /// The same messages, without access to earlier requests.
    pub(crate) fn without_reach(self) -> Self {
        Self { reach: 0, ..self }
    }

    /// The same messages with a smaller reach, if any is left.
    pub(crate) fn with_less_reach(self) -> Option<Self> {
        self.reach.checked_sub(1).map(|reach| Self { reach, ..self })
    }

    pub(crate) fn user_texts(self) -> Vec<String> {
        self.messages
            .iter()
            .filter(|message| is_user_text(message))
            .map(text_of)
            .filter(|text| !text.is_empty())
            .collect()
    }

    /// The last request and the messages in front of it.
    pub(crate) fn last_request(self) -> Option<(String, ConversationMemory<'a>)> {
        let at = self.messages.iter().rposition(is_user_text)?;
        Some((text_of(&self.messages[at]), ConversationMemory { messages: &self.messages[..at], ..self }))
    }

    pub(crate) fn name(self) -> Option<String> {
        self.user_texts().iter().rev().find_map(|text| {
            let words = input_words::split_input(text);
            clause::split_clauses(&words).into_iter().rev().find_map(find_name)
        })
    }

    /// The results of the last round of calls, paired with their calls.
    pub(crate) fn last_results(self) -> Vec<(&'a ToolCall, &'a ToolResult)> {
        let at = self.messages.iter().rposition(|message| message.results().next().is_some());
        at.map(|at| pair_results(&self.messages[..=at])).unwrap_or_default()
    }

    /// The value of «that»: the last result of a calculation.
    pub(crate) fn last_number(self) -> Option<String> {
        let results = self
            .messages
            .iter()
            .rev()
            .flat_map(|message| message.results().collect::<Vec<_>>().into_iter().rev());
        results
            .filter(|result| result.name == "calculate")
            .find_map(|result| reply::result_number(&result.response))
    }

    /// The file that «it» refers to.
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

    /// Facts that the user stated about themselves, newest last.
    pub(crate) fn facts(self) -> Vec<String> {
        let texts = self.user_texts();
        texts
            .iter()
            .flat_map(|text| {
                let words = input_words::split_input(text);
                clause::split_clauses(&words).into_iter().filter_map(find_fact).collect::<Vec<_>>()
            })
            .collect()
    }
}

/// The calls that the last message answers, paired with their results by id, then by position.
pub(crate) fn pair_results(messages: &[ModelMessage]) -> Vec<(&ToolCall, &ToolResult)> {
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

pub(crate) fn is_user_text(message: &ModelMessage) -> bool {
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

pub(crate) fn find_recall(words: &[InputWord]) -> Option<RecallQuestion> {
    let has = |phrases: &str| input_words::has_any_phrase(words, phrases);
    let about_me = has("\
        i say|i ask|i said|i asked|i tell|i told|i just say|i just ask|i write|i request|i wrote|\
        i mention|i mentioned|my question|my last|my first|my previous");
    if has("my name|who am i|who i am|i am called") && has("what|who|do you|remember|tell|know|say") {
        Some(RecallQuestion::Name)
    } else if has("know about me|told you about|you remember about me|remember about me")
        || input_words::starts_with_any(
            words,
            "what do you remember|what did i ask you to remember|what did i tell you to remember",
        )
    {
        Some(RecallQuestion::Everything)
    } else if about_me && has("first|beginning|start") {
        Some(RecallQuestion::FirstMessage)
    } else if about_me && has("so far|everything|all|history|questions") {
        Some(RecallQuestion::AllMessages)
    } else if about_me && has("what|repeat|which|remember|remind") {
        Some(RecallQuestion::LastMessage)
    } else if has("\
        what did you say|what did you just say|what did you answer|repeat your answer|\
        your last answer|you say again|your answer")
    {
        Some(RecallQuestion::LastAnswer)
    } else if has("\
        the result|the results|the answer|last result|previous result|that result|the outcome|\
        the last answer|come out|came out")
        && has("what was|what were|remind|repeat|what is|tell|again|what came|what did")
    {
        Some(RecallQuestion::LastResult)
    } else {
        None
    }
}

/// «what is my favourite colour», «where do I live»
pub(crate) fn find_personal_question(words: &[InputWord]) -> Option<RecallQuestion> {
    let asks = input_words::starts_with_any(
        words,
        "what|where|who|when|how|do you know|do you remember|which|tell me",
    );
    let subject = if let Some(at) = input_words::find_phrase(words, "do i") {
        input_words::join_text(&words[at..])
    } else {
        let at = words.iter().position(|word| word.key == "my" && !word.quoted)?;
        input_words::join_text(&words[at + 1..])
    };
    let word = subject.split(' ').next_back().unwrap_or_default().to_lowercase();
    let ours = "files|file|folder|directory|workspace|project|code|time|do|say|notes";
    (asks && !word.is_empty() && !ours.split('|').any(|other| other == word))
        .then(|| RecallQuestion::About(subject.to_lowercase()))
}

/// The name that the user states in this clause.
pub(crate) fn find_name(words: &[InputWord]) -> Option<String> {
    if find_recall(words).is_some() || find_personal_question(words).is_some() {
        return None;
    }
    let introduced = ["my name is", "name is", "call me", "i am called"]
        .iter()
        .find_map(|phrase| input_words::find_phrase(words, phrase));
    let (at, strict) = match introduced {
        Some(at) => (at, false),
        None => (
            input_words::find_phrase(words, "i am")
                .or_else(|| input_words::find_phrase(words, "this is"))
                .filter(|at| *at == 2)?,
            true,
        ),
    };
    let capital = |word: &InputWord| word.text.starts_with(char::is_uppercase);
    let rest = &words[at..];
    let first = rest
        .first()
        .filter(|word| if strict { capital(word) } else { word.text.starts_with(char::is_alphabetic) })?;
    let more = rest[1..].iter().take_while(|word| capital(word) && !word.raw.is_empty()).take(2);
    let name: Vec<&str> = std::iter::once(first).chain(more).map(|word| word.text.as_str()).collect();
    Some(name.join(" "))
}

/// A statement about the user that a later question may ask for.
pub(crate) fn find_fact(words: &[InputWord]) -> Option<String> {
    if find_recall(words).is_some() || find_personal_question(words).is_some() {
        return None;
    }
    let introduced = input_words::starts_with_any(
        words,
        "i live|i like|i love|i work|i prefer|i hate|i am|i was born|i have|i study|i speak",
    );
    let mine = words.first().is_some_and(|word| word.key == "my")
        && words.iter().any(|word| word.is_any("is|are|was"));
    let asked = input_words::find_phrase(words, "remember")
        .filter(|at| *at <= 2 && input_words::find_phrase(words, "do you").is_none());
    let from = match asked {
        Some(at) => at + usize::from(words.get(at).is_some_and(|word| word.key == "that")),
        None if introduced || mine => 0,
        None => return None,
    };
    let fact = input_words::join_text(&words[from..]);
    (!fact.is_empty()).then_some(fact)
}
