//! The models that a server offers.

use crate::WireApi;
use serde_json::Value;

/// A model as its server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    pub id: String,
    /// How many tokens it can be shown, where the server says so.
    pub context: Option<u32>,
}

/// The list in a body; nothing, if the body is no such list.
pub(super) fn models(api: WireApi, body: &Value) -> Option<Vec<ModelInfo>> {
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
    let read = |model: &Value| {
        let id = model.get(id)?.as_str()?;
        let context = contexts.iter().find_map(|place| u32::try_from(model.pointer(place)?.as_u64()?).ok());
        Some(ModelInfo { id: id.strip_prefix("models/").unwrap_or(id).to_owned(), context })
    };
    Some(body.get(list)?.as_array()?.iter().filter(|model| answers(model)).filter_map(read).collect())
}

/// Gemini lists models that make vectors and pictures too, and says what each can do.
fn answers(model: &Value) -> bool {
    let methods = model.get("supportedGenerationMethods").and_then(Value::as_array);
    methods.is_none_or(|methods| methods.iter().any(|method| method == "generateContent"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shape(api: WireApi, body: &Value) -> String {
        let line = |model: &ModelInfo| format!("{} {:?}", model.id, model.context);
        models(api, body)
            .map_or("no list".to_owned(), |all| all.iter().map(line).collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn each_server_lists_its_models_in_its_own_way() {
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
    fn a_body_without_a_list_is_no_list() {
        for body in [json!({}), json!([]), json!({"data": {}}), json!("data")] {
            assert_eq!(shape(WireApi::Chat, &body), "no list", "{body}");
        }
        assert_eq!(shape(WireApi::Chat, &json!({"data": []})), "");
    }
}
