//! Finds the user's request when it lies before the window: a run that takes longer than a window must keep its
//! request when the session is loaded again.

use crate::{
    store::{
        row::{LegacyKind, Restorer},
        session_handle::SessionHandle,
    },
    view::{history, messages},
};
use adk::{error::ServiceError, event::Event, session::SessionKey};
use provider::ModelId;
use session::{PageRequest, Seq, Store, StoredMessage};
use shared_text::SharedText;
use std::sync::Arc;

/// Page size, and the maximum number of pages: a run within the usual limits has fewer rows.
const PAGE: usize = 64;
const PAGES: usize = 64;

/// The user's request in an event, if there is one.
pub(crate) fn request_in(event: &Event) -> Option<SharedText> {
    let no_model = ModelId { provider: String::new(), model: String::new() };
    let content = event.content.as_ref().filter(|_| event.is_from_user() && !event.is_correction())?;
    messages::convert_content(content, &no_model).iter().find_map(history::user_request).map(SharedText::from)
}

/// The user's last request in these rows.
pub(crate) fn last_request_in(rows: &[StoredMessage], root_agent: &str) -> Option<SharedText> {
    let mut by_user = rows.iter().rev().filter(|row| LegacyKind::from_row(&row.message) == LegacyKind::User);
    by_user.find_map(|row| request_in(&Restorer::new(root_agent).restore(row)))
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
