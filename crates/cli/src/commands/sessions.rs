//! `lango sessions`: lists and prints stored sessions.

use crate::{
    args::{SessionsArgs, SessionsCommand, ShowArgs, WireFormat},
    config::Settings,
    screen::{ModelUsage, is_placeholder, json, json_pretty, one_line, printable, summarize_part, width},
    wiring::{self, PlanOptions},
};
use adk::{content::Part, event::Event, flow::has_unknown_outcome, session::SessionKey, trace::Trace};
use anyhow::anyhow;
use bridge::{begun_calls, model::Notice, restore_draft, store::row::Restorer};
use provider::WireApi;
use session::{
    ListOrder, ListQuery, Liveness, PageRequest, PendingEntry, Seq, SessionRow, Store, TailBudget,
};
use std::{
    collections::BTreeSet,
    io::{self, Write},
    sync::Arc,
};

/// Rows per page, so that a long session is printed in bounded memory.
const PAGE: usize = 500;
/// The mark of an interrupted answer.
const INTERRUPTED: &str = "interrupted";
/// The rows of each listed session that are read to detect damage.
const CHECKED_ROWS: usize = 8;

pub(crate) async fn sessions(settings: &Settings, sessions: SessionsArgs) -> anyhow::Result<()> {
    match sessions.command {
        SessionsCommand::List { limit, created, after } => {
            let order = if created || after.is_some() { ListOrder::Created } else { ListOrder::Changed };
            list(settings, order, after, limit.into()).await
        }
        SessionsCommand::Show(show) => match show.request {
            Some(wire) => request(settings, &show, wire).await,
            None => self::show(settings, &show).await,
        },
        SessionsCommand::Search(search) => super::search::search(settings, &search).await,
        SessionsCommand::Reindex => super::search::reindex(settings).await,
        SessionsCommand::Import(import) => super::import::import(settings, &import).await,
    }
}

async fn list(settings: &Settings, order: ListOrder, after: Option<u64>, limit: usize) -> anyhow::Result<()> {
    let user = Some(settings.user.clone());
    let after = after.map(|number| SessionRow::cursor(SessionKey::new("", &settings.user, ""), number));
    let query = ListQuery { user, order, after, limit, ..ListQuery::default() };
    let mut rows = Vec::new();
    if let Some(store) = wiring::readable_store(settings).await? {
        rows = store.list(query).await?;
        for row in &mut rows {
            row.is_damaged |= is_damaged(&*store, row).await?;
        }
    }
    if rows.is_empty() {
        writeln!(io::stderr(), "there are no sessions yet; lango chat starts one")?;
    }
    let mut out = io::stdout().lock();
    for line in lines(&rows) {
        writeln!(out, "{line}")?;
    }
    if let Some(last) = rows.last().filter(|_| order == ListOrder::Created && rows.len() == limit) {
        writeln!(io::stderr(), "more: lango sessions list --after {}", last.number)?;
    }
    Ok(())
}

