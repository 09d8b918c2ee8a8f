//! The list of models, in the format of each API.

use super::ProviderApi;
use serde_json::{Value, json};

pub(super) fn models(api: ProviderApi) -> Value {
    match api {
        ProviderApi::OpenAi | ProviderApi::Responses => {
            let model = |id| json!({"id": id, "object": "model", "created": 1, "owned_by": "fake"});
            json!({"object": "list", "data": [model("gpt-x"), model("gpt-x-mini")]})
        }
        ProviderApi::Anthropic => json!({"data": [
                {"type": "model", "id": "claude-x", "display_name": "Claude X", "created_at": "2026-01-01T00:00:00Z"}],
            "has_more": false, "first_id": "claude-x", "last_id": "claude-x"}),
        ProviderApi::Gemini => json!({"models": [
            {"name": "models/gemini-x", "version": "x", "displayName": "Gemini X", "inputTokenLimit": 1_048_576,
                "outputTokenLimit": 65_536, "supportedGenerationMethods": ["generateContent", "countTokens"]},
            {"name": "models/embedding-x", "version": "x", "displayName": "Embedding X", "inputTokenLimit": 2048,
                "outputTokenLimit": 1, "supportedGenerationMethods": ["embedContent"]}]}),
        ProviderApi::Ollama => json!({"models": [
            {"name": "llama-x:latest", "model": "llama-x:latest", "modified_at": "2026-01-01T00:00:00Z", "size": 1,
                "digest": "0123456789abcdef", "details": {"format": "gguf", "family": "llama", "families": ["llama"],
                    "parameter_size": "1B", "quantization_level": "Q4_0"}}]}),
    }
}
