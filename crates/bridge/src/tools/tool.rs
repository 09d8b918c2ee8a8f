//! ToolAdapter: an internal tool as an ADK tool.

use crate::{
    store::state,
    tools::guard::{self, Guard, GuardDecision, UNTRUSTED},
    turns::parked,
};
use adk::{
    content::{Blob, Part},
    error::ToolError,
    input::{InputAnswer, InputRequest},
    model::FunctionDeclaration,
    tool::{Tool, ToolContext, ToolOutcome},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use futures::future::BoxFuture;
use lock::LockExt;
use serde_json::{Map, Value};
use std::{
    fmt,
    sync::{Arc, Mutex},
};
use tools::{
    AppUser, ArtifactBody, ArtifactFile, CallingTurn, Effect, InputQuestion, InputReply, Mask, SandboxAccess,
    SandboxProfile, ToolHost, ToolReply, ToolRequest, ToolsError, mask::MaskStream,
};

/// Key in the payload of a question with the name of the MCP server that asks.
pub const MCP_SERVER: &str = "mcpServer";

pub struct ToolAdapter {
    tool: Arc<dyn tools::Tool>,
    guard: Option<Arc<Guard>>,
    declaration: FunctionDeclaration,
}

impl ToolAdapter {
    pub fn new(tool: Arc<dyn tools::Tool>) -> Self {
        let spec = tool.spec();
        // Tells the model not to call again while the operation is pending.
        let pending_note = if spec.long_running {
            "\n\nNOTE: This is a long-running operation. Do not call this tool again if it has already returned some intermediate or pending status."
        } else {
            ""
        };
        let declaration = FunctionDeclaration {
            description: format!("{}{pending_note}", spec.description),
            name: spec.name.clone(),
            parameters_json_schema: spec.parameters.clone(),
        };
        Self { tool, guard: None, declaration }
    }

    /// Sets the guard that decides on its calls.
    pub fn guarded(self, guard: Arc<Guard>) -> Self {
        Self { guard: Some(guard), ..self }
    }

    async fn run(&self, context: ToolContext, args: Map<String, Value>) -> Result<ToolOutcome, ToolError> {
        let effect = self.tool.spec().effect;
        if context.begun && effect == Effect::Once {
            return Err(ToolError::Interrupted);
        }
        // A call that continues with an answer was admitted when it began.
        let decision = if context.input.is_some() {
            unguarded()
        } else {
            self.probe_sandbox().await?;
            self.admit(&args, &context)
        };
        let (sandbox, is_untrusted) = match decision {
            GuardDecision::Run { sandbox, is_untrusted } => (sandbox, is_untrusted),
            GuardDecision::Ask(question) => return Ok(ToolOutcome::Ask(question)),
            GuardDecision::Refuse(why) => return Err(ToolError::Failed(why)),
        };
        if effect != Effect::ReadOnly {
            let begun = context.begin().await;
            begun.map_err(|error| {
                ToolError::Failed(format!("not run: could not record the call before starting it: {error}"))
            })?;
        }
        let mask = self.guard.as_ref().map(|guard| guard.mask().clone()).unwrap_or_default();
        let progress_mask = Mutex::new(mask.stream());
        let host = Arc::new(TurnHost { context: context.clone(), mask: mask.clone(), progress_mask });
        let turn = CallingTurn {
            session: context.session.session_id.clone(),
            scope: parked::scope(&context.session),
            run: context.invocation_id.clone(),
        };
        let input = context.input.clone().map(to_reply);
        let request = ToolRequest { id: context.call_id.clone(), args, turn, host, sandbox, input };
        let outcome = self.tool.call(request).await;
        if let Ok(ToolReply::Untrusted { source, .. }) = &outcome {
            set_untrusted(&context, source.clone());
        }
        let outcome = mask_outcome(outcome, &mask);
        if is_untrusted || self.tool.spec().untrusted {
            self.mark_untrusted(&outcome, &context);
        }
        outcome
    }

    /// Probes the sandbox on a blocking thread, so that the decision does not block.
    async fn probe_sandbox(&self) -> Result<(), ToolError> {
        let sandbox = self.guard.as_ref().and_then(|guard| guard.sandbox_to_probe(&*self.tool));
        let Some(sandbox) = sandbox else { return Ok(()) };
        let probed = tokio::task::spawn_blocking(move || drop(sandbox.get().clone())).await;
        probed.map_err(|error| ToolError::Failed(format!("the sandbox cannot be set up: {error}")))
    }

    fn admit(&self, args: &Map<String, Value>, context: &ToolContext) -> GuardDecision {
        let name = &self.tool.spec().name;
        match &self.guard {
            Some(guard) => guard.admit(&*self.tool, args, context),
            None if self.tool.spec().confirm && context.confirmation.is_none() => {
                GuardDecision::Ask(guard::plain_question(name))
            }
            None => unguarded(),
        }
    }

    /// Records the first source of untrusted text in the session. The text of an error comes from the same source.
    fn mark_untrusted(&self, outcome: &Result<ToolOutcome, ToolError>, context: &ToolContext) {
        let value = match outcome {
            Ok(ToolOutcome::Done(value) | ToolOutcome::Pending(Some(value))) => value,
            Ok(ToolOutcome::Pending(None) | ToolOutcome::Ask(_)) => return,
            // A person reads the text of the question.
            Ok(ToolOutcome::AskInput(_)) | Err(_) => &Value::Null,
        };
        set_untrusted(context, guard::source(&*self.tool, value));
    }
}

/// Marks the session, unless it is marked already.
fn set_untrusted(context: &ToolContext, source: String) {
    if context.state(UNTRUSTED).is_none_or(|known| known.is_null()) {
        context.set_state(UNTRUSTED, source.into());
    }
}

/// The outcome to be stored, with secrets masked.
fn mask_outcome(outcome: Result<ToolReply, ToolsError>, mask: &Mask) -> Result<ToolOutcome, ToolError> {
    match outcome {
        Ok(ToolReply::Done(value) | ToolReply::Untrusted { value, .. }) => {
            Ok(ToolOutcome::Done(mask.apply_json(value)))
        }
        Ok(ToolReply::Pending(value)) => Ok(ToolOutcome::Pending(value.map(|value| mask.apply_json(value)))),
        Ok(ToolReply::Ask(question)) => Ok(ToolOutcome::AskInput(to_request(question, mask))),
        Err(ToolsError::Interrupted) => Err(ToolError::Interrupted),
        Err(error) => Err(ToolError::Failed(mask.apply(error.to_string()))),
    }
}

fn unguarded() -> GuardDecision {
    let sandbox = SandboxAccess { profile: SandboxProfile::Workspace, protected: Vec::new() };
    GuardDecision::Run { sandbox, is_untrusted: false }
}

fn to_request(question: InputQuestion, mask: &Mask) -> InputRequest {
    let InputQuestion { message, schema, server } = question;
    InputRequest {
        message: mask.apply(message),
        schema: mask.apply_json(schema),
        payload: Map::from_iter([(MCP_SERVER.to_owned(), server.into())]),
    }
}

fn to_reply(answer: InputAnswer) -> InputReply {
    match answer {
        InputAnswer::Accept(content) => InputReply::Accept(content),
        InputAnswer::Decline => InputReply::Decline,
        InputAnswer::Cancel => InputReply::Cancel,
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
        Box::pin(self.run(context, args))
    }
}

/// The turn, as a tool's host.
struct TurnHost {
    context: ToolContext,
    mask: Mask,
    /// Masks progress texts: a secret may be split across two of them.
    progress_mask: Mutex<MaskStream>,
}

impl ToolHost for TurnHost {
    fn state(&self, key: &str) -> Option<Value> {
        self.context.state(key)
    }

    /// Reserved keys are read-only for tools.
    fn set_state(&self, key: &str, value: Value) {
        if !state::is_reserved(key) {
            self.context.set_state(key, value);
        }
    }

    fn save_artifact(&self, name: String, file: ArtifactFile) -> BoxFuture<'_, Result<u64, ToolsError>> {
        Box::pin(async move {
            let saved = self.context.save_artifact(&name, part(file, &self.mask)).await;
            saved.map_err(|error| ToolsError::Artifact { name, reason: error.to_string() })
        })
    }

    fn progress(&self, text: &str) {
        let mut mask = self.progress_mask.locked();
        self.context.report_progress(&String::from_utf8_lossy(&mask.push(text.as_bytes())));
    }

    fn owner(&self) -> AppUser {
        guard::owner(&self.context)
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.context.cancel.cancelled())
    }
}

fn part(file: ArtifactFile, mask: &Mask) -> Part {
    let data = match file.body {
        ArtifactBody::Text(text) => BASE64_STANDARD.encode(mask.apply(text)),
        ArtifactBody::Bytes(bytes) => BASE64_STANDARD.encode(bytes),
    };
    Blob { data, mime_type: Some(file.mime_type), ..Blob::default() }.into()
}

impl fmt::Debug for ToolAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolAdapter").field("name", &self.declaration.name).finish_non_exhaustive()
    }
}
