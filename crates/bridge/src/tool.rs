//! ToolAdapter: an internal tool as ADK's.

use adk::{
    content::{Blob, Part},
    error::ToolError,
    event::ToolConfirmation,
    model::FunctionDeclaration,
    tool::{Tool, ToolContext, ToolOutcome},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use futures::future::BoxFuture;
use serde_json::{Map, Value};
use std::{fmt, sync::Arc};
use tools::{Body, Call, Error, File, Host, Outcome};

pub struct ToolAdapter {
    tool: Arc<dyn tools::Tool>,
    declaration: FunctionDeclaration,
}

impl ToolAdapter {
    pub fn new(tool: Arc<dyn tools::Tool>) -> Self {
        let spec = tool.spec();
        // A model must know that it is not to call again while it waits.
        let waiting = if spec.long_running {
            "\n\nNOTE: This is a long-running operation. Do not call this tool again if it has already returned some intermediate or pending status."
        } else {
            ""
        };
        let declaration = FunctionDeclaration {
            description: format!("{}{waiting}", spec.description),
            name: spec.name.clone(),
            parameters_json_schema: spec.parameters.clone(),
        };
        Self { tool, declaration }
    }
}

impl Tool for ToolAdapter {
    fn declaration(&self) -> &FunctionDeclaration {
        &self.declaration
    }

    fn is_long_running(&self) -> bool {
        self.tool.spec().long_running
    }

    fn call(
        &self,
        context: ToolContext,
        args: Map<String, Value>,
    ) -> BoxFuture<'_, Result<ToolOutcome, ToolError>> {
        Box::pin(async move {
            if self.tool.spec().confirm && context.confirmation.is_none() {
                return Ok(ToolOutcome::Ask(question(&self.declaration.name)));
            }
            let call = Call { id: context.call_id.clone(), args, host: Arc::new(TurnHost(context)) };
            match self.tool.call(call).await {
                Ok(Outcome::Done(value)) => Ok(ToolOutcome::Done(value)),
                Ok(Outcome::Pending(value)) => Ok(ToolOutcome::Pending(value)),
                Err(error) => Err(ToolError::Failed(error.to_string())),
            }
        })
    }
}

/// ADK's clients show this text and answer with the call that it names.
fn question(name: &str) -> ToolConfirmation {
    let hint = format!(
        "Please approve or reject the tool call {name}() by responding with a FunctionResponse with an expected ToolConfirmation payload."
    );
    ToolConfirmation { hint, confirmed: false, payload: None }
}

/// The turn, as a tool sees it.
struct TurnHost(ToolContext);

impl Host for TurnHost {
    fn state(&self, key: &str) -> Option<Value> {
        self.0.state(key)
    }

    fn set_state(&self, key: &str, value: Value) {
        self.0.set_state(key, value);
    }

    fn save_artifact(&self, name: String, file: File) -> BoxFuture<'_, Result<u64, Error>> {
        Box::pin(async move {
            let saved = self.0.save_artifact(&name, part(file)).await;
            saved.map_err(|error| Error::Artifact { name, reason: error.to_string() })
        })
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.cancel.cancelled())
    }
}

fn part(file: File) -> Part {
    let data = match file.body {
        Body::Text(text) => BASE64_STANDARD.encode(text),
        Body::Bytes(bytes) => BASE64_STANDARD.encode(bytes),
    };
    Blob { data, mime_type: Some(file.mime_type), ..Blob::default() }.into()
}

impl fmt::Debug for ToolAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolAdapter").field("name", &self.declaration.name).finish_non_exhaustive()
    }
}
