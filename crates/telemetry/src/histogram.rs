//! A histogram with fixed buckets. Recording is a few atomic additions.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Upper bounds of buckets in seconds, ascending.
pub(crate) type BucketBounds = &'static [f64];

#[derive(Debug)]
pub(crate) struct Histogram {
    bounds: BucketBounds,
    /// Not cumulative; the last one has no upper bound.
    counts: Vec<AtomicU64>,
    microseconds: AtomicU64,
}

/// A histogram at one moment, with its labels.
#[derive(Clone, Debug, PartialEq)]
pub struct HistogramSeries {
    pub labels: Vec<(&'static str, String)>,
    /// Upper bounds in seconds, with cumulative counts.
    pub buckets: Vec<(f64, u64)>,
    pub count: u64,
    /// In seconds.
    pub sum: f64,
}

impl Histogram {
    pub(crate) fn new(bounds: BucketBounds) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, microseconds: AtomicU64::new(0) }
    }

    pub(crate) fn record(&self, time: Duration) {
        let seconds = time.as_secs_f64();
        let bucket = self.bounds.partition_point(|bound| *bound < seconds);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let microseconds = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.microseconds.fetch_add(microseconds, Ordering::Relaxed);
    }

    /// The count is the sum of the buckets, so that both agree while others record.
    pub(crate) fn series(&self, labels: Vec<(&'static str, String)>) -> HistogramSeries {
        let mut count = 0;
        let mut cumulative = self.counts.iter().map(|bucket| {
            count += bucket.load(Ordering::Relaxed);
            count
        });
        let buckets = self.bounds.iter().copied().zip(cumulative.by_ref()).collect();
        let count = cumulative.last().unwrap_or_default();
        let sum = Duration::from_micros(self.microseconds.load(Ordering::Relaxed)).as_secs_f64();
        HistogramSeries { labels, buckets, count, sum }
    }
}
