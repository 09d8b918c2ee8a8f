//! `lango rules`: lists and revokes stored approval rules.

use crate::{
    args::RulesCommand,
    config::Settings,
    screen::{json, printable},
    wiring,
};
use anyhow::bail;
use std::io::{self, Write};
use tools::{
    AppUser,
    policy::{RulePlace, StoredRule},
};

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
        let line = if as_json { json(&stored)? } else { printable(&line(&stored)).replace('\n', " ") };
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The rule, its owner, and where it applies.
fn line(stored: &StoredRule) -> String {
    let StoredRule { id, owner: AppUser { app, user }, rule, place } = stored;
    let place = match place {
        Some(RulePlace { folder, workdir }) if folder == workdir => format!("in {}", folder.display()),
        Some(RulePlace { folder, workdir }) => {
            format!("in {}, folder {}", workdir.display(), folder.display())
        }
        None => "of an older version: not in force; the next matching call asks, and \"always\" confirms it"
            .to_owned(),
    };
    format!("{id}  {rule}  {place}  ({user} of {app})")
}

fn revoke(settings: &Settings, id: &str) -> anyhow::Result<()> {
    if !wiring::rule_book(settings).revoke(id)? {
        bail!("there is no rule {id:?}; lango rules list shows them");
    }
    writeln!(io::stderr(), "revoked; the next matching call asks again")?;
    Ok(())
}
