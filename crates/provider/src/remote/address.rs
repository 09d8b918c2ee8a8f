//! Where a wire format is spoken: the address that people write, and the paths below it.

use crate::WireApi;
use reqwest::Url;

/// A base URL that was checked. People write it with or without its last slash and version, or with the whole path.
pub(crate) struct BaseUrl {
    base: Url,
    api: WireApi,
}

impl BaseUrl {
    /// The text itself is not repeated in the complaint: it may hold a key.
    pub(crate) fn parse(api: WireApi, text: &str) -> Result<Self, String> {
        let mut base = Url::parse(text.trim()).ok().filter(is_web).ok_or(NOT_WEB)?;
        if !base.username().is_empty() || base.password().is_some() {
            return Err("base_url names a user; credentials belong into the key or into a header".to_owned());
        }
        base.set_fragment(None);
        let path = root(api, base.path().trim_end_matches('/'));
        base.set_path(&path);
        Ok(Self { base, api })
    }

    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// Where a model is asked.
    pub(crate) fn ask(&self, model: &str) -> Url {
        match self.api {
            WireApi::Chat | WireApi::Responses | WireApi::Anthropic | WireApi::Ollama => {
                self.below(ask_path(self.api))
            }
            WireApi::Gemini => {
                let model = if model.contains('/') { model.to_owned() } else { format!("models/{model}") };
                let mut url = self.below(&format!("/{model}:streamGenerateContent"));
                url.query_pairs_mut().append_pair("alt", "sse");
                url
            }
        }
    }

    /// Where the models are listed, all of them on one page.
    pub(crate) fn list(&self) -> Url {
        let (path, page) = match self.api {
            WireApi::Chat | WireApi::Responses => ("/models", None),
            WireApi::Anthropic => ("/models", Some(("limit", "1000"))),
            WireApi::Gemini => ("/models", Some(("pageSize", "1000"))),
            WireApi::Ollama => ("/api/tags", None),
        };
        let mut url = self.below(path);
        if let Some((name, value)) = page {
            url.query_pairs_mut().append_pair(name, value);
        }
        url
    }

    fn below(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url
    }
}

const NOT_WEB: &str = "base_url is not an address that begins with http:// or https://";

fn is_web(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.host_str().is_some_and(|host| !host.is_empty())
}

fn ask_path(api: WireApi) -> &'static str {
    match api {
        WireApi::Chat => "/chat/completions",
        WireApi::Responses => "/responses",
        WireApi::Anthropic => "/messages",
        WireApi::Ollama => "/api/chat",
        // Its path has the model in it.
        WireApi::Gemini => "",
    }
}

/// The path that all others begin with. Who writes the whole path has said where the version is, or that there is none.
fn root(api: WireApi, path: &str) -> String {
    if let Some(root) = path.strip_suffix(ask_path(api)).filter(|root| *root != path) {
        return root.to_owned();
    }
    match api {
        WireApi::Chat | WireApi::Responses if path.is_empty() => "/v1".to_owned(),
        WireApi::Gemini if path.is_empty() => "/v1beta".to_owned(),
        WireApi::Anthropic if !path.ends_with("/v1") => format!("{path}/v1"),
        // Ollama speaks chat completions there, and its own format beside it.
        WireApi::Ollama => path.trim_end_matches("/v1").trim_end_matches("/api").to_owned(),
        WireApi::Chat | WireApi::Responses | WireApi::Gemini | WireApi::Anthropic => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(api: WireApi, base: &str) -> String {
        BaseUrl::parse(api, base).map_or_else(|error| error, |address| address.ask("m").to_string())
    }

    #[test]
    fn a_base_is_written_with_or_without_its_slash_its_version_and_its_path() {
        for base in
            ["https://h", "https://h/", "https://h/v1", " https://h/v1/ ", "https://h/v1/chat/completions"]
        {
            assert_eq!(ask(WireApi::Chat, base), "https://h/v1/chat/completions", "{base}");
        }
        for base in ["https://h", "https://h/v1/", "https://h/v1/responses"] {
            assert_eq!(ask(WireApi::Responses, base), "https://h/v1/responses", "{base}");
        }
        for base in ["https://h", "https://h/v1", "https://h/v1/messages"] {
            assert_eq!(ask(WireApi::Anthropic, base), "https://h/v1/messages", "{base}");
        }
        for base in ["https://h", "https://h/v1beta/"] {
            assert_eq!(
                ask(WireApi::Gemini, base),
                "https://h/v1beta/models/m:streamGenerateContent?alt=sse",
                "{base}"
            );
        }
        for base in ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/api", "http://h:1/api/chat"] {
            assert_eq!(ask(WireApi::Ollama, base), "http://h:1/api/chat", "{base}");
        }
    }

    #[test]
    fn a_path_of_its_own_stays() {
        assert_eq!(ask(WireApi::Chat, "https://h/inference"), "https://h/inference/chat/completions");
        assert_eq!(ask(WireApi::Chat, "https://h/chat/completions"), "https://h/chat/completions");
        assert_eq!(ask(WireApi::Anthropic, "https://h/anthropic"), "https://h/anthropic/v1/messages");
        assert_eq!(ask(WireApi::Ollama, "https://h/gpu/"), "https://h/gpu/api/chat");
        assert_eq!(
            ask(WireApi::Chat, "https://h/openai/deployments/d?api-version=7"),
            "https://h/openai/deployments/d/chat/completions?api-version=7"
        );
    }

    #[test]
    fn a_models_name_is_part_of_geminis_path() {
        let address = BaseUrl::parse(WireApi::Gemini, "https://h").unwrap();
        let ask = |model: &str| address.ask(model).path().to_owned();
        assert_eq!(ask("models/m"), "/v1beta/models/m:streamGenerateContent");
        assert_eq!(ask("tunedModels/my m?"), "/v1beta/tunedModels/my%20m%3F:streamGenerateContent");
    }

    #[test]
    fn models_are_listed_beside() {
        let list = |api, base| BaseUrl::parse(api, base).unwrap().list().to_string();
        assert_eq!(list(WireApi::Chat, "https://h/v1"), "https://h/v1/models");
        assert_eq!(list(WireApi::Anthropic, "https://h"), "https://h/v1/models?limit=1000");
        assert_eq!(list(WireApi::Gemini, "https://h"), "https://h/v1beta/models?pageSize=1000");
        assert_eq!(list(WireApi::Ollama, "http://h:1/v1"), "http://h:1/api/tags");
    }

    #[test]
    fn what_is_no_address_is_told_without_repeating_it() {
        let wrong = |base: &str| BaseUrl::parse(WireApi::Chat, base).err().unwrap();
        for base in ["", "sk-canary", "h/v1?key=sk-canary", "ftp://sk-canary", "http://", "https://sk canary"]
        {
            assert_eq!(wrong(base), NOT_WEB, "{base}");
        }
        let user = "base_url names a user; credentials belong into the key or into a header";
        assert_eq!(wrong("https://me:canary@h"), user);
    }
}
