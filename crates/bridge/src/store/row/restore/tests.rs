//! Rows as written, and rows that were edited by hand.

use super::*;
use crate::store::row::save;
use insta::assert_snapshot;
use serde_json::json;
use session::{Seq, ToolCall};

fn row(role: &str, content: &str, tool_calls: Vec<ToolCall>) -> SessionMessage {
    SessionMessage {
        role: role.to_owned(),
        content: content.to_owned(),
        tool_calls,
        ..SessionMessage::default()
    }
}

fn call(id: &str, input: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: "look".to_owned(), input: input.to_owned(), ..ToolCall::default() }
}

fn answer(id: &str, output: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: "look".to_owned(), output: output.to_owned(), ..ToolCall::default() }
}

/// The events that the rows are restored to: author, role and parts, one line each.
fn restored(rows: Vec<SessionMessage>) -> String {
    let mut restorer = Restorer::new("root");
    let lines =
        rows.into_iter().map(|message| line(&restorer.restore(&StoredMessage { seq: Seq::START, message })));
    lines.collect::<Vec<_>>().join("\n")
}

fn line(event: &Event) -> String {
    let Some(content) = &event.content else { return format!("{}: nothing", event.author) };
    let parts: Vec<String> = content.parts.iter().map(|part| serde_json::to_string(part).unwrap()).collect();
    format!("{}: {} {}", event.author, content.role.as_deref().unwrap_or("-"), parts.join(" | "))
}

