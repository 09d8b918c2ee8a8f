//! A provider on loopback, and a configuration that leads to it.

use super::Place;
use testkit::{ProviderApi, fakeprov::Fake};

/// The key that is sent, and that must be seen nowhere.
pub(crate) const CANARY: &str = "sk-canary-4f1d0c7b9e";

/// The wire format as `lango.toml` names it.
pub(crate) fn api_name(api: ProviderApi) -> &'static str {
    match api {
        ProviderApi::OpenAi => "chat",
        ProviderApi::Responses | ProviderApi::Anthropic | ProviderApi::Gemini | ProviderApi::Ollama => {
            api.name()
        }
    }
}

/// A provider of that name that plays a scenario.
pub(crate) fn provider(name: &str, fake: &Fake, api: ProviderApi, scenario: &str) -> String {
    let (url, api) = (fake.url(scenario), api_name(api));
    format!(
        "[providers.{name}]\napi = \"{api}\"\nbase_url = \"{url}\"\nkey = \"${{CANARY}}\"\nidle_timeout_s = 2\n"
    )
}

/// What every such configuration needs: waits that nobody waits for, and the tool that the fake calls.
pub(crate) const REST: &str = "
[retry]
attempts = 2
max_wait_s = 0.05
[stubs.get_weather]
parameters = { type = \"object\" }
response = { sky = \"clear\" }
";

impl Place {
    /// A machine whose model is one that the fake plays.
    pub(crate) fn with_provider(fake: &Fake, api: ProviderApi, scenario: &str) -> Self {
        let place = Self::new();
        let provider = provider("fake", fake, api, scenario);
        place.file("lango.toml", format!("model = \"fake/model-x\"\n{provider}{REST}"));
        place
    }

    pub(crate) fn keyed(&self, args: &[&str]) -> super::Said {
        self.said(self.command(args).env("CANARY", CANARY))
    }
}
