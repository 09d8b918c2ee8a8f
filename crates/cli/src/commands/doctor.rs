//! `lango doctor`: checks the setup. One line for each finding, with the fix for each problem.

use super::survey::{Report, survey};
use crate::{
    args::DoctorArgs,
    config::{self, BUILT_IN_APP, ConfigError, Key, ProviderConfig, Settings, loopback_port},
    screen::{Style, format_error, json, one_line},
    wiring::{self, PlanOptions, Toolbox},
};
use anyhow::bail;
use serde::Serialize;
use session::ListQuery;
use std::{
    collections::HashSet,
    io::{self, IsTerminal, Write},
};
use tools::exec::sandbox::{FileConfinement, NetworkConfinement};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    Ok,
    /// It works, but should be changed.
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

    fn from_result<T>(
        about: &'static str,
        result: anyhow::Result<T>,
        message: impl FnOnce(T) -> String,
    ) -> Self {
        match result {
            Ok(value) => Self::new(about, Health::Ok, message(value)),
            Err(error) => Self::new(about, Health::Bad, format_error(&error)),
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
        1 => bail!("1 problem found"),
        count => bail!("{count} problems found"),
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
        Some(file) => format!("{} is valid", file.display()),
        None => "there is no lango.toml; the defaults apply".to_owned(),
    };
    Finding::new("configuration", Health::Ok, message)
}

async fn database(settings: &Settings) -> Finding {
    let path = settings.database.display();
    let found = async {
        let Some(store) = wiring::existing_store(settings).await? else { return Ok(None) };
        anyhow::Ok(Some(store.list(ListQuery { limit: 1, ..ListQuery::default() }).await?))
    };
    Finding::from_result("database", found.await, |found| match found {
        Some(_) => format!("{path} can be read"),
        None => format!("{path} is created with the first message"),
    })
}

/// Each agent with its models and tools.
async fn agents(settings: &Settings) -> Vec<Finding> {
    let mut apps = config::apps(&settings.agents_dir);
    if apps.is_empty() {
        apps.push(BUILT_IN_APP.to_owned());
    }
    let mut findings = Vec::new();
    // `lango run` and `lango chat` use it.
    let unknown = |app: &&String| *app != BUILT_IN_APP && !apps.contains(app);
    if let Some(app) = settings.app.as_ref().filter(unknown) {
        let found = wiring::app_name(settings, Some(app));
        findings.push(Finding::from_result("agent", found, |app| format!("{app} is the default")));
    }
    for app in apps {
        let plan = wiring::plan(settings, PlanOptions { app: Some(&app), ..PlanOptions::default() }).await;
        findings.push(Finding::from_result("agent", plan, |plan| format!("{app} uses {}", plan.model())));
    }
    findings
}

fn tools(settings: &Settings) -> Finding {
    Finding::from_result(
        "tools",
        Toolbox::open(settings, false, bridge::ModeSwitch::new(settings.tools.mode)),
        |tools| tools.names(),
    )
}

/// The directories that tools can access.
fn roots(settings: &Settings) -> Finding {
    let found = wiring::roots(settings).map_err(anyhow::Error::from);
    let also: Vec<String> = settings.tools.writable.iter().map(|dir| dir.display().to_string()).collect();
    Finding::from_result("roots", found, |roots| match also.as_slice() {
        [] => roots.to_string(),
        dirs => format!("{roots}; commands may also write in {}", dirs.join(", ")),
    })
}

/// The confinement of commands.
fn commands(settings: &Settings) -> Finding {
    let confinement = wiring::confinement(settings);
    let open = matches!(confinement.files, FileConfinement::Open { .. })
        || confinement.network == NetworkConfinement::Open;
    let health = if open { Health::Warn } else { Health::Ok };
    Finding::new("commands", health, confinement.to_string())
}

/// API keys that are exposed: written in the file, or sent without encryption.
fn keys(settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    for provider in settings.providers.iter() {
        let name = &provider.name;
        let Key::Filled(key) = &provider.key else { continue };
        if key.plain {
            let message = format!(
                "the key of {name} is written in lango.toml; use ${{NAME}} there and set that variable"
            );
            findings.push(Finding::new("key", Health::Warn, message));
        }
        if provider.base_url.starts_with("http://") && loopback_port(&provider.base_url).is_none() {
            let message = format!("the key of {name} is sent unencrypted; use an https:// address");
            findings.push(Finding::new("key", Health::Warn, message));
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
    let configured = named.filter_map(|model| settings.providers.split(&model.name));
    let is_missing = |(provider, model): &(&ProviderConfig, &str)| {
        provider.name == *name && models.iter().all(|offered| offered.id != *model)
    };
    let mut missing: Vec<&str> = configured.filter(is_missing).map(|(_, model)| model).collect();
    // A model may be its own fallback.
    let mut seen = HashSet::new();
    missing.retain(|model| seen.insert(*model));
    if missing.is_empty() || models.is_empty() {
        return Finding::new("provider", Health::Ok, format!("{name} answers and lists its models"));
    }
    let missing = missing.join(", ");
    let message =
        format!("{name} answers but does not list {missing}; lango models {name} --all shows its models");
    Finding::new("provider", Health::Warn, message)
}