/// Whether the end of the session, which a turn loads first, cannot be read. Listing reads no messages.
async fn is_damaged(store: &dyn Store, row: &SessionRow) -> anyhow::Result<bool> {
    match store.load(&row.key, TailBudget { tokens: u64::MAX, rows: CHECKED_ROWS }).await {
        Ok(_) => Ok(false),
        Err(session::Error::DamagedSession { .. }) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// One line for each session: its id, the time of its last use, its agent if there are several, and its title.
pub(crate) fn lines(rows: &[SessionRow]) -> Vec<String> {
    let longest = |names: &mut dyn Iterator<Item = &String>| names.map(|name| name.chars().count()).max();
    let id = longest(&mut rows.iter().map(|row| &row.key.session_id)).unwrap_or_default().min(36);
    let agents: BTreeSet<&String> = rows.iter().map(|row| &row.key.app_name).collect();
    let agent = if agents.len() > 1 { longest(&mut agents.into_iter()).unwrap_or_default() + 2 } else { 0 };
    let line = |row: &SessionRow| {
        let app = if agent > 0 { printable(&row.key.app_name) } else { String::new() };
        let head =
            format!("{:<id$}  {}  {app:<agent$}", printable(&row.key.session_id), when(row.updated_at));
        let room = width().unwrap_or(120).saturating_sub(head.chars().count() + 3).max(20);
        let title = row.title.as_deref().unwrap_or("(no messages yet)");
        let title = if row.is_damaged { "(damaged: it cannot be read)" } else { title };
        format!("{head}{}", one_line(title, room))
    };
    rows.iter().map(line).collect()
}

pub(crate) fn when(seconds: f64) -> String {
    let time = jiff::SignedDuration::try_from_secs_f64(seconds).map(jiff::Timestamp::from_duration);
    let time = time.ok().and_then(Result::ok).unwrap_or_default();
    time.to_zoned(jiff::tz::TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

async fn show(settings: &Settings, show: &ShowArgs) -> anyhow::Result<()> {
    let (store, key) = find(settings, show).await?;
    let mut restorer = Restorer::new("");
    let mut after = Seq::START;
    let (mut model_calls, mut total) = (0_u32, ModelUsage::default());
    loop {
        let rows = store.read(&key, PageRequest { after, limit: PAGE, max_bytes: usize::MAX }).await?;
        let Some(last) = rows.last() else { break };
        after = last.seq;
        let mut out = io::stdout().lock();
        for row in &rows {
            let event = restorer.restore(row);
            if show.json {
                writeln!(out, "{}", json(&event)?)?;
                continue;
            }
            write_event(&mut out, &event)?;
            if let Some(usage) = ModelUsage::of(&event, &settings.models) {
                writeln!(out, "{:>12}  [{}{usage}]", "", model(&event))?;
                model_calls += 1;
                total += usage;
            }
        }
    }
    if !show.json {
        write_unstored(&*store, &key).await?;
    }
    if model_calls > 1 {
        writeln!(io::stdout().lock(), "{:>12}  [total: {total}]", "")?;
    }
    Ok(())
}

/// Prints what the log does not contain: the draft of an answer, and calls that may have taken effect.
async fn write_unstored(store: &dyn Store, key: &SessionKey) -> anyhow::Result<()> {
    let Some(snapshot) = store.load(key, TailBudget::NONE).await? else { return Ok(()) };
    if let Some(draft) = snapshot.draft.as_ref().and_then(restore_draft) {
        let running = store.activity(key).await?.running;
        let is_alive = running.is_some_and(|run| store.liveness(&run.owner) == Liveness::Alive);
        let mark = if is_alive { "in progress" } else { INTERRUPTED };
        write_answer(&mut io::stdout().lock(), &draft, Some(mark))?;
    }
    write_started_calls(&snapshot.pending)?;
    Ok(())
}

/// Prints the calls that have started and have no stored result.
fn write_started_calls(pending: &[PendingEntry]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for call in begun_calls(pending) {
        let line = summarize_part(&call.part, 120).unwrap_or_default();
        let author = one_line(&call.author, 40);
        writeln!(out, "{author:>12}  ! {line} [started, outcome unknown]")?;
    }
    Ok(())
}

/// The model that produced an event, as `provider/model: `.
fn model(event: &Event) -> String {
    let Some(origin) = event.content.as_ref().and_then(|content| content.origin.as_ref()) else {
        return String::new();
    };
    // The origin of opaque data may have the wire format after the name.
    let provider = origin.provider.split('+').next().unwrap_or_default();
    let name =
        if origin.model.is_empty() { provider.to_owned() } else { format!("{provider}/{}", origin.model) };
    format!("{}: ", one_line(&name, 80))
}

fn write_event(out: &mut impl Write, event: &Event) -> io::Result<()> {
    write_answer(out, event, event.is_interrupted_answer().then_some(INTERRUPTED))?;
    let author = author(event);
    if let Some(notice) = Notice::from_event(event) {
        writeln!(out, "{author:>12}  [{}]", one_line(&notice.message, 200))?;
    }
    if let Some(message) = &event.error_message {
        writeln!(out, "{author:>12}  [failed: {}]", one_line(message, 200))?;
    }
    Ok(())
}

/// Prints the parts of an event, and its mark.
fn write_answer(out: &mut impl Write, event: &Event, mark: Option<&str>) -> io::Result<()> {
    let author = author(event);
    let parts = event.content.iter().flat_map(|content| &content.parts);
    for part in parts.filter(|part| !is_placeholder(event, part)) {
        writeln!(out, "{author:>12}  {}", format_part(part))?;
    }
    mark.map_or(Ok(()), |mark| writeln!(out, "{author:>12}  [{mark}]"))
}

fn author(event: &Event) -> String {
    if event.is_correction() { "lango".to_owned() } else { one_line(&event.author, 40) }
}

fn format_part(part: &Part) -> String {
    if let Some(line) = summarize_part(part, 200) {
        let unknown = part.response().is_some_and(has_unknown_outcome);
        return if unknown { format!("! {line}") } else { line };
    }
    match part.as_text() {
        Some("") if part.is_thought() => "(thought, hidden by the provider)".to_owned(),
        Some(text) => {
            let mark = if part.is_thought() { "(thought) " } else { "" };
            format!("{mark}{}", printable(text).replace('\n', &format!("\n{:>14}", "")))
        }
        None => "[a file]".to_owned(),
    }
}

/// Finds the session with the id, in the given app or else in any.
async fn find(settings: &Settings, show: &ShowArgs) -> anyhow::Result<(Arc<dyn Store>, SessionKey)> {
    let unknown = || anyhow!("there is no session {:?}; lango sessions list shows them", show.id);
    let store = wiring::readable_store(settings).await?.ok_or_else(unknown)?;
    let (user, session) = (Some(settings.user.clone()), Some(show.id.clone()));
    let query = ListQuery { app: show.app.clone(), user, session, limit: 1, ..ListQuery::default() };
    let row = store.list(query).await?.pop().ok_or_else(unknown)?;
    Ok((store, row.key))
}

/// Prints the request that a provider would receive if the session continued now.
async fn request(settings: &Settings, show: &ShowArgs, wire: WireFormat) -> anyhow::Result<()> {
    let (store, key) = find(settings, show).await?;
    // The model does not affect the request; the demo model needs no key.
    let options = PlanOptions { app: Some(&key.app_name), model: Some("demo"), ..PlanOptions::default() };
    let app = wiring::plan(settings, options).await?.open(store, Trace::default())?;
    let (name, api) = match wire {
        WireFormat::Openai => ("openai", WireApi::Chat),
        WireFormat::Responses => ("responses", WireApi::Responses),
        WireFormat::Anthropic => ("anthropic", WireApi::Anthropic),
        WireFormat::Gemini => ("gemini", WireApi::Gemini),
        WireFormat::Ollama => ("ollama", WireApi::Ollama),
    };
    // A placeholder: the preview depends on the wire format only.
    let target = provider::ModelId { provider: name.to_owned(), model: "MODEL".to_owned() };
    let request = app.agent.preview(&key, target).await?;
    writeln!(io::stdout().lock(), "{}", json_pretty(&api.encode(api.default_base_url(), &request))?)?;
    Ok(())
}
