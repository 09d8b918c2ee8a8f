//! Resource limits per client, and the rate limiter.

use crate::connection::pace::MinRate;
use lock::LockExt;
use std::{collections::HashMap, sync::Mutex, time::Duration};
use tokio::time::Instant;

const MINUTE: f64 = 60.0;
/// Above this number of buckets, full ones are removed.
const SWEEP_THRESHOLD: usize = 10_000;

/// For limits per address, user, token or minute, zero means no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Bytes of a request body.
    pub body: usize,
    /// Bytes of a request head.
    pub head: usize,
    /// How long a client may take to send the head, and how long an unused connection stays open.
    pub head_timeout: Duration,
    /// How long a client may take to send a body.
    pub body_timeout: Duration,
    /// The minimum rate at which a client sends a body and reads a response.
    pub min_rate: MinRate,
    pub connections: usize,
    /// Connections of an address without an authenticated request; behind a trusted proxy, concurrent requests.
    pub connections_per_address: usize,
    /// Concurrent requests per user. The local administrator is not limited.
    pub requests_per_user: usize,
    /// Bytes of memory for large request bodies.
    pub body_memory: usize,
    /// Bytes of memory for large parts of responses.
    pub response_memory: usize,
    /// Per token. The local token is not limited.
    pub requests_per_minute: u32,
    /// Concurrent runs per user. Administrators are not limited.
    pub runs_per_user: usize,
    /// Stored sessions per user, in all apps.
    pub sessions_per_user: u64,
}

impl Default for ServerLimits {
    fn default() -> Self {
        Self {
            body: 20 * 1024 * 1024,
            head: 64 * 1024,
            head_timeout: Duration::from_secs(30),
            body_timeout: Duration::from_mins(5),
            min_rate: MinRate { bytes_per_second: 4096, grace: Duration::from_mins(1) },
            connections: 1024,
            connections_per_address: 64,
            requests_per_user: 256,
            body_memory: 48 * 1024 * 1024,
            response_memory: 32 * 1024 * 1024,
            requests_per_minute: 6000,
            runs_per_user: 64,
            sessions_per_user: 1_000_000,
        }
    }
}

/// A token bucket per key. A full bucket holds the requests of one minute and refills continuously.
#[derive(Debug)]
pub struct RateLimiter {
    per_minute: u32,
    buckets: Mutex<HashMap<String, TokenBucket>>,
}

#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    /// Requests left at `updated`.
    left: f64,
    updated: Instant,
}

impl RateLimiter {
    pub fn new(per_minute: u32) -> Self {
        Self { per_minute, buckets: Mutex::default() }
    }

    /// Counts a request. If the limit is reached, returns how long to wait.
    pub fn acquire(&self, key: &str) -> Result<(), Duration> {
        if self.per_minute == 0 {
            return Ok(());
        }
        let (now, capacity) = (Instant::now(), f64::from(self.per_minute));
        let mut buckets = self.buckets.locked();
        if buckets.len() > SWEEP_THRESHOLD {
            buckets.retain(|_, bucket| bucket.refilled(now, capacity) < capacity);
        }
        if !buckets.contains_key(key) {
            buckets.insert(key.to_owned(), TokenBucket { left: capacity, updated: now });
        }
        let Some(bucket) = buckets.get_mut(key) else { return Ok(()) };
        *bucket = TokenBucket { left: bucket.refilled(now, capacity), updated: now };
        if bucket.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - bucket.left) * MINUTE / capacity));
        }
        bucket.left -= 1.0;
        Ok(())
    }
}

impl TokenBucket {
    fn refilled(&self, now: Instant, capacity: f64) -> f64 {
        let elapsed = now.duration_since(self.updated).as_secs_f64();
        (self.left + elapsed * capacity / MINUTE).min(capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_limited_to_its_requests_per_minute() {
        let rates = RateLimiter::new(3);
        assert!((0..3).all(|_| rates.acquire("ann").is_ok()));
        assert_eq!(rates.acquire("ann"), Err(Duration::from_secs(20)));
        assert!(rates.acquire("bob").is_ok(), "each key has its own bucket");
        tokio::time::advance(Duration::from_secs(20)).await;
        assert!(rates.acquire("ann").is_ok());
        assert!(rates.acquire("ann").is_err());
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(
            (0..10).filter(|_| rates.acquire("ann").is_ok()).count(),
            3,
            "an idle bucket does not exceed its capacity"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn zero_means_no_limit() {
        let rates = RateLimiter::new(0);
        assert!((0..1000).all(|_| rates.acquire("ann").is_ok()));
    }

    #[tokio::test(start_paused = true)]
    async fn idle_buckets_are_removed() {
        let rates = RateLimiter::new(60);
        for key in 0..=SWEEP_THRESHOLD {
            rates.acquire(&key.to_string()).unwrap();
        }
        tokio::time::advance(Duration::from_mins(1)).await;
        rates.acquire("one more").unwrap();
        assert_eq!(rates.buckets.lock().unwrap().len(), 1);
    }
}
