//! Selection of rows for the window.

use super::*;
use insta::assert_snapshot;
use session::Seq;

fn row(role: &str, content: &str, tokens: u32, tool_calls: Vec<ToolCall>) -> SessionMessage {
    let (role, content) = (role.to_owned(), content.to_owned());
    SessionMessage {
        role,
        content,
        tool_calls,
        tokens,
        counted_by: "test".to_owned(),
        ..SessionMessage::default()
    }
}

fn user(text: &str) -> SessionMessage {
    row("user", text, 10, Vec::new())
}

fn says(text: &str) -> SessionMessage {
    row("assistant", text, 10, Vec::new())
}

fn calls(ids: &[&str]) -> SessionMessage {
    let call = |id: &&str| ToolCall { id: (*id).to_owned(), input: "{}".to_owned(), ..ToolCall::default() };
    row("assistant", "", 10, ids.iter().map(call).collect())
}

fn answers(ids: &[&str], tokens: u32) -> SessionMessage {
    let answer =
        |id: &&str| ToolCall { id: (*id).to_owned(), output: "{}".to_owned(), ..ToolCall::default() };
    row("tool", "{}", tokens, ids.iter().map(answer).collect())
}

fn legacy_answer(text: &str) -> SessionMessage {
    row("tool", text, 10, Vec::new())
}

/// The rows in the window, with a budget of `tokens` above the minimum budget.
fn window_of(rows: &[SessionMessage], tokens: u32, most: Option<usize>, cut: bool) -> String {
    let rows: Vec<StoredMessage> =
        rows.iter().map(|row| StoredMessage { seq: Seq::START, message: row.clone() }).collect();
    let range = window(&rows, Budget::new(tokens, most).unwrap(), cut);
    assert_eq!(range.end, rows.len(), "the newest row is always in the window");
    rows[range.clone()]
        .iter()
        .zip(range)
        .map(|(row, place)| line(place, &row.message))
        .collect::<Vec<_>>()
        .join("\n")
}

fn line(place: usize, row: &SessionMessage) -> String {
    let ids = row.tool_calls.iter().map(|call| {
        let arrow = if call.is_response() { "←" } else { "→" };
        format!("{arrow} {}", call.id)
    });
    let text = Some(row.content.clone()).filter(|content| content != "{}" && !content.is_empty());
    format!("{place:02} {:9} {}", row.role, text.into_iter().chain(ids).collect::<Vec<_>>().join(" "))
}

