//! Stub tools, defined by configuration alone: fixed responses, failures, long-running jobs, confirmations.

use std::time::Duration;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    ArtifactBody, ArtifactFile, Effect, Safety, Spec, Tool, ToolHost, ToolReply, ToolRequest, ToolsError,
};

/// The behaviour of a stub. In strings of `response`, `fail`, `state` and `artifact`, the placeholder `{name}` is replaced
/// by that argument. A string that is only a placeholder keeps the argument's type; an unknown placeholder stays as it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a configuration key")]
pub struct StubConfig {
    pub name: String,
    #[serde(default)]
    pub description: String,
    #[serde(default = "no_parameters")]
    pub parameters: Value,
    /// May also use `{artifact.version}`.
    #[serde(default = "empty")]
    pub response: Value,
    /// The call fails with this text.
    #[serde(default)]
    pub fail: Option<String>,
    /// The tool is long-running, and `response` is its interim result.
    #[serde(default)]
    pub pending: bool,
    #[serde(default)]
    pub confirm: bool,
    #[serde(default)]
    pub safety: Safety,
    #[serde(default)]
    pub effect: Effect,
    /// See [`Spec::untrusted`].
    #[serde(default)]
    pub untrusted: bool,
    /// State keys with their values, set in this order.
    #[serde(default)]
    pub state: Map<String, Value>,
    #[serde(default)]
    pub artifact: Option<StubArtifact>,
    #[serde(default)]
    pub delay_ms: u64,
    /// The call panics, to test how a panicking tool is handled.
    #[serde(default)]
    pub panic: bool,
}

/// The artifact that a stub saves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StubArtifact {
    pub name: String,
    #[serde(default = "plain_text", rename = "mimeType", alias = "mime_type")]
    pub mime_type: String,
    pub text: String,
}

fn no_parameters() -> Value {
    json!({"type": "object", "properties": {}})
}

fn empty() -> Value {
    json!({})
}

fn plain_text() -> String {
    "text/plain".to_owned()
}

/// A tool made from a [`StubConfig`].
#[derive(Debug)]
pub struct StubTool {
    spec: Spec,
    config: StubConfig,
}

impl From<StubConfig> for StubTool {
    fn from(config: StubConfig) -> Self {
        let spec = Spec {
            name: config.name.clone(),
            description: config.description.clone(),
            parameters: config.parameters.clone(),
            safety: config.safety,
            effect: config.effect,
            long_running: config.pending,
            confirm: config.confirm,
            untrusted: config.untrusted,
        };
        Self { spec, config }
    }
}

impl Tool for StubTool {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        Box::pin(self.run(request))
    }
}

impl StubTool {
    async fn run(&self, request: ToolRequest) -> Result<ToolReply, ToolsError> {
        let config = &self.config;
        self.wait(&*request.host).await?;
        if config.panic {
            self.panic();
        }
        if let Some(text) = &config.fail {
            return Err(ToolsError::Failed(fill_text(text, &request.args)));
        }
        for (key, value) in &config.state {
            request.host.set_state(&fill_text(key, &request.args), fill(value, &request.args));
        }
        let mut names = request.args;
        if let Some(artifact) = &config.artifact {
            let version = artifact.save(&names, &*request.host).await?;
            names.insert("artifact.version".to_owned(), version.into());
        }
        let response = fill(&config.response, &names);
        Ok(if config.pending { ToolReply::Pending(Some(response)) } else { ToolReply::Done(response) })
    }

    #[expect(clippy::panic, reason = "the configuration asks for a panic")]
    fn panic(&self) {
        panic!("{} panics, as configured", self.config.name);
    }

    async fn wait(&self, host: &dyn ToolHost) -> Result<(), ToolsError> {
        if self.config.delay_ms == 0 {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(self.config.delay_ms)) => Ok(()),
            () = host.cancelled() => Err(ToolsError::Cancelled),
        }
    }
}

impl StubArtifact {
    async fn save(&self, args: &Map<String, Value>, host: &dyn ToolHost) -> Result<u64, ToolsError> {
        let body = ArtifactBody::Text(fill_text(&self.text, args));
        let file = ArtifactFile { mime_type: self.mime_type.clone(), body };
        host.save_artifact(fill_text(&self.name, args), file).await
    }
}

fn fill(template: &Value, args: &Map<String, Value>) -> Value {
    match template {
        Value::String(text) => {
            let placeholder = text
                .strip_prefix('{')
                .and_then(|text| text.strip_suffix('}'))
                .and_then(|name| args.get(name));
            placeholder.cloned().unwrap_or_else(|| fill_text(text, args).into())
        }
        Value::Array(items) => items.iter().map(|item| fill(item, args)).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), fill(value, args))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => template.clone(),
    }
}

/// Replaces placeholders in one pass: a placeholder inside an argument is not expanded.
fn fill_text(template: &str, args: &Map<String, Value>) -> String {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        match after.split_once('}').and_then(|(name, after)| args.get(name).map(|value| (value, after))) {
            Some((Value::String(text), after)) => {
                filled.push_str(text);
                rest = after;
            }
            Some((value, after)) => {
                filled.push_str(&value.to_string());
                rest = after;
            }
            None => {
                filled.push('{');
                rest = after;
            }
        }
    }
    filled + rest
}

#[cfg(test)]
mod tests;
