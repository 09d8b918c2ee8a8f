//! `lango sessions`: looking at stored conversations.

use crate::{
    args::{Sessions, SessionsCommand, Show, Wire},
    config::Settings,
    screen::{one_line, printable},
    wiring,
};
use adk::{event::Event, session::SessionKey};
use anyhow::Context;
use bridge::row::Restorer;
use session::{ListQuery, PageRequest, Seq, SessionRow, Store};
use std::{
    io::{self, Write},
    sync::Arc,
};

/// Rows that are read at a time: a long session is shown without being held.
const PAGE: usize = 500;

pub(crate) async fn sessions(settings: &Settings, sessions: Sessions) -> anyhow::Result<()> {
    match sessions.command {
        SessionsCommand::List { limit } => list(settings, limit).await,
        SessionsCommand::Show(show) => match show.request {
            Some(wire) => request(settings, &show, wire).await,
            None => self::show(settings, &show).await,
        },
        SessionsCommand::Import(import) => super::import::import(settings, &import).await,
    }
}

async fn list(settings: &Settings, limit: usize) -> anyhow::Result<()> {
    let store = wiring::open_store(settings)?;
    let rows = store.list(ListQuery { limit, ..ListQuery::default() }).await?;
    let mut out = io::stdout().lock();
    if rows.is_empty() {
        writeln!(io::stderr(), "there are no sessions yet; lango chat begins one")?;
    }
    for row in &rows {
        writeln!(out, "{}", line(row))?;
    }
    Ok(())
}

/// A session in one line: when it was used, which agent, its id, how it began.
pub(crate) fn line(row: &SessionRow) -> String {
    let title = one_line(row.title.as_deref().unwrap_or("(nothing said yet)"), 60);
    format!("{}  {:<12} {}  {title}", when(row.updated_at), row.key.app, row.key.session)
}

fn when(seconds: f64) -> String {
    let time = jiff::SignedDuration::try_from_secs_f64(seconds).map(jiff::Timestamp::from_duration);
    let time = time.ok().and_then(Result::ok).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

async fn show(settings: &Settings, show: &Show) -> anyhow::Result<()> {
    let store = wiring::open_store(settings)?;
    let key = find(settings, &*store, show).await?;
    let mut restorer = Restorer::new("");
    let mut after = Seq::START;
    loop {
        let rows = store.read(&key, PageRequest { after, limit: PAGE }).await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.seq;
        let mut out = io::stdout().lock();
        for row in &rows {
            let event = restorer.restore(row);
            if show.json {
                writeln!(out, "{}", serde_json::to_string(&event)?)?;
            } else {
                write_event(&mut out, &event)?;
            }
        }
    }
}

fn write_event(out: &mut impl Write, event: &Event) -> io::Result<()> {
    let author = printable(&event.author);
    for part in event.content.iter().flat_map(|content| &content.parts) {
        if let Some(call) = part.call() {
            let args = serde_json::to_string(&call.args).unwrap_or_default();
            writeln!(out, "{author:>12}  → {} {}", printable(&call.name), one_line(&args, 200))?;
        } else if let Some(response) = part.response() {
            let answer = serde_json::to_string(&response.response).unwrap_or_default();
            writeln!(out, "{author:>12}  ← {} {}", printable(&response.name), one_line(&answer, 200))?;
        } else if let Some(text) = part.as_text() {
            let mark = if part.is_thought() { "(thinks) " } else { "" };
            let indented = printable(text).replace('\n', &format!("\n{:>14}", ""));
            writeln!(out, "{author:>12}  {mark}{indented}")?;
        } else {
            writeln!(out, "{author:>12}  [a file]")?;
        }
    }
    if let Some(message) = &event.error_message {
        writeln!(out, "{author:>12}  [failed: {}]", one_line(message, 200))?;
    }
    Ok(())
}

/// The session of that id, whichever app it belongs to.
async fn find(settings: &Settings, store: &dyn Store, show: &Show) -> anyhow::Result<session::SessionKey> {
    let mut query =
        ListQuery { app: show.app.clone(), user: Some(settings.user.clone()), after: None, limit: PAGE };
    loop {
        let page = store.list(query.clone()).await?;
        if let Some(row) = page.iter().find(|row| row.key.session == show.id) {
            return Ok(row.key.clone());
        }
        query.after = page.last().cloned();
        query
            .after
            .as_ref()
            .with_context(|| format!("there is no session {:?}; lango sessions list shows them", show.id))?;
    }
}

/// What a provider would be sent if the session went on now.
async fn request(settings: &Settings, show: &Show, wire: Wire) -> anyhow::Result<()> {
    let store = wiring::open_store(settings)?;
    let key = find(settings, &*store, show).await?;
    let app = wiring::app(settings, Arc::clone(&store), Some(&key.app), None)?;
    let key = SessionKey::new(key.app, key.user, key.session);
    let (name, encode): (_, fn(&provider::Request, bool) -> serde_json::Value) = match wire {
        Wire::Openai => ("openai", provider::openai::encode),
        Wire::Anthropic => ("anthropic", provider::anthropic::encode),
        Wire::Gemini => ("gemini", provider::gemini::encode),
    };
    let target = provider::Origin { provider: name.to_owned(), model: String::new() };
    let request = app.agent.preview(&key, target).await?;
    writeln!(io::stdout().lock(), "{}", serde_json::to_string_pretty(&encode(&request, true))?)?;
    Ok(())
}
