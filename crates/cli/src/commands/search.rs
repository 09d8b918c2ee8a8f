//! `lango sessions search` and `lango sessions reindex`: full-text search in the stored sessions.

use super::sessions::when;
use crate::{
    args::SearchArgs,
    config::Settings,
    screen::{self, json, one_line, printable, width},
    wiring,
};
use anyhow::anyhow;
use serde_json::json;
use session::{IndexProgress, SearchHit, SearchQuery, Store};
use std::io::{self, Write};

pub(crate) async fn search(settings: &Settings, args: &SearchArgs) -> anyhow::Result<()> {
    let Some(store) = wiring::readable_store(settings).await? else {
        return Err(anyhow!("there are no sessions yet; lango chat starts one"));
    };
    // A file that cannot be written is searched as far as it is indexed.
    let indexed = index(&*store).await;
    let query = SearchQuery {
        user: settings.user.clone(),
        app: args.app.clone(),
        session: args.session.clone(),
        text: args.words.join(" "),
        limit: args.limit.into(),
        ..SearchQuery::default()
    };
    let hits = store.search(query).await?.hits;
    if let Err(error) = indexed {
        screen::note(&format!("(newer messages may be missing: they cannot be indexed: {error})"));
    }
    if hits.is_empty() {
        writeln!(io::stderr(), "no message was found")?;
    }
    let mut out = io::stdout().lock();
    for hit in &hits {
        if args.json {
            writeln!(out, "{}", json(&hit_json(hit))?)?;
        } else {
            write_hit(&mut out, hit)?;
        }
    }
    Ok(())
}

/// Builds the index anew, for an index that is damaged.
pub(crate) async fn reindex(settings: &Settings) -> anyhow::Result<()> {
    let Some(store) = wiring::existing_store(settings).await? else {
        return Err(anyhow!("there are no sessions yet; lango chat starts one"));
    };
    store.reset_index().await?;
    index(&*store).await?;
    writeln!(io::stdout(), "the search index was built anew")?;
    Ok(())
}

async fn index(store: &dyn Store) -> session::Result<()> {
    while store.index_next().await? == IndexProgress::More {}
    Ok(())
}

fn hit_json(hit: &SearchHit) -> serde_json::Value {
    json!({
        "app": hit.key.app_name,
        "session": hit.key.session_id,
        "seq": hit.seq.0,
        "timestamp": hit.timestamp,
        "author": hit.author,
        "snippet": hit.snippet,
    })
}

fn write_hit(out: &mut impl Write, hit: &SearchHit) -> io::Result<()> {
    let (session, author) = (printable(&hit.key.session_id), one_line(&hit.author, 40));
    writeln!(out, "{session}:{}  {}  {author}", hit.seq.0, when(hit.timestamp))?;
    let room = width().unwrap_or(120).saturating_sub(2).max(20);
    writeln!(out, "  {}", one_line(&hit.snippet, room))
}
