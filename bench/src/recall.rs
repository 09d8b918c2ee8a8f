//! Search in a million messages: latency, size of the index, speed of indexing, and what it costs concurrent commits.

use crate::{
    BenchEnv, Result,
    figure::{Figure, Target},
    measure::{Samples, milliseconds},
};
use session::{
    Commit, IndexProgress, NewSession, OnConflict, SearchQuery, SessionKey, SessionMessage, SessionSearch,
    SessionStore,
    sqlite::{Options, SqliteStore},
};
use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

const MESSAGES: usize = 1_000_000;
const SESSIONS: usize = 1_000;
const BATCH: usize = 1_000;
const QUERIES: usize = 400;
const WORDS: u64 = 40_000;
const IDEOGRAPHS: u64 = 2_500;

pub(crate) fn run(env: &BenchEnv) -> Result<Vec<Figure>> {
    let directory = env.directory()?;
    let path = directory.path().join("recall.db");
    let store = SqliteStore::open(&path, Options::default())?;
    let runtime = Runtime::new()?;
    let mut texts = Texts::new(20_261_119);
    let bytes = runtime.block_on(fill(&store, &mut texts))?;
    checkpoint(&path)?;
    let before = fs::metadata(&path)?.len();
    let alone =
        runtime.block_on(commits_while(&store, async { tokio::time::sleep(Duration::from_secs(5)).await }));
    let start = Instant::now();
    let slices = std::sync::Mutex::new(Vec::new());
    let beside = runtime.block_on(commits_while(&store, async {
        loop {
            let slice = Instant::now();
            let progress = store.index_next().await;
            slices
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .push(milliseconds(slice.elapsed()));
            if !matches!(progress, Ok(IndexProgress::More)) {
                break;
            }
        }
    }));
    let indexing = start.elapsed();
    checkpoint(&path)?;
    let grown = fs::metadata(&path)?.len() - before;
    let latencies = runtime.block_on(search(&store, &mut texts))?;
    let slices = Samples::new(slices.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner));
    #[expect(clippy::cast_precision_loss, reason = "sizes and counts are far below 2^52")]
    let (size, rate) = (grown as f64 / bytes as f64, MESSAGES as f64 / indexing.as_secs_f64());
    Ok(vec![
        Figure::median("recall/1M", &latencies, "ms"),
        Figure::new("recall/1M/p95", latencies.percentile(95), "ms").target(Target::AtMost(50.0)),
        Figure::new("recall/1M/worst", latencies.percentile(100), "ms"),
        Figure::new("recall/index_to_text", size, "ratio").target(Target::AtMost(0.9)),
        Figure::new("recall/indexing", rate, "messages/s"),
        Figure::median("recall/slice", &slices, "ms"),
        Figure::new("recall/slice/worst", slices.percentile(100), "ms"),
        Figure::median("recall/commit/alone", &alone, "ms"),
        Figure::median("recall/commit/while_indexing", &beside, "ms"),
        Figure::new("recall/commit/alone/p99", alone.percentile(99), "ms"),
        Figure::new("recall/commit/while_indexing/p99", beside.percentile(99), "ms"),
    ])
}

fn key(session: usize) -> SessionKey {
    SessionKey::new("bench", "user", format!("s{session}"))
}

/// Writes the messages and returns the size of their text.
async fn fill(store: &SqliteStore, texts: &mut Texts) -> Result<usize> {
    let mut bytes = 0;
    for session in 0..SESSIONS {
        let key = key(session);
        let new = NewSession {
            key: key.clone(),
            state: Vec::new(),
            steps: Vec::new(),
            on_conflict: OnConflict::Fail,
            quota: None,
        };
        store.create(new).await?;
        for batch in 0..MESSAGES / SESSIONS / BATCH {
            let messages: Vec<SessionMessage> =
                (0..BATCH).map(|n| texts.message(batch * BATCH + n)).collect();
            bytes += messages.iter().map(|message| message.content.len()).sum::<usize>();
            store.commit(&key, Commit { messages, ..Commit::default() }).await?;
        }
    }
    Ok(bytes)
}

