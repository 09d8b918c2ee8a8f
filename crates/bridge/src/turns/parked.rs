//! Calls that wait for the user's input, as the sessions of this process see them: a call is abandoned when its question is
//! settled without an answer.

use adk::pending::PendingWork;
use session::SessionKey;
use tools::mcp::ParkedCalls;

/// The session as parked calls name it, unique among all apps and users.
pub(crate) fn scope(key: &SessionKey) -> String {
    serde_json::json!([key.app_name, key.user_id, key.session_id]).to_string()
}

/// Whether a call waits for an answer in this process.
pub(crate) fn is_parked(calls: &ParkedCalls, key: &SessionKey, call: &str) -> bool {
    calls.contains(&scope(key), call)
}

/// Abandons the calls of a session whose questions are not open, and that no turn is about to continue.
pub(crate) fn reconcile(calls: &ParkedCalls, key: &SessionKey, pending: &PendingWork) {
    if calls.is_empty() {
        return;
    }
    let is_open = |id: &str| {
        let asked = pending.questions.iter().map(|question| &question.call);
        asked.chain(&pending.open_calls).any(|call| call.id() == id)
    };
    calls.retain(&scope(key), is_open);
}

/// Abandons all calls of a session.
pub(crate) fn abandon(calls: &ParkedCalls, key: &SessionKey) {
    if !calls.is_empty() {
        calls.retain(&scope(key), |_| false);
    }
}
