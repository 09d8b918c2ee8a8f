//! Which rows of a session are history: from the newest to the oldest until the budget is used up, and never half of an
//! exchange at the front.

use crate::{
    store::row::LegacyKind,
    view::{budget::Budget, cost},
};
use session::{SessionMessage, StoredMessage, ToolCall};
use std::{collections::HashSet, ops::Range};

/// The rows that are shown. `cut` says that older rows exist which are not even here.
///
/// Only where something was left out may the front be unsafe: a tool's answer without its call, or a call without its
/// answer (spec O1, O3). A call at the end is pending and stays (O2). The newest exchange always stays, whatever its size.
pub fn window(rows: &[StoredMessage], budget: Budget, cut: bool) -> Range<usize> {
    let start = by_budget(rows, budget);
    if start == 0 && !cut {
        return 0..rows.len();
    }
    let safe = safe_fronts(&rows[start..]).into_iter().position(|safe| safe);
    safe.map_or_else(|| newest_exchange(rows), |safe| start + safe)..rows.len()
}

fn by_budget(rows: &[StoredMessage], budget: Budget) -> usize {
    let mut left = Some(budget.tokens());
    let most = budget.max_messages().unwrap_or(usize::MAX);
    let fitting = rows.iter().rev().take(most).take_while(|row| {
        left = left.and_then(|left| left.checked_sub(cost::of_row(&row.message)));
        left.is_some()
    });
    rows.len() - fitting.count().max(1).min(rows.len())
}

/// For each row, whether the history may begin with it. Read from the end: an answer belongs to the newest call before
/// it that has its id, however late it came.
fn safe_fronts(rows: &[StoredMessage]) -> Vec<bool> {
    let mut answers: HashSet<&str> = HashSet::new();
    // Rows without ids answer the calls right before them by position (spec N1).
    let mut unnamed = 0;
    let mut safe: Vec<bool> = Vec::with_capacity(rows.len());
    for row in rows.iter().rev().map(|row| &row.message) {
        if LegacyKind::of(row) == LegacyKind::Tool {
            unnamed += usize::from(row.tool_calls.is_empty());
            answers.extend(row.tool_calls.iter().map(|answer| answer.id.as_str()));
            safe.push(false);
            continue;
        }
        let is_last = safe.is_empty();
        let open = calls(row).filter(|call| !answers.contains(call.id.as_str())).count();
        calls(row).for_each(|call| {
            answers.remove(call.id.as_str());
        });
        answers.extend(row.tool_calls.iter().filter(|call| call.is_response()).map(|call| call.id.as_str()));
        safe.push(is_last || open <= unnamed);
        unnamed = 0;
    }
    safe.reverse();
    safe
}

/// Where the last exchange begins: the answers at the end and the row that they answer.
fn newest_exchange(rows: &[StoredMessage]) -> usize {
    let answers =
        rows.iter().rev().take_while(|row| LegacyKind::of(&row.message) == LegacyKind::Tool).count();
    (rows.len() - answers).saturating_sub(1)
}

fn calls(row: &SessionMessage) -> impl Iterator<Item = &ToolCall> {
    row.tool_calls.iter().filter(|call| call.is_call())
}

#[cfg(test)]
mod tests;
