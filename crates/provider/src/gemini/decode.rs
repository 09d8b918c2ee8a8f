//! Decodes a response of Gemini's `streamGenerateContent`.
//!
//! Text and thoughts are emitted at once up to the first call. Everything after it is deferred to the end, so parts
//! keep their order. Only the end of the body ends the response: every chunk may carry a finish reason, and more chunks
//! may follow.

use super::{
    metadata::GeminiMetadata,
    wire::{
        GeminiCandidate, GeminiChunk, GeminiFile, GeminiFunctionCall, GeminiPart, GeminiPromptFeedback,
        GeminiUsage,
    },
};
use crate::{
    Done, Error, FinishReason, Media, MediaSource, ModelRequest, StreamEvent, StreamFrame, TokenUsage,
    ToolCall, classify, decoding, encoding, tool_names::ToolNames,
};

#[derive(Debug)]
pub struct GeminiDecoder {
    provider: String,
    names: ToolNames,
    model: Option<String>,
    usage: GeminiUsage,
    /// The finish reason, once the server has sent it.
    finish: Option<FinishReason>,
    /// The lowest index of the first candidates.
    candidate: Option<u64>,
    /// The first call and everything after it.
    deferred: Vec<StreamEvent>,
    metadata: GeminiMetadata,
}

impl GeminiDecoder {
    pub fn new(provider: &str, request: &ModelRequest) -> Self {
        Self {
            provider: provider.to_owned(),
            names: ToolNames::for_request(request),
            model: None,
            usage: GeminiUsage::default(),
            finish: None,
            candidate: None,
            deferred: Vec::new(),
            metadata: GeminiMetadata::default(),
        }
    }

    fn read_candidate(&mut self, mut candidate: GeminiCandidate, out: &mut Vec<StreamEvent>) {
        self.metadata.read_candidate(&mut candidate);
        for part in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
            self.read_part(part, out);
        }
        self.finish = finish_reason(candidate.finish_reason, candidate.finish_message).or(self.finish.take());
    }

    fn read_part(&mut self, part: GeminiPart, out: &mut Vec<StreamEvent>) {
        let signature = part.thought_signature.filter(|signature| !signature.is_empty());
        if let Some(call) = part.function_call {
            let call = tool_call(call, signature, &self.names);
            return self.deferred.push(StreamEvent::ToolCall(call));
        }
        let file = part.inline_data.or(part.file_data).map(|file| file_placeholder(&file));
        let executed = part.executable_code.or(part.code_execution_result);
        let code = executed
            .and_then(|executed| executed.code.or(executed.output))
            .map(|text| format!("\n```\n{text}\n```\n"));
        let text = part.text.or(file).or(code).unwrap_or_default();
        if text.is_empty() && signature.is_none() {
            return;
        }
        let event = if part.thought {
            StreamEvent::thought_delta(text, signature)
        } else {
            StreamEvent::text_delta(text, signature)
        };
        if self.deferred.is_empty() { out.push(event) } else { self.deferred.push(event) }
    }

    fn error_in_frame(&self, data: &str) -> Error {
        let value = serde_json::from_str(data).unwrap_or_default();
        classify::error_in_json(&self.provider, None, &value)
            .unwrap_or_else(|| decoding::parse_error(&self.provider, data))
    }
}

