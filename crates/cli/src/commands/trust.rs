//! `lango trust`: lists, adds and revokes trusted folders.

use crate::{
    args::{CliCommand, TrustCommand},
    config::{self, Env, Settings},
    screen::{self, json},
    trust::{TrustPrompt, TrustStore, lines, visible},
};
use anyhow::{Context, bail};
use serde_json::json;
use std::{
    io::{self, Write},
    path::Path,
};

pub(crate) fn trust(env: &Env, command: &TrustCommand) -> anyhow::Result<()> {
    let store = TrustStore::new(&env.home()?);
    match command {
        TrustCommand::List { json } => list(&store, *json),
        TrustCommand::Add { path } => add(&store, path, env),
        TrustCommand::Revoke { path } => revoke(&store, path),
    }
}

fn list(store: &TrustStore, as_json: bool) -> anyhow::Result<()> {
    let folders = store.folders()?;
    if folders.is_empty() {
        screen::note("no folder is trusted; lango trust add PATH trusts one");
    }
    let mut out = io::stdout().lock();
    for (folder, record) in &folders {
        let permissions = record.permissions();
        if as_json {
            let value = json!({"folder": folder, "trustedAt": record.trusted_at, "permissions": permissions});
            writeln!(out, "{}", json(&value)?)?;
            continue;
        }
        writeln!(out, "{}", visible(folder))?;
        for line in lines(&permissions, Path::new(folder)) {
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

fn add(store: &TrustStore, path: &Path, env: &Env) -> anyhow::Result<()> {
    let shown = visible(&path.display().to_string());
    let folder = path.canonicalize().with_context(|| format!("{shown} cannot be opened"))?;
    if !folder.is_dir() {
        bail!("{shown} is not a folder; name the folder that has the settings");
    }
    let Some(request) = config::trust_request(&folder, env)? else {
        bail!("{shown} has no settings that need trust: no lango.toml, no servers in .mcp.json, no agents");
    };
    let mut out = io::stdout().lock();
    writeln!(out, "{}", visible(&request.folder.display().to_string()))?;
    for line in lines(&request.permissions, &request.folder) {
        writeln!(out, "{line}")?;
    }
    if let Some(note) = request.own_settings_note() {
        writeln!(out, "{note}")?;
    }
    out.flush()?;
    store.set(&request.folder, &request.permissions)?;
    screen::note("trusted; lango asks again if its settings do more than this");
    Ok(())
}

/// Also for a folder that does not exist any more.
fn revoke(store: &TrustStore, path: &Path) -> anyhow::Result<()> {
    let real = path.canonicalize().or_else(|_| std::path::absolute(path))?;
    let names = [real.display().to_string(), path.display().to_string()];
    for name in &names {
        if store.revoke(name)? {
            screen::note(&format!("{} is no longer trusted", visible(name)));
            return Ok(());
        }
    }
    bail!("{} is not trusted; lango trust list shows the trusted folders", visible(&names[1]))
}

impl CliCommand {
    /// Only commands that run agents ask. The others work without the settings of the folder.
    pub(crate) fn trust_prompt(&self) -> TrustPrompt {
        match self {
            Self::Run(_) | Self::Serve(_) => TrustPrompt::Allowed,
            Self::Chat(chat) if chat.server.is_none() => TrustPrompt::Allowed,
            Self::Chat(_)
            | Self::Sessions(_)
            | Self::Usage(_)
            | Self::Store(_)
            | Self::Models(_)
            | Self::Doctor(_)
            | Self::Token(_)
            | Self::Tools(_)
            | Self::Rules(_)
            | Self::Trust(_) => TrustPrompt::Never,
        }
    }

    /// Says that the settings of the folder are not used, where that changes the outcome and the command does not say so itself.
    pub(crate) fn report_untrusted(&self, settings: &Settings) {
        let is_reported = match self {
            Self::Run(_)
            | Self::Chat(_)
            | Self::Sessions(_)
            | Self::Usage(_)
            | Self::Models(_)
            | Self::Tools(_) => true,
            Self::Store(_)
            | Self::Serve(_)
            | Self::Doctor(_)
            | Self::Token(_)
            | Self::Rules(_)
            | Self::Trust(_) => false,
        };
        if let Some(untrusted) = settings.folder.untrusted().filter(|_| is_reported) {
            screen::note(&untrusted.note());
        }
    }
}
