//! Where servers that speak chat completions differ.

/// What a server takes beside the common ground. [`Dialect::for_base_url`] knows the well-known ones by their address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The limit of output tokens is `max_completion_tokens`; most others know only `max_tokens`.
    pub max_completion_tokens: bool,
    /// Schemas are enforced on demand (`strict`), and the answer's must be that of an object. Others take any schema, and
    /// may not know the word.
    pub strict: bool,
    pub echo: ReasoningEcho,
}

/// What a server wants to be shown again of an answer, beside its text and calls. Others refuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningEcho {
    Nothing,
    /// The reasoning of a turn that still goes on, with its calls: `reasoning_content`.
    Reasoning,
    /// The signatures of calls: `extra_content`.
    Signatures,
    /// Reasoning in the form that it came in: `reasoning_details`.
    Details,
}

impl Dialect {
    pub const OPENAI: Self = Self { max_completion_tokens: true, strict: true, echo: ReasoningEcho::Nothing };

    pub const COMPATIBLE: Self =
        Self { max_completion_tokens: false, strict: false, echo: ReasoningEcho::Nothing };

    /// The dialect of the server at this address.
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
        Self { echo, ..base }
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
    fn a_server_is_known_by_its_host() {
        assert_eq!(Dialect::for_base_url("https://api.openai.com/v1"), Dialect::OPENAI);
        assert_eq!(Dialect::for_base_url("https://me.openai.azure.com:443/openai/v1"), Dialect::OPENAI);
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
