//! Where servers that speak chat completions differ.

/// What a server takes beside the common ground. [`Dialect::of`] knows the well-known ones by their address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The limit of output tokens is `max_completion_tokens`; most others know only `max_tokens`.
    pub max_completion_tokens: bool,
    /// Schemas are enforced on demand (`strict`), and the answer's must be that of an object. Others take any schema, and
    /// may not know the word.
    pub strict: bool,
    /// The reasoning of a turn that still goes on is sent back with its calls, as `reasoning_content`.
    pub echo_reasoning: bool,
    /// The signature of a call is sent back with it, as `extra_content`.
    pub echo_signatures: bool,
    /// Reasoning that the server gave as `reasoning_details` is sent back as such.
    pub echo_details: bool,
}

impl Dialect {
    pub const OPENAI: Self = Self { max_completion_tokens: true, strict: true, ..Self::COMPATIBLE };

    pub const COMPATIBLE: Self = Self {
        max_completion_tokens: false,
        strict: false,
        echo_reasoning: false,
        echo_signatures: false,
        echo_details: false,
    };

    /// The dialect of the server at this address.
    pub fn of(base_url: &str) -> Self {
        let host = host(base_url);
        let is = |domains: &[&str]| {
            domains.iter().any(|domain| {
                host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            })
        };
        Self {
            echo_reasoning: is(&["deepseek.com", "moonshot.ai", "moonshot.cn", "z.ai", "bigmodel.cn"]),
            echo_signatures: is(&["generativelanguage.googleapis.com"]),
            echo_details: is(&["openrouter.ai"]),
            ..if is(&["openai.com", "openai.azure.com"]) { Self::OPENAI } else { Self::COMPATIBLE }
        }
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
        assert_eq!(Dialect::of("https://api.openai.com/v1"), Dialect::OPENAI);
        assert_eq!(Dialect::of("https://me.openai.azure.com:443/openai/v1"), Dialect::OPENAI);
        assert!(Dialect::of("https://api.DeepSeek.com").echo_reasoning);
        assert!(Dialect::of("https://generativelanguage.googleapis.com/v1beta/openai/").echo_signatures);
        assert!(Dialect::of("https://openrouter.ai/api/v1").echo_details);
        for other in ["http://127.0.0.1:8080/v1", "https://notopenai.com", "https://x.org/openai.com", ""] {
            assert_eq!(Dialect::of(other), Dialect::COMPATIBLE, "{other}");
        }
    }
}