fn checkpoint(path: &Path) -> Result<()> {
    let conn = rusqlite::Connection::open(path)?;
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// Measures commits of small messages, about 200 a second, while `work` runs.
async fn commits_while(store: &SqliteStore, work: impl Future<Output = ()>) -> Samples {
    let done = Arc::new(AtomicBool::new(false));
    let committing = {
        let (store, done) = (store.clone(), Arc::clone(&done));
        tokio::spawn(async move {
            let key = SessionKey::new("bench", "other", format!("live{}", Arc::as_ptr(&done) as usize));
            let new = NewSession {
                key: key.clone(),
                state: Vec::new(),
                steps: Vec::new(),
                on_conflict: OnConflict::Keep,
                quota: None,
            };
            let _ = store.create(new).await;
            let mut samples = Vec::new();
            while !done.load(Ordering::Relaxed) {
                let content = "a short message".to_owned();
                let message = SessionMessage {
                    id: format!("m{}", samples.len()),
                    role: "user".into(),
                    content,
                    ..SessionMessage::default()
                };
                let start = Instant::now();
                if store.commit(&key, Commit::message(message)).await.is_err() {
                    break;
                }
                samples.push(milliseconds(start.elapsed()));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            samples
        })
    };
    work.await;
    done.store(true, Ordering::Relaxed);
    Samples::new(committing.await.unwrap_or_default())
}

async fn search(store: &SqliteStore, texts: &mut Texts) -> Result<Samples> {
    let mut samples = Vec::new();
    for number in 0..QUERIES {
        let text = texts.query(number);
        let query = SearchQuery {
            user: "user".into(),
            app: Some("bench".into()),
            text,
            limit: 20,
            ..SearchQuery::default()
        };
        let start = Instant::now();
        store.search(query).await?;
        samples.push(milliseconds(start.elapsed()));
    }
    Ok(Samples::new(samples))
}

/// Generated texts with word frequencies as in natural language (Zipf): 70 % words, 20 % Chinese, 10 % code.
struct Texts(u64);

impl Texts {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// A rank below `bound`; rank n is about 1/n as frequent as rank 1.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "ranks are small"
    )]
    fn zipf(&mut self, bound: u64) -> u64 {
        let uniform = self.below(1 << 30) as f64 / f64::from(1 << 30);
        ((bound as f64).powf(uniform) - 1.0) as u64
    }

    /// Frequent words are short.
    fn word(&mut self) -> String {
        let rank = self.zipf(WORDS);
        let mut rest = rank;
        let mut word = String::new();
        for syllables in 0..4 {
            word.push(char::from(b"bdfgklmnprstvz"[usize::try_from(rest % 14).unwrap_or(0)]));
            word.push(char::from(b"aeiou"[usize::try_from(rest / 14 % 5).unwrap_or(0)]));
            rest /= 70;
            if rest == 0 && syllables > 0 {
                break;
            }
        }
        word
    }

    fn ideographs(&mut self, count: u64) -> String {
        let char = |rank: u64| char::from_u32(0x4e00 + u32::try_from(rank * 7).unwrap_or(0)).unwrap_or('一');
        (0..count).map(|_| char(self.zipf(IDEOGRAPHS))).collect()
    }

    fn identifier(&mut self) -> String {
        format!("{}_{}.{}", self.word(), self.word(), self.word())
    }

    fn message(&mut self, number: usize) -> SessionMessage {
        let content = match self.below(10) {
            0..7 => {
                let words = 10 + self.below(70);
                (0..words).map(|_| self.word()).collect::<Vec<_>>().join(" ")
            }
            7..9 => {
                let sentences = 1 + self.below(8);
                (0..sentences).map(|_| self.ideographs(12) + "，").collect::<Vec<_>>().concat()
            }
            _ => {
                let lines = 2 + self.below(8);
                (0..lines)
                    .map(|_| format!("let {} = {}({});\n", self.word(), self.identifier(), self.below(5000)))
                    .collect::<Vec<_>>()
                    .concat()
            }
        };
        let role = if number.is_multiple_of(2) { "user" } else { "assistant" };
        SessionMessage {
            id: format!("m{number}"),
            role: role.into(),
            author: role.into(),
            content,
            ..SessionMessage::default()
        }
    }

    /// Two to eight words, of which some are frequent; or two to six ideographs; or an identifier.
    fn query(&mut self, number: usize) -> String {
        match number % 5 {
            0..3 => {
                let words = 2 + self.below(7);
                (0..words).map(|_| self.word()).collect::<Vec<_>>().join(" ")
            }
            3 => {
                let count = 2 + self.below(5);
                self.ideographs(count)
            }
            _ => self.identifier(),
        }
    }
}
