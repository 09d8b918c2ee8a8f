//! What the user asked for, where it lies before the end of the log that was read: work that takes longer than a window must
//! not lose it when the session is read anew.

use crate::{
    agent::is_correction,
    store::{
        row::{LegacyKind, Restorer},
        service::{service_error, store_key},
    },
    view::{history, messages},
};
use adk::{error::ServiceError, event::Event, session::SessionKey};
use provider::ModelId;
use session::{PageRequest, Seq, Store, StoredMessage};
use shared_text::SharedText;

/// How many rows are read at once, and how often at most: a run of the usual limit has fewer.
const PAGE: usize = 64;
const PAGES: usize = 64;

/// What the user asks for with an event, if anything.
pub(crate) fn of(event: &Event) -> Option<SharedText> {
    let nobody = ModelId { provider: String::new(), model: String::new() };
    let content = event.content.as_ref().filter(|_| event.is_from_user() && !is_correction(event))?;
    messages::convert_content(content, &nobody).iter().find_map(history::task).map(SharedText::from)
}

/// What the user asked for last in these rows.
pub(crate) fn last_in(rows: &[StoredMessage], root_agent: &str) -> Option<SharedText> {
    let mut by_user = rows.iter().rev().filter(|row| LegacyKind::of(&row.message) == LegacyKind::User);
    by_user.find_map(|row| of(&Restorer::new(root_agent).restore(row)))
}

/// What the user asked for last before that place: read backwards, page by page, until it is found.
pub(crate) async fn before(
    place: Seq,
    store: &dyn Store,
    key: &SessionKey,
    root_agent: &str,
) -> Result<Option<SharedText>, ServiceError> {
    let mut end = place;
    for _ in 0..PAGES {
        let after = Seq(end.0.saturating_sub(PAGE as u64 + 1));
        let page = PageRequest { after, limit: PAGE };
        let read = store.read(&store_key(key), page).await;
        let mut rows = read.map_err(|error| service_error(error, key))?;
        rows.retain(|row| row.seq < end);
        let task = last_in(&rows, root_agent);
        if task.is_some() || after == Seq::START {
            return Ok(task);
        }
        end = after.next();
    }
    Ok(None)
}
