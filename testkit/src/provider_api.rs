//! The APIs of model providers.

/// A provider API that [`legal`](crate::legal) checks and [`fakeprov`](crate::fakeprov) serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProviderApi {
    /// Chat completions, as OpenAI and every compatible server has them.
    OpenAi,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Anthropic,
    Gemini,
    /// Ollama's own.
    Ollama,
}

impl ProviderApi {
    pub const ALL: [Self; 5] = [Self::OpenAi, Self::Responses, Self::Anthropic, Self::Gemini, Self::Ollama];

    pub fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// Where a request for an answer goes, after the base URL. Whatever ends so is served.
    pub fn path(self) -> &'static str {
        match self {
            Self::OpenAi => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Anthropic => "/v1/messages",
            Self::Gemini => "/v1beta/models/gemini-x:streamGenerateContent?alt=sse",
            Self::Ollama => "/api/chat",
        }
    }

    /// Where the models are listed, after the base URL. Anthropic's list is asked for by its `anthropic-version` header.
    pub fn models_path(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Responses | Self::Anthropic => "/v1/models",
            Self::Gemini => "/v1beta/models",
            Self::Ollama => "/api/tags",
        }
    }
}
