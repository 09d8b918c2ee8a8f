//! Parsing of model lists.

use crate::WireApi;
use serde_json::Value;

/// A model in a server's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    pub id: String,
    /// The context window in tokens, if the server reports it.
    pub context: Option<u32>,
}

/// Parses a list; `None` if the body is not one.
pub(super) fn parse_models(api: WireApi, body: &Value) -> Option<Vec<ModelInfo>> {
    let (list, id, contexts): (_, _, &[&str]) = match api {
        WireApi::Chat | WireApi::Responses => (
            "data",
            "id",
            &["/context_length", "/max_model_len", "/max_context_length", "/meta/n_ctx", "/meta/n_ctx_train"],
        ),
        WireApi::Anthropic => ("data", "id", &["/max_input_tokens"]),
        WireApi::Gemini => ("models", "name", &["/inputTokenLimit"]),
        WireApi::Ollama => ("models", "name", &[]),
    };
    let parse = |model: &Value| {
        let id = model.get(id)?.as_str()?;
        let context =
            contexts.iter().find_map(|pointer| u32::try_from(model.pointer(pointer)?.as_u64()?).ok());
        Some(ModelInfo { id: id.strip_prefix("models/").unwrap_or(id).to_owned(), context })
    };
    Some(body.get(list)?.as_array()?.iter().filter(|model| generates_text(model)).filter_map(parse).collect())
}

/// Gemini also lists embedding and image models, with the methods of each.
fn generates_text(model: &Value) -> bool {
    let methods = model.get("supportedGenerationMethods").and_then(Value::as_array);
    methods.is_none_or(|methods| methods.iter().any(|method| method == "generateContent"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shape(api: WireApi, body: &Value) -> String {
        let line = |model: &ModelInfo| format!("{} {:?}", model.id, model.context);
        parse_models(api, body)
            .map_or("no list".to_owned(), |all| all.iter().map(line).collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn model_lists_of_all_formats_are_parsed() {
        let openai = json!({"object": "list", "data": [{"id": "gpt"}, {"id": "a/b", "context_length": 8192}, {"object": "?"}]});
        assert_eq!(shape(WireApi::Chat, &openai), "gpt None, a/b Some(8192)");
        let llama = json!({"models": [{"name": "other"}], "data": [{"id": "smol", "meta": {"n_ctx": 4096, "n_ctx_train": 9999}}]});
        assert_eq!(shape(WireApi::Responses, &llama), "smol Some(4096)");
        let anthropic = json!({"data": [{"type": "model", "id": "claude"}], "has_more": false});
        assert_eq!(shape(WireApi::Anthropic, &anthropic), "claude None");
        let gemini = json!({"models": [
            {"name": "models/gemini", "inputTokenLimit": 1_048_576, "supportedGenerationMethods": ["generateContent"]},
            {"name": "models/embed", "supportedGenerationMethods": ["embedContent"]},
        ]});
        assert_eq!(shape(WireApi::Gemini, &gemini), "gemini Some(1048576)");
        let ollama = json!({"models": [{"name": "qwen:latest", "size": 5}]});
        assert_eq!(shape(WireApi::Ollama, &ollama), "qwen:latest None");
    }

    #[test]
    fn body_without_a_model_list_yields_none() {
        for body in [json!({}), json!([]), json!({"data": {}}), json!("data")] {
            assert_eq!(shape(WireApi::Chat, &body), "no list", "{body}");
        }
        assert_eq!(shape(WireApi::Chat, &json!({"data": []})), "");
    }
}