#[test]
fn f1_window_extends_from_the_newest_row_until_the_budget_is_used() {
    let log = [
        user("one"),
        row("assistant", "two", 200, vec![]),
        user("three"),
        row("assistant", "four", 240, vec![]),
    ];
    assert_snapshot!(window_of(&log, 256, None, false), @"
    02 user      three
    03 assistant four
    ");
    assert_snapshot!(window_of(&log, 450, None, false), @"
    01 assistant two
    02 user      three
    03 assistant four
    ");
    assert_snapshot!(window_of(&log, 460, None, false), @"
    00 user      one
    01 assistant two
    02 user      three
    03 assistant four
    ");
}

#[test]
fn window_ends_at_a_row_that_does_not_fit_even_if_older_rows_would() {
    let log = [user("small"), row("user", "huge", 999, vec![]), user("small too")];
    assert_snapshot!(window_of(&log, 256, None, false), @"02 user      small too");
}

#[test]
fn f7_row_cap_holds_and_never_splits_an_exchange() {
    let log = [user("one"), calls(&["a"]), answers(&["a"], 10), says("two"), user("three")];
    assert_snapshot!(window_of(&log, 256, Some(2), false), @"
    03 assistant two
    04 user      three
    ");
    assert_snapshot!(window_of(&log, 256, Some(3), false), @"
    03 assistant two
    04 user      three
    ");
    assert_snapshot!(window_of(&log, 256, Some(4), false), @"
    01 assistant → a
    02 tool      ← a
    03 assistant two
    04 user      three
    ");
    assert_snapshot!(window_of(&log, 256, Some(9), false), @"
    00 user      one
    01 assistant → a
    02 tool      ← a
    03 assistant two
    04 user      three
    ");
}

#[test]
fn o1_leading_results_are_skipped() {
    let log = [calls(&["a", "b"]), answers(&["a"], 10), answers(&["b"], 10), says("so"), user("ok")];
    assert_snapshot!(window_of(&log[1..], 256, None, true), @"
    02 assistant so
    03 user      ok
    ");
}

#[test]
fn o2_pending_call_at_the_end_stays() {
    assert_snapshot!(window_of(&[user("go"), calls(&["a"])], 256, None, false), @"
    00 user      go
    01 assistant → a
    ");
    assert_snapshot!(window_of(&[calls(&["a"])], 256, None, true), @"00 assistant → a");
}

#[test]
fn o3_leading_call_without_result_is_skipped() {
    let log = [calls(&["a"]), user("never mind"), says("fine")];
    assert_snapshot!(window_of(&log, 256, None, true), @"
    01 user      never mind
    02 assistant fine
    ");
    assert_snapshot!(window_of(&log, 256, None, false), @"
    00 assistant → a
    01 user      never mind
    02 assistant fine
    ");
}

#[test]
fn late_result_pairs_with_its_call() {
    let log = [calls(&["a"]), user("hurry"), answers(&["a"], 10), says("done")];
    assert_snapshot!(window_of(&log, 256, None, true), @"
    00 assistant → a
    01 user      hurry
    02 tool      ← a
    03 assistant done
    ");
}

#[test]
fn result_pairs_with_the_newest_call_of_its_id() {
    let log = [calls(&["call_0"]), user("again"), calls(&["call_0"]), answers(&["call_0"], 10)];
    assert_snapshot!(window_of(&log, 256, None, true), @"
    01 user      again
    02 assistant → call_0
    03 tool      ← call_0
    ");
}

#[test]
fn partly_answered_parallel_calls_do_not_start_a_window() {
    let log = [calls(&["a", "b"]), answers(&["a"], 10), user("and b?")];
    assert_snapshot!(window_of(&log, 256, None, true), @"02 user      and b?");
}

#[test]
fn the_newest_exchange_stays_whatever_its_size() {
    let log = [user("go"), calls(&["a", "b"]), answers(&["a"], 500), answers(&["b"], 9_000)];
    assert_snapshot!(window_of(&log, 256, None, false), @"
    01 assistant → a → b
    02 tool      ← a
    03 tool      ← b
    ");
    assert_snapshot!(window_of(&[user("go"), row("user", "huge", 9_000, vec![])], 256, None, false), @"01 user      huge");
}

#[test]
fn rows_without_ids_answer_by_position() {
    let log = [calls(&["a", "b"]), legacy_answer("one"), legacy_answer("two"), user("ok")];
    assert_snapshot!(window_of(&log, 256, None, true), @"
    00 assistant → a → b
    01 tool      one
    02 tool      two
    03 user      ok
    ");
    assert_snapshot!(window_of(&[calls(&["a", "b"]), legacy_answer("one"), user("ok")], 256, None, true), @"02 user      ok");
}

#[test]
fn rows_without_a_count_are_estimated_from_their_columns() {
    let uncounted = |text: &str| SessionMessage { counted_by: String::new(), tokens: 0, ..user(text) };
    let log = [uncounted("old"), uncounted(&"word ".repeat(400)), uncounted("new")];
    assert_snapshot!(window_of(&log, 256, None, false), @"02 user      new");
}

#[test]
fn log_of_results_alone_keeps_the_newest_results() {
    assert_snapshot!(window_of(&[answers(&["a"], 10), answers(&["b"], 10)], 256, None, true), @"
    00 tool      ← a
    01 tool      ← b
    ");
    assert_snapshot!(window_of(&[], 256, None, true), @"");
}
