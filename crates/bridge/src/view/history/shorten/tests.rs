//! Messages that exceed the budget by themselves.

use super::*;
use crate::view::history::shape::{answers, call, calls, shape, thought, user};
use insta::assert_snapshot;
use provider::{MediaSource, ToolCall, ToolResult};
use serde_json::json;

fn shortened_to(budget: u32, messages: Vec<ModelMessage>) -> Vec<ModelMessage> {
    let short = exchange(messages, budget);
    let weight = cost::of_messages(&short);
    assert!(weight <= budget, "{weight} of {budget} tokens:\n{}", shape(&short));
    short
}

fn media(mime_type: &str, name: Option<&str>, bytes: usize) -> MessagePart {
    MessagePart::from(Media {
        mime_type: mime_type.to_owned(),
        source: MediaSource::Base64("A".repeat(bytes)),
        name: name.map(str::to_owned),
    })
}

#[test]
fn text_that_fits_is_unchanged() {
    assert_eq!(text("short", 32), "short");
}

#[test]
fn truncation_keeps_head_and_tail_and_marks_the_missing_characters() {
    let letters: String = ('a'..='z').cycle().take(1_000).collect();
    assert_snapshot!(head_and_tail(&letters, 1_000, 30), @"abcdefghijklmnopqrst[… 970 of 1000 characters left out …]cdefghijkl");
    assert_snapshot!(head_and_tail(&letters, 1_000, 1), @"a[… 999 of 1000 characters left out …]");
    assert_snapshot!(head_and_tail(&letters, 1_000, 0), @"[… 1000 of 1000 characters left out …]");
}

#[test]
fn truncation_respects_character_boundaries() {
    let words = "漢字かな交じり文 😀 naïve Ω 한국어 ".repeat(200);
    for room in 16..200 {
        let short = text(&words, room);
        assert!(short.contains("characters left out"), "{short}");
        assert!(estimate(&short) <= room, "{room}: {short}");
    }
}

#[test]
fn truncation_mark_states_the_exact_count() {
    let short = text(&"漢".repeat(5_000), 64);
    let kept = short.chars().filter(|&letter| letter == '漢').count();
    assert!(short.contains(&format!("[… {} of 5000 characters left out …]", 5_000 - kept)), "{short}");
}

#[test]
fn text_of_one_megabyte_keeps_its_ends() {
    let short = shortened_to(256, vec![user(&format!("begin {} end", "x".repeat(1 << 20)))]);
    assert_snapshot!(shape(&short), @"user  begin xxxxxxxxxxxxxxxxxx ~[… n of 1048586 characters left out …]~ xxxxxxxxxxxx end");
}