impl crate::StreamDecoder for GeminiDecoder {
    fn read(&mut self, frame: StreamFrame<'_>, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if decoding::is_empty_frame(frame.data) {
            return Ok(());
        }
        if let Some(error) = decoding::named_error(&self.provider, frame) {
            return Err(error);
        }
        decoding::expect_object(&self.provider, frame.data)?;
        let Ok(chunk) = serde_json::from_str::<GeminiChunk>(frame.data) else {
            return Err(self.error_in_frame(frame.data));
        };
        if chunk.error.is_some() {
            return Err(self.error_in_frame(frame.data));
        }
        self.metadata.read_usage(&chunk.usage_metadata);
        self.usage.update(serde_json::from_value(chunk.usage_metadata).unwrap_or_default());
        self.model = chunk.model_version.or(self.model.take());
        self.finish = chunk.prompt_feedback.and_then(block_reason).or(self.finish.take());
        // The request asks for one candidate; others are ignored.
        let candidates = chunk.candidates.unwrap_or_default();
        let indexes = candidates.iter().map(|candidate| candidate.index.unwrap_or_default());
        self.candidate = self.candidate.or_else(|| indexes.min());
        let is_chosen =
            |candidate: &GeminiCandidate| Some(candidate.index.unwrap_or_default()) == self.candidate;
        for candidate in candidates.into_iter().filter(is_chosen).collect::<Vec<_>>() {
            self.read_candidate(candidate, out);
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let Some(finish) = self.finish.take() else {
            return Err(Error::Truncated { provider: self.provider.clone() });
        };
        if let FinishReason::Refused { code, message } = &finish
            && code == MALFORMED_CALL
        {
            let (provider, code, message) = (self.provider.clone(), code.clone(), message.clone());
            return Err(Error::MalformedCall { provider, code, message });
        }
        let refused = matches!(finish, FinishReason::Filtered { .. } | FinishReason::Refused { .. });
        out.extend(
            self.deferred.drain(..).filter(|event| !refused || !matches!(event, StreamEvent::ToolCall(_))),
        );
        out.extend(token_usage(self.usage).map(StreamEvent::Usage));
        out.push(StreamEvent::Done(Done {
            metadata: Box::new(std::mem::take(&mut self.metadata).into_answer()),
            ..Done::new(finish, self.model.take())
        }));
        Ok(())
    }
}

fn tool_call(call: GeminiFunctionCall, signature: Option<String>, names: &ToolNames) -> ToolCall {
    let (id, name) = (call.id.unwrap_or_default(), names.original_name(&call.name.unwrap_or_default()));
    ToolCall { signature, ..decoding::tool_call(id, name, call.args.unwrap_or_default()) }
}

/// The port has no output files; a placeholder keeps the file visible.
fn file_placeholder(file: &GeminiFile) -> String {
    encoding::media_placeholder(&Media {
        mime_type: file.mime_type.clone().unwrap_or_else(|| "application/octet-stream".to_owned()),
        source: file.file_uri.clone().map_or(MediaSource::Base64(String::new()), MediaSource::Uri),
        name: file.display_name.clone(),
    })
}

/// The finish reason for a tool call that Gemini cannot parse. Another attempt usually succeeds.
const MALFORMED_CALL: &str = "MALFORMED_FUNCTION_CALL";

/// All reasons except two mean that the answer is missing or incomplete.
fn finish_reason(reason: Option<String>, message: Option<String>) -> Option<FinishReason> {
    let reason = reason?.to_ascii_uppercase();
    match reason.as_str() {
        "" | "FINISH_REASON_UNSPECIFIED" => None,
        "STOP" => Some(FinishReason::Stop),
        "MAX_TOKENS" => Some(FinishReason::Length),
        MALFORMED_CALL => Some(refusal(reason, message, "the model wrote a malformed function call")),
        "UNEXPECTED_TOOL_CALL" => {
            Some(refusal(reason, message, "the model called a function that is not declared"))
        }
        _ => {
            let message = message.filter(|message| !message.is_empty());
            let message = message.unwrap_or_else(|| "the provider stopped the answer".to_owned());
            Some(FinishReason::Filtered { code: reason, message })
        }
    }
}

fn block_reason(feedback: GeminiPromptFeedback) -> Option<FinishReason> {
    let reason = feedback.block_reason.filter(|reason| reason != "BLOCK_REASON_UNSPECIFIED")?;
    Some(refusal(reason, feedback.block_reason_message, "the provider blocked the prompt"))
}

fn refusal(code: String, message: Option<String>, default: &str) -> FinishReason {
    let message = message.filter(|message| !message.is_empty()).unwrap_or_else(|| default.to_owned());
    FinishReason::Refused { code, message }
}

fn token_usage(usage: GeminiUsage) -> Option<TokenUsage> {
    let count = |tokens: Option<u64>| tokens.unwrap_or_default();
    let total = TokenUsage {
        input: count(usage.prompt) + count(usage.tools),
        cached: count(usage.cached),
        output: count(usage.answer),
        reasoning: count(usage.thoughts),
        ..TokenUsage::default()
    };
    (total != TokenUsage::default()).then_some(total)
}

#[cfg(test)]
mod tests;
