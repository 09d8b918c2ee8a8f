//! Finds the user's request when it lies before the window: a run that takes longer than a window must keep its
//! request when the session is loaded again.

use crate::store::{
    row::{LegacyKind, Restorer},
    session_handle::SessionHandle,
};
use adk::{error::ServiceError, session::SessionKey};
use session::{PageRequest, Seq, Store, StoredMessage};
use shared_text::SharedText;
use std::sync::Arc;

/// Page size, and the maximum number of pages: a run within the usual limits has fewer rows.
const PAGE: usize = 64;
const PAGES: usize = 64;

/// The user's last request in these rows.
pub(crate) fn last_request_in(rows: &[StoredMessage], root_agent: &str) -> Option<SharedText> {
    let mut by_user = rows.iter().rev().filter(|row| LegacyKind::from_row(&row.message) == LegacyKind::User);
    by_user.find_map(|row| Restorer::new(root_agent).restore(row).user_request())
}

/// The user's last request before sequence number `end`. Reads backwards, page by page.
pub(crate) async fn find_before(
    end: Seq,
    store: &Arc<dyn Store>,
    key: &SessionKey,
    root_agent: &str,
) -> Result<Option<SharedText>, ServiceError> {
    let (mut end, stored) = (end, SessionHandle::new(store, key));
    for _ in 0..PAGES {
        let after = Seq(end.0.saturating_sub(PAGE as u64 + 1));
        let page = PageRequest { after, limit: PAGE, max_bytes: usize::MAX };
        let mut rows = stored.read(page).await?;
        rows.retain(|row| row.seq < end);
        let user_request = last_request_in(&rows, root_agent);
        if user_request.is_some() || after == Seq::START {
            return Ok(user_request);
        }
        end = after.next();
    }
    Ok(None)
}
