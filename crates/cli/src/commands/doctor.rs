//! `lango doctor`: checks the setup. One line for each finding, with the fix for each problem.

mod programs;

use super::survey::{Report, survey};
use crate::{
    args::DoctorArgs,
    config::{BUILT_IN_APP, ConfigError, Key, ProviderConfig, Settings, loopback_port},
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
use tools::{
    SandboxProfile,
    exec::{
        Confinement, Sandbox,
        sandbox::{Guarantee, SandboxLimits, Tested},
    },
};

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
    let mut findings = vec![configuration(settings)];
    findings.extend(folder(settings));
    findings.push(database(settings).await);
    findings.extend(agents(settings).await);
    findings.push(tools(settings));
    findings.extend(programs::commands(settings));
    findings.extend(programs::servers(settings).await);
    findings.push(roots(settings));
    findings.extend(commands(settings));
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

/// The folder, if its settings are not used.
fn folder(settings: &Settings) -> Option<Finding> {
    let untrusted = settings.folder.untrusted()?;
    Some(Finding::new("folder", Health::Warn, untrusted.note()))
}

async fn database(settings: &Settings) -> Finding {
    let path = &settings.database;
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
    let mut apps = settings.agents_dir.apps();
    if apps.is_empty() {
        apps.push(BUILT_IN_APP.to_owned());
    }
    let misnamed = settings.agents_dir.misnamed().into_iter();
    let misnamed = misnamed.map(|path| ConfigError::MisnamedAgent { path }.to_string());
    let mut findings: Vec<Finding> =
        misnamed.map(|message| Finding::new("agent", Health::Bad, message)).collect();
    let only_misnamed = !findings.is_empty() && settings.agents_dir.apps().is_empty();
    if only_misnamed {
        return findings;
    }
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

/// The confinement of commands, and the test of each guarantee.
fn commands(settings: &Settings) -> Vec<Finding> {
    let sandbox = wiring::sandbox(settings);
    let confinement = sandbox.confinement();
    let health = match confinement {
        Confinement::Full { .. } => Health::Ok,
        Confinement::Partial { .. } | Confinement::Open { .. } => Health::Warn,
    };
    let mut findings = vec![Finding::new("commands", health, confinement.to_string())];
    if matches!(confinement, Confinement::Open { .. }) {
        return findings;
    }
    for profile in [SandboxProfile::ReadOnly, SandboxProfile::Workspace] {
        findings.push(guarantees(&sandbox, profile));
    }
    findings.extend(sandbox.limits().map(|limits| tested_limits(&sandbox, &limits)));
    findings
}

/// The limits of a command, as they were just tested.
fn tested_limits(sandbox: &Sandbox, limits: &SandboxLimits) -> Finding {
    let tested = match sandbox.test_limits() {
        Ok(tested) => tested,
        Err(why) => return Finding::new("limits", Health::Bad, format!("could not be tested: {why}")),
    };
    let (holding, missing): (Vec<_>, Vec<_>) = tested.into_iter().partition(|(_, holds)| *holds);
    let holding: Vec<String> = holding.iter().map(|(limit, _)| limit.describe(limits)).collect();
    let missing: Vec<String> = missing.iter().map(|(limit, _)| limit.to_string()).collect();
    let message = format!("per command, tested: {}", holding.join(", "));
    match missing.as_slice() {
        [] => Finding::new("limits", Health::Ok, message),
        names => {
            Finding::new("limits", Health::Warn, format!("{message}; NOT limited: {}", names.join(", ")))
        }
    }
}

/// What a profile promises, as it was just tested.
fn guarantees(sandbox: &Sandbox, profile: SandboxProfile) -> Finding {
    let tested = match sandbox.test(profile) {
        Ok(tested) => tested,
        Err(why) => {
            return Finding::new("sandbox", Health::Bad, format!("{profile} could not be tested: {why}"));
        }
    };
    let with = |wanted: Tested| {
        let names = tested
            .iter()
            .filter(|(_, outcome)| *outcome == wanted)
            .map(|(guarantee, _)| guarantee.to_string());
        names.collect::<Vec<_>>().join(", ")
    };
    let (holds, broken, allowed) = (with(Tested::Holds), with(Tested::Broken), with(Tested::Allowed));
    let mut message = format!("{profile}, tested: {holds}");
    if !allowed.is_empty() {
        message = format!("{message}; allowed by the configuration, so not kept: {allowed}");
    }
    if broken.is_empty() {
        return Finding::new("sandbox", Health::Ok, message);
    }
    // A guarantee that the system is known to lack makes the policy ask; any other must hold.
    let is_known = |(guarantee, outcome): &(Guarantee, Tested)| {
        *outcome != Tested::Broken || sandbox.missing(profile).contains(guarantee)
    };
    let health = if tested.iter().all(is_known) { Health::Warn } else { Health::Bad };
    Finding::new("sandbox", health, format!("{message}; NOT kept: {broken}"))
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
