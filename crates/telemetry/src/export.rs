//! The exporter: a bounded queue of spans, and a task that sends them to a collector in batches.

use crate::otlp;
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

/// The capacity of the queue, in spans.
const QUEUE: usize = 2048;
/// The largest batch, in spans.
const BATCH: usize = 512;
/// How long a batch waits to be filled.
const BATCH_DELAY: Duration = Duration::from_secs(1);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// An OTLP collector, reached over HTTP.
#[derive(Clone, Debug)]
pub struct Collector {
    /// The whole address, such as `http://127.0.0.1:4318/v1/traces`.
    pub url: String,
    pub headers: Vec<(String, SecretString)>,
    /// The resource attribute `service.name`.
    pub service: String,
    /// Whether spans carry the text of messages, answers and tool results.
    pub content: bool,
}

/// Spans since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportCounts {
    pub sent: u64,
    /// The queue was full, or the collector refused them.
    pub dropped: u64,
}

pub(super) struct Exporter {
    queue: mpsc::Sender<ExportCommand>,
    counts: Arc<AtomicCounts>,
}

#[derive(Default)]
struct AtomicCounts {
    sent: AtomicU64,
    dropped: AtomicU64,
}

enum ExportCommand {
    Span(Arc<Span>),
    /// Sends the batch at once, then signals.
    Flush(oneshot::Sender<()>),
}

impl Exporter {
    pub(super) fn start(collector: Collector) -> Result<Self, String> {
        let post = JsonPostClient::new(&collector.url, &collector.headers, REQUEST_TIMEOUT)?;
        let (queue, commands) = mpsc::channel(QUEUE);
        let counts = Arc::new(AtomicCounts::default());
        let task = ExportTask { post, service: collector.service, counts: Arc::clone(&counts) };
        tokio::spawn(task.run(commands));
        Ok(Self { queue, counts })
    }

    pub(super) fn enqueue(&self, span: Arc<Span>) {
        if self.queue.try_send(ExportCommand::Span(span)).is_err() {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) async fn flush(&self, limit: Duration) {
        let (done, is_done) = oneshot::channel();
        let flushed = async {
            if self.queue.send(ExportCommand::Flush(done)).await.is_ok() {
                let _ = is_done.await;
            }
        };
        let _ = timeout(limit, flushed).await;
    }

    pub(super) fn counts(&self) -> ExportCounts {
        let AtomicCounts { sent, dropped } = &*self.counts;
        ExportCounts { sent: sent.load(Ordering::Relaxed), dropped: dropped.load(Ordering::Relaxed) }
    }
}

struct ExportTask {
    post: JsonPostClient,
    service: String,
    counts: Arc<AtomicCounts>,
}

impl ExportTask {
    async fn run(self, mut commands: mpsc::Receiver<ExportCommand>) {
        while let Some(first) = commands.recv().await {
            let mut batch = Batch::default();
            batch.add(first);
            let end = Instant::now() + BATCH_DELAY;
            while batch.is_open() {
                let Ok(Some(next)) = timeout_at(end, commands.recv()).await else { break };
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
        let count = if self.post.send(body).await { &self.counts.sent } else { &self.counts.dropped };
        count.fetch_add(spans.len() as u64, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Batch {
    spans: Vec<Arc<Span>>,
    flushed: Vec<oneshot::Sender<()>>,
}

impl Batch {
    fn add(&mut self, command: ExportCommand) {
        match command {
            ExportCommand::Span(span) => self.spans.push(span),
            ExportCommand::Flush(flushed) => self.flushed.push(flushed),
        }
    }

    fn is_open(&self) -> bool {
        self.flushed.is_empty() && self.spans.len() < BATCH
    }
}
