//! Tools that a configuration makes up: fixed answers, failures, long jobs, questions to the user.

use std::time::Duration;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{Body, Call, Effect, Error, File, Host, Outcome, Safety, Spec, Tool};

/// What a stub does. In strings of `response`, `fail`, `state` and `artifact`, `{name}` stands for the argument of that
/// name; a string that is nothing else keeps the argument's type. What names no argument stays as it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key that people write")]
pub struct StubConfig {
    pub name: String,
    #[serde(default)]
    pub description: String,
    #[serde(default = "no_parameters")]
    pub parameters: Value,
    /// May also say `{artifact.version}`.
    #[serde(default = "empty")]
    pub response: Value,
    /// The call fails with this text.
    #[serde(default)]
    pub fail: Option<String>,
    /// The tool is a long-running one: the response is what is known so far.
    #[serde(default)]
    pub pending: bool,
    #[serde(default)]
    pub confirm: bool,
    #[serde(default)]
    pub safety: Safety,
    #[serde(default)]
    pub effect: Effect,
    /// Its answers are not to be trusted.
    #[serde(default)]
    pub untrusted: bool,
    /// Keys with their values, set in this order.
    #[serde(default)]
    pub state: Map<String, Value>,
    #[serde(default)]
    pub artifact: Option<StubArtifact>,
    #[serde(default)]
    pub delay_ms: u64,
    /// The call panics, as a broken tool would.
    #[serde(default)]
    pub panic: bool,
}

/// A file that a stub saves.
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

/// A made-up tool.
#[derive(Debug)]
pub struct Stub {
    spec: Spec,
    config: StubConfig,
}

impl From<StubConfig> for Stub {
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

impl Tool for Stub {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Outcome, Error>> {
        Box::pin(self.answer(call))
    }
}

impl Stub {
    async fn answer(&self, call: Call) -> Result<Outcome, Error> {
        let config = &self.config;
        self.wait(&*call.host).await?;
        if config.panic {
            self.break_down();
        }
        if let Some(text) = &config.fail {
            return Err(Error::Failed(fill_text(text, &call.args)));
        }
        for (key, value) in &config.state {
            call.host.set_state(&fill_text(key, &call.args), fill(value, &call.args));
        }
        let mut names = call.args;
        if let Some(artifact) = &config.artifact {
            let version = artifact.save(&names, &*call.host).await?;
            names.insert("artifact.version".to_owned(), version.into());
        }
        let response = fill(&config.response, &names);
        Ok(if config.pending { Outcome::Pending(Some(response)) } else { Outcome::Done(response) })
    }

    #[expect(clippy::panic, reason = "a tool that panics is what the configuration asks for")]
    fn break_down(&self) {
        panic!("{} panics, as its configuration says", self.config.name);
    }

    async fn wait(&self, host: &dyn Host) -> Result<(), Error> {
        if self.config.delay_ms == 0 {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(self.config.delay_ms)) => Ok(()),
            () = host.cancelled() => Err(Error::Cancelled),
        }
    }
}

impl StubArtifact {
    async fn save(&self, args: &Map<String, Value>, host: &dyn Host) -> Result<u64, Error> {
        let body = Body::Text(fill_text(&self.text, args));
        let file = File { mime_type: self.mime_type.clone(), body };
        host.save_artifact(fill_text(&self.name, args), file).await
    }
}

fn fill(template: &Value, args: &Map<String, Value>) -> Value {
    match template {
        Value::String(text) => {
            let alone = text
                .strip_prefix('{')
                .and_then(|text| text.strip_suffix('}'))
                .and_then(|name| args.get(name));
            alone.cloned().unwrap_or_else(|| fill_text(text, args).into())
        }
        Value::Array(items) => items.iter().map(|item| fill(item, args)).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), fill(value, args))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => template.clone(),
    }
}

/// One pass: what an argument brings in is not looked at again.
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
