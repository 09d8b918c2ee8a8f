//! A server's tool as a [`Tool`].

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::{
    call::McpCallError,
    classify, digest,
    elicitation::CallLink,
    parked::{CallStep, RunningCall},
    pins::PinStatus,
    received::ReceivedResult,
    server::McpServer,
    tool_result,
};
use crate::{Spec, Tool, ToolHost, ToolReply, ToolRequest, ToolsError, outputs::to_plain_text};

/// A tool of an MCP server.
pub(super) struct McpTool {
    spec: Spec,
    server: Arc<McpServer>,
    /// Its name at the server.
    name: String,
    /// Digest of name, description and parameters.
    hash: String,
    /// The description differs from the pinned one.
    changed: AtomicBool,
}

impl McpTool {
    /// Pins the description if the tool is new.
    pub(super) fn new(name: &str, server: Arc<McpServer>, tool: &rmcp::model::Tool) -> Self {
        let config = &server.config;
        let description = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
        let mut parameters = Value::Object((*tool.input_schema).clone());
        let hash = digest(&[&tool.name, description, &parameters.to_string()]);
        let pins = &server.env.pins;
        let status = pins.status(&pin_owner(&server), &tool.name, &hash);
        if status == PinStatus::New {
            // If the pin cannot be stored, the tool is new again the next time.
            let _ = pins.pin(&pin_owner(&server), &tool.name, &hash);
        }
        // Some servers omit the type, which is always `object`.
        if let Value::Object(schema) = &mut parameters {
            schema.entry("type").or_insert_with(|| json!("object"));
        }
        let (safety, effect) = classify::classify(config, &tool.name, tool.annotations.as_ref());
        let mut spec = Spec::new(name, &to_plain_text(description.as_bytes()), parameters, safety, effect);
        spec.untrusted = !config.trusted;
        let changed = AtomicBool::new(status == PinStatus::Changed);
        Self { spec, name: tool.name.clone().into_owned(), server, hash, changed }
    }

    async fn run(&self, request: ToolRequest) -> Result<ToolReply, ToolsError> {
        let ToolRequest { id, args, host, turn, input, .. } = request;
        let (parked, key) = (&self.server.env.parked, (turn.scope, id));
        let mut running = match input {
            None => self.start(args, key.0.clone(), &host)?,
            Some(reply) => parked.resume(&key, reply, Arc::clone(&host)).ok_or(ToolsError::Interrupted)?,
        };
        loop {
            let step = tokio::select! {
                biased;
                () = host.cancelled() => return Err(ToolsError::Cancelled),
                step = running.next() => step,
            };
            let asked = match step {
                CallStep::Ended(result) => return self.finish(result, running.link(), &*host).await,
                CallStep::Asked(asked) => asked,
            };
            match parked.park(key.clone(), running, asked, self.server.config.answer_time) {
                Ok(question) => return Ok(ToolReply::Ask(question)),
                Err(returned) => {
                    returned.link().note_declined("too many questions wait for an answer");
                    running = returned;
                }
            }
        }
    }

    /// Starts the call. It ends if the returned value is dropped.
    fn start(
        &self,
        args: Map<String, Value>,
        session: String,
        host: &Arc<dyn ToolHost>,
    ) -> Result<RunningCall, ToolsError> {
        if self.changed.swap(false, Ordering::Relaxed) {
            // A person has approved the call after reading the new description.
            self.server.env.pins.pin(&pin_owner(&self.server), &self.name, &self.hash)?;
        }
        let (link, questions) = CallLink::new(session, Arc::clone(host));
        let (server, name, effect) = (Arc::clone(&self.server), self.name.clone(), self.spec.effect);
        let asked = Arc::clone(&link);
        let call = async move { server.call((&name, effect), args, &asked).await };
        Ok(RunningCall::new(call, questions, link))
    }

    async fn finish(
        &self,
        result: Result<ReceivedResult, McpCallError>,
        link: &CallLink,
        host: &dyn ToolHost,
    ) -> Result<ToolReply, ToolsError> {
        let effect = self.spec.effect;
        let mut answer = match result {
            Ok(result) => {
                let context = tool_result::ResultContext {
                    tool: &self.spec.name,
                    outputs: &self.server.env.outputs,
                    spilled: &self.server.spilled,
                };
                tool_result::to_json(result, &context, host).await?
            }
            // Error texts of an untrusted server are untrusted text, too, so they are returned as a result.
            Err(error @ (McpCallError::Refused(_) | McpCallError::Lost(_))) if self.spec.untrusted => {
                json!({"error": self.server.to_tools_error(error, effect).to_string()})
            }
            Err(error) => return Err(self.server.to_tools_error(error, effect)),
        };
        if let (Some(reason), Value::Object(answer)) = (link.declined(), &mut answer) {
            let note = format!("the server asked the user a question, which lango declined: {reason}");
            answer.insert("declined_question".to_owned(), note.into());
        }
        Ok(ToolReply::Done(answer))
    }
}

/// The key of a server in the file of pins.
fn pin_owner(server: &McpServer) -> String {
    format!("{} in {}", server.config.name, server.config.origin)
}

impl Tool for McpTool {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        Box::pin(self.run(request))
    }

    fn preview(&self, args: &Map<String, Value>) -> Option<String> {
        let args = serde_json::to_string_pretty(args).ok()?;
        if !self.changed.load(Ordering::Relaxed) {
            return Some(args);
        }
        Some(format!(
            "{args}\n\nIts description is now:\n{}\n{}",
            self.spec.description, self.spec.parameters
        ))
    }

    fn review_reason(&self) -> Option<String> {
        let changed = self.changed.load(Ordering::Relaxed);
        changed.then(|| format!("the description of `{}` has changed since you first saw it", self.spec.name))
    }
}
