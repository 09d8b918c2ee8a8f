//! Property: each request is a prefix of the next one. The prompt cache of providers depends on it.

use crate::common::{call, contents_shape};
use adk::{
    agent::IncludeContents,
    content::{Content, Data, FunctionResponse, Part},
    event::Event,
    flow::{
        contents::{HistoryView, contents},
        step::{Step, next_step},
    },
    model::ContentRef,
    pending::PendingWork,
};
use proptest::{collection::vec, prelude::*};
use serde_json::json;
use std::sync::Arc;
use testkit::property::{CaseTally, check};

/// The behaviour of one model call.
#[derive(Clone, Copy, Debug)]
enum Act {
    Speak,
    Think,
    Call {
        count: usize,
        own_id: bool,
    },
    Transfer,
    Nothing,
    /// The process dies during the answer; with `words`, some text was emitted.
    Die {
        words: bool,
    },
    /// The stream fails during the answer.
    Fail,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        Just(Act::Speak),
        Just(Act::Think),
        (1..4usize, any::<bool>()).prop_map(|(count, own_id)| Act::Call { count, own_id }),
        Just(Act::Transfer),
        Just(Act::Nothing),
        any::<bool>().prop_map(|words| Act::Die { words }),
        Just(Act::Fail),
    ]
}

/// A log as the runner writes it, and the agent that is called at each length of it.
#[derive(Default)]
struct Log {
    events: Vec<Arc<Event>>,
    pending: PendingWork,
    asked: Vec<(String, usize)>,
}

impl Log {
    fn push(&mut self, author: &str, role: &str, parts: Vec<Part>, to: Option<&str>) {
        let mut event = Event::new("e", author);
        event.content = Some(Content::new(role, parts));
        event.actions.transfer_to_agent = to.map(str::to_owned);
        for change in self.pending.changes(&event) {
            self.pending.apply(&change);
        }
        self.events.push(Arc::new(event));
    }

    /// The last answer was interrupted. A failed run has ended; a run of a dead process is resumed.
    fn interrupt(&mut self, failed: bool) {
        let Some(last) = self.events.pop() else { return };
        let author = last.author.clone();
        self.events.push(Arc::new(Event { interrupted: Some(true), ..Arc::unwrap_or_clone(last) }));
        if failed {
            let error_code = Some("BOOM".to_owned());
            self.events.push(Arc::new(Event { error_code, ..Event::new("e", author) }));
        }
    }

    fn ask(&mut self, act: Act, number: usize) {
        let agent = self.pending.active_agent.clone().unwrap_or_else(|| "a".to_owned());
        self.asked.push((agent.clone(), self.events.len()));
        let parts = match act {
            Act::Speak => vec![Part::text(format!("answer {number}"))],
            Act::Think => vec![Part::thought("hm"), Part::text(format!("thoughtful {number}"))],
            Act::Call { count, own_id } => (0..count).map(|at| called(number, at, own_id)).collect(),
            Act::Transfer => vec![called(number, 0, false)],
            Act::Nothing => vec![],
            Act::Die { words: false } => vec![Part::thought("hm")],
            Act::Die { words: true } | Act::Fail => {
                vec![Part::thought("hm"), Part::text(format!("half {number}"))]
            }
        };
        let other = if agent == "a" { "b" } else { "a" };
        let to = matches!(act, Act::Transfer).then_some(other);
        self.push(&agent, "model", parts, None);
        if matches!(act, Act::Die { .. } | Act::Fail) {
            self.interrupt(matches!(act, Act::Fail));
        }
        if let Step::CallTools(calls) = next_step(self.events.last().map(AsRef::as_ref), &self.pending) {
            let answers =
                calls.iter().map(|call| FunctionResponse::new(call.id(), call.name(), json!(number)).into());
            self.push(&agent, "user", answers.collect(), to);
        }
    }
}

/// A call with a fresh id, or with an id that the model reuses in every turn.
fn called(number: usize, at: usize, own_id: bool) -> Part {
    let mut part = call("f", json!({"n": number}));
    if let Data::FunctionCall(call) = &mut part.data {
        call.id = Some(if own_id { format!("call_{at}") } else { format!("adk-{number}-{at}") });
    }
    part
}

fn log(acts: &[Act]) -> Log {
    let mut log = Log::default();
    for (number, act) in acts.iter().enumerate() {
        if next_step(log.events.last().map(AsRef::as_ref), &log.pending) == Step::Done {
            log.push("user", "user", vec![Part::text(format!("message {number}"))], None);
        }
        log.ask(*act, number);
    }
    log
}

fn view(log: &Log, agent: &str, length: usize) -> Vec<ContentRef> {
    let events = &log.events[..length];
    contents(HistoryView { agent, branch: None, include: IncludeContents::Default, events, deferred: &[] })
}

#[test]
fn a_request_starts_with_the_previous_request() {
    let tally = CaseTally::default();
    check(2_000, &vec(act(), 1..25), |acts| {
        let log = log(&acts);
        let did = |what: fn(&Act) -> bool| acts.iter().any(what);
        tally.count("parallel calls", did(|act| matches!(act, Act::Call { count: 2.., .. })));
        tally.count("ids that come again", did(|act| matches!(act, Act::Call { own_id: true, .. })));
        tally.count("handovers", did(|act| matches!(act, Act::Transfer)));
        tally.count("failures", did(|act| matches!(act, Act::Fail)));
        let resumed = acts.windows(2).any(|pair| matches!(pair, [Act::Die { words: true }, Act::Speak]));
        let in_silence = acts.windows(2).any(|pair| matches!(pair, [Act::Die { words: true }, Act::Nothing]));
        tally.count("resumed answers", resumed);
        tally.count("resumed in silence", in_silence);
        tally.count("silence", did(|act| matches!(act, Act::Nothing)));
        tally.count(
            "both agents asked twice",
            ["a", "b"].iter().all(|agent| log.asked.iter().filter(|(asked, _)| asked == agent).count() > 1),
        );
        for agent in ["a", "b"] {
            let lengths = log.asked.iter().filter(|(asked, _)| asked == agent).map(|(_, length)| *length);
            let views: Vec<Vec<ContentRef>> = lengths.map(|length| view(&log, agent, length)).collect();
            for pair in views.windows(2) {
                prop_assert!(
                    pair[1].starts_with(&pair[0]),
                    "{}\nis no prefix of\n{}",
                    contents_shape(&pair[0]),
                    contents_shape(&pair[1])
                );
            }
        }
        Ok(())
    });
    tally.assert_covered();
}
