//! The base URL of a wire format, and the paths below it.

use crate::WireApi;
use reqwest::Url;

/// A validated base URL. Users write it with or without a trailing slash and version, or with the full path of the
/// call.
pub(crate) struct BaseUrl {
    base: Url,
    api: WireApi,
}

impl BaseUrl {
    /// The error does not quote the text, which may contain a key.
    pub(crate) fn parse(api: WireApi, text: &str) -> Result<Self, String> {
        let mut base = Url::parse(text.trim()).ok().filter(is_http_url).ok_or(NOT_HTTP)?;
        if !base.username().is_empty() || base.password().is_some() {
            return Err("base_url contains a user name; put credentials into the key or a header".to_owned());
        }
        base.set_fragment(None);
        let path = prefix(api, base.path().trim_end_matches('/'));
        base.set_path(&path);
        Ok(Self { base, api })
    }

    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// The URL of a model call.
    pub(crate) fn call_url(&self, model: &str) -> Url {
        match self.api {
            WireApi::Chat | WireApi::Responses | WireApi::Anthropic | WireApi::Ollama => {
                self.join(call_path(self.api))
            }
            WireApi::Gemini => {
                let model = if model.contains('/') { model.to_owned() } else { format!("models/{model}") };
                let mut url = self.join(&format!("/{model}:streamGenerateContent"));
                url.query_pairs_mut().append_pair("alt", "sse");
                url
            }
        }
    }

    /// The URL that lists all models on one page.
    pub(crate) fn models_url(&self) -> Url {
        let (path, page) = match self.api {
            WireApi::Chat | WireApi::Responses => ("/models", None),
            WireApi::Anthropic => ("/models", Some(("limit", "1000"))),
            WireApi::Gemini => ("/models", Some(("pageSize", "1000"))),
            WireApi::Ollama => ("/api/tags", None),
        };
        let mut url = self.join(path);
        if let Some((name, value)) = page {
            url.query_pairs_mut().append_pair(name, value);
        }
        url
    }

    fn join(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url
    }
}

const NOT_HTTP: &str = "base_url is not a URL that begins with http:// or https://";

fn is_http_url(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.host_str().is_some_and(|host| !host.is_empty())
}

fn call_path(api: WireApi) -> &'static str {
    match api {
        WireApi::Chat => "/chat/completions",
        WireApi::Responses => "/responses",
        WireApi::Anthropic => "/messages",
        WireApi::Ollama => "/api/chat",
        // The path contains the model.
        WireApi::Gemini => "",
    }
}

/// The common path prefix. A full call path determines the prefix exactly, with or without a version.
fn prefix(api: WireApi, path: &str) -> String {
    if let Some(root) = path.strip_suffix(call_path(api)).filter(|root| *root != path) {
        return root.to_owned();
    }
    match api {
        WireApi::Chat | WireApi::Responses if path.is_empty() => "/v1".to_owned(),
        WireApi::Gemini if path.is_empty() => "/v1beta".to_owned(),
        WireApi::Anthropic if !path.ends_with("/v1") => format!("{path}/v1"),
        // `/v1` is where Ollama serves Chat Completions; its native API is next to it.
        WireApi::Ollama => path.trim_end_matches("/v1").trim_end_matches("/api").to_owned(),
        WireApi::Chat | WireApi::Responses | WireApi::Gemini | WireApi::Anthropic => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call_url(api: WireApi, base: &str) -> String {
        BaseUrl::parse(api, base).map_or_else(|error| error, |address| address.call_url("m").to_string())
    }

    #[test]
    fn base_url_may_omit_or_include_slash_version_and_call_path() {
        for base in
            ["https://h", "https://h/", "https://h/v1", " https://h/v1/ ", "https://h/v1/chat/completions"]
        {
            assert_eq!(call_url(WireApi::Chat, base), "https://h/v1/chat/completions", "{base}");
        }
        for base in ["https://h", "https://h/v1/", "https://h/v1/responses"] {
            assert_eq!(call_url(WireApi::Responses, base), "https://h/v1/responses", "{base}");
        }
        for base in ["https://h", "https://h/v1", "https://h/v1/messages"] {
            assert_eq!(call_url(WireApi::Anthropic, base), "https://h/v1/messages", "{base}");
        }
        for base in ["https://h", "https://h/v1beta/"] {
            assert_eq!(
                call_url(WireApi::Gemini, base),
                "https://h/v1beta/models/m:streamGenerateContent?alt=sse",
                "{base}"
            );
        }
        for base in ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/api", "http://h:1/api/chat"] {
            assert_eq!(call_url(WireApi::Ollama, base), "http://h:1/api/chat", "{base}");
        }
    }

    #[test]
    fn custom_path_and_query_are_preserved() {
        assert_eq!(call_url(WireApi::Chat, "https://h/inference"), "https://h/inference/chat/completions");
        assert_eq!(call_url(WireApi::Chat, "https://h/chat/completions"), "https://h/chat/completions");
        assert_eq!(call_url(WireApi::Anthropic, "https://h/anthropic"), "https://h/anthropic/v1/messages");
        assert_eq!(call_url(WireApi::Ollama, "https://h/gpu/"), "https://h/gpu/api/chat");
        assert_eq!(
            call_url(WireApi::Chat, "https://h/openai/deployments/d?api-version=7"),
            "https://h/openai/deployments/d/chat/completions?api-version=7"
        );
    }

    #[test]
    fn gemini_call_path_contains_the_escaped_model_name() {
        let address = BaseUrl::parse(WireApi::Gemini, "https://h").unwrap();
        let call_url = |model: &str| address.call_url(model).path().to_owned();
        assert_eq!(call_url("models/m"), "/v1beta/models/m:streamGenerateContent");
        assert_eq!(call_url("tunedModels/my m?"), "/v1beta/tunedModels/my%20m%3F:streamGenerateContent");
    }

    #[test]
    fn models_url_is_derived_from_the_base_url() {
        let models_url = |api, base| BaseUrl::parse(api, base).unwrap().models_url().to_string();
        assert_eq!(models_url(WireApi::Chat, "https://h/v1"), "https://h/v1/models");
        assert_eq!(models_url(WireApi::Anthropic, "https://h"), "https://h/v1/models?limit=1000");
        assert_eq!(models_url(WireApi::Gemini, "https://h"), "https://h/v1beta/models?pageSize=1000");
        assert_eq!(models_url(WireApi::Ollama, "http://h:1/v1"), "http://h:1/api/tags");
    }

    #[test]
    fn invalid_base_url_is_not_quoted_in_the_error() {
        let error_of = |base: &str| BaseUrl::parse(WireApi::Chat, base).err().unwrap();
        for base in ["", "sk-canary", "h/v1?key=sk-canary", "ftp://sk-canary", "http://", "https://sk canary"]
        {
            assert_eq!(error_of(base), NOT_HTTP, "{base}");
        }
        let user = "base_url contains a user name; put credentials into the key or a header";
        assert_eq!(error_of("https://me:canary@h"), user);
    }
}
