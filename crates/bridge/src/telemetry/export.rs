//! The way to a collector: spans wait in a queue of a certain length, and a task sends them, many at a time.

use super::otlp;
use adk::trace::Span;
use provider::{SecretString, http::JsonPostClient};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout, timeout_at},
};

/// As many spans wait, and no more.
const QUEUE: usize = 2048;
/// As many are sent at a time, and the first of them waits so long for others.
const BATCH: usize = 512;
const PAUSE: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(5);

/// Where spans are sent, by OTLP over HTTP.
#[derive(Clone, Debug)]
pub struct Collector {
    /// The whole address, such as `http://127.0.0.1:4318/v1/traces`.
    pub url: String,
    pub headers: Vec<(String, SecretString)>,
    /// What the program is called there.
    pub service: String,
    /// Whether what was said is sent too.
    pub content: bool,
}

/// What became of spans so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub sent: u64,
    /// There was no room, or the collector did not take them.
    pub dropped: u64,
}

pub(super) struct Exporter {
    queue: mpsc::Sender<Told>,
    counted: Arc<Counted>,
}

#[derive(Default)]
struct Counted {
    sent: AtomicU64,
    dropped: AtomicU64,
}

enum Told {
    Span(Arc<Span>),
    /// Send what there is, and say so.
    Flush(oneshot::Sender<()>),
}

impl Exporter {
    pub(super) fn start(collector: Collector) -> Result<Self, String> {
        let post = JsonPostClient::new(&collector.url, &collector.headers, PATIENCE)?;
        let (queue, told) = mpsc::channel(QUEUE);
        let counted = Arc::new(Counted::default());
        let sender = Sender { post, service: collector.service, counted: Arc::clone(&counted) };
        tokio::spawn(sender.work(told));
        Ok(Self { queue, counted })
    }

    pub(super) fn take(&self, span: Arc<Span>) {
        if self.queue.try_send(Told::Span(span)).is_err() {
            self.counted.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) async fn flush(&self, within: Duration) {
        let (done, is_done) = oneshot::channel();
        let flushed = async {
            if self.queue.send(Told::Flush(done)).await.is_ok() {
                let _ = is_done.await;
            }
        };
        let _ = timeout(within, flushed).await;
    }

    pub(super) fn counts(&self) -> Counts {
        let Counted { sent, dropped } = &*self.counted;
        Counts { sent: sent.load(Ordering::Relaxed), dropped: dropped.load(Ordering::Relaxed) }
    }
}

struct Sender {
    post: JsonPostClient,
    service: String,
    counted: Arc<Counted>,
}

impl Sender {
    async fn work(self, mut told: mpsc::Receiver<Told>) {
        while let Some(first) = told.recv().await {
            let mut batch = Batch::default();
            batch.add(first);
            let end = Instant::now() + PAUSE;
            while batch.waits_for_more() {
                let Ok(Some(next)) = timeout_at(end, told.recv()).await else { break };
                batch.add(next);
            }
            if !batch.spans.is_empty() {
                self.send(&batch.spans).await;
            }
            for flushed in batch.flushed {
                let _ = flushed.send(());
            }
        }
    }

    async fn send(&self, spans: &[Arc<Span>]) {
        let body = otlp::request(&self.service, spans).to_string();
        let count = if self.post.send(body).await { &self.counted.sent } else { &self.counted.dropped };
        count.fetch_add(spans.len() as u64, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Batch {
    spans: Vec<Arc<Span>>,
    flushed: Vec<oneshot::Sender<()>>,
}

impl Batch {
    fn add(&mut self, told: Told) {
        match told {
            Told::Span(span) => self.spans.push(span),
            Told::Flush(flushed) => self.flushed.push(flushed),
        }
    }

    fn waits_for_more(&self) -> bool {
        self.flushed.is_empty() && self.spans.len() < BATCH
    }
}
