//! `lango doctor`: whether everything is there, each thing in a line, with the fix where something is missing.

use super::survey::{Report, survey};
use crate::{
    args::DoctorArgs,
    config::{self, BUILT_IN_APP, ConfigError, Key, Settings, loopback_port},
    screen::{Style, json, one_line, sentence},
    wiring::{self, Toolbox, Wanted},
};
use anyhow::bail;
use serde::Serialize;
use session::ListQuery;
use std::io::{self, IsTerminal, Write};
use tools::exec::sandbox::{FileConfinement, NetworkConfinement};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    Ok,
    /// It works, and should be otherwise.
    Warn,
    Bad,
}

#[derive(Debug, Serialize)]
struct Finding {
    about: &'static str,
    health: Health,
    message: String,
}

impl Finding {
    fn new(about: &'static str, health: Health, message: impl Into<String>) -> Self {
        Self { about, health, message: message.into() }
    }

    fn of<T>(about: &'static str, found: anyhow::Result<T>, well: impl FnOnce(T) -> String) -> Self {
        match found {
            Ok(found) => Self::new(about, Health::Ok, well(found)),
            Err(error) => Self::new(about, Health::Bad, sentence(&error)),
        }
    }
}

pub(crate) async fn doctor(
    settings: Result<Settings, ConfigError>,
    doctor: &DoctorArgs,
) -> anyhow::Result<()> {
    let findings = match &settings {
        Ok(settings) => examine(settings).await,
        Err(error) => vec![Finding::new("configuration", Health::Bad, error.to_string())],
    };
    let color = settings.is_ok_and(|settings| settings.color) && io::stdout().is_terminal();
    let mut out = io::stdout().lock();
    for finding in &findings {
        let line = if doctor.json { json(finding)? } else { line(finding, Style::new(color)) };
        writeln!(out, "{line}")?;
    }
    match findings.iter().filter(|finding| finding.health == Health::Bad).count() {
        0 => Ok(()),
        1 => bail!("one thing is broken"),
        some => bail!("{some} things are broken"),
    }
}

fn line(finding: &Finding, style: Style) -> String {
    let word = match finding.health {
        Health::Ok => style.dim("ok  "),
        Health::Warn => style.bold("warn"),
        Health::Bad => style.red("bad "),
    };
    format!("{word}  {:<13}  {}", finding.about, one_line(&finding.message, 600))
}

async fn examine(settings: &Settings) -> Vec<Finding> {
    let mut findings = vec![configuration(settings), database(settings).await];
    findings.extend(agents(settings).await);
    findings.push(tools(settings));
    findings.push(roots(settings));
    findings.push(commands(settings));
    findings.extend(keys(settings));
    findings.extend(survey(settings).await.iter().map(|report| provider(settings, report)));
    findings
}

fn configuration(settings: &Settings) -> Finding {
    let message = match &settings.file {
        Some(file) => format!("{} is sound", file.display()),
        None => "there is no lango.toml, and none is needed".to_owned(),
    };
    Finding::new("configuration", Health::Ok, message)
}

async fn database(settings: &Settings) -> Finding {
    let place = settings.database.display();
    let found = async {
        let Some(store) = wiring::existing_store(settings).await? else { return Ok(None) };
        anyhow::Ok(Some(store.list(ListQuery { limit: 1, ..ListQuery::default() }).await?))
    };
    Finding::of("database", found.await, |found| match found {
        Some(_) => format!("{place} can be read"),
        None => format!("{place} is made with the first message"),
    })
}

/// Each agent with its models and tools.
async fn agents(settings: &Settings) -> Vec<Finding> {
    let mut apps = config::apps(&settings.agents_dir);
    if apps.is_empty() {
        apps.push(BUILT_IN_APP.to_owned());
    }
    let mut findings = Vec::new();
    for app in apps {
        let plan = wiring::plan(settings, Wanted { app: Some(&app), ..Wanted::default() }).await;
        findings.push(Finding::of("agent", plan, |plan| format!("{app} uses {}", plan.model())));
    }
    findings
}

fn tools(settings: &Settings) -> Finding {
    Finding::of("tools", Toolbox::open(settings, false), |tools| tools.names())
}

/// What tools see of the disk.
fn roots(settings: &Settings) -> Finding {
    let found = wiring::roots(settings).map_err(anyhow::Error::from);
    let also: Vec<String> = settings.tools.writable.iter().map(|dir| dir.display().to_string()).collect();
    Finding::of("roots", found, |roots| match also.as_slice() {
        [] => roots.to_string(),
        some => format!("{roots}; commands write in {}, too", some.join(", ")),
    })
}

/// What keeps commands from the rest of the machine.
fn commands(settings: &Settings) -> Finding {
    let confinement = wiring::confinement(settings);
    let open = matches!(confinement.files, FileConfinement::Open { .. })
        || confinement.network == NetworkConfinement::Open;
    let health = if open { Health::Warn } else { Health::Ok };
    Finding::new("commands", health, confinement.to_string())
}

/// Keys that others may see.
fn keys(settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    for provider in settings.providers.iter() {
        let name = &provider.name;
        let Key::Filled(key) = &provider.key else { continue };
        if key.plain {
            let told = format!(
                "the key of {name} stands in lango.toml; write ${{NAME}} there and set that variable"
            );
            findings.push(Finding::new("key", Health::Warn, told));
        }
        if provider.base_url.starts_with("http://") && loopback_port(&provider.base_url).is_none() {
            let told = format!("the key of {name} travels unencrypted; use an https:// address");
            findings.push(Finding::new("key", Health::Warn, told));
        }
    }
    findings
}

fn provider(settings: &Settings, report: &Report<'_>) -> Finding {
    let name = &report.provider.name;
    let models = match &report.offers {
        Ok(models) => models,
        Err(problem) => return Finding::new("provider", Health::Bad, problem.clone()),
    };
    let named = settings.model.iter().chain(&settings.fallback);
    let here = named.filter_map(|model| settings.providers.split(&model.name));
    let mut missing = here
        .filter(|(provider, model)| {
            provider.name == *name && models.iter().all(|offered| offered.id != *model)
        })
        .map(|(_, model)| model);
    match missing.next() {
        Some(model) if !models.is_empty() => {
            let told = format!(
                "{name} answers but does not list {model}; lango models {name} --all shows what it has"
            );
            Finding::new("provider", Health::Warn, told)
        }
        Some(_) | None => {
            Finding::new("provider", Health::Ok, format!("{name} answers and lists its models"))
        }
    }
}
