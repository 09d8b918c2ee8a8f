//! Which rows of a session are history: from the newest to the oldest until the budget is used up, and never half of an
//! exchange at the front.

use crate::{budget::Budget, row::Kind};
use session::{Message, Stored};
use std::{collections::HashSet, ops::Range};

/// The rows that are shown. `cut` says that older rows exist which are not even here.
///
/// Only where something was left out may the front be unsafe: a tool's answer without its call, or a call without its
/// answer (spec O1, O3). A call at the end is pending and stays (O2). The newest exchange always stays, whatever its size.
pub fn window(rows: &[Stored], budget: Budget, cut: bool) -> Range<usize> {
    let start = by_budget(rows, budget);
    if start == 0 && !cut {
        return 0..rows.len();
    }
    let safe = (start..rows.len()).find(|&index| is_safe_front(&rows[index..]));
    safe.unwrap_or_else(|| newest_exchange(rows))..rows.len()
}

fn by_budget(rows: &[Stored], budget: Budget) -> usize {
    let mut left = u64::from(budget.tokens());
    let most = budget.max_messages().unwrap_or(usize::MAX);
    let fitting = rows.iter().rev().take(most).take_while(|row| {
        let fits = left.checked_sub(row.message.tokens.into());
        left = fits.unwrap_or(0);
        fits.is_some()
    });
    rows.len() - fitting.count().max(1).min(rows.len())
}

fn is_safe_front(rows: &[Stored]) -> bool {
    let Some(first) = rows.first().map(|row| &row.message) else { return true };
    match Kind::of(first) {
        Kind::Tool => false,
        Kind::User | Kind::Other => true,
        Kind::Assistant => {
            let calls: Vec<&str> = call_ids(first).collect();
            calls.is_empty() || rows.len() == 1 || are_answered(&calls, &rows[1..])
        }
    }
}

/// Whether the answers to all calls stand before anything else is said.
fn are_answered(calls: &[&str], rows: &[Stored]) -> bool {
    let answers: Vec<&Message> =
        rows.iter().map(|row| &row.message).take_while(|row| Kind::of(row) == Kind::Tool).collect();
    let ids: HashSet<&str> =
        answers.iter().flat_map(|row| row.tool_calls.iter().map(|call| call.id.as_str())).collect();
    // Rows without ids answer by position (spec N1).
    let unnamed = answers.iter().filter(|row| row.tool_calls.is_empty()).count();
    calls.iter().filter(|id| !ids.contains(*id)).count() <= unnamed
}

/// Where the last exchange begins: the answers at the end and the row that they answer.
fn newest_exchange(rows: &[Stored]) -> usize {
    let answers = rows.iter().rev().take_while(|row| Kind::of(&row.message) == Kind::Tool).count();
    (rows.len() - answers).saturating_sub(1)
}

fn call_ids(row: &Message) -> impl Iterator<Item = &str> {
    row.tool_calls.iter().filter(|call| call.is_call()).map(|call| call.id.as_str())
}
