//! Spans of model and tool calls with the attributes of OpenTelemetry's conventions for generative AI. Message content is
//! included only if the sink accepts it.

use super::{call::CallTask, transfer::TRANSFER};
use crate::{
    agent::Node,
    content::Content,
    error::{RunError, ToolError},
    event::Event,
    model::{LlmRequest, LlmResponse},
    session::SessionKey,
    trace::{ActiveSpan, SpanKind, Trace},
};
use serde_json::{Value, json};

/// The attribute with the id of the event that the operation produced.
pub const EVENT_ID: &str = "lango.event.id";
pub const INVOCATION_ID: &str = "lango.invocation.id";

/// Starts the span of a model call.
pub(crate) fn start_chat(
    trace: &Trace,
    node: &Node,
    request: &LlmRequest,
    frame: &Event,
    key: &SessionKey,
) -> ActiveSpan {
    let name = node.agent.model.name();
    let (provider, model) = name.split_once('/').unwrap_or((name, name));
    let mut span = trace.begin(SpanKind::Client, || format!("chat {model}"));
    if !trace.is_on() {
        return span;
    }
    span.set("gen_ai.operation.name", "chat");
    span.set("gen_ai.provider.name", provider_name(provider));
    span.set("gen_ai.request.model", model);
    span.set("gen_ai.agent.name", node.agent.name.as_str());
    span.set("gen_ai.conversation.id", key.session_id.as_str());
    span.set(INVOCATION_ID, frame.invocation_id.as_str());
    span.set(EVENT_ID, frame.id.as_str());
    let config = &request.config;
    span.set_some("gen_ai.request.temperature", config.temperature);
    span.set_some("gen_ai.request.top_p", config.top_p);
    span.set_some("gen_ai.request.max_tokens", config.max_output_tokens);
    span.set_some("gen_ai.request.seed", config.seed);
    span.set_content("gen_ai.system_instructions", || messages(config.system_instruction.iter()));
    span.set_content("gen_ai.input.messages", || messages(request.contents.iter().map(|content| &**content)));
    span
}

/// OpenTelemetry's well-known provider names.
fn provider_name(name: &str) -> &str {
    match name {
        "gemini" => "gcp.gemini",
        "mistral" => "mistral_ai",
        other => other,
    }
}

fn messages<'a>(contents: impl Iterator<Item = &'a Content>) -> Value {
    contents.map(|content| json!(content)).collect()
}

pub(crate) fn record_response(span: &mut ActiveSpan, response: &LlmResponse) {
    if let Some(origin) = response.content.as_ref().and_then(|content| content.origin.as_ref()) {
        // A fallback may have answered.
        span.set("gen_ai.provider.name", provider_name(&origin.provider));
    }
    span.set_some("gen_ai.response.model", response.model_version.as_deref());
    let reason = response.finish_reason.as_deref().or(response.error_code.as_deref()).map(finish_reason);
    span.set_some("gen_ai.response.finish_reasons", reason.map(|reason| json!([reason])));
    if let Some(usage) = &response.usage_metadata {
        let thought = usage.thoughts_token_count.unwrap_or(0);
        let output = usage.candidates_token_count.map(|count| count + thought);
        span.set_some("gen_ai.usage.input_tokens", usage.prompt_token_count);
        span.set_some("gen_ai.usage.output_tokens", output);
        span.set_some("gen_ai.usage.cache_read.input_tokens", usage.cached_content_token_count);
    }
    span.set_content("gen_ai.output.messages", || messages(response.content.iter()));
}

fn finish_reason(reason: &str) -> String {
    match reason {
        "MAX_TOKENS" => "length".to_owned(),
        other => other.to_lowercase(),
    }
}

/// The error type without its text, which may quote message content.
pub fn error_type(error: &RunError) -> String {
    match error {
        RunError::AgentNotFound { .. } => "agent_not_found".to_owned(),
        RunError::TransferLoop { .. } => "transfer_loop".to_owned(),
        RunError::SessionNotFound(_) => "session_not_found".to_owned(),
        RunError::CallInMessage => "call_in_message".to_owned(),
        RunError::UnresolvedReference { .. } => "unresolved_reference".to_owned(),
        RunError::UnknownCall { .. } => "unknown_call".to_owned(),
        RunError::InvalidAnswer { .. } => "invalid_answer".to_owned(),
        RunError::Cancelled => "cancelled".to_owned(),
        RunError::Service(_) => "session_store".to_owned(),
        RunError::RetryFailed { retry, .. } => error_type(retry),
        RunError::Model(_)
        | RunError::MissingKey { .. }
        | RunError::TooManyModelCalls { .. }
        | RunError::TooManyToolCalls { .. }
        | RunError::OutOfTime { .. }
        | RunError::OutOfTokens { .. }
        | RunError::OutOfMoney { .. }
        | RunError::NothingNew { .. } => error.code().unwrap_or("error").to_lowercase(),
    }
}

/// Starts the span of a tool call. A tool name that the model invented is not recorded.
pub(super) fn start_tool(task: &CallTask<'_>) -> ActiveSpan {
    let name = task.call.name();
    let compiled = task.node.tools.get(name);
    let known = (compiled.is_some() || name == TRANSFER).then_some(name);
    let mut span =
        task.trace.begin(SpanKind::Internal, || format!("execute_tool {}", known.unwrap_or("unknown")));
    if !task.trace.is_on() {
        return span;
    }
    span.set("gen_ai.operation.name", "execute_tool");
    span.set_some("gen_ai.tool.name", known);
    span.set("gen_ai.tool.type", "function");
    span.set("gen_ai.tool.call.id", task.call.id());
    span.set_some(
        "gen_ai.tool.description",
        compiled.map(|compiled| compiled.tool.declaration().description.as_str()),
    );
    span.set("gen_ai.agent.name", task.node.agent.name.as_str());
    span.set("gen_ai.conversation.id", task.context.session.session_id.as_str());
    span.set(INVOCATION_ID, task.context.invocation_id.as_str());
    span.set(EVENT_ID, task.event_id);
    span.set_content("gen_ai.tool.call.arguments", || json!(task.call.part.call().map(|call| &call.args)));
    span
}

pub(super) fn tool_error_type(error: &ToolError) -> &'static str {
    match error {
        ToolError::Unknown { .. } => "unknown_tool",
        ToolError::Arguments(_) | ToolError::NotJson(_) => "invalid_arguments",
        ToolError::Panicked => "panic",
        ToolError::Interrupted => "cancelled",
        ToolError::TimedOut(_) => "timeout",
        ToolError::Failed(_) => "tool_error",
    }
}
