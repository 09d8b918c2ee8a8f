//! Memory for large parts of responses, which wait until their clients read them.
//!
//! Responses are streamed in small chunks, but an event or an artifact is serialized as a whole. A part larger than
//! [`SMALL_PART`] is charged to a budget until it is sent: back-pressure for slow clients.

use crate::memory_budget::{MemoryBudget, MemoryPermit};
use axum::body::Bytes;
use std::{future::Future, sync::Arc};
use tokio::sync::Semaphore;

/// Parts up to this size are not charged.
pub(crate) const SMALL_PART: usize = 256 * 1024;
/// The number of parts that are loaded and serialized at a time.
const CONCURRENT_LOADS: usize = 2;

/// The budget of a server, of which a user may have half. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct ResponseBudget {
    memory: MemoryBudget,
    loads: Arc<Semaphore>,
}

/// A serialized part with its permit, which is returned when the part was sent.
struct ChargedPart {
    bytes: Vec<u8>,
    _permit: MemoryPermit,
}

impl AsRef<[u8]> for ChargedPart {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A part of the budget for bytes that are not serialized yet.
pub(crate) struct ResponseCharge(Option<MemoryPermit>);

impl ResponseCharge {
    /// The bytes with the charge, which is returned when they were sent.
    pub(crate) fn attach(self, bytes: Vec<u8>) -> Bytes {
        match self.0 {
            Some(permit) => Bytes::from_owner(ChargedPart { bytes, _permit: permit }),
            None => bytes.into(),
        }
    }
}

impl ResponseBudget {
    /// Waits until a part of this size fits into the budget of the user.
    pub(crate) async fn charge(&self, user: &str, size: usize) -> ResponseCharge {
        ResponseCharge(self.memory.acquire(user, size).await)
    }

    pub(crate) fn new(bytes: usize) -> Self {
        Self { memory: MemoryBudget::divided(bytes), loads: Arc::new(Semaphore::new(CONCURRENT_LOADS)) }
    }

    /// Loads a part. If it is large, it is dropped, its size is awaited from the budget of the user, and it is loaded again: so
    /// only few uncharged parts are in memory, and no load waits for the client of another.
    /// The second value of `load` is returned as it is.
    pub(crate) async fn load<T, E, F>(&self, user: &str, mut load: impl FnMut() -> F) -> Result<(Bytes, T), E>
    where
        F: Future<Output = Result<(Vec<u8>, T), E>>,
    {
        let size = {
            let _load = self.loads.acquire().await;
            let (bytes, value) = load().await?;
            if bytes.len() <= SMALL_PART {
                return Ok((bytes.into(), value));
            }
            bytes.len()
        };
        let charge = self.charge(user, size).await;
        let _load = self.loads.acquire().await;
        let (bytes, value) = load().await?;
        Ok((charge.attach(bytes), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use std::convert::Infallible;

    const MB: usize = 1024 * 1024;

    async fn part(budget: &ResponseBudget, user: &str, size: usize) -> Bytes {
        budget.load(user, || async { Ok::<_, Infallible>((vec![0; size], ())) }).await.unwrap().0
    }

    #[tokio::test]
    async fn a_large_part_waits_until_another_of_its_user_is_sent() {
        let budget = ResponseBudget::new(8 * MB);
        let first = part(&budget, "ann", 3 * MB).await;
        assert!(part(&budget, "ann", 2 * MB).now_or_never().is_none());
        assert_eq!(part(&budget, "ann", SMALL_PART).await.len(), SMALL_PART, "small parts do not wait");
        let rest = first.slice(1..);
        let other = part(&budget, "bob", 4 * MB).await;
        drop(first);
        assert!(part(&budget, "ann", 2 * MB).now_or_never().is_none(), "a slice is not sent yet");
        drop(rest);
        assert_eq!(part(&budget, "ann", 2 * MB).await.len(), 2 * MB);
        assert!(part(&budget, "bob", MB).now_or_never().is_none());
        drop(other);
        assert_eq!(part(&budget, "bob", 100 * MB).await.len(), 100 * MB, "more than the whole budget");
    }
}
