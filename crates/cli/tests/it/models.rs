//! `lango models`, and which model is taken if none is chosen.

use crate::common::{CANARY, Place, REST, api_name, provider};
use insta::assert_snapshot;
use testkit::{ProviderApi, fakeprov::Fake};

/// A machine with a provider of each wire format.
fn five(fake: &Fake, scenario: &str) -> Place {
    let place = Place::new();
    let providers: String =
        ProviderApi::ALL.iter().map(|api| provider(api_name(*api), fake, *api, scenario)).collect();
    place.file("lango.toml", format!("{providers}{REST}"));
    place
}

#[test]
fn each_provider_says_what_it_offers() {
    let fake = Fake::start_blocking();
    assert_snapshot!(five(&fake, "ok").keyed(&["models"]).well().picture(), @"
    anthropic answers (anthropic) and offers 1 model
      anthropic/claude-x
    gemini answers (gemini) and offers 1 model
      gemini/gemini-x  holds 1048576 tokens
    ollama answers (ollama) and offers 1 model
      ollama/llama-x:latest
    chat answers (chat) and offers 2 models
      chat/gpt-x
      chat/gpt-x-mini
    responses answers (responses) and offers 2 models
      responses/gpt-x
      responses/gpt-x-mini
    demo is always there, and scripted/FILE replays a script
    [exit 0]
    ");
}

#[test]
fn programs_are_told_the_same() {
    let fake = Fake::start_blocking();
    let place = five(&fake, "ok");
    assert_snapshot!(place.keyed(&["models", "--json"]).well().out, @r#"
    {"provider":"anthropic","api":"anthropic","answers":true,"models":[{"id":"claude-x","context":null}],"problem":null}
    {"provider":"gemini","api":"gemini","answers":true,"models":[{"id":"gemini-x","context":1048576}],"problem":null}
    {"provider":"ollama","api":"ollama","answers":true,"models":[{"id":"llama-x:latest","context":null}],"problem":null}
    {"provider":"chat","api":"chat","answers":true,"models":[{"id":"gpt-x","context":null},{"id":"gpt-x-mini","context":null}],"problem":null}
    {"provider":"responses","api":"responses","answers":true,"models":[{"id":"gpt-x","context":null},{"id":"gpt-x-mini","context":null}],"problem":null}
    "#);
}

#[test]
fn a_provider_that_does_not_answer_is_told_with_the_fix() {
    let place = Place::new();
    place.file(
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
    assert_snapshot!(place.lango(&["models"]).well().picture(), @"
    openai needs a key: set OPENAI_API_KEY, or `key` in [providers.openai] of lango.toml
    mine is temporarily unavailable: cannot connect to http://127.0.0.1:9: Connection refused; start the server, or set its address as `baseUrl` in [providers.mine]
    the key of team is ${TEAM_KEY}, which is not set: set it to the key
    demo is always there, and scripted/FILE replays a script
    [exit 0]
    ");
    assert_snapshot!(place.lango(&["models", "mien"]).badly().picture(), @r#"
    lango: there is no provider "mien"; there is openai, anthropic, gemini, openrouter, deepseek, groq, mistral, github, ollama, lmstudio, llamacpp, vllm, mine, team
    [exit 1]
    "#);
}

#[test]
fn a_fresh_machine_is_told_how_to_get_one() {
    assert_snapshot!(Place::new().lango(&["models"]).well().picture(), @"
    demo is always there, and scripted/FILE replays a script
    no provider is configured: set a key such as OPENAI_API_KEY, or start a model server here
    [exit 0]
    ");
}

#[test]
fn one_provider_can_be_asked_alone() {
    let fake = Fake::start_blocking();
    let said = five(&fake, "ok").keyed(&["models", "gemini", "--all"]).well();
    assert_snapshot!(said.picture(), @"
    gemini answers (gemini) and offers 1 model
      gemini/gemini-x  holds 1048576 tokens
    [exit 0]
    ");
}

#[test]
fn a_model_server_on_this_machine_is_found_if_no_model_is_chosen_and_no_key_is_set() {
    let fake = Fake::start_blocking();
    let place = Place::new();
    let at = |port: u16, extra: Option<(&str, &str)>| {
        let mut command = place.command(["run", "hello"]);
        command.env("LANGO_DISCOVER", "true").env("OLLAMA_HOST", format!("127.0.0.1:{port}")).envs(extra);
        place.said(&mut command)
    };
    // The path of a scenario cannot be given by a host, and without one the fake plays `ok`.
    let said = at(fake.port(), None).well();
    assert!(
        said.err.starts_with(
            "(no model is chosen and no key is set; ollama/llama-x:latest was found on this machine)\n"
        ),
        "{said:?}"
    );
    assert_eq!(said.out, "Grüß dich 🌍\nGrüß dich 🌍\n");
    fake.clear();
    let said = at(fake.port(), Some(("LANGO_MODEL", "demo"))).well();
    assert!(said.out.contains("demo"), "{said:?}");
    assert!(fake.requests().is_empty(), "nobody looks for a model where one is chosen");
}

#[test]
fn a_key_in_the_environment_chooses_the_model() {
    let fake = Fake::start_blocking();
    let place = Place::new();
    let mut command = place.command(["run", "hello"]);
    command.env("OPENAI_API_KEY", CANARY).env("OPENAI_BASE_URL", fake.url("text"));
    assert_eq!(place.said(&mut command).well().out, "Grüß dich 🌍\n");
    let request = &fake.requests()[0];
    assert_eq!(request.body["model"], "gpt-5-mini");
    assert_eq!(request.header("authorization"), Some(format!("Bearer {CANARY}").as_str()));
    let mut command = place.command(["run", "hello"]);
    command.env("ANTHROPIC_API_KEY", CANARY).env("ANTHROPIC_BASE_URL", fake.url("text"));
    assert_eq!(place.said(&mut command).well().out, "Grüß dich 🌍\n");
    assert_eq!(fake.requests()[1].header("x-api-key"), Some(CANARY));
}

#[test]
fn settings_reach_the_provider_from_the_agent_the_file_and_the_command() {
    let fake = Fake::start_blocking();
    let place = Place::new();
    let provider = provider("one", &fake, ProviderApi::Gemini, "text");
    let generate = "[generate]\ntemperature = 0.5\nmax_output_tokens = 100\ntopK = 3\n";
    place.file("lango.toml", format!("model = \"one/m\"\n{provider}{generate}{REST}"));
    place.file(
        "agents/a/root_agent.yaml",
        "
name: a
generate_content_config:
  temperature: 0.25
  thinking_config: {thinking_budget: 128}
  tool_config: {function_calling_config: {mode: NONE}}
",
    );
    let said = place.keyed(&["run", "hello"]).well();
    assert_snapshot!(said.picture().replace(session(&said.err), "ID"), @r#"
    Grüß dich 🌍
    these settings have no effect: topK
    (lango run --session ID "…" goes on from here)
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
    place.keyed(&["run", "--reasoning", "high", "hello"]).well();
    let thinking = fake.requests()[1].body["generationConfig"]["thinkingConfig"].to_string();
    assert_snapshot!(thinking, @r#"{"thinkingBudget":24576,"includeThoughts":true}"#);
}

/// The id of a session that was made up.
fn session(told: &str) -> &str {
    told.split("--session ").nth(1).unwrap().split(' ').next().unwrap()
}
