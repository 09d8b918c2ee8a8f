//! The next step, as a table.

use crate::common::call_as;
use adk::{
    content::{Content, FunctionResponse},
    event::{Event, ToolConfirmation},
    facts::{Call, Facts, Question},
    flow::step::{Step, next_step},
};
use serde_json::json;

fn event(author: &str, content: Content) -> Event {
    Event {
        author: author.to_owned(),
        content: Some(content),
        invocation_id: "e".to_owned(),
        ..Event::default()
    }
}

fn response() -> Content {
    Content::new("user", vec![FunctionResponse::new("1", "f", json!({})).into()])
}

fn open(id: &str, author: &str) -> Call {
    Call {
        part: call_as(id, "f", json!({})),
        author: author.to_owned(),
        invocation_id: "e".to_owned(),
        branch: None,
        long_running: false,
        confirmation: None,
        begun: false,
    }
}

fn question(call: &Call) -> Question {
    Question { id: "q".to_owned(), call: call.clone(), confirmation: ToolConfirmation::default() }
}

fn facts(open_calls: &[&Call], questions: &[Question]) -> Facts {
    Facts {
        open_calls: open_calls.iter().map(|call| (*call).clone()).collect(),
        questions: questions.to_vec(),
        ..Facts::default()
    }
}

fn shape(step: Step) -> String {
    match step {
        Step::CallModel => "model".to_owned(),
        Step::CallTools(calls) => calls.iter().map(Call::id).collect::<Vec<_>>().join(" "),
        Step::Done => "done".to_owned(),
    }
}

#[test]
fn the_next_step_follows_from_the_last_event_and_the_facts() {
    let user = event("user", Content::user("hi"));
    let said = event("a", Content::model("ho"));
    let answered = event("a", response());
    let mut skipping = answered.clone();
    skipping.actions.skip_summarization = Some(true);
    let late = event("user", response());
    let shown = Event { interrupted: Some(true), ..said.clone() };
    let mut with_call = event("a", Content::new("model", vec![call_as("1", "f", json!({}))]));
    with_call.interrupted = Some(true);
    let flag = Event { content: None, ..shown.clone() };
    let failed = Event { author: "a".to_owned(), error_code: Some("E".to_owned()), ..Event::default() };
    let (one, two, other) = (open("1", "a"), open("2", "a"), open("3", "b"));
    let confirmed = Call { confirmation: Some(ToolConfirmation::default()), ..one.clone() };
    let elsewhere = question(&Call { invocation_id: "other".to_owned(), ..one.clone() });
    let none = Facts::default();
    let table = [
        ("an empty log", None, none.clone(), "done"),
        ("a message", Some(&user), none.clone(), "model"),
        ("an answer", Some(&said), none.clone(), "done"),
        ("results", Some(&answered), none.clone(), "model"),
        ("results that a person looks at", Some(&skipping), none.clone(), "done"),
        ("a late result", Some(&late), none.clone(), "model"),
        ("an interrupted answer", Some(&shown), none.clone(), "model"),
        ("an interrupted event with a call", Some(&with_call), none.clone(), "done"),
        ("an interrupted event without content", Some(&flag), none.clone(), "done"),
        ("a failure", Some(&failed), none, "done"),
        ("open calls", Some(&said), facts(&[&one, &two], &[]), "1 2"),
        ("open calls of two agents", Some(&said), facts(&[&one, &other, &two], &[]), "1 2"),
        ("a call that waits for a person", Some(&said), facts(&[&one], &[question(&one)]), "done"),
        ("one that waits, one that can run", Some(&said), facts(&[&one, &two], &[question(&one)]), "2"),
        ("a question", Some(&skipping), facts(&[], &[question(&one)]), "done"),
        ("a result while a question waits", Some(&answered), facts(&[], &[question(&one)]), "done"),
        (
            "a result while a question of another run waits",
            Some(&answered),
            facts(&[], &[elsewhere]),
            "model",
        ),
        ("a late result while a question waits", Some(&late), facts(&[], &[question(&one)]), "model"),
        (
            "an interrupted answer while a question waits",
            Some(&shown),
            facts(&[], &[question(&one)]),
            "model",
        ),
        ("a confirmed call", Some(&late), facts(&[&confirmed], &[]), "1"),
    ];
    for (case, last, facts, expected) in table {
        assert_eq!(shape(next_step(last, &facts)), expected, "{case}");
    }
}
