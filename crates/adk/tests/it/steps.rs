//! `next_step` as a table.

use crate::common::call_as;
use adk::{
    content::{Content, FunctionResponse},
    event::{Event, ToolConfirmation},
    flow::step::{Step, next_step},
    pending::{PendingCall, PendingWork, Question, QuestionRequest},
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

fn open(id: &str, author: &str) -> PendingCall {
    PendingCall {
        part: call_as(id, "f", json!({})),
        author: author.to_owned(),
        invocation_id: "e".to_owned(),
        branch: None,
        long_running: false,
        confirmation: None,
        input: None,
        begun: false,
    }
}

fn question(call: &PendingCall) -> Question {
    let request = QuestionRequest::Confirmation(ToolConfirmation::default());
    Question { id: "q".to_owned(), call: call.clone(), request }
}

fn pending(open_calls: &[&PendingCall], questions: &[Question]) -> PendingWork {
    PendingWork {
        open_calls: open_calls.iter().map(|call| (*call).clone()).collect(),
        questions: questions.to_vec(),
        ..PendingWork::default()
    }
}

fn shape(step: Step) -> String {
    match step {
        Step::CallModel => "model".to_owned(),
        Step::CallTools(calls) => calls.iter().map(PendingCall::id).collect::<Vec<_>>().join(" "),
        Step::Done => "done".to_owned(),
    }
}

#[test]
fn the_next_step_depends_on_the_last_event_and_the_pending_work() {
    let user = event("user", Content::user("hi"));
    let final_text = event("a", Content::model("ho"));
    let answered = event("a", response());
    let mut skipping = answered.clone();
    skipping.actions.skip_summarization = Some(true);
    let late = event("user", response());
    let shown = Event { interrupted: Some(true), ..final_text.clone() };
    let mut with_call = event("a", Content::new("model", vec![call_as("1", "f", json!({}))]));
    with_call.interrupted = Some(true);
    let flag = Event { content: None, ..shown.clone() };
    let failed = Event { author: "a".to_owned(), error_code: Some("E".to_owned()), ..Event::default() };
    let (one, two, other) = (open("1", "a"), open("2", "a"), open("3", "b"));
    let confirmed = PendingCall { confirmation: Some(ToolConfirmation::default()), ..one.clone() };
    let elsewhere = question(&PendingCall { invocation_id: "other".to_owned(), ..one.clone() });
    let none = PendingWork::default();
    let table = [
        ("an empty log", None, none.clone(), "done"),
        ("a message", Some(&user), none.clone(), "model"),
        ("an answer", Some(&final_text), none.clone(), "done"),
        ("results", Some(&answered), none.clone(), "model"),
        ("results that a person looks at", Some(&skipping), none.clone(), "done"),
        ("a late result", Some(&late), none.clone(), "model"),
        ("an interrupted answer", Some(&shown), none.clone(), "model"),
        ("an interrupted event with a call", Some(&with_call), none.clone(), "done"),
        ("an interrupted event without content", Some(&flag), none.clone(), "done"),
        ("a failure", Some(&failed), none, "done"),
        ("open calls", Some(&final_text), pending(&[&one, &two], &[]), "1 2"),
        ("open calls of two agents", Some(&final_text), pending(&[&one, &other, &two], &[]), "1 2"),
        ("a call that waits for a person", Some(&final_text), pending(&[&one], &[question(&one)]), "done"),
        (
            "one that waits, one that can run",
            Some(&final_text),
            pending(&[&one, &two], &[question(&one)]),
            "2",
        ),
        ("a question", Some(&skipping), pending(&[], &[question(&one)]), "done"),
        ("a result while a question waits", Some(&answered), pending(&[], &[question(&one)]), "done"),
        (
            "a result while a question of another run waits",
            Some(&answered),
            pending(&[], &[elsewhere]),
            "model",
        ),
        ("a late result while a question waits", Some(&late), pending(&[], &[question(&one)]), "model"),
        (
            "an interrupted answer while a question waits",
            Some(&shown),
            pending(&[], &[question(&one)]),
            "model",
        ),
        ("a confirmed call", Some(&late), pending(&[&confirmed], &[]), "1"),
    ];
    for (case, last, pending, expected) in table {
        assert_eq!(shape(next_step(last, &pending)), expected, "{case}");
    }
}
