//! Differences between servers that implement Chat Completions.

/// Capabilities of a server beyond the common subset. [`Dialect::for_base_url`] knows the well-known servers by host
/// name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The output limit is called `max_completion_tokens`; most servers know only `max_tokens`.
    pub max_completion_tokens: bool,
    /// Schemas can be enforced with `strict`, and the answer's schema must be an object. Other servers accept any
    /// schema but may not know `strict`.
    pub strict: bool,
    /// Requests may name their prompt cache.
    pub prompt_cache_key: bool,
    pub echo: ReasoningEcho,
}

/// The reasoning that a server requires back in later requests. Other servers reject it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningEcho {
    Nothing,
    /// The reasoning of the current turn, together with its calls, as `reasoning_content`.
    Reasoning,
    /// The signatures of calls, as `extra_content`.
    Signatures,
    /// Reasoning in the form it arrived, as `reasoning_details`.
    Details,
}

impl Dialect {
    pub const OPENAI: Self = Self {
        max_completion_tokens: true,
        strict: true,
        prompt_cache_key: true,
        echo: ReasoningEcho::Nothing,
    };

    pub const COMPATIBLE: Self = Self {
        max_completion_tokens: false,
        strict: false,
        prompt_cache_key: false,
        echo: ReasoningEcho::Nothing,
    };

    /// The dialect of the server at this URL.
    pub fn for_base_url(base_url: &str) -> Self {
        let host = host(base_url);
        let is = |domains: &[&str]| {
            domains.iter().any(|domain| {
                host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            })
        };
        let echo = if is(&["deepseek.com", "moonshot.ai", "moonshot.cn", "z.ai", "bigmodel.cn"]) {
            ReasoningEcho::Reasoning
        } else if is(&["generativelanguage.googleapis.com"]) {
            ReasoningEcho::Signatures
        } else if is(&["openrouter.ai"]) {
            ReasoningEcho::Details
        } else {
            ReasoningEcho::Nothing
        };
        let base = if is(&["openai.com", "openai.azure.com"]) { Self::OPENAI } else { Self::COMPATIBLE };
        Self { echo, prompt_cache_key: is(&["openai.com"]), ..base }
    }
}

impl Default for Dialect {
    fn default() -> Self {
        Self::OPENAI
    }
}

fn host(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    host.split(':').next().unwrap_or_default().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialect_is_selected_by_host_name() {
        assert_eq!(Dialect::for_base_url("https://api.openai.com/v1"), Dialect::OPENAI);
        let azure = Dialect { prompt_cache_key: false, ..Dialect::OPENAI };
        assert_eq!(Dialect::for_base_url("https://me.openai.azure.com:443/openai/v1"), azure);
        assert_eq!(Dialect::for_base_url("https://api.DeepSeek.com").echo, ReasoningEcho::Reasoning);
        assert_eq!(
            Dialect::for_base_url("https://generativelanguage.googleapis.com/v1beta/openai/").echo,
            ReasoningEcho::Signatures
        );
        assert_eq!(Dialect::for_base_url("https://openrouter.ai/api/v1").echo, ReasoningEcho::Details);
        for other in ["http://127.0.0.1:8080/v1", "https://notopenai.com", "https://x.org/openai.com", ""] {
            assert_eq!(Dialect::for_base_url(other), Dialect::COMPATIBLE, "{other}");
        }
    }
}
