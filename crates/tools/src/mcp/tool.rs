//! A server's tool as ours.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::{answer, call::Trouble, class, digest, pins::Standing, server::Server};
use crate::{Spec, Tool, ToolReply, ToolRequest, ToolsError, outputs::to_plain_text};

pub(super) struct ServerTool {
    spec: Spec,
    server: Arc<Server>,
    /// What the server calls it.
    name: String,
    /// Tells this description from any other.
    hash: String,
    /// It is not the tool that a person has seen before.
    changed: AtomicBool,
}

impl ServerTool {
    /// What is seen for the first time is remembered as it is.
    pub(super) fn new(name: &str, server: Arc<Server>, tool: &rmcp::model::Tool) -> Self {
        let config = &server.config;
        let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
        let mut parameters = Value::Object((*tool.input_schema).clone());
        let hash = digest(&[&tool.name, description, &parameters.to_string()]);
        let pins = &server.ground.pins;
        let standing = pins.standing(&pin(&server), &tool.name, &hash);
        if standing == Standing::New {
            // What cannot be remembered is new the next time.
            let _ = pins.pin(&pin(&server), &tool.name, &hash);
        }
        // Some servers leave out what is always so.
        if let Value::Object(schema) = &mut parameters {
            schema.entry("type").or_insert_with(|| json!("object"));
        }
        let (safety, effect) = class::classes(config, &tool.name, tool.annotations.as_ref());
        let mut spec = Spec::new(name, &to_plain_text(description.as_bytes()), parameters, safety, effect);
        spec.untrusted = !config.trusted;
        let changed = AtomicBool::new(standing == Standing::Changed);
        Self { spec, name: tool.name.clone().into_owned(), server, hash, changed }
    }

    async fn run(&self, request: ToolRequest) -> Result<Value, ToolsError> {
        if self.changed.swap(false, Ordering::Relaxed) {
            // Nothing runs before a person has said yes to what it is now.
            self.server.ground.pins.pin(&pin(&self.server), &self.name, &self.hash)?;
        }
        let effect = self.spec.effect;
        let made = self.server.call((&self.name, effect), request.args, &*request.host).await;
        match made {
            Ok(result) => {
                let from = answer::From {
                    tool: &self.spec.name,
                    outputs: &self.server.ground.outputs,
                    shelf: &self.server.shelf,
                };
                answer::answer(result, &from, &*request.host).await
            }
            // What a stranger says when it fails is a stranger's text, too.
            Err(trouble @ (Trouble::Refused(_) | Trouble::Lost(_))) if self.spec.untrusted => {
                Ok(json!({"error": self.server.told(trouble, effect).to_string()}))
            }
            Err(trouble) => Err(self.server.told(trouble, effect)),
        }
    }
}

fn pin(server: &Server) -> String {
    format!("{} in {}", server.config.name, server.config.origin)
}

impl Tool for ServerTool {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        Box::pin(async move { self.run(request).await.map(ToolReply::Done) })
    }

    fn preview(&self, args: &Map<String, Value>) -> Option<String> {
        let args = serde_json::to_string_pretty(args).ok()?;
        if !self.changed.load(Ordering::Relaxed) {
            return Some(args);
        }
        Some(format!("{args}\n\nIt now says of itself:\n{}\n{}", self.spec.description, self.spec.parameters))
    }

    fn review_reason(&self) -> Option<String> {
        let changed = self.changed.load(Ordering::Relaxed);
        changed.then(|| format!("`{}` is not described as it was when you first saw it", self.spec.name))
    }
}
