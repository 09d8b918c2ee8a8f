//! Known providers: their base URL, wire format and the variables of their API keys.

use super::providers::ApiName;

/// The defaults of a known provider.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) api: ApiName,
    pub(super) url: &'static str,
    /// Variables that may hold the key; the first that is set is used.
    pub(super) keys: &'static [&'static str],
    /// The conventional variable that overrides the base URL, if there is one.
    pub(super) url_variable: Option<&'static str>,
    /// The default model. `None` for servers on this machine, whose models are not known in advance.
    pub(super) model: Option<&'static str>,
    /// Whether a set key selects the provider. `false` if the variable is often set for other purposes.
    pub(super) chosen_by_key: bool,
}

impl Known {
    const fn chat(
        name: &'static str,
        url: &'static str,
        keys: &'static [&'static str],
        model: &'static str,
    ) -> Self {
        let (api, model) = (ApiName::Chat, Some(model));
        Self { name, api, url, keys, url_variable: None, model, chosen_by_key: true }
    }

    const fn here(name: &'static str, api: ApiName, url: &'static str) -> Self {
        Self { name, api, url, keys: &[], url_variable: None, model: None, chosen_by_key: false }
    }

    pub(super) fn is_local(&self) -> bool {
        self.model.is_none()
    }
}

/// The known providers, in the order of precedence if no model is configured.
pub(super) const KNOWN: &[Known] = &[
    Known {
        api: ApiName::Responses,
        url_variable: Some("OPENAI_BASE_URL"),
        ..Known::chat("openai", "https://api.openai.com/v1", &["OPENAI_API_KEY"], "gpt-5-mini")
    },
    Known {
        api: ApiName::Anthropic,
        url_variable: Some("ANTHROPIC_BASE_URL"),
        ..Known::chat("anthropic", "https://api.anthropic.com", &["ANTHROPIC_API_KEY"], "claude-sonnet-4-5")
    },
    Known {
        api: ApiName::Gemini,
        ..Known::chat(
            "gemini",
            "https://generativelanguage.googleapis.com/v1beta",
            &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
            "gemini-2.5-flash",
        )
    },
    Known::chat("openrouter", "https://openrouter.ai/api/v1", &["OPENROUTER_API_KEY"], "openrouter/auto"),
    Known::chat("deepseek", "https://api.deepseek.com/v1", &["DEEPSEEK_API_KEY"], "deepseek-chat"),
    Known::chat("groq", "https://api.groq.com/openai/v1", &["GROQ_API_KEY"], "llama-3.3-70b-versatile"),
    Known::chat("mistral", "https://api.mistral.ai/v1", &["MISTRAL_API_KEY"], "mistral-small-latest"),
    Known {
        chosen_by_key: false,
        ..Known::chat(
            "github",
            "https://models.github.ai/inference",
            &["GITHUB_TOKEN"],
            "openai/gpt-4.1-mini",
        )
    },
    Known {
        url_variable: Some("OLLAMA_HOST"),
        ..Known::here("ollama", ApiName::Ollama, "http://127.0.0.1:11434")
    },
    Known::here("lmstudio", ApiName::Chat, "http://127.0.0.1:1234/v1"),
    Known::here("llamacpp", ApiName::Chat, "http://127.0.0.1:8080/v1"),
    Known::here("vllm", ApiName::Chat, "http://127.0.0.1:8000/v1"),
];

/// The base URL of a known provider, and the variables that may hold its key.
pub(crate) fn known_endpoint(name: &str) -> Option<(&'static str, &'static [&'static str])> {
    KNOWN.iter().find(|known| known.name == name).map(|known| (known.url, known.keys))
}

/// The provider that the name of a model implies.
pub(super) fn provider_of(model: &str) -> Option<&'static str> {
    let reasoning = |name: &str| {
        let digits =
            name.strip_prefix('o').map_or(0, |rest| rest.bytes().take_while(u8::is_ascii_digit).count());
        digits > 0 && matches!(name.as_bytes().get(digits + 1), None | Some(b'-'))
    };
    match model {
        _ if model.starts_with("gpt-") || model.starts_with("chatgpt-") || reasoning(model) => Some("openai"),
        _ if model.starts_with("claude-") => Some("anthropic"),
        _ if model.starts_with("gemini-") => Some("gemini"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_model_names_imply_their_provider() {
        let known = [
            ("gpt-5-mini", Some("openai")),
            ("o3", Some("openai")),
            ("o4-mini", Some("openai")),
            ("claude-sonnet-4-5", Some("anthropic")),
            ("gemini-2.5-flash", Some("gemini")),
            ("olmo", None),
            ("o", None),
            ("o3x", None),
            ("llama3", None),
        ];
        for (model, provider) in known {
            assert_eq!(provider_of(model), provider, "{model}");
        }
    }
}
