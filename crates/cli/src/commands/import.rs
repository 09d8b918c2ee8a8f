//! `lango sessions import`: imports the sessions of another program. Its file is only read.

use crate::{
    args::{ImportArgs, ImportSource},
    config::{BUILT_IN_APP, Settings},
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
    import::{BulkCommit, ImportCount, ImportReport, ImportTarget, LangoDatabase, OldSession},
};
use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write},
    path::Path,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// The interval of progress updates.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) async fn import(settings: &Settings, import: &ImportArgs) -> anyhow::Result<()> {
    let ImportSource::Lango = import.from;
    if let Some(database) = settings.database.file() {
        refuse_own_file(&import.file, database)?;
    }
    let source = LangoDatabase::open(&import.file)?;
    let app = app(settings, import.app.as_deref())?;
    let store = wiring::open_for_import(settings).await?;
    let mut job = ImportJob {
        store: &*store,
        source: &source,
        owner: SessionKey::new(app, &settings.user, ""),
        report: ImportReport::default(),
        progress: ImportProgress::default(),
        cancel: CancellationToken::new(),
    };
    let interrupt = job.cancel.clone();
    let watching = tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            interrupt.cancel();
        }
    });
    let done = job.import_all().await;
    watching.abort();
    job.progress.clear();
    io::stdout().lock().write_all(summary(&job.report).as_bytes())?;
    done.context(
        "the import stopped; imported messages are stored, and a repeated import continues after them",
    )?;
    if job.cancel.is_cancelled() {
        bail!(
            "the import was interrupted; imported messages are stored, and a repeated import continues after them"
        );
    }
    Ok(())
}

/// Refuses to import this program's own database. Both programs use the same path by default.
fn refuse_own_file(file: &Path, database: &Path) -> anyhow::Result<()> {
    let same = file.canonicalize().ok().filter(|file| database.canonicalize().is_ok_and(|own| own == *file));
    if let Some(file) = same {
        bail!(
            "{} is the path of this program's own database; move the file away with those beside it, and import it from there",
            file.display()
        );
    }
    Ok(())
}

/// The app that `lango chat` would open, so that it finds the sessions.
fn app(settings: &Settings, wanted: Option<&str>) -> anyhow::Result<String> {
    let found = settings.agents_dir.load_app(wanted.or(settings.app.as_deref()))?;
    Ok(found.map_or_else(|| BUILT_IN_APP.to_owned(), |(name, _)| name))
}

struct ImportJob<'a> {
    store: &'a dyn BulkCommit,
    source: &'a LangoDatabase,
    /// The key of every session, without the session id.
    owner: SessionKey,
    report: ImportReport,
    progress: ImportProgress,
    /// Checked between batches.
    cancel: CancellationToken,
}

impl ImportJob<'_> {
    /// Reading blocks this thread, which is acceptable: the store and the signal handler use other threads.
    async fn import_all(&mut self) -> anyhow::Result<()> {
        let sessions = self.source.sessions(&mut self.report)?;
        self.progress.total = sessions.iter().map(|session| session.len() as u64).sum();
        for session in &sessions {
            self.import_session(session).await.with_context(|| format!("session {:?}", session.key))?;
            if self.cancel.is_cancelled() {
                break;
            }
        }
        Ok(())
    }

    async fn import_session(&mut self, session: &OldSession) -> anyhow::Result<()> {
        let key = SessionKey { session_id: session.key.clone(), ..self.owner.clone() };
        let mut target = ImportTarget::open(self.store, key, session, &mut self.report).await?;
        let mut restorer = Restorer::new("");
        for batch in session.batches() {
            if self.cancel.is_cancelled() {
                break;
            }
            let mut rows = self.source.read(batch, &mut self.report)?;
            for row in &mut rows {
                count_tokens(&mut row.message, &mut restorer);
            }
            target.add(rows, &mut self.report).await?;
            self.progress.show(&self.report.messages);
        }
        Ok(())
    }
}

/// Sets the token count of a row, with the same estimate as for every other row.
fn count_tokens(message: &mut SessionMessage, restorer: &mut Restorer) {
    let row = StoredMessage { seq: Seq::START, message: std::mem::take(message) };
    let event = restorer.restore(&row);
    *message = row.message;
    message.tokens = event.content.as_ref().map_or(0, cost::of_content);
    tokens::COUNTED_BY.clone_into(&mut message.counted_by);
}

/// A progress line that is overwritten. Only a terminal gets it.
#[derive(Default)]
struct ImportProgress {
    total: u64,
    drawn_at: Option<Instant>,
}

impl ImportProgress {
    fn show(&mut self, messages: &ImportCount) {
        let is_due = self.drawn_at.is_none_or(|drawn| drawn.elapsed() >= PROGRESS_INTERVAL);
        if is_due && io::stderr().is_terminal() {
            let done = messages.imported + messages.present;
            let _ = write!(io::stderr(), "\r{done} of {} messages", self.total);
            self.drawn_at = Some(Instant::now());
        }
    }

    fn clear(&self) {
        if self.drawn_at.is_some() {
            let _ = write!(io::stderr(), "\r\u{1b}[K");
        }
    }
}

fn summary(report: &ImportReport) -> String {
    let ImportReport { sessions, messages, anomalies } = report;
    let mut text = format!(
        "imported: {}, {}\n",
        count(sessions.imported, "session"),
        count(messages.imported, "message")
    );
    if sessions.present + messages.present > 0 {
        let present = (count(sessions.present, "session"), count(messages.present, "message"));
        let _ = writeln!(text, "already present: {}, {}", present.0, present.1);
    }
    for (anomaly, seen) in anomalies {
        let more = if seen.count > seen.examples.len() as u64 { ", …" } else { "" };
        let places = one_line(&seen.examples.join(", "), 200);
        let _ = writeln!(text, "anomaly: {} × {anomaly} ({}{more})", seen.count, printable(&places));
    }
    text
}

fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