#[test]
fn f3_to_f5_missing_author_is_the_user_or_the_root_agent() {
    let roles = ["user", "assistant", "model", "tool", "function", "system", ""];
    assert_snapshot!(restored(roles.map(|role| row(role, "hi", Vec::new())).into()), @r#"
    user: user {"text":"hi"}
    root: model {"text":"hi"}
    root: model {"text":"hi"}
    root: tool {"text":"hi"}
    root: function {"text":"hi"}
    root: system {"text":"hi"}
    root:  {"text":"hi"}
    "#);
    assert_eq!(Restorer::new("").root_agent.as_ref(), DEFAULT_AGENT);
}

#[test]
fn n1_results_without_ids_answer_the_preceding_calls_in_order() {
    let log = vec![
        row("assistant", "", vec![call("a", "{}"), call("b", "{\"at\":2}")]),
        row("tool", "{\"found\":1}", Vec::new()),
        row("tool", "plain words", Vec::new()),
        row("tool", "one too many", Vec::new()),
    ];
    assert_snapshot!(restored(log), @r#"
    root: model {"functionCall":{"id":"a","args":{},"name":"look"}} | {"functionCall":{"id":"b","args":{"at":2},"name":"look"}}
    root: user {"functionResponse":{"id":"a","name":"look","response":{"found":1}}}
    root: user {"functionResponse":{"id":"b","name":"look","response":{"result":"plain words"}}}
    root: tool {"text":"one too many"}
    "#);
}

#[test]
fn n1_result_by_position_skips_calls_answered_by_id() {
    let log = vec![
        row("assistant", "", vec![call("a", "{}"), call("b", "{}")]),
        row("tool", "", vec![answer("a", "{\"found\":1}")]),
        row("tool", "[2]", Vec::new()),
    ];
    assert_snapshot!(restored(log), @r#"
    root: model {"functionCall":{"id":"a","args":{},"name":"look"}} | {"functionCall":{"id":"b","args":{},"name":"look"}}
    root: user {"functionResponse":{"id":"a","name":"look","response":{"found":1}}}
    root: user {"functionResponse":{"id":"b","name":"look","response":{"result":[2]}}}
    "#);
}

#[test]
fn n2_result_without_an_open_call_becomes_text() {
    let log = vec![
        row("assistant", "", vec![call("a", "{}")]),
        row("assistant", "never mind", Vec::new()),
        row("tool", "late", Vec::new()),
    ];
    assert_snapshot!(restored(log), @r#"
    root: model {"functionCall":{"id":"a","args":{},"name":"look"}}
    root: model {"text":"never mind"}
    root: tool {"text":"late"}
    "#);
}

#[test]
fn n1_rows_of_others_do_not_break_the_match_by_position() {
    let log = vec![
        row("assistant", "", vec![call("a", "{}"), call("b", "{}")]),
        row("user", "hurry", Vec::new()),
        row("tool", "1", Vec::new()),
        row("system", "note", Vec::new()),
        row("tool", "2", Vec::new()),
    ];
    assert_snapshot!(restored(log), @r#"
    root: model {"functionCall":{"id":"a","args":{},"name":"look"}} | {"functionCall":{"id":"b","args":{},"name":"look"}}
    user: user {"text":"hurry"}
    root: user {"functionResponse":{"id":"a","name":"look","response":{"result":1}}}
    root: system {"text":"note"}
    root: user {"functionResponse":{"id":"b","name":"look","response":{"result":2}}}
    "#);
}

#[test]
fn n1_result_that_names_its_call_is_matched_by_id_whatever_its_output() {
    let log = vec![
        row("assistant", "", vec![call("a", "{}"), call("b", "{}")]),
        row("tool", "for b", vec![answer("b", "")]),
        row("tool", "for a", Vec::new()),
        row("tool", "", vec![answer("c", "")]),
    ];
    assert_snapshot!(restored(log), @r#"
    root: model {"functionCall":{"id":"a","args":{},"name":"look"}} | {"functionCall":{"id":"b","args":{},"name":"look"}}
    root: user {"functionResponse":{"id":"b","name":"look","response":{"result":"for b"}}}
    root: user {"functionResponse":{"id":"a","name":"look","response":{"result":"for a"}}}
    root: user {"functionResponse":{"id":"c","name":"look","response":{}}}
    "#);
}

#[test]
fn l1_call_that_was_stored_with_its_result_keeps_both() {
    let both = ToolCall { output: "{\"found\":1}".to_owned(), ..call("a", "{}") };
    let log = vec![row("assistant", "so", vec![both, call("b", "{}")]), row("tool", "2", Vec::new())];
    assert_snapshot!(restored(log), @r#"
    root: model {"text":"so"} | {"functionCall":{"id":"a","args":{},"name":"look"}} | {"functionCall":{"id":"b","args":{},"name":"look"}} | {"functionResponse":{"id":"a","name":"look","response":{"found":1}}}
    root: user {"functionResponse":{"id":"b","name":"look","response":{"result":2}}}
    "#);
}

#[test]
fn n1_rows_read_in_pages_are_restored_as_when_they_are_read_whole() {
    let calls = ["a", "b", "c"].map(|id| call(id, "{}")).into();
    let mut log = vec![row("assistant", "", calls)];
    for text in ["1", "2", "3"] {
        log.push(row("user", "hurry", Vec::new()));
        log.push(row("tool", text, Vec::new()));
    }
    let rows: Vec<StoredMessage> =
        log.into_iter().zip(1..).map(|(message, seq)| StoredMessage { seq: Seq(seq), message }).collect();
    let mut whole = Restorer::new("root");
    let expected: Vec<String> = rows.iter().map(|row| line(&whole.restore(row))).collect();
    for cut in 1..rows.len() {
        let (before, page) = rows.split_at(cut);
        let mut restorer = Restorer::new("root");
        assert!(restorer.skip_all(before) && Restorer::depends_on_earlier(page));
        let restored: Vec<String> = page.iter().map(|row| line(&restorer.restore(row))).collect();
        assert_eq!(restored, expected[cut..], "after {cut} rows");
    }
}

#[test]
fn non_object_input_is_wrapped_as_input() {
    let calls = vec![call("a", "null"), call("b", "[1]"), call("c", "not json")];
    assert_snapshot!(restored(vec![row("assistant", "so", calls)]), @r#"root: model {"text":"so"} | {"functionCall":{"id":"a","name":"look"}} | {"functionCall":{"id":"b","args":{"input":[1]},"name":"look"}} | {"functionCall":{"id":"c","args":{"input":"not json"},"name":"look"}}"#);
}

#[test]
fn row_with_outputs_is_a_tool_row_whatever_its_role() {
    assert_snapshot!(restored(vec![row("user", "{}", vec![answer("a", "{}"), answer("b", "7")])]), @r#"root: user {"functionResponse":{"id":"a","name":"look","response":{}}} | {"functionResponse":{"id":"b","name":"look","response":{"result":7}}}"#);
}

fn event(parts: Value) -> Event {
    let content = Content::new("user", serde_json::from_value(parts).unwrap());
    Event { author: "user".to_owned(), content: Some(content), ..Event::default() }
}

#[test]
fn edited_row_is_restored_from_its_columns() {
    let mixed = event(json!([
        {"text": "by hand: "},
        {"functionResponse": {"id": "a", "name": "look", "response": {"found": 1}}},
    ]));
    let mut edited = save(&mixed).unwrap();
    edited.content.insert_str(0, "now ");
    assert_snapshot!(restored(vec![edited]), @r#"user: user {"functionResponse":{"id":"a","name":"look","response":{"found":1}}} | {"text":"now by hand: "}"#);

    let mut gone = save(&mixed).unwrap();
    gone.tool_calls.clear();
    assert_snapshot!(restored(vec![gone]), @r#"user: user {"text":"by hand: {\"found\":1}"}"#);

    let two = event(json!([{"text": "one"}, {"text": "two"}]));
    let mut shorter = save(&two).unwrap();
    shorter.content.truncate(4);
    assert_snapshot!(restored(vec![shorter]), @r#"user: user {"text":"onet"}"#);
}

#[test]
fn text_in_a_tool_row_answers_no_call() {
    let event_of_text = Content::new("function", vec![Part::text("nothing found")]);
    let event_of_text = Event { author: "root".to_owned(), content: Some(event_of_text), ..Event::default() };
    let log = vec![row("assistant", "", vec![call("a", "{}")]), save(&event_of_text).unwrap()];
    assert_snapshot!(restored(log), @r#"
    root: model {"functionCall":{"id":"a","args":{},"name":"look"}}
    root: function {"text":"nothing found"}
    "#);
}

#[test]
fn plain_text_message_has_minimal_meta() {
    let event_of_text = event(json!([{"text": "hi"}]));
    assert_eq!(save(&event_of_text).unwrap().meta.unwrap(), r#"{"role":"user","event":{}}"#);
}

#[test]
fn correction_without_metadata_is_marked_and_user_text_is_not() {
    let is_marked = |role: &str, text: &str| {
        let stored = StoredMessage { seq: Seq::START, message: row(role, text, Vec::new()) };
        Restorer::new("root").restore(&stored).is_correction()
    };
    let correction = crate::view::history::correction("ghost", "helper");
    assert!(is_marked("user", &correction));
    assert!(!is_marked("assistant", &correction));
    assert!(!is_marked("user", "[System: Agent \"ghost\" is missing]"));
}
