//! The models that a server offers.

use crate::Api;
use serde_json::Value;

/// A model as its server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    pub id: String,
    /// How many tokens it can be shown, where the server says so.
    pub context: Option<u32>,
}

/// The list in a body; nothing, if the body is no such list.
pub(super) fn models(api: Api, body: &Value) -> Option<Vec<ModelInfo>> {
    let (list, id, contexts): (_, _, &[&str]) = match api {
        Api::Chat | Api::Responses => (
            "data",
            "id",
            &["/context_length", "/max_model_len", "/max_context_length", "/meta/n_ctx", "/meta/n_ctx_train"],
        ),
        Api::Anthropic => ("data", "id", &["/max_input_tokens"]),
        Api::Gemini => ("models", "name", &["/inputTokenLimit"]),
        Api::Ollama => ("models", "name", &[]),
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

    fn shape(api: Api, body: &Value) -> String {
        let line = |model: &ModelInfo| format!("{} {:?}", model.id, model.context);
        models(api, body)
            .map_or("no list".to_owned(), |all| all.iter().map(line).collect::<Vec<_>>().join(", "))
    }

    #[test]
    fn each_server_lists_its_models_in_its_own_way() {
        let openai = json!({"object": "list", "data": [{"id": "gpt"}, {"id": "a/b", "context_length": 8192}, {"object": "?"}]});
        assert_eq!(shape(Api::Chat, &openai), "gpt None, a/b Some(8192)");
        let llama = json!({"models": [{"name": "other"}], "data": [{"id": "smol", "meta": {"n_ctx": 4096, "n_ctx_train": 9999}}]});
        assert_eq!(shape(Api::Responses, &llama), "smol Some(4096)");
        let anthropic = json!({"data": [{"type": "model", "id": "claude"}], "has_more": false});
        assert_eq!(shape(Api::Anthropic, &anthropic), "claude None");
        let gemini = json!({"models": [
            {"name": "models/gemini", "inputTokenLimit": 1_048_576, "supportedGenerationMethods": ["generateContent"]},
            {"name": "models/embed", "supportedGenerationMethods": ["embedContent"]},
        ]});
        assert_eq!(shape(Api::Gemini, &gemini), "gemini Some(1048576)");
        let ollama = json!({"models": [{"name": "qwen:latest", "size": 5}]});
        assert_eq!(shape(Api::Ollama, &ollama), "qwen:latest None");
    }

    #[test]
    fn a_body_without_a_list_is_no_list() {
        for body in [json!({}), json!([]), json!({"data": {}}), json!("data")] {
            assert_eq!(shape(Api::Chat, &body), "no list", "{body}");
        }
        assert_eq!(shape(Api::Chat, &json!({"data": []})), "");
    }
}
