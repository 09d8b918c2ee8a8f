//! Generates sessions as a runner builds them: the user asks, the agent calls tools and answers, turn after turn.

use super::view::{AGENT, MODEL, PROVIDER};
use adk::{
    content::{Content, FunctionCall, FunctionResponse, Origin, Part},
    event::Event,
};
use proptest::{collection::vec, option::of, prelude::*};
use serde_json::{Map, json};
use std::collections::HashSet;
use testkit::property::CaseTally;

/// Events in order, and the numbers of events after which the model is called.
#[derive(Clone, Debug, Default)]
pub(crate) struct GeneratedRun {
    pub(crate) events: Vec<Event>,
    pub(crate) asked: Vec<usize>,
}

pub(crate) fn run() -> impl Strategy<Value = GeneratedRun> {
    (vec(turn(), 1..5), ids()).prop_map(|(turns, ids)| {
        let mut run = GeneratedRun::default();
        for turn in turns {
            run.push_turn(turn, ids);
        }
        run
    })
}

/// How a provider names calls.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CallIdStyle {
    Unique,
    /// Numbered from 0 in every answer.
    Repeated,
    /// No ids, so that the runner creates them.
    Minted,
}

fn ids() -> impl Strategy<Value = CallIdStyle> {
    prop::sample::select(vec![CallIdStyle::Unique, CallIdStyle::Repeated, CallIdStyle::Minted])
}

#[derive(Clone, Debug)]
struct Turn {
    question: String,
    steps: Vec<GeneratedStep>,
    /// Attempts to answer that were interrupted, each after this was streamed.
    interrupted: Vec<Shown>,
    /// `None` if the run was not resumed.
    answer: Option<String>,
}

/// The streamed part of an interrupted answer.
#[derive(Clone, Debug)]
struct Shown {
    thought: Option<String>,
    text: Option<String>,
    /// The stream failed; otherwise the process died.
    failed: bool,
}

/// One answer of the model that calls tools.
#[derive(Clone, Debug)]
struct GeneratedStep {
    thought: Option<String>,
    text: Option<String>,
    signature: Option<String>,
    calls: usize,
}

fn turn() -> impl Strategy<Value = Turn> {
    let words = || "[a-zé漢]{1,8}( [a-z]{1,8}){0,4}";
    let step = (of(words()), of(words()), of("[A-Za-z0-9+/]{4,16}"), 1_usize..4)
        .prop_map(|(thought, text, signature, calls)| GeneratedStep { thought, text, signature, calls });
    let shown = (of(words()), of("[a-z]{1,8} "), any::<bool>()).prop_map(|(thought, text, failed)| Shown {
        thought,
        text,
        failed,
    });
    let interrupted = prop_oneof![2 => Just(Vec::new()), 1 => vec(shown, 1..3)];
    (words(), vec(step, 0..4), interrupted, words(), any::<bool>()).prop_map(
        |(question, steps, interrupted, answer, resumed)| {
            // A request is not a prefix of a later one if a message follows a run that failed without text: it is
            // merged with the message before it, or replaces the continue note.
            let is_abandoned = !resumed && interrupted.last().is_some_and(|shown| shown.text.is_some());
            let answer = Some(answer).filter(|_| !is_abandoned);
            Turn { question, steps, interrupted, answer }
        },
    )
}

impl GeneratedRun {
    /// Whether the events between two requests change the view.
    pub(crate) fn grew(&self, before: usize, after: usize) -> bool {
        let parts = |event: &'_ Event| event.content.clone().map(|content| content.parts).unwrap_or_default();
        self.events[before..after].iter().flat_map(parts).any(|part| !part.is_thought())
    }

    pub(crate) fn count_properties(&self, tally: &CaseTally) {
        let contents = || self.events.iter().filter_map(|event| event.content.as_ref());
        let ids: Vec<String> =
            contents().flat_map(|content| content.calls().map(FunctionCall::id_or_name)).collect();
        let unique: HashSet<&String> = ids.iter().collect();
        tally.count("several requests", self.asked.len() > 1);
        tally.count("interrupted answers", self.events.iter().any(Event::is_interrupted_answer));
        tally.count("parallel calls", contents().any(|content| content.calls().count() > 1));
        tally.count("ids that come again", unique.len() < ids.len());
        tally.count(
            "signed thoughts",
            contents()
                .flat_map(|content| &content.parts)
                .any(|part| part.is_thought() && part.thought_signature.is_some()),
        );
    }

    fn push_turn(&mut self, turn: Turn, ids: CallIdStyle) {
        self.push("user", Content::user(turn.question));
        for step in turn.steps {
            self.asked.push(self.events.len());
            self.step(&step, ids);
        }
        for shown in turn.interrupted {
            self.asked.push(self.events.len());
            self.interrupt(shown);
        }
        if let Some(answer) = turn.answer {
            self.asked.push(self.events.len());
            self.push(AGENT, model_content(vec![Part::text(answer)]));
        }
    }

    /// As the runner stores it: the streamed part, if any, and the error.
    fn interrupt(&mut self, Shown { thought, text, failed }: Shown) {
        let parts: Vec<Part> = thought.map(Part::thought).into_iter().chain(text.map(Part::text)).collect();
        if !parts.is_empty() {
            self.push(AGENT, Content::new("model", parts));
            self.events.last_mut().unwrap().interrupted = Some(true);
        }
        if failed {
            let (id, error_code) = (self.events.len().to_string(), Some("BOOM".to_owned()));
            self.events.push(Event { id, author: AGENT.to_owned(), error_code, ..Event::default() });
        }
    }

    fn step(&mut self, step: &GeneratedStep, ids: CallIdStyle) {
        let place = self.events.len();
        let id = |number: usize| match ids {
            CallIdStyle::Unique => format!("toolu_{place}_{number}"),
            CallIdStyle::Repeated => format!("call_{number}"),
            CallIdStyle::Minted => format!("adk-{place}-{number}"),
        };
        let signed = |part: Part| Part { thought_signature: step.signature.clone(), ..part };
        let thought = step.thought.clone().map(|text| signed(Part::thought(text)));
        let calls = (0..step.calls).map(|number| {
            let args = json!({"at": number}).as_object().cloned();
            signed(
                FunctionCall { id: Some(id(number)), name: "look".to_owned(), args, extra: Map::new() }
                    .into(),
            )
        });
        let parts = thought.into_iter().chain(step.text.clone().map(Part::text)).chain(calls).collect();
        self.push(AGENT, model_content(parts));
        let answers = (0..step.calls).map(|number| {
            let response = json!({"result": format!("found {place}.{number}")}).as_object().cloned();
            FunctionResponse { id: Some(id(number)), name: "look".to_owned(), response, extra: Map::new() }
                .into()
        });
        self.push(AGENT, Content::new("user", answers.collect()));
    }

    fn push(&mut self, author: &str, content: Content) {
        let (author, content) = (author.to_owned(), Some(content));
        self.events.push(Event { id: self.events.len().to_string(), author, content, ..Event::default() });
    }
}

fn model_content(parts: Vec<Part>) -> Content {
    let origin = Origin { provider: PROVIDER.to_owned(), model: MODEL.to_owned() };
    Content { origin: Some(origin), ..Content::new("model", parts) }
}
