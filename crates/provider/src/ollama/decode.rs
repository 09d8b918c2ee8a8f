//! Decodes a response of Ollama's API, one JSON document per line. Calls arrive complete; only the line with `done`
//! ends the response.

use crate::{
    Done, Error, FinishReason, ModelRequest, StreamEvent, StreamFrame, TokenUsage, ToolCall, classify,
    decoding, lenient, tool_names::ToolNames,
};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug)]
pub struct OllamaDecoder {
    provider: String,
    names: ToolNames,
    calls: Vec<ToolCall>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OllamaLine {
    error: Value,
    #[serde(deserialize_with = "lenient::text")]
    model: Option<String>,
    #[serde(deserialize_with = "lenient::needed::object")]
    message: Option<OllamaMessage>,
    /// The text of the generate API.
    #[serde(deserialize_with = "lenient::text")]
    response: Option<String>,
    #[serde(deserialize_with = "lenient::flag")]
    done: bool,
    #[serde(deserialize_with = "lenient::text")]
    done_reason: Option<String>,
    #[serde(deserialize_with = "lenient::count")]
    prompt_eval_count: Option<u64>,
    #[serde(deserialize_with = "lenient::count")]
    eval_count: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OllamaMessage {
    #[serde(deserialize_with = "lenient::needed::text")]
    content: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    thinking: Option<String>,
    #[serde(deserialize_with = "lenient::needed::list")]
    tool_calls: Option<Vec<OllamaToolCall>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OllamaToolCall {
    #[serde(deserialize_with = "lenient::text")]
    id: Option<String>,
    #[serde(deserialize_with = "lenient::needed::object")]
    function: Option<OllamaFunction>,
    /// The fields of the function, of servers that do not nest them.
    #[serde(deserialize_with = "lenient::text")]
    name: Option<String>,
    arguments: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OllamaFunction {
    #[serde(deserialize_with = "lenient::needed::text")]
    name: Option<String>,
    arguments: Value,
}

impl OllamaDecoder {
    pub fn new(provider: &str, request: &ModelRequest) -> Self {
        Self { provider: provider.to_owned(), names: ToolNames::for_request(request), calls: Vec::new() }
    }

    fn read_message(&mut self, message: OllamaMessage, out: &mut Vec<StreamEvent>) {
        let non_empty = |text: Option<String>| text.filter(|text| !text.is_empty());
        out.extend(non_empty(message.thinking).map(|text| StreamEvent::thought_delta(text, None)));
        out.extend(non_empty(message.content).map(StreamEvent::text));
        for OllamaToolCall { id, function, name, arguments } in message.tool_calls.into_iter().flatten() {
            let function = function.unwrap_or(OllamaFunction { name, arguments });
            let name = self.names.original_name(&function.name.unwrap_or_default());
            self.calls.push(decoding::tool_call(id.unwrap_or_default(), name, function.arguments));
        }
    }
}

impl crate::StreamDecoder for OllamaDecoder {
    fn read(&mut self, frame: StreamFrame<'_>, out: &mut Vec<StreamEvent>) -> Result<(), Error> {
        if decoding::is_empty_frame(frame.data) {
            return Ok(());
        }
        // Gateways send the lines as server-sent events.
        let data = frame.data.trim_start();
        let data = data.strip_prefix("data:").unwrap_or(data);
        decoding::expect_object(&self.provider, data)?;
        let line: OllamaLine = decoding::parse_frame(&self.provider, data)?;
        if !line.error.is_null()
            && let Some(error) = classify::error_in_json(&self.provider, None, &json!({"error": line.error}))
        {
            return Err(error);
        }
        let message =
            line.message.unwrap_or(OllamaMessage { content: line.response, ..OllamaMessage::default() });
        self.read_message(message, out);
        if !line.done {
            return Ok(());
        }
        let finish = if line.done_reason.as_deref() == Some("length") {
            FinishReason::Length
        } else {
            FinishReason::Stop
        };
        out.extend(self.calls.drain(..).map(StreamEvent::ToolCall));
        if line.prompt_eval_count.is_some() || line.eval_count.is_some() {
            // Reasoning has no separate count.
            let (input, output) =
                (line.prompt_eval_count.unwrap_or_default(), line.eval_count.unwrap_or_default());
            out.push(StreamEvent::Usage(TokenUsage { input, output, ..TokenUsage::default() }));
        }
        out.push(StreamEvent::Done(Done::new(finish, line.model)));
        Ok(())
    }

    fn end(&mut self, _: &mut Vec<StreamEvent>) -> Result<(), Error> {
        Err(Error::Truncated { provider: self.provider.clone() })
    }
}

#[cfg(test)]
mod tests;
