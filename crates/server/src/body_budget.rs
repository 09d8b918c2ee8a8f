//! Memory for request bodies: while they arrive, and while they are processed.
//!
//! The two have separate budgets, because a client decides how long a body arrives, and the server how long it is processed. A
//! body of at most [`SMALL_BODY`] bytes is received without a charge, so that no other client can keep it waiting.

use crate::memory_budget::{MemoryBudget, MemoryPermit};
use axum::body::{Body, Bytes, HttpBody};
use futures::future::poll_fn;
use std::{pin::Pin, time::Duration};
use tokio::time::{Instant, sleep_until, timeout};

/// Bodies up to this size are not charged while they arrive.
const SMALL_BODY: usize = 16 * 1024;
/// Bodies that need at most this memory are not charged while they are processed.
const SMALL_TREE: usize = 32 * 1024;
/// How long a body waits for memory.
const MAX_WAIT: Duration = Duration::from_secs(20);
/// How long a charged body may take to arrive while other users wait for its memory.
const CONTENDED_TIME: Duration = Duration::from_secs(15);

/// The budget of a server. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct BodyBudget {
    /// The maximum size of a body in bytes.
    limit: usize,
    arriving: MemoryBudget,
    processed: MemoryBudget,
}

/// The memory of a body that is processed.
#[derive(Debug, Default)]
pub(crate) struct BodyCharge {
    _received: Option<MemoryPermit>,
    _processed: Option<MemoryPermit>,
}

/// A body with its memory.
#[derive(Debug)]
pub(crate) struct ReceivedBody {
    pub(crate) bytes: Vec<u8>,
    permit: Option<MemoryPermit>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the body exceeds the limit of {0} bytes")]
    TooLarge(usize),
    #[error("too many large request bodies at a time; retry later")]
    NoMemory,
    #[error("the body cannot be read")]
    Transfer(#[source] axum::Error),
}

impl BodyBudget {
    /// One half of the memory is for bodies that arrive, the other for those that are processed. A user may have half of the
    /// first.
    pub(crate) fn new(limit: usize, memory: usize) -> Self {
        Self { limit, arriving: MemoryBudget::divided(memory / 2), processed: MemoryBudget::new(memory / 2) }
    }

    /// Reads a body. A large one waits for memory before the client may send it.
    pub(crate) async fn receive(&self, user: &str, mut body: Body) -> Result<ReceivedBody, BodyError> {
        let declared = body.size_hint().exact().map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        if declared.is_some_and(|size| size > self.limit) {
            return Err(BodyError::TooLarge(self.limit));
        }
        let mut received = ReceivedBody { bytes: Vec::new(), permit: None };
        if let Some(size) = declared {
            received.permit = acquire(&self.arriving, user, size, SMALL_BODY).await?;
            received.bytes.reserve_exact(size);
        }
        let end = Instant::now() + CONTENDED_TIME;
        loop {
            let frame = if received.permit.is_some() {
                tokio::select! {
                    frame = next_frame(&mut body) => frame,
                    () = self.contended_after(end) => return Err(BodyError::NoMemory),
                }
            } else {
                next_frame(&mut body).await
            };
            let Some(data) = frame.transpose().map_err(BodyError::Transfer)? else { break };
            let size = received.bytes.len() + data.len();
            if size > self.limit {
                return Err(BodyError::TooLarge(self.limit));
            }
            // The size of a body without a length is not known before its end.
            if received.permit.is_none() && size > SMALL_BODY {
                received.permit = acquire(&self.arriving, user, self.limit, SMALL_BODY).await?;
            }
            received.bytes.extend_from_slice(&data);
        }
        if let Some(permit) = &mut received.permit {
            received.bytes.shrink_to_fit();
            permit.shrink(received.bytes.len());
        }
        Ok(received)
    }

    /// Resolves when another user waits for memory, but not before `end`.
    async fn contended_after(&self, end: Instant) {
        sleep_until(end).await;
        self.arriving.contended().await;
    }

