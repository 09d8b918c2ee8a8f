//! `lango sessions`: looking at stored conversations.

use crate::{
    args::{Sessions, SessionsCommand},
    config::Settings,
    screen, wiring,
};
use session::ListQuery;
use std::io::Write;

pub(crate) async fn sessions(settings: &Settings, sessions: Sessions) -> anyhow::Result<()> {
    match sessions.command {
        SessionsCommand::List { limit } => list(settings, limit).await,
        SessionsCommand::Show { .. } => Ok(()),
    }
}

async fn list(settings: &Settings, limit: usize) -> anyhow::Result<()> {
    let store = wiring::open_store(settings)?;
    let rows = store.list(ListQuery { limit, ..ListQuery::default() }).await?;
    let mut out = std::io::stdout().lock();
    for row in rows {
        let title = row.title.unwrap_or_default();
        writeln!(out, "{}  {}  {}", row.key.session, row.key.app, screen::printable(&title))?;
    }
    Ok(())
}
