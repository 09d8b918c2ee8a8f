//! The model memory in `lango models`: what is remembered, and `--forget`.

use crate::{
    config::{ProviderConfig, Settings},
    screen::one_line,
    wiring::{model_address, model_memory},
};
use anyhow::Context;
use bridge::model::memory::{KnownLimits, RememberedModel};
use serde_json::{Value, json};
use std::io::{self, Write};

/// Deletes what is remembered of a model; an empty name means all models.
pub(super) fn forget(settings: &Settings, model: &str) -> anyhow::Result<()> {
    let named = settings.providers.split(model).map(|(provider, name)| model_address(provider, name));
    let is_named = |at: &_| model.is_empty() || named.as_ref() == Some(at);
    let forgotten = model_memory(settings).forget(is_named).context("the model memory cannot be written")?;
    let mut out = io::stdout().lock();
    match forgotten {
        0 if model.is_empty() => writeln!(out, "nothing is remembered of any model")?,
        0 => writeln!(out, "nothing is remembered of {}", one_line(model, 200))?,
        1 => writeln!(out, "forgot what its server said about 1 model")?,
        count => writeln!(out, "forgot what their servers said about {count} models")?,
    }
    Ok(())
}

/// The remembered models of a provider, or of all; a damaged file is reported on standard error.
pub(super) fn remembered(settings: &Settings) -> Vec<RememberedModel> {
    let (models, warning) = model_memory(settings).list();
    if let Some(warning) = warning {
        // The list is complete without it.
        let _ = writeln!(io::stderr(), "lango: {}", one_line(&warning, 400));
    }
    models
}

pub(super) fn belongs_to(model: &RememberedModel, provider: &ProviderConfig) -> bool {
    model_address(provider, &model.at.model) == model.at
}

/// Writes the remembered models, with the name of the first provider at their address.
pub(super) fn write_remembered(
    out: &mut impl Write,
    settings: &Settings,
    models: &[RememberedModel],
) -> io::Result<()> {
    if models.is_empty() {
        return Ok(());
    }
    writeln!(out, "remembered for a week (lango models --forget deletes it):")?;
    for model in models {
        let provider = settings.providers.iter().find(|provider| belongs_to(model, provider));
        let name = match provider {
            Some(provider) => format!("{}/{}", provider.name, model.at.model),
            None => format!("{} at {} ({})", model.at.model, model.at.address, model.at.api),
        };
        writeln!(out, "  {}: {}", one_line(&name, 200), one_line(&describe(&model.limits), 400))?;
    }
    Ok(())
}

fn describe(limits: &KnownLimits) -> String {
    let parts: Vec<String> = limits.omitted.iter().map(ToString::to_string).collect();
    let unsupported = (!parts.is_empty()).then(|| format!("does not support {}", parts.join(", ")));
    let context = limits.size().map(|tokens| format!("context {tokens} tokens"));
    unsupported.into_iter().chain(context).collect::<Vec<_>>().join("; ")
}

pub(super) fn as_json(model: &RememberedModel) -> Value {
    let unsupported: Vec<String> = model.limits.omitted.iter().map(provider::Omission::key).collect();
    json!({"id": model.at.model, "unsupported": unsupported, "context": model.limits.size()})
}