    /// Waits for the memory that the parsed body needs. The charge covers the body until it is dropped.
    pub(crate) async fn charge(
        &self,
        user: &str,
        received: ReceivedBody,
        memory: usize,
    ) -> Result<(Vec<u8>, BodyCharge), BodyError> {
        let permit = acquire(&self.processed, user, memory, SMALL_TREE).await?;
        Ok((received.bytes, BodyCharge { _received: received.permit, _processed: permit }))
    }
}

/// Waits for a part of a budget; `None` for a size that is not charged.
async fn acquire(
    budget: &MemoryBudget,
    user: &str,
    bytes: usize,
    free: usize,
) -> Result<Option<MemoryPermit>, BodyError> {
    if bytes <= free {
        return Ok(None);
    }
    timeout(MAX_WAIT, budget.acquire(user, bytes)).await.map_err(|_| BodyError::NoMemory)
}

/// The next data of a body; trailers are skipped.
async fn next_frame(body: &mut Body) -> Option<Result<Bytes, axum::Error>> {
    loop {
        match poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await? {
            Ok(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Some(Ok(data));
                }
            }
            Err(error) => return Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt, stream};
    use std::io;

    const MB: usize = 1024 * 1024;

    /// A body of which only the beginning arrives.
    fn unfinished(size: usize) -> Body {
        use futures::StreamExt;
        let begin = stream::iter([Ok::<_, io::Error>(Bytes::from(vec![b'x'; size]))]);
        Body::from_stream(begin.chain(stream::pending()))
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_bodies_of_a_user_keep_waiting_only_large_bodies_of_that_user() {
        let budget = BodyBudget::new(MB, 4 * MB);
        let mut slow = Box::pin(budget.receive("bob", unfinished(SMALL_BODY + 1)));
        assert!(slow.as_mut().now_or_never().is_none());
        let large = || Body::from(vec![b'x'; MB]);
        let refused = budget.receive("bob", large()).await;
        assert!(matches!(refused, Err(BodyError::NoMemory)), "{refused:?}");
        assert_eq!(budget.receive("ann", large()).await.unwrap().bytes.len(), MB);
        let small = Body::from(vec![b'x'; SMALL_BODY]);
        assert_eq!(budget.receive("bob", small).await.unwrap().bytes.len(), SMALL_BODY);
        drop(slow);
        assert!(budget.receive("bob", large()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_bodies_end_when_other_users_wait() {
        let budget = BodyBudget::new(MB, 4 * MB);
        let mut slow = ["bob", "eve"].map(|user| Box::pin(budget.receive(user, unfinished(SMALL_BODY + 1))));
        assert!(slow.iter_mut().all(|body| body.as_mut().now_or_never().is_none()));
        tokio::time::advance(CONTENDED_TIME).await;
        assert!(slow.iter_mut().all(|body| body.as_mut().now_or_never().is_none()), "nobody waits");
        let slow = futures::future::select_all(slow);
        let (large, (ended, _, _)) = tokio::join!(budget.receive("ann", Body::from(vec![b'x'; MB])), slow);
        assert!(matches!(ended, Err(BodyError::NoMemory)));
        assert_eq!(large.unwrap().bytes.len(), MB);
    }

    #[tokio::test(start_paused = true)]
    async fn processed_bodies_wait_for_each_other_and_small_ones_do_not() {
        let budget = BodyBudget::new(MB, 4 * MB);
        let body = || ReceivedBody { bytes: Vec::new(), permit: None };
        let (_, charge) = budget.charge("ann", body(), 100 * MB).await.unwrap();
        assert!(budget.charge("bob", body(), SMALL_TREE).await.is_ok());
        assert!(matches!(budget.charge("bob", body(), MB).await, Err(BodyError::NoMemory)));
        drop(charge);
        assert!(budget.charge("bob", body(), MB).await.is_ok());
    }

    #[tokio::test]
    async fn the_limit_counts_with_and_without_a_declared_length() {
        let budget = BodyBudget::new(100, 4 * MB);
        let chunks =
            || Body::from_stream(stream::iter([Ok::<_, io::Error>(vec![b'x'; 60]), Ok(vec![b'x'; 60])]));
        for body in [Body::from(vec![b'x'; 101]), chunks()] {
            assert!(matches!(budget.receive("ann", body).await, Err(BodyError::TooLarge(100))));
        }
        assert_eq!(budget.receive("ann", Body::from(vec![b'x'; 100])).await.unwrap().bytes.len(), 100);
    }
}
