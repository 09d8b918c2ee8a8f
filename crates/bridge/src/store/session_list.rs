//! Lists of a user's sessions: all of them, as a stream, or a page.

use crate::store::{
    archive::{Archive, SessionSummary},
    service::store_failed,
    state::StateAdapter,
};
use adk::{error::ServiceError, session::SessionKey};
use session::{HeadPage, ListOrder, ListQuery, SessionHead, SessionRow};
use std::sync::Arc;

/// How many sessions are loaded at once.
const PAGE: usize = 512;

/// An iterator over a user's sessions. It holds the numbers of the sessions, and loads summaries in pages. Clones share the
/// numbers.
#[derive(Clone, Debug)]
pub struct SessionSummaries {
    archive: Archive,
    app: String,
    user: String,
    /// In reverse order.
    numbers: Arc<[u64]>,
    /// How many numbers belong to no loaded page.
    left: usize,
    /// The rest of the loaded page, in reverse order.
    page: Vec<SessionSummary>,
}

impl SessionSummaries {
    pub async fn next(&mut self) -> Result<Option<SessionSummary>, ServiceError> {
        // A page may be empty, because its sessions were deleted since they were listed.
        while self.page.is_empty() && self.left > 0 {
            let first = self.left.saturating_sub(PAGE);
            let mut numbers = self.numbers[first..self.left].to_vec();
            numbers.reverse();
            self.page = self.archive.summaries(&self.app, &self.user, numbers).await?;
            self.page.reverse();
            self.left = first;
        }
        Ok(self.page.pop())
    }
}

impl Archive {
    /// Lists all sessions of a user, the most recently changed last.
    pub async fn list(&self, app: &str, user: &str) -> Result<SessionSummaries, ServiceError> {
        let numbers = self.store.session_numbers(app, user).await.map_err(store_failed)?;
        Ok(SessionSummaries {
            archive: self.clone(),
            app: app.to_owned(),
            user: user.to_owned(),
            left: numbers.len(),
            numbers: numbers.into(),
            page: Vec::new(),
        })
    }

    /// A page of a user's sessions in the order of their creation, newest first, and the cursor of the next page.
    pub async fn list_page(
        &self,
        (app, user): (&str, &str),
        after: Option<u64>,
        limit: usize,
    ) -> Result<(Vec<SessionSummary>, Option<u64>), ServiceError> {
        let after = after.map(|number| SessionRow::cursor(SessionKey::new(app, user, ""), number));
        let query = ListQuery {
            app: Some(app.to_owned()),
            user: Some(user.to_owned()),
            order: ListOrder::Created,
            after,
            // One more tells whether another page follows.
            limit: limit.saturating_add(1),
            session: None,
        };
        let rows = self.store.list(query).await.map_err(store_failed)?;
        let mut numbers: Vec<u64> = rows.into_iter().map(|row| row.number).collect();
        let has_more = numbers.len() > limit;
        numbers.truncate(limit);
        let next = numbers.last().copied().filter(|_| has_more);
        Ok((self.summaries(app, user, numbers).await?, next))
    }

    /// The summaries of the sessions with these numbers that still exist.
    async fn summaries(
        &self,
        app: &str,
        user: &str,
        numbers: Vec<u64>,
    ) -> Result<Vec<SessionSummary>, ServiceError> {
        let HeadPage { shared, heads } = self.store.heads(app, user, numbers).await.map_err(store_failed)?;
        let summary = |SessionHead { row, state }: SessionHead| {
            if row.is_damaged {
                return SessionSummary::damaged(row.key);
            }
            let state = shared.iter().cloned().chain(state).collect();
            SessionSummary {
                key: row.key,
                state: StateAdapter::new(state).all().clone(),
                title: row.title,
                last_update_time: row.updated_at,
                last_seq: row.last_seq.0,
            }
        };
        Ok(heads.into_iter().map(summary).collect())
    }
}
