//! `lango models`, and the default model.

use crate::common::{CANARY, REST, TestEnv, api_name, provider};
use insta::assert_snapshot;
use testkit::{ProviderApi, fakeprov::FakeProvider};

/// An environment with a provider for each wire format.
fn five(fake: &FakeProvider, scenario: &str) -> TestEnv {
    let env = TestEnv::new();
    let providers: String =
        ProviderApi::ALL.iter().map(|api| provider(api_name(*api), fake, *api, scenario)).collect();
    env.file("lango.toml", format!("{providers}{REST}"));
    env
}

#[test]
fn models_lists_the_models_of_each_provider() {
    let fake = FakeProvider::start_blocking();
    assert_snapshot!(five(&fake, "ok").lango_with_key(&["models"]).success().snapshot(), @"
    anthropic answers (anthropic) and offers 1 model
      anthropic/claude-x
    gemini answers (gemini) and offers 1 model
      gemini/gemini-x  context 1048576 tokens
    ollama answers (ollama) and offers 1 model
      ollama/llama-x:latest
    chat answers (chat) and offers 2 models
      chat/gpt-x
      chat/gpt-x-mini
    responses answers (responses) and offers 2 models
      responses/gpt-x
      responses/gpt-x-mini
    demo is always available, and scripted/FILE replays a script
    [exit 0]
    ");
}

#[test]
fn models_json_lists_one_provider_per_line() {
    let fake = FakeProvider::start_blocking();
    let env = five(&fake, "ok");
    assert_snapshot!(env.lango_with_key(&["models", "--json"]).success().out, @r#"
    {"provider":"anthropic","api":"anthropic","answers":true,"models":[{"id":"claude-x","context":null}],"problem":null}
    {"provider":"gemini","api":"gemini","answers":true,"models":[{"id":"gemini-x","context":1048576}],"problem":null}
    {"provider":"ollama","api":"ollama","answers":true,"models":[{"id":"llama-x:latest","context":null}],"problem":null}
    {"provider":"chat","api":"chat","answers":true,"models":[{"id":"gpt-x","context":null},{"id":"gpt-x-mini","context":null}],"problem":null}
    {"provider":"responses","api":"responses","answers":true,"models":[{"id":"gpt-x","context":null},{"id":"gpt-x-mini","context":null}],"problem":null}
    "#);
}

#[test]
fn models_reports_unreachable_providers_with_the_fix() {
    let env = TestEnv::new();
    env.file(
        "lango.toml",
        "
        [providers.mine]
        base_url = \"http://127.0.0.1:9\"
        [providers.team]
        base_url = \"http://127.0.0.1:9\"
        key = \"${TEAM_KEY}\"
        [providers.openai]
    ",
    );
    assert_snapshot!(env.lango(&["models"]).success().snapshot(), @"
    openai needs a key: set OPENAI_API_KEY, or `key` in [providers.openai] of lango.toml
    mine is temporarily unavailable: cannot connect to http://127.0.0.1:9: Connection refused; start the server, or set its address as `baseUrl` in [providers.mine]
    the key of team is ${TEAM_KEY}, which is not set: set it to the key
    demo is always available, and scripted/FILE replays a script
    [exit 0]
    ");
    assert_snapshot!(env.lango(&["models", "mien"]).failure().snapshot(), @r#"
    lango: there is no provider "mien"; the providers are openai, anthropic, gemini, openrouter, deepseek, groq, mistral, github, ollama, lmstudio, llamacpp, vllm, mine, team
    [exit 1]
    "#);
}

#[test]
fn models_without_providers_explains_how_to_configure_one() {
    assert_snapshot!(TestEnv::new().lango(&["models"]).success().snapshot(), @"
    demo is always available, and scripted/FILE replays a script
    no provider is configured: set a key such as OPENAI_API_KEY, or start a model server on this machine
    [exit 0]
    ");
}

#[test]
fn models_can_be_limited_to_one_provider() {
    let fake = FakeProvider::start_blocking();
    let output = five(&fake, "ok").lango_with_key(&["models", "gemini", "--all"]).success();
    assert_snapshot!(output.snapshot(), @"
    gemini answers (gemini) and offers 1 model
      gemini/gemini-x  context 1048576 tokens
    [exit 0]
    ");
}

#[test]
fn local_model_server_is_discovered_without_model_and_key() {
    let fake = FakeProvider::start_blocking();
    let env = TestEnv::new();
    let at = |port: u16, extra: Option<(&str, &str)>| {
        let mut command = env.command(["run", "hello"]);
        command.env("LANGO_DISCOVER", "true").env("OLLAMA_HOST", format!("127.0.0.1:{port}")).envs(extra);
        env.run(&mut command)
    };
    // `OLLAMA_HOST` has no path for a scenario, so the fake plays `ok`.
    let output = at(fake.port(), None).success();
    assert!(
        output.err.starts_with(
            "(no model is chosen and no key is set; ollama/llama-x:latest was found on this machine)\n"
        ),
        "{output:?}"
    );
    assert_eq!(output.out, "Grüß dich 🌍\nGrüß dich 🌍\n");
    fake.clear();
    let output = at(fake.port(), Some(("LANGO_MODEL", "demo"))).success();
    assert!(output.out.contains("demo"), "{output:?}");
    assert!(fake.requests().is_empty(), "no discovery if a model is configured");
}

#[test]
fn environment_key_selects_the_default_model() {
    let fake = FakeProvider::start_blocking();
    let env = TestEnv::new();
    let mut command = env.command(["run", "hello"]);
    command.env("OPENAI_API_KEY", CANARY).env("OPENAI_BASE_URL", fake.url("text"));
    assert_eq!(env.run(&mut command).success().out, "Grüß dich 🌍\n");
    let request = &fake.requests()[0];
    assert_eq!(request.body["model"], "gpt-5-mini");
    assert_eq!(request.header("authorization"), Some(format!("Bearer {CANARY}").as_str()));
    let mut command = env.command(["run", "hello"]);
    command.env("ANTHROPIC_API_KEY", CANARY).env("ANTHROPIC_BASE_URL", fake.url("text"));
    assert_eq!(env.run(&mut command).success().out, "Grüß dich 🌍\n");
    assert_eq!(fake.requests()[1].header("x-api-key"), Some(CANARY));
}

#[test]
fn generation_settings_merge_command_agent_and_file() {
    let fake = FakeProvider::start_blocking();
    let env = TestEnv::new();
    let provider = provider("one", &fake, ProviderApi::Gemini, "text");
    let generate = "[generate]\ntemperature = 0.5\nmax_output_tokens = 100\ncandidateCount = 3\n";
    env.file("lango.toml", format!("model = \"one/m\"\n{provider}{generate}{REST}"));
    env.file(
        "agents/a/root_agent.yaml",
        "
name: a
generate_content_config:
  temperature: 0.25
  thinking_config: {thinking_budget: 128}
  tool_config: {function_calling_config: {mode: NONE}}
",
    );
    let output = env.lango_with_key(&["run", "hello"]).success();
    assert_snapshot!(output.snapshot().replace(session(&output.err), "ID"), @r#"
    Grüß dich 🌍
    these settings have no effect: candidateCount
    (to continue: lango run --session ID "…")
    [exit 0]
    "#);
    assert_snapshot!(serde_json::to_string_pretty(&fake.requests()[0].body["generationConfig"]).unwrap(), @r#"
    {
      "temperature": 0.25,
      "maxOutputTokens": 100,
      "thinkingConfig": {
        "thinkingBudget": 128,
        "includeThoughts": true
      }
    }
    "#);
    env.lango_with_key(&["run", "--reasoning", "high", "hello"]).success();
    let thinking = fake.requests()[1].body["generationConfig"]["thinkingConfig"].to_string();
    assert_snapshot!(thinking, @r#"{"thinkingBudget":24576,"includeThoughts":true}"#);
}

/// The generated session id in the notice of `lango run`.
fn session(stderr: &str) -> &str {
    stderr.split("--session ").nth(1).unwrap().split(' ').next().unwrap()
}

/// The output limits in the bodies that each wire format gets for this model.
#[test]
fn output_limit_is_sent_only_where_the_format_requires_one() {
    let fake = FakeProvider::start_blocking();
    for api in ProviderApi::ALL {
        let env = TestEnv::new();
        let provider = provider("fake", &fake, api, "text");
        env.file("lango.toml", format!("model = \"fake/claude-sonnet-4-5\"\n{provider}{REST}"));
        env.lango_with_key(&["run", "hello"]).success();
    }
    let limits: Vec<String> = fake
        .requests()
        .iter()
        .map(|request| {
            let text = request.body.to_string();
            let names = [
                "max_tokens",
                "max_completion_tokens",
                "max_output_tokens",
                "maxOutputTokens",
                "num_predict",
            ];
            let sent = names.iter().filter(|name| text.contains(&format!("\"{name}\"")));
            let sent: Vec<String> = sent.map(|name| format!("{name} {}", request.body[name])).collect();
            let sent = if sent.is_empty() { "none".to_owned() } else { sent.join(" ") };
            format!("{}: {sent}", request.api.unwrap().name())
        })
        .collect();
    assert_snapshot!(limits.join("\n"), @"
    openai: none
    responses: none
    anthropic: max_tokens 64000
    gemini: none
    ollama: none
    ");
}