#[test]
fn result_larger_than_the_budget_keeps_its_call() {
    let log = vec![user("read it"), calls(&["a"]), answers(&[("a", &"line \"quoted\"\n".repeat(9_000))])];
    assert_snapshot!(shape(&shortened_to(256, log)), @r#"
    user  read it
    agent → look#a {"at":1}
    tool  ← look#a {"shortened":"{\"result\ ~[… n of 153013 characters left out …]~ oted\\\"\\n\"}"}
    "#);
}

#[test]
fn small_parts_stay_whole_and_large_parts_share_the_rest() {
    let log = vec![
        user("read them"),
        calls(&["a", "b", "c"]),
        answers(&[("a", &"a".repeat(2_000)), ("b", "small"), ("c", &"c".repeat(9_000))]),
    ];
    assert_snapshot!(shape(&shortened_to(400, log)), @r#"
    user  read them
    agent → look#a {"at":1} | → look#b {"at":1} | → look#c {"at":1}
    tool  ← look#a {"shortened":"{\"result\ ~[… n of 2013 characters left out …]~ aaaaaaaaaaa\"}"} | ← look#b {"result":"small"} | ← look#c {"shortened":"{\"result\ ~[… n of 9013 characters left out …]~ ccccccccccc\"}"}
    "#);
}

#[test]
fn truncated_arguments_lose_their_signature() {
    let args = Map::from_iter([("code".to_owned(), Value::from("\"x\"\n".repeat(2_000)))]);
    let write = MessagePart::from(ToolCall {
        id: "a".into(),
        name: "write".into(),
        args,
        signature: Some("c2ln".into()),
        malformed: None,
    });
    let log = vec![
        user("write"),
        ModelMessage::new(Role::Assistant, vec![thought("hm"), write]),
        answers(&[("a", "ok")]),
    ];
    assert_snapshot!(shape(&shortened_to(256, log)), @r#"
    user  write
    agent → write#a {"shortened":"{\"code\": ~[… n of 14011 characters left out …]~ \\"x\\\"\\n\"}"}
    tool  ← look#a {"result":"ok"}
    "#);
}

#[test]
fn thousand_parallel_calls_fit_into_the_minimum_budget() {
    let ids: Vec<String> = (0..1_000).map(|number| format!("c{number}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let results: Vec<(&str, &str)> = ids.iter().map(|&id| (id, "a result of some words")).collect();
    let log = vec![user("look everywhere"), calls(&ids), answers(&results)];
    let short = shortened_to(256, log);
    let kept = short[1].calls().count();
    assert!((1..20).contains(&kept) && short[2].results().count() == kept, "{}", shape(&short));
    let mark = format!("[{} more calls and their answers are not shown]", 1_000 - kept);
    assert_eq!(short[0].parts, [MessagePart::text("look everywhere"), MessagePart::text(mark)]);
    assert_eq!(short[1].calls().last().unwrap().id, "c999", "the newest calls stay");
}

#[test]
fn mark_of_removed_calls_fits_in_every_budget() {
    let ids: Vec<String> = (0..100).map(|number| format!("c{number}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let words = "some words ".repeat(40);
    let results: Vec<(&str, &str)> = ids.iter().map(|&id| (id, words.as_str())).collect();
    for budget in 256..400 {
        let short = shortened_to(budget, vec![user(&words), calls(&ids), answers(&results)]);
        assert!(shape(&short[..1]).ends_with("more calls and their answers are not shown]"));
    }
}

#[test]
fn newest_images_that_fit_stay_and_the_others_are_named() {
    let parts = vec![
        MessagePart::text("compare"),
        media("image/png", Some("old.png"), 4_000),
        media("image/jpeg", None, 4_000),
        MessagePart::text("x".repeat(40_000).as_str()),
    ];
    assert_snapshot!(shape(&shortened_to(4_000, vec![ModelMessage::new(Role::User, parts.clone())])), @"user  compare⏎[old.png (image/png) is too large to be shown here] | <image/jpeg 4000 bytes> | xxxxxxxxxxxxxxxxxxxxxxxx ~[… n of 40000 characters left out …]~ xxxxxxxxxxxxxxxx");
    assert_snapshot!(shape(&shortened_to(256, vec![ModelMessage::new(Role::User, parts)])), @"user  compare⏎[old.png (image/ ~[… n of 40112 characters left out …]~ xxxxxxxxxxxxxxxx");
}

#[test]
fn tool_names_longer_than_the_budget_give_one_text() {
    let name = "n".repeat(4_000);
    let call = MessagePart::from(ToolCall { id: "a".into(), name: name.clone(), ..ToolCall::default() });
    let result = MessagePart::from(ToolResult { id: "a".into(), name, response: json!({"result": 1}) });
    let log = vec![
        user("go"),
        ModelMessage::new(Role::Assistant, vec![call]),
        ModelMessage::new(Role::Tool, vec![result]),
    ];
    assert_snapshot!(shape(&shortened_to(256, log)), @r#"user  go⏎[Out of place: nnnnnn ~[… n of 8077 characters left out …]~ ed {"result":1}]"#);
}

#[test]
fn many_parts_in_one_message_are_fitted() {
    let user = ModelMessage::new(
        Role::User,
        (0..5_000).flat_map(|_| [MessagePart::text("some words"), media("image/png", None, 8)]).collect(),
    );
    let short = shortened_to(256, vec![user]);
    assert_eq!(short.len(), 1);
    let parts =
        (0..5_000).flat_map(|number| [MessagePart::text("and then"), call(&format!("c{number}"))]).collect();
    let results: Vec<String> = (0..5_000).map(|number| format!("c{number}")).collect();
    let results: Vec<(&str, &str)> = results.iter().map(|id| (id.as_str(), "yes")).collect();
    let log =
        vec![super::super::shape::user("go"), ModelMessage::new(Role::Assistant, parts), answers(&results)];
    assert_eq!(shortened_to(256, log).len(), 3);
}
