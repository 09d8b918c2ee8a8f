//! Illegal histories and their repair.

use super::*;
use crate::view::history::shape::{agent, answers, call, calls, shape, thought, user};
use insta::assert_snapshot;
use provider::{Media, MediaSource};

fn repaired(messages: Vec<ModelMessage>) -> String {
    let once = repair(messages);
    assert_eq!(repair(once.clone()), once, "repair is idempotent");
    shape(&once)
}

#[test]
fn legal_history_is_unchanged() {
    let legal = vec![
        user("look around"),
        ModelMessage::new(Role::Assistant, vec![thought("hm"), call("a"), call("b")]),
        answers(&[("a", "1"), ("b", "2")]),
        agent("done"),
        user("thanks"),
    ];
    assert_eq!(repair(legal.clone()), legal);
}

#[test]
fn result_without_a_call_becomes_text() {
    assert_snapshot!(repaired(vec![user("hi"), answers(&[("gone", "42")])]), @r#"user  hi | [Out of place: look answered {"result":"42"}]"#);
}

#[test]
fn call_without_a_result_gets_the_interrupted_result() {
    assert_snapshot!(repaired(vec![user("hi"), calls(&["a", "b"]), answers(&[("b", "2")]), user("well?")]), @r#"
    user  hi
    agent → look#a {"at":1} | → look#b {"at":1}
    tool  ← look#a {"error":"interrupted, outcome unknown: the call was cut off and may or may not have taken effect"} | ← look#b {"result":"2"}
    user  well?
    "#);
}

#[test]
fn pending_call_gets_the_interrupted_result() {
    assert_snapshot!(repaired(vec![user("hi"), calls(&["a"])]), @r#"
    user  hi
    agent → look#a {"at":1}
    tool  ← look#a {"error":"interrupted, outcome unknown: the call was cut off and may or may not have taken effect"}
    "#);
}

#[test]
fn unmatched_result_does_not_split_parallel_calls() {
    let log = vec![
        user("hi"),
        calls(&["a", "b"]),
        answers(&[("a", "1")]),
        answers(&[("stray", "?")]),
        answers(&[("b", "2")]),
        user("and?"),
    ];
    assert_snapshot!(repaired(log), @r#"
    user  hi
    agent → look#a {"at":1} | → look#b {"at":1}
    tool  ← look#a {"result":"1"} | ← look#b {"result":"2"}
    user  [Out of place: look answered {"result":"?"}] | and?
    "#);
}

#[test]
fn last_of_two_results_wins() {
    assert_snapshot!(repaired(vec![user("hi"), calls(&["a"]), answers(&[("a", "pending")]), answers(&[("a", "done")])]), @r#"
    user  hi
    agent → look#a {"at":1}
    tool  ← look#a {"result":"done"}
    "#);
}

#[test]
fn duplicate_call_ids_become_unique_and_keep_their_results() {
    assert_snapshot!(repaired(vec![user("hi"), calls(&["x", "x"]), answers(&[("x", "1"), ("x", "2")])]), @r#"
    user  hi
    agent → look#x {"at":1} | → look#x_2 {"at":1}
    tool  ← look#x {"result":"1"} | ← look#x_2 {"result":"2"}
    "#);
}

#[test]
fn calls_without_ids_get_ids_from_the_tool_name() {
    assert_snapshot!(repaired(vec![user("hi"), calls(&["", ""]), answers(&[("", "1"), ("", "2")])]), @r#"
    user  hi
    agent → look#call_look {"at":1} | → look#call_look_2 {"at":1}
    tool  ← look#call_look {"result":"1"} | ← look#call_look_2 {"result":"2"}
    "#);
}

#[test]
fn id_reused_in_every_turn_is_matched_within_its_turn() {
    let log = vec![
        user("one"),
        calls(&["call_0"]),
        answers(&[("call_0", "1")]),
        agent("first"),
        user("two"),
        calls(&["call_0"]),
        answers(&[("call_0", "2")]),
    ];
    assert_eq!(repair(log.clone()), log);
}

#[test]
fn results_are_in_the_order_of_the_calls() {
    assert_snapshot!(repaired(vec![user("hi"), calls(&["a", "b"]), answers(&[("b", "2"), ("a", "1")])]), @r#"
    user  hi
    agent → look#a {"at":1} | → look#b {"at":1}
    tool  ← look#a {"result":"1"} | ← look#b {"result":"2"}
    "#);
}

#[test]
fn call_in_a_user_message_becomes_text_and_a_thought_is_dropped() {
    let parts = vec![
        thought("secret"),
        call("a"),
        MessagePart::Text { text: "hi".into(), signature: Some("s".into()), note: false },
    ];
    assert_snapshot!(repaired(vec![ModelMessage::new(Role::User, parts)]), @r#"user  [Out of place: look was called with {"at":1}] | hi"#);
}

#[test]
fn call_without_a_name_is_dropped() {
    let nameless =
        MessagePart::from(provider::ToolCall { id: "a".to_owned(), ..provider::ToolCall::default() });
    assert_snapshot!(repaired(vec![user("hi"), ModelMessage::new(Role::Assistant, vec![nameless])]), @"user  hi");
}

#[test]
fn empty_texts_are_dropped() {
    let log = vec![
        user("hi"),
        agent("  \n"),
        user(""),
        ModelMessage::new(Role::Assistant, Vec::new()),
        user("you there?"),
    ];
    assert_snapshot!(repaired(log), @"user  hi | you there?");
}

#[test]
fn signed_empty_text_stays_beside_visible_parts() {
    let signed = MessagePart::Text { text: "".into(), signature: Some("c2ln".to_owned()), note: false };
    let log = |parts| vec![user("hi"), ModelMessage::new(Role::Assistant, parts), user("and?")];
    assert_snapshot!(repaired(log(vec![MessagePart::text("yes"), signed.clone()])), @"
    user  hi
    agent yes | *
    user  and?
    ");
    assert_snapshot!(repaired(log(vec![signed])), @"user  hi | and?");
}

#[test]
fn message_of_thoughts_alone_is_dropped() {
    assert_snapshot!(repaired(vec![user("hi"), ModelMessage::new(Role::Assistant, vec![thought("hm")]), user("well?")]), @"user  hi | well?");
}

#[test]
fn history_starts_and_ends_with_a_user_message() {
    assert_snapshot!(repaired(vec![agent("welcome"), agent("I can help")]), @"
    user  [Earlier messages are not shown.]
    agent welcome | I can help
    user  [Please continue.]
    ");
}

#[test]
fn empty_log_gives_one_user_message() {
    assert_snapshot!(repaired(Vec::new()), @"user  [Earlier messages are not shown.]");
}

#[test]
fn image_alone_is_a_message() {
    let picture = MessagePart::from(Media {
        mime_type: "image/png".to_owned(),
        source: MediaSource::Base64("AAAA".to_owned()),
        name: None,
    });
    assert_snapshot!(repaired(vec![ModelMessage::new(Role::User, vec![picture, MessagePart::text("")])]), @"user  <image/png 4 bytes>");
}

#[test]
fn late_result_becomes_text_and_its_call_gets_the_interrupted_result() {
    let log = vec![user("hi"), calls(&["a"]), user("hurry"), answers(&[("a", "1")])];
    assert_snapshot!(repaired(log), @r#"
    user  hi
    agent → look#a {"at":1}
    tool  ← look#a {"error":"interrupted, outcome unknown: the call was cut off and may or may not have taken effect"}
    user  hurry | [Out of place: look answered {"result":"1"}]
    "#);
}
