//! `lango rules`: lists and revokes stored approval rules.

use crate::{
    args::RulesCommand,
    config::Settings,
    screen::{json, printable},
    wiring,
};
use anyhow::bail;
use std::io::{self, Write};

pub(crate) fn rules(settings: &Settings, command: RulesCommand) -> anyhow::Result<()> {
    match command {
        RulesCommand::List { json } => list(settings, json),
        RulesCommand::Revoke { id } => revoke(settings, &id),
    }
}

fn list(settings: &Settings, as_json: bool) -> anyhow::Result<()> {
    let all = wiring::rule_book(settings).all()?;
    if all.is_empty() {
        writeln!(io::stderr(), "there are no rules; answering \"always\" in lango chat creates one")?;
    }
    let mut out = io::stdout().lock();
    for stored in all {
        let line = if as_json {
            json(&stored)?
        } else {
            let owner = format!("{} of {}", stored.owner.user, stored.owner.app);
            printable(&format!("{}  {}  ({owner})", stored.id, stored.rule)).replace('\n', " ")
        };
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn revoke(settings: &Settings, id: &str) -> anyhow::Result<()> {
    if !wiring::rule_book(settings).revoke(id)? {
        bail!("there is no rule {id:?}; lango rules list shows them");
    }
    writeln!(io::stderr(), "revoked; the next matching call asks again")?;
    Ok(())
}
