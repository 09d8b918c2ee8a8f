//! How much of the server one client may have.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

const MINUTE: f64 = 60.0;
/// More counters than these are looked through for ones that say nothing any more.
const MANY: usize = 10_000;

/// Zero is no limit, where it makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Bytes of a request's body.
    pub body: usize,
    /// Bytes of a request's head.
    pub head: usize,
    /// How long a client may take to send it.
    pub head_timeout: Duration,
    pub connections: usize,
    /// Of each token; whoever sits at the machine is not counted.
    pub requests_per_minute: u32,
    /// Of each user at a time; an administrator's are not counted.
    pub runs_per_user: usize,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            body: 20 * 1024 * 1024,
            head: 64 * 1024,
            head_timeout: Duration::from_secs(30),
            connections: 1024,
            requests_per_minute: 6000,
            runs_per_user: 64,
        }
    }
}

/// Requests of each name: as many as a minute has at once, and then as they become free again.
#[derive(Debug)]
pub struct RateLimiter {
    per_minute: u32,
    buckets: Mutex<HashMap<String, TokenBucket>>,
}

#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    left: f64,
    at: Instant,
}

impl RateLimiter {
    pub fn new(per_minute: u32) -> Self {
        Self { per_minute, buckets: Mutex::default() }
    }

    /// Counts a request; if it is one too many, says how long to wait.
    pub fn count(&self, name: &str) -> Result<(), Duration> {
        if self.per_minute == 0 {
            return Ok(());
        }
        let (now, most) = (Instant::now(), f64::from(self.per_minute));
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() > MANY {
            buckets.retain(|_, bucket| bucket.refilled(now, most) < most);
        }
        if !buckets.contains_key(name) {
            buckets.insert(name.to_owned(), TokenBucket { left: most, at: now });
        }
        let Some(bucket) = buckets.get_mut(name) else { return Ok(()) };
        *bucket = TokenBucket { left: bucket.refilled(now, most), at: now };
        if bucket.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.left) * MINUTE / most));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

impl TokenBucket {
    fn refilled(&self, now: Instant, most: f64) -> f64 {
        let since = now.duration_since(self.at).as_secs_f64();
        (self.left + since * most / MINUTE).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_minute_has_so_many_requests_and_no_more() {
        let rates = RateLimiter::new(3);
        assert!((0..3).all(|_| rates.count("ann").is_ok()));
        assert_eq!(rates.count("ann"), Err(Duration::from_secs(20)));
        assert!(rates.count("bob").is_ok(), "each has its own");
        tokio::time::advance(Duration::from_secs(20)).await;
        assert!(rates.count("ann").is_ok());
        assert!(rates.count("ann").is_err());
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(
            (0..10).filter(|_| rates.count("ann").is_ok()).count(),
            3,
            "an hour of silence saves up no more"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn zero_is_no_limit() {
        let rates = RateLimiter::new(0);
        assert!((0..1000).all(|_| rates.count("ann").is_ok()));
    }

    #[tokio::test(start_paused = true)]
    async fn names_that_are_silent_are_forgotten() {
        let rates = RateLimiter::new(60);
        for name in 0..=MANY {
            rates.count(&name.to_string()).unwrap();
        }
        tokio::time::advance(Duration::from_mins(1)).await;
        rates.count("one more").unwrap();
        assert_eq!(rates.buckets.lock().unwrap().len(), 1);
    }
}
