//! `lango sessions import`: conversations of another program come along. Its file is only read.

use crate::{
    args::{ImportArgs, ImportSource},
    config::{self, BUILT_IN_APP, Settings},
    screen::{one_line, printable},
    wiring,
};
use anyhow::{Context, bail};
use bridge::{
    store::row::Restorer,
    view::{cost, tokens},
};
use session::{
    Seq, SessionKey, SessionMessage, StoredMessage,
    import::{ImportCount, ImportReport, ImportTarget, LangoDatabase, OldSession},
    sqlite::SqliteStore,
};
use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write},
    path::Path,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// How often a person is told how far it is.
const BEAT: Duration = Duration::from_millis(100);

pub(crate) async fn import(settings: &Settings, import: &ImportArgs) -> anyhow::Result<()> {
    let ImportSource::Lango = import.from;
    refuse_own_file(&import.file, &settings.database)?;
    let source = LangoDatabase::open(&import.file)?;
    let app = app(settings, import.app.as_deref())?;
    let store = wiring::open_file(settings).await?;
    let mut work = Work {
        store: &store,
        source: &source,
        owner: SessionKey::new(app, &settings.user, ""),
        report: ImportReport::default(),
        progress: ImportProgress::default(),
        cancel: CancellationToken::new(),
    };
    let interrupt = work.cancel.clone();
    let watching = tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            interrupt.cancel();
        }
    });
    let done = work.all().await;
    watching.abort();
    work.progress.clear();
    io::stdout().lock().write_all(summary(&work.report).as_bytes())?;
    done.context("the import stopped; what came stays, and a repeat goes on from there")?;
    if work.cancel.is_cancelled() {
        bail!("the import was interrupted; what came stays, and a repeat goes on from there");
    }
    Ok(())
}

/// Both programs keep their sessions in the same place by default.
fn refuse_own_file(file: &Path, database: &Path) -> anyhow::Result<()> {
    let same = file.canonicalize().ok().filter(|file| database.canonicalize().is_ok_and(|own| own == *file));
    if let Some(file) = same {
        bail!(
            "{} is where this Lango keeps its own sessions; move it away with the files beside it, and import it from there",
            file.display()
        );
    }
    Ok(())
}

/// The app that `lango chat` would open, so that it finds the sessions.
fn app(settings: &Settings, wanted: Option<&str>) -> anyhow::Result<String> {
    let found = config::load_app(&settings.agents_dir, wanted.or(settings.app.as_deref()))?;
    Ok(found.map_or_else(|| BUILT_IN_APP.to_owned(), |(name, _)| name))
}

struct Work<'a> {
    store: &'a SqliteStore,
    source: &'a LangoDatabase,
    /// The key of every session, but for its id.
    owner: SessionKey,
    report: ImportReport,
    progress: ImportProgress,
    /// Looked at between batches.
    cancel: CancellationToken,
}

impl Work<'_> {
    /// Reading blocks this thread, which has nothing else to do: the store and the signal have their own.
    async fn all(&mut self) -> anyhow::Result<()> {
        let sessions = self.source.sessions(&mut self.report)?;
        self.progress.total = sessions.iter().map(|session| session.len() as u64).sum();
        for session in &sessions {
            self.one(session).await.with_context(|| format!("session {:?}", session.key))?;
            if self.cancel.is_cancelled() {
                break;
            }
        }
        Ok(())
    }

    async fn one(&mut self, session: &OldSession) -> anyhow::Result<()> {
        let key = SessionKey { session: session.key.clone(), ..self.owner.clone() };
        let mut target = ImportTarget::open(self.store, key, session, &mut self.report).await?;
        let mut restorer = Restorer::new("");
        for batch in session.batches() {
            if self.cancel.is_cancelled() {
                break;
            }
            let mut rows = self.source.read(batch, &mut self.report)?;
            for row in &mut rows {
                weigh(&mut row.message, &mut restorer);
            }
            target.add(rows, &mut self.report).await?;
            self.progress.show(&self.report.messages);
        }
        Ok(())
    }
}

/// Counts what a model will be shown of the row, as every other row is counted.
fn weigh(message: &mut SessionMessage, restorer: &mut Restorer) {
    let row = StoredMessage { seq: Seq::START, message: std::mem::take(message) };
    let event = restorer.restore(&row);
    *message = row.message;
    message.tokens = event.content.as_ref().map_or(0, cost::of_content);
    tokens::COUNTED_BY.clone_into(&mut message.counted_by);
}

/// One line on a terminal, written over again and again; nothing elsewhere.
#[derive(Default)]
struct ImportProgress {
    total: u64,
    shown: Option<Instant>,
}

impl ImportProgress {
    fn show(&mut self, messages: &ImportCount) {
        let is_due = self.shown.is_none_or(|shown| shown.elapsed() >= BEAT);
        if is_due && io::stderr().is_terminal() {
            let done = messages.imported + messages.present;
            let _ = write!(io::stderr(), "\r{done} of {} messages", self.total);
            self.shown = Some(Instant::now());
        }
    }

    fn clear(&self) {
        if self.shown.is_some() {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}

fn summary(report: &ImportReport) -> String {
    let ImportReport { sessions, messages, anomalies } = report;
    let mut text =
        format!("came: {}, {}\n", many(sessions.imported, "session"), many(messages.imported, "message"));
    if sessions.present + messages.present > 0 {
        let there = (many(sessions.present, "session"), many(messages.present, "message"));
        let _ = writeln!(text, "there already: {}, {}", there.0, there.1);
    }
    for (anomaly, seen) in anomalies {
        let more = if seen.count > seen.examples.len() as u64 { ", …" } else { "" };
        let places = one_line(&seen.examples.join(", "), 200);
        let _ = writeln!(text, "odd: {} × {anomaly} ({}{more})", seen.count, printable(&places));
    }
    text
}

fn many(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
