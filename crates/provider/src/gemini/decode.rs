//! An answer of Gemini's `streamGenerateContent`, piece by piece.
//!
//! Text and thoughts leave at once until the first call. From there on everything waits for the end, so that parts keep
//! their order. The end is the end of the body: a reason to finish may come with every piece, and more may follow it.

use super::wire::{
    GeminiCandidate, GeminiChunk, GeminiFile, GeminiFunctionCall, GeminiPart, GeminiPromptFeedback,
    GeminiUsage,
};
use crate::{
    Done, Error, FinishReason, Media, MediaSource, ModelRequest, StreamEvent, StreamFrame, TokenUsage,
    ToolCall, classify, decoding, encoding, tool_names::ToolNames,
};
use serde_json::{Map, Value};

#[derive(Debug)]
pub struct GeminiDecoder {
    provider: String,
    names: ToolNames,
    model: Option<String>,
    tokens: GeminiUsage,
    /// Why the model stopped, once the server has said it.
    finish: Option<FinishReason>,
    /// The first call, and what came after it.
    held: Vec<StreamEvent>,
}

impl GeminiDecoder {
    pub fn new(provider: &str, request: &ModelRequest) -> Self {
        Self {
            provider: provider.to_owned(),
            names: ToolNames::for_request(request),
            model: None,
            tokens: GeminiUsage::default(),
            finish: None,
            held: Vec::new(),
        }
    }

    fn take(&mut self, candidate: GeminiCandidate, out: &mut Vec<StreamEvent>) {
        for part in candidate.content.and_then(|content| content.parts).into_iter().flatten() {
            self.take_part(part, out);
        }
        self.finish = finish(candidate.finish_reason, candidate.finish_message).or(self.finish.take());
    }

    fn take_part(&mut self, part: GeminiPart, out: &mut Vec<StreamEvent>) {
        let signature = part.thought_signature.filter(|signature| !signature.is_empty());
        if let Some(call) = part.function_call {
            let call = called(call, signature, &self.names);
            return self.held.push(StreamEvent::ToolCall(call));
        }
        let noted = part.inline_data.or(part.file_data).map(|file| note(&file));
        let ran = part.executable_code.or(part.code_execution_result);
        let shown = ran.and_then(|ran| ran.code.or(ran.output)).map(|text| format!("\n```\n{text}\n```\n"));
        let text = part.text.or(noted).or(shown).unwrap_or_default();
        if text.is_empty() && signature.is_none() {
            return;
        }
        let piece = if part.thought == Some(true) {
            StreamEvent::thought_delta(text, signature)
        } else {
            StreamEvent::text_delta(text, signature)
        };
        if self.held.is_empty() { out.push(piece) } else { self.held.push(piece) }
    }

    fn error(&self, data: &str) -> Error {
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
        let Ok(chunk) = serde_json::from_str::<GeminiChunk>(frame.data) else {
            return Err(self.error(frame.data));
        };
        if chunk.error.is_some() {
            return Err(self.error(frame.data));
        }
        self.tokens.renew(chunk.usage_metadata.unwrap_or_default());
        self.model = chunk.model_version.or(self.model.take());
        self.finish = chunk.prompt_feedback.and_then(blocked).or(self.finish.take());
        // One answer is asked for; of others nothing is shown.
        let mut candidates = chunk.candidates.into_iter().flatten();
        if let Some(candidate) = candidates.find(|candidate| candidate.index.unwrap_or(0) == 0) {
            self.take(candidate, out);
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        let Some(finish) = self.finish.take() else {
            return Err(Error::Truncated { provider: self.provider.clone() });
        };
        let refused = matches!(finish, FinishReason::Refused { .. });
        out.extend(
            self.held.drain(..).filter(|event| !refused || !matches!(event, StreamEvent::ToolCall(_))),
        );
        out.extend(usage(self.tokens).map(StreamEvent::Usage));
        out.push(StreamEvent::Done(Done { finish, model_version: self.model.take() }));
        Ok(())
    }
}

fn called(call: GeminiFunctionCall, signature: Option<String>, names: &ToolNames) -> ToolCall {
    let (args, malformed) = match call.args {
        None | Some(Value::Null) => (Map::new(), None),
        Some(Value::Object(args)) => (args, None),
        Some(other) => (Map::new(), Some(other.to_string())),
    };
    let (id, name) = (call.id.unwrap_or_default(), names.original_name(&call.name.unwrap_or_default()));
    ToolCall { id, name, args, signature, malformed }
}

/// An answer has no place for files yet: one is named, so that it does not vanish.
fn note(file: &GeminiFile) -> String {
    encoding::media_placeholder(&Media {
        mime_type: file.mime_type.clone().unwrap_or_else(|| "application/octet-stream".to_owned()),
        source: file.file_uri.clone().map_or(MediaSource::Base64(String::new()), MediaSource::Uri),
        name: file.display_name.clone(),
    })
}

/// All but two reasons mean that there is no answer, or not the whole one.
fn finish(reason: Option<String>, message: Option<String>) -> Option<FinishReason> {
    let reason = reason?;
    match reason.as_str() {
        "" | "FINISH_REASON_UNSPECIFIED" => None,
        "STOP" => Some(FinishReason::Stop),
        "MAX_TOKENS" => Some(FinishReason::Length),
        "MALFORMED_FUNCTION_CALL" => {
            Some(refused(reason, message, "the model wrote a call that cannot be read"))
        }
        "UNEXPECTED_TOOL_CALL" => {
            Some(refused(reason, message, "the model called a tool that it was not given"))
        }
        _ => Some(refused(reason, message, "the provider stopped the answer")),
    }
}

fn blocked(feedback: GeminiPromptFeedback) -> Option<FinishReason> {
    let reason = feedback.block_reason.filter(|reason| reason != "BLOCK_REASON_UNSPECIFIED")?;
    Some(refused(
        reason,
        feedback.block_reason_message,
        "the provider does not let the model see this request",
    ))
}

fn refused(code: String, message: Option<String>, otherwise: &str) -> FinishReason {
    let message = message.filter(|message| !message.is_empty()).unwrap_or_else(|| otherwise.to_owned());
    FinishReason::Refused { code, message }
}

fn usage(tokens: GeminiUsage) -> Option<TokenUsage> {
    let count = |tokens: Option<u64>| tokens.unwrap_or_default();
    let usage = TokenUsage {
        input: count(tokens.prompt) + count(tokens.tools),
        cached: count(tokens.cached),
        output: count(tokens.answer),
        reasoning: count(tokens.thoughts),
    };
    (usage != TokenUsage::default()).then_some(usage)
}

#[cfg(test)]
mod tests;
