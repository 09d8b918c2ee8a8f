//! A fake provider on loopback, and its configuration.

use super::TestEnv;
use testkit::{ProviderApi, fakeprov::FakeProvider};

/// The API key, which must appear in no output.
pub(crate) const CANARY: &str = "sk-canary-4f1d0c7b9e";

/// The name of the wire format in `lango.toml`.
pub(crate) fn api_name(api: ProviderApi) -> &'static str {
    match api {
        ProviderApi::OpenAi => "chat",
        ProviderApi::Responses | ProviderApi::Anthropic | ProviderApi::Gemini | ProviderApi::Ollama => {
            api.name()
        }
    }
}

/// The configuration of a provider that plays a scenario.
pub(crate) fn provider(name: &str, fake: &FakeProvider, api: ProviderApi, scenario: &str) -> String {
    let (url, api) = (fake.url(scenario), api_name(api));
    format!(
        "[providers.{name}]\napi = \"{api}\"\nbase_url = \"{url}\"\nkey = \"${{CANARY}}\"\nidle_timeout_s = 2\n"
    )
}

/// The rest of the configuration: short retry waits, and the tool that the fake calls.
pub(crate) const REST: &str = "
[retry]
attempts = 3
max_wait_s = 0.05
[stubs.get_weather]
parameters = { type = \"object\" }
response = { sky = \"clear\" }
";

impl TestEnv {
    /// An environment whose model is played by the fake.
    pub(crate) fn with_provider(fake: &FakeProvider, api: ProviderApi, scenario: &str) -> Self {
        let env = Self::new();
        let provider = provider("fake", fake, api, scenario);
        env.file("lango.toml", format!("model = \"fake/model-x\"\n{provider}{REST}"));
        env
    }

    pub(crate) fn lango_with_key(&self, args: &[&str]) -> super::CliOutput {
        self.run(self.command(args).env("CANARY", CANARY))
    }
}
