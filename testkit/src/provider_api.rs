//! The APIs of model providers.

/// A provider API that [`legal`](crate::legal) checks and [`fakeprov`](crate::fakeprov) serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProviderApi {
    /// Chat completions of OpenAI and compatible servers.
    OpenAi,
    /// OpenAI's Responses API.
    Responses,
    /// Anthropic's Messages API.
    Anthropic,
    Gemini,
    /// Ollama's `/api/chat`.
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

    /// The path of a generation request, relative to the base URL. The fake server matches its suffix.
    pub fn path(self) -> &'static str {
        match self {
            Self::OpenAi => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Anthropic => "/v1/messages",
            Self::Gemini => "/v1beta/models/gemini-x:streamGenerateContent?alt=sse",
            Self::Ollama => "/api/chat",
        }
    }

    /// The path of the model list, relative to the base URL. The `anthropic-version` header selects Anthropic's list.
    pub fn models_path(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Responses | Self::Anthropic => "/v1/models",
            Self::Gemini => "/v1beta/models",
            Self::Ollama => "/api/tags",
        }
    }
}
