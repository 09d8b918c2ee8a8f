//! `lango models`: the providers and their models.

mod memory;

use super::survey::{Report, report, survey};
use crate::{
    args::ModelsArgs,
    config::Settings,
    screen::{json, one_line},
};
use anyhow::anyhow;
use bridge::model::memory::RememberedModel;
use provider::remote::ModelInfo;
use serde_json::{Value, json};
use std::io::{self, Write};

/// The number of models listed for each provider without `--all`.
const DEFAULT_LIMIT: usize = 10;

pub(crate) async fn models(settings: &Settings, models: &ModelsArgs) -> anyhow::Result<()> {
    if let Some(model) = &models.forget {
        return memory::forget(settings, model);
    }
    let mut remembered = memory::remembered(settings);
    let reports = match &models.provider {
        Some(name) => {
            let known = settings.providers.names();
            let provider = settings.providers.get(name);
            let provider = provider
                .ok_or_else(|| anyhow!("there is no provider {name:?}; the providers are {known}"))?;
            remembered.retain(|model| memory::belongs_to(model, provider));
            vec![report(provider).await]
        }
        None => survey(settings).await,
    };
    let mut out = io::stdout().lock();
    for report in &reports {
        if models.json {
            writeln!(out, "{}", json(&as_json(report, &remembered))?)?;
        } else {
            write_report(&mut out, report, if models.all { usize::MAX } else { DEFAULT_LIMIT })?;
        }
    }
    if !models.json {
        memory::write_remembered(&mut out, settings, &remembered)?;
    }
    if !models.json && models.provider.is_none() {
        writeln!(out, "demo is always available, and scripted/FILE replays a script")?;
        if reports.is_empty() {
            writeln!(
                out,
                "no provider is configured: set a key such as OPENAI_API_KEY, or start a model server on this machine"
            )?;
        }
    }
    Ok(())
}

fn write_report(out: &mut impl Write, report: &Report<'_>, limit: usize) -> io::Result<()> {
    let (name, api) = (&report.provider.name, report.provider.api.name());
    let models = match &report.offers {
        Ok(models) => models,
        Err(problem) => return writeln!(out, "{}", one_line(problem, 400)),
    };
    let number = match models.len() {
        0 => "no models".to_owned(),
        1 => "1 model".to_owned(),
        count => format!("{count} models"),
    };
    writeln!(out, "{name} answers ({api}) and offers {number}")?;
    for model in models.iter().take(limit) {
        let context = model.context.map(|tokens| format!("  context {tokens} tokens")).unwrap_or_default();
        writeln!(out, "  {name}/{}{context}", one_line(&model.id, 200))?;
    }
    match models.len().saturating_sub(limit) {
        0 => Ok(()),
        more => writeln!(out, "  … and {more} more; lango models {name} --all shows them"),
    }
}

fn as_json(report: &Report<'_>, remembered: &[RememberedModel]) -> Value {
    let mut json = report_json(report);
    let own = remembered.iter().filter(|model| memory::belongs_to(model, report.provider));
    let own: Vec<Value> = own.map(memory::as_json).collect();
    if !own.is_empty() {
        json["remembered"] = own.into();
    }
    json
}

fn report_json(report: &Report<'_>) -> Value {
    let model = |model: &ModelInfo| json!({"id": model.id, "context": model.context});
    json!({
        "provider": report.provider.name,
        "api": report.provider.api.name(),
        "answers": report.offers.is_ok(),
        "models": report.offers.as_ref().map(|models| models.iter().map(model).collect::<Vec<_>>()).unwrap_or_default(),
        "problem": report.offers.as_ref().err(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Env};

    #[test]
    fn model_list_is_truncated_without_all() {
        let location = crate::args::LocationArgs::default();
        let env = Env::of(&[("LANGO_HOME", "nowhere")]);
        let settings = config::load(&location, &env, crate::trust::TrustPrompt::Never).unwrap();
        let model = |number: u32| ModelInfo { id: format!("m{number}"), context: None };
        let report = Report {
            provider: settings.providers.get("vllm").unwrap(),
            offers: Ok((1..=12).map(model).collect()),
        };
        let lines = |limit| {
            let mut out = Vec::new();
            write_report(&mut out, &report, limit).unwrap();
            String::from_utf8(out).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(usize::MAX).len(), 13);
        assert_eq!(lines(DEFAULT_LIMIT).len(), 12);
        assert_eq!(lines(DEFAULT_LIMIT)[11], "  … and 2 more; lango models vllm --all shows them");
    }
}
