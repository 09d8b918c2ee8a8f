//! Selects the part of the log for the context window: rows from the newest to the oldest until the budget is used up, without a partial
//! exchange at the front.

use crate::{
    store::row::LegacyKind,
    view::{budget::Budget, cost},
};
use session::{SessionMessage, StoredMessage, ToolCall};
use std::{collections::HashSet, ops::Range};

/// The range of rows in the window. `cut` means that the log has older rows that were not read.
///
/// If older rows are left out, the window must not start with a tool result without its call or a call without its
/// result (spec O1, O3). A call at the end is pending and stays (O2). The newest exchange always stays, whatever its
/// size.
pub fn window(rows: &[StoredMessage], budget: Budget, cut: bool) -> Range<usize> {
    let start = start_by_budget(rows, budget);
    if start == 0 && !cut {
        return 0..rows.len();
    }
    let safe = safe_fronts(&rows[start..]).into_iter().position(|safe| safe);
    safe.map_or_else(|| newest_exchange(rows), |safe| start + safe)..rows.len()
}

fn start_by_budget(rows: &[StoredMessage], budget: Budget) -> usize {
    let mut left = Some(budget.tokens());
    let most = budget.max_messages().unwrap_or(usize::MAX);
    let fitting = rows.iter().rev().take(most).take_while(|row| {
        left = left.and_then(|left| left.checked_sub(cost::of_row(&row.message)));
        left.is_some()
    });
    rows.len() - fitting.count().max(1).min(rows.len())
}

/// For each row, whether the window may start there. Reads backwards: a result belongs to the newest earlier call
/// with its id, however late it is.
fn safe_fronts(rows: &[StoredMessage]) -> Vec<bool> {
    let mut results: HashSet<&str> = HashSet::new();
    // Rows without ids answer the calls of the assistant row before them by position (spec N1).
    let mut unnamed = 0;
    let mut safe: Vec<bool> = Vec::with_capacity(rows.len());
    for row in rows.iter().rev().map(|row| &row.message) {
        if LegacyKind::from_row(row) == LegacyKind::Tool {
            unnamed += usize::from(row.tool_calls.is_empty());
            results.extend(row.tool_calls.iter().map(|answer| answer.id.as_str()));
            safe.push(false);
            continue;
        }
        let is_last = safe.is_empty();
        if LegacyKind::from_row(row) != LegacyKind::Assistant {
            safe.push(is_last || unnamed == 0);
            continue;
        }
        let open = calls(row).filter(|call| !results.contains(call.id.as_str())).count();
        calls(row).for_each(|call| {
            results.remove(call.id.as_str());
        });
        results.extend(row.tool_calls.iter().filter(|call| call.is_response()).map(|call| call.id.as_str()));
        safe.push(is_last || open <= unnamed);
        unnamed = 0;
    }
    safe.reverse();
    safe
}

/// Index of the last exchange: the trailing results and the row with their calls.
fn newest_exchange(rows: &[StoredMessage]) -> usize {
    let results =
        rows.iter().rev().take_while(|row| LegacyKind::from_row(&row.message) == LegacyKind::Tool).count();
    (rows.len() - results).saturating_sub(1)
}

fn calls(row: &SessionMessage) -> impl Iterator<Item = &ToolCall> {
    row.tool_calls.iter().filter(|call| call.is_call())
}

#[cfg(test)]
mod tests;
