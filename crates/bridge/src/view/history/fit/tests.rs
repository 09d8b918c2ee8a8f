//! Histories that exceed the budget.

use super::*;
use crate::view::history::{
    notes::PLEASE_CONTINUE,
    shape::{agent, answers, calls, note, shape, user},
};
use crate::view::tokens::estimate;
use adk::notes::CONTINUE_NOTE;
use insta::assert_snapshot;

/// The shape of the fitted messages, which are always within the budget.
fn fitted(messages: Vec<ModelMessage>, tokens: u32, most: Option<usize>) -> String {
    let budget = Budget::new(tokens, most).unwrap();
    let fitted = fit(messages, None, budget);
    let weight = cost::of_messages(&fitted);
    assert!(weight <= tokens, "{weight} of {tokens} tokens:\n{}", shape(&fitted));
    shape(&fitted)
}

/// A text of the given number of tokens.
fn long(word: &str, tokens: u32) -> String {
    let mut text = word.to_owned();
    while estimate(&text) < tokens {
        text.push_str(" abcd");
    }
    text
}

#[test]
fn history_within_the_budget_is_unchanged() {
    let log = vec![user("hi"), agent("hello"), user("bye")];
    assert_eq!(fit(log.clone(), None, Budget::default()), log);
}

#[test]
fn oldest_exchange_is_removed_first_and_whole() {
    let log = vec![
        user("one"),
        calls(&["a"]),
        answers(&[("a", &long("huge", 300))]),
        agent("first"),
        user("two"),
        agent("second"),
        user("three"),
    ];
    assert_snapshot!(fitted(log, 256, None), @"
    user  [Earlier messages are not shown.] The request was: one
    agent first
    user  two
    agent second
    user  three
    ");
}

#[test]
fn turn_cut_in_the_middle_opens_with_its_request() {
    let mut log = vec![user("count the stars"), agent("gladly")];
    for _ in 0..4 {
        log.extend([calls(&["a"]), answers(&[("a", &long("stars", 50))])]);
    }
    assert_snapshot!(fitted(log, 256, None), @r#"
    user  [Earlier messages are not shown.] The request was: count the stars
    agent → look#a {"at":1}
    tool  ← look#a {"result":"stars abcd ab ~~ abcd abcd abcd"}
    agent → look#a {"at":1}
    tool  ← look#a {"result":"stars abcd ab ~~ abcd abcd abcd"}
    "#);
}

#[test]
fn earlier_turn_cut_in_the_middle_opens_with_its_own_request() {
    let log = vec![
        user("first task"),
        calls(&["a"]),
        answers(&[("a", &long("huge", 300))]),
        calls(&["b"]),
        answers(&[("b", "small")]),
        agent("first answer"),
        user("second task"),
    ];
    assert_snapshot!(fitted(log, 256, None), @r#"
    user  [Earlier messages are not shown.] The request was: first task
    agent → look#b {"at":1}
    tool  ← look#b {"result":"small"}
    agent first answer
    user  second task
    "#);
}

#[test]
fn long_request_is_shortened_in_the_opening() {
    let log = vec![user(&long("task", 500)), calls(&["a"]), answers(&[("a", "1")])];
    assert_snapshot!(fitted(log, 256, None), @r#"
    user  [Earlier messages are no ~[… n of 2474 characters left out …]~ d abcd abcd abcd
    agent → look#a {"at":1}
    tool  ← look#a {"result":"1"}
    "#);
}

#[test]
fn note_is_no_request_but_user_text_with_the_same_words_is() {
    let log = |last: ModelMessage| {
        vec![user("[1, 2, 3]"), agent("yes?"), last, calls(&["a"]), answers(&[("a", &long("x", 300))])]
    };
    assert_snapshot!(fitted(log(note(PLEASE_CONTINUE)), 256, None), @r#"
    user  [Earlier messages are not shown.] The request was: [1, 2, 3]
    agent → look#a {"at":1}
    tool  ← look#a {"shortened":"{\"result\ ~[… n of 1494 characters left out …]~ d abcd abcd\"}"}
    "#);
    let correction = crate::view::history::correction("ghost", "helper");
    assert!(fitted(log(note(correction.as_str())), 256, None).contains("The request was: [1, 2, 3]"));
    for text in [
        PLEASE_CONTINUE,
        CONTINUE_NOTE,
        "For context, this is what another agent did.",
        "[System: up] list it",
    ] {
        let fitted = fitted(log(user(text)), 256, None);
        assert!(fitted.contains(&format!("The request was: {}", &text[..12])), "{fitted}");
    }
    assert_snapshot!(fitted(log(user("[4]")), 256, None), @r#"
    user  [Earlier messages are not shown.] The request was: [4]
    agent → look#a {"at":1}
    tool  ← look#a {"shortened":"{\"result\ ~[… n of 1494 characters left out …]~ d abcd abcd\"}"}
    "#);
}

#[test]
fn note_about_another_agent_is_no_request() {
    let quote = "For context, this is what another agent did. It is quoted.\nother said: \"done\"";
    let log =
        vec![user("count"), agent("yes?"), note(quote), calls(&["a"]), answers(&[("a", &long("x", 300))])];
    assert_snapshot!(fitted(log, 256, None), @r#"
    user  [Earlier messages are not shown.] The request was: count
    agent → look#a {"at":1}
    tool  ← look#a {"shortened":"{\"result\ ~[… n of 1494 characters left out …]~ d abcd abcd\"}"}
    "#);
}

#[test]
fn message_cap_holds() {
    let log = || {
        vec![
            user("one"),
            agent("1"),
            user("two"),
            calls(&["a"]),
            answers(&[("a", "2")]),
            agent("3"),
            user("four"),
        ]
    };
    assert_snapshot!(fitted(log(), 256, Some(7)).lines().count(), @"7");
    assert_snapshot!(fitted(log(), 256, Some(5)), @"
    user  [Earlier messages are not shown.] The request was: two
    agent 3
    user  four
    ");
    assert_snapshot!(fitted(log(), 256, Some(4)), @"user  four");
    assert_snapshot!(fitted(log(), 256, Some(1)), @"user  four");
}

#[test]
fn newest_exchange_stays_whole_even_above_the_message_cap() {
    let log = vec![user("go"), calls(&["a", "b"]), answers(&[("a", "1"), ("b", "2")])];
    assert_snapshot!(fitted(log, 256, Some(1)), @r#"
    user  [Earlier messages are not shown.] The request was: go
    agent → look#a {"at":1} | → look#b {"at":1}
    tool  ← look#a {"result":"1"} | ← look#b {"result":"2"}
    "#);
}

#[test]
fn leading_user_message_needs_no_opening() {
    // With the preamble the exchange would not fit; with the user's own short message it does.
    let rest = cost::of_messages(&[user("hm"), agent(""), user("ok")]);
    let log = vec![user("older"), agent("so"), user("hm"), agent(&long("answer", 252 - rest)), user("ok")];
    assert_snapshot!(fitted(log, 256, None), @"
    user  hm
    agent answer abcd abcd abcd ab ~~ d abcd abcd abcd
    user  ok
    ");
}

#[test]
fn leading_note_gets_an_opening_with_the_request() {
    let log = vec![user("count the stars"), agent(&long("counting", 300)), note(PLEASE_CONTINUE)];
    assert_snapshot!(fitted(log, 256, None), @"user  [Earlier messages are not shown.] The request was: count the stars | [Please continue.]");
}

#[test]
fn no_opening_if_nothing_was_removed() {
    let picture = MessagePart::from(provider::Media {
        mime_type: "image/png".to_owned(),
        source: provider::MediaSource::Base64("AAAA".to_owned()),
        name: None,
    });
    assert_snapshot!(fitted(vec![ModelMessage::new(Role::User, vec![picture])], 256, None), @"user  [a file (image/png) is too large to be shown here]");
}

/// The shape of fitted messages whose request is in a message before them.
fn fitted_behind(user_request: &str, messages: Vec<ModelMessage>) -> String {
    let budget = Budget::new(256, None).unwrap();
    let fitted = fit(crate::view::history::repair(messages), Some(user_request), budget);
    assert!(cost::of_messages(&fitted) <= 256, "{}", shape(&fitted));
    shape(&fitted)
}

#[test]
fn request_before_all_messages_is_quoted_once() {
    let exchange = || [calls(&["a"]), answers(&[("a", "1")])];
    assert_snapshot!(fitted_behind("count the stars", exchange().to_vec()), @r#"
    user  [Earlier messages are not shown.] The request was: count the stars
    agent → look#a {"at":1}
    tool  ← look#a {"result":"1"}
    "#);
    let longer =
        [calls(&["a"]), answers(&[("a", &long("stars", 300))])].into_iter().chain(exchange()).collect();
    assert_snapshot!(fitted_behind("count the stars", longer), @r#"
    user  [Earlier messages are not shown.] The request was: count the stars
    agent → look#a {"at":1}
    tool  ← look#a {"result":"1"}
    "#);
    let quote = "For context, this is what another agent did. It is quoted.\nother said: \"done\"";
    assert_snapshot!(fitted_behind("count the stars", [vec![note(quote)], exchange().to_vec()].concat()), @r#"
    user  [Earlier messages are not shown.] The request was: count the stars | For context, this is what another agent did. It is quoted.⏎other said: "done"
    agent → look#a {"at":1}
    tool  ← look#a {"result":"1"}
    "#);
    assert_snapshot!(fitted_behind(&long("count", 500), exchange().to_vec()), @r#"
    user  [Earlier messages are no ~[… n of 2475 characters left out …]~ d abcd abcd abcd
    agent → look#a {"at":1}
    tool  ← look#a {"result":"1"}
    "#);
}

#[test]
fn leading_request_suppresses_an_older_one() {
    assert_snapshot!(fitted_behind("count the stars", vec![user("never mind"), agent("well"), user("hm")]), @"
    user  never mind
    agent well
    user  hm
    ");
}

#[test]
fn continue_note_is_no_request() {
    let log = vec![
        user("count the stars"),
        agent(&long("one", 300)),
        note(CONTINUE_NOTE),
        calls(&["a"]),
        answers(&[("a", "small")]),
    ];
    assert_snapshot!(fitted(log, 256, None), @r#"
    user  [Earlier messages are not shown.] The request was: count the stars
    agent → look#a {"at":1}
    tool  ← look#a {"result":"small"}
    "#);
}

#[test]
fn interrupted_answer_stays_with_its_continue_note() {
    let log = vec![user("count the stars"), agent(&long("one", 300)), note(CONTINUE_NOTE)];
    assert_snapshot!(fitted(log.clone(), 256, None), @"
    user  [Earlier messages are not shown.] The request was: count the stars
    agent one abcd abcd abcd abcd  ~[… n of 1483 characters left out …]~ d abcd abcd abcd
    user  [System: The previous answer was interrupted. Continue exactly where it stopped; do not repeat it.]
    ");
    assert_snapshot!(fitted(log, 4_000, Some(2)), @"
    user  [Earlier messages are not shown.] The request was: count the stars
    agent one abcd abcd abcd abcd  ~~ d abcd abcd abcd
    user  [System: The previous answer was interrupted. Continue exactly where it stopped; do not repeat it.]
    ");
}

/// A conversation of `turns` messages of about 30 tokens each.
fn conversation(turns: usize) -> Vec<ModelMessage> {
    let say = |turn: usize| {
        let text = long(&format!("{turn}"), 26);
        if turn.is_multiple_of(2) { user(&text) } else { agent(&text) }
    };
    (0..turns).map(say).collect()
}

#[test]
fn front_of_a_growing_conversation_advances_in_strides() {
    let budget = Budget::new(600, None).unwrap();
    let mut fronts = Vec::new();
    for turns in (1..120).step_by(2) {
        let fitted = fit(conversation(turns), None, budget);
        assert!(cost::of_messages(&fitted) <= 600);
        let first = user_request(&fitted[0]).unwrap();
        let front = first.split(' ').next().unwrap().to_owned();
        if fronts.last() != Some(&front) {
            // After an advance, at most half of the budget is used.
            assert!(fronts.is_empty() || cost::of_messages(&fitted) <= 300, "{}", shape(&fitted));
            fronts.push(front);
        }
    }
    assert_snapshot!(fronts.join(" "), @"0 12 24 36 48 60 72 84 96 108");
}

#[test]
fn retained_part_is_configurable() {
    let budget = Budget::new(600, None).unwrap().with_retained(80).unwrap();
    let advanced = (1..120).step_by(2).map(|turns| fit(conversation(turns), None, budget));
    let costs: Vec<u32> = advanced.map(|fitted| cost::of_messages(&fitted)).collect();
    let after_advances = costs.windows(2).filter(|pair| pair[1] < pair[0]).map(|pair| pair[1]);
    assert!(after_advances.clone().all(|cost| (360..=480).contains(&cost)), "{costs:?}");
    assert!(after_advances.count() > 5, "{costs:?}");
}

#[test]
fn exchange_larger_than_the_retained_part_keeps_what_fits_beside_it() {
    let mut log = conversation(20);
    log.push(user(&long("large", 400)));
    let budget = Budget::new(600, None).unwrap();
    let fitted = fit(log, None, budget);
    assert!((2..20).contains(&fitted.len()), "{}", shape(&fitted));
    assert!(cost::of_messages(&fitted) <= 600);
}
