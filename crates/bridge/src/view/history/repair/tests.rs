//! Damaged conversations, and what becomes of them.

use super::*;
use crate::view::history::shape::{agent, answers, call, calls, shape, thought, user};
use insta::assert_snapshot;
use provider::{Media, MediaSource};

fn repaired(messages: Vec<ModelMessage>) -> String {
    let once = repair(messages);
    assert_eq!(repair(once.clone()), once, "what is legal is left alone");
    shape(&once)
}

#[test]
fn a_legal_conversation_is_left_alone() {
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
fn an_answer_without_a_call_is_told_as_text() {
    assert_snapshot!(repaired(vec![user("hi"), answers(&[("gone", "42")])]), @r#"user  hi | [Out of place: look answered {"result":"42"}]"#);
}

#[test]
fn a_call_without_an_answer_was_interrupted() {
    assert_snapshot!(repaired(vec![user("hi"), calls(&["a", "b"]), answers(&[("b", "2")]), user("well?")]), @r#"
    user  hi
    agent → look#a {"at":1} | → look#b {"at":1}
    tool  ← look#a {"error":"interrupted, outcome unknown: the call was cut off and may or may not have taken effect"} | ← look#b {"result":"2"}
    user  well?
    "#);
}

#[test]
fn a_pending_call_does_not_leave_unanswered() {
    assert_snapshot!(repaired(vec![user("hi"), calls(&["a"])]), @r#"
    user  hi
    agent → look#a {"at":1}
    tool  ← look#a {"error":"interrupted, outcome unknown: the call was cut off and may or may not have taken effect"}
    "#);
}

#[test]
fn a_stray_answer_does_not_tear_parallel_calls_apart() {
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
fn the_newest_of_two_answers_counts() {
    assert_snapshot!(repaired(vec![user("hi"), calls(&["a"]), answers(&[("a", "pending")]), answers(&[("a", "done")])]), @r#"
    user  hi
    agent → look#a {"at":1}
    tool  ← look#a {"result":"done"}
    "#);
}

#[test]
fn two_calls_with_one_id_get_their_own_ids_and_their_own_answers() {
    assert_snapshot!(repaired(vec![user("hi"), calls(&["x", "x"]), answers(&[("x", "1"), ("x", "2")])]), @r#"
    user  hi
    agent → look#x {"at":1} | → look#x_2 {"at":1}
    tool  ← look#x {"result":"1"} | ← look#x_2 {"result":"2"}
    "#);
}

#[test]
fn calls_without_ids_are_named_after_the_tool() {
    assert_snapshot!(repaired(vec![user("hi"), calls(&["", ""]), answers(&[("", "1"), ("", "2")])]), @r#"
    user  hi
    agent → look#call_look {"at":1} | → look#call_look_2 {"at":1}
    tool  ← look#call_look {"result":"1"} | ← look#call_look_2 {"result":"2"}
    "#);
}

#[test]
fn the_same_id_in_every_turn_is_matched_inside_the_turn() {
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
fn answers_come_in_the_order_of_the_calls() {
    assert_snapshot!(repaired(vec![user("hi"), calls(&["a", "b"]), answers(&[("b", "2"), ("a", "1")])]), @r#"
    user  hi
    agent → look#a {"at":1} | → look#b {"at":1}
    tool  ← look#a {"result":"1"} | ← look#b {"result":"2"}
    "#);
}

#[test]
fn a_call_in_the_users_mouth_is_told_as_text_and_a_thought_is_not_the_users() {
    let parts = vec![
        thought("secret"),
        call("a"),
        MessagePart::Text { text: "hi".into(), signature: Some("s".into()), note: false },
    ];
    assert_snapshot!(repaired(vec![ModelMessage::new(Role::User, parts)]), @r#"user  [Out of place: look was called with {"at":1}] | hi"#);
}

#[test]
fn a_call_without_a_name_is_no_call() {
    let nameless =
        MessagePart::from(provider::ToolCall { id: "a".to_owned(), ..provider::ToolCall::default() });
    assert_snapshot!(repaired(vec![user("hi"), ModelMessage::new(Role::Assistant, vec![nameless])]), @"user  hi");
}

#[test]
fn empty_texts_say_nothing() {
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
fn an_empty_text_with_a_signature_stays_beside_what_was_said() {
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
fn thoughts_alone_are_not_a_message() {
    assert_snapshot!(repaired(vec![user("hi"), ModelMessage::new(Role::Assistant, vec![thought("hm")]), user("well?")]), @"user  hi | well?");
}

#[test]
fn a_conversation_begins_with_the_user_and_ends_with_a_question() {
    assert_snapshot!(repaired(vec![agent("welcome"), agent("I can help")]), @"
    user  [Earlier messages are not shown.]
    agent welcome | I can help
    user  [Please go on.]
    ");
}

#[test]
fn an_empty_log_is_still_a_request() {
    assert_snapshot!(repaired(Vec::new()), @"user  [Earlier messages are not shown.]");
}

#[test]
fn a_picture_alone_is_a_message() {
    let picture = MessagePart::from(Media {
        mime_type: "image/png".to_owned(),
        source: MediaSource::Base64("AAAA".to_owned()),
        name: None,
    });
    assert_snapshot!(repaired(vec![ModelMessage::new(Role::User, vec![picture, MessagePart::text("")])]), @"user  <image/png 4 bytes>");
}

#[test]
fn a_late_answer_after_other_words_is_told_and_the_call_was_interrupted() {
    let log = vec![user("hi"), calls(&["a"]), user("hurry"), answers(&[("a", "1")])];
    assert_snapshot!(repaired(log), @r#"
    user  hi
    agent → look#a {"at":1}
    tool  ← look#a {"error":"interrupted, outcome unknown: the call was cut off and may or may not have taken effect"}
    user  hurry | [Out of place: look answered {"result":"1"}]
    "#);
}
