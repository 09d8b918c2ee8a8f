//! Settings of providers and models that change the body of requests: extra fields, parallel calls, cache keys, capabilities.

use crate::common::{CANARY, REST, TestEnv, api_name, provider};
use insta::assert_snapshot;
use serde_json::{Value, json};
use testkit::{ProviderApi, fakeprov::FakeProvider, legal};

/// A secret in a body.
const TENANT: &str = "tenant-canary-77aa";

fn environment(fake: &FakeProvider, api: ProviderApi, scenario: &str, settings: &str) -> TestEnv {
    let env = TestEnv::new();
    let provider = provider("fake", fake, api, scenario);
    env.file("lango.toml", format!("model = \"fake/m1\"\n{provider}{settings}{REST}"));
    env
}

fn bodies(fake: &FakeProvider) -> Vec<Value> {
    fake.requests().into_iter().map(|request| request.body).filter(|body| !body.is_null()).collect()
}

fn run(env: &TestEnv, args: &[&str]) -> crate::common::CliOutput {
    env.run(env.command(args).env("CANARY", CANARY).env("TENANT", TENANT))
}

#[test]
fn extra_fields_of_provider_and_model_are_in_every_body_and_secrets_in_no_output() {
    for api in ProviderApi::ALL {
        let fake = FakeProvider::start_blocking();
        let group = match api {
            ProviderApi::OpenAi | ProviderApi::Responses | ProviderApi::Anthropic => "metadata",
            ProviderApi::Gemini => "generationConfig",
            ProviderApi::Ollama => "options",
        };
        let settings = format!(
            "extraBody = {{ service_tier = \"flex\", {group} = {{ one = \"${{TENANT}}\", two = 2 }} }}\n[models.\"fake/m1\"]\nextra_body = {{ {group} = {{ two = [3] }} }}\n"
        );
        let env = environment(&fake, api, "two", &settings);
        let output = run(&env, &["run", "--session", "k", "hello"]).success();
        assert!(!output.err.contains(TENANT), "{output:?}");
        let bodies = bodies(&fake);
        assert_eq!(bodies.len(), 2, "{api:?}");
        for body in &bodies {
            assert_eq!(body["service_tier"], "flex", "{api:?}");
            assert_eq!((&body[group]["one"], &body[group]["two"]), (&json!(TENANT), &json!([3])), "{api:?}");
        }
        let stored = std::fs::read(env.database()).unwrap();
        assert!(!stored.windows(TENANT.len()).any(|window| window == TENANT.as_bytes()), "{api:?}");
    }
}

#[test]
fn extra_field_that_cannot_be_set_is_a_configuration_error() {
    let fake = FakeProvider::start_blocking();
    let refused = |settings: &str| {
        let env = environment(&fake, ProviderApi::OpenAi, "text", settings);
        run(&env, &["run", "hello"]).failure().snapshot()
    };
    assert_snapshot!(refused("extraBody = { messages = [] }\n"), @"
    lango: lango.toml: [providers.fake] extraBody must not contain `messages`: the conversation comes from the session
    [exit 1]
    ");
    assert_snapshot!(refused("[models.\"fake/m1\"]\nextraBody = { stream = false }\n"), @r#"
    lango: lango.toml: [models."fake/m1"] extraBody must not contain `stream`: every answer is streamed
    [exit 1]
    "#);
    assert_snapshot!(refused("extraBody = { until = 2026-01-01 }\n"), @"
    lango: lango.toml: [providers.fake] extraBody contains `until`, a date or time without quotes; write it as a string
    [exit 1]
    ");
    assert_snapshot!(refused("extraBody = { a = \"${NOT_SET}\" }\n"), @"
    lango: lango.toml: extraBody of fake contains ${NOT_SET}, which is not set
    [exit 1]
    ");
    assert_snapshot!(refused("[models.\"fake/m1\"]\nextraBody = { a = \"${NOT_SET}\" }\n"), @"
    lango: lango.toml: extraBody of fake/m1 contains ${NOT_SET}, which is not set
    [exit 1]
    ");
    let env = environment(&fake, ProviderApi::OpenAi, "text", "extraBody = { tools = [] }\n");
    assert_snapshot!(run(&env, &["doctor"]).failure().snapshot(), @"
    bad   configuration  lango.toml: [providers.fake] extraBody must not contain `tools`: tools are set with `tools` in the agent's file
    lango: 1 problem found
    [exit 1]
    ");
    assert_eq!(bodies(&fake).len(), 0);
}

#[test]
fn unsupported_extra_field_is_left_out_and_reported() {
    let fake = FakeProvider::start_blocking();
    fake.reject(
        "future",
        testkit::fakeprov::Rejection {
            status: 400,
            message: "Unrecognized request argument supplied: future_field".to_owned(),
            when: Box::new(|body| body.get("future_field").is_some()),
        },
    );
    let env = environment(&fake, ProviderApi::OpenAi, "future", "extraBody = { future_field = 1 }\n");
    assert_snapshot!(run(&env, &["run", "--session", "k", "hello"]).success().snapshot(), @r#"
    Grüß dich 🌍
    fake does not support `future_field`; retrying without it
    (to continue: lango run --session k "…")
    [exit 0]
    "#);
}

#[test]
fn parallel_calls_are_disabled_in_the_formats_that_have_it_and_reported_in_the_others() {
    let agent = "parallelToolCalls = true\n[models.\"fake/m1\"]\nparallel_tool_calls = false\n";
    let mut pictures = Vec::new();
    for api in ProviderApi::ALL {
        let fake = FakeProvider::start_blocking();
        let env = environment(&fake, api, "text", agent);
        let output = run(&env, &["run", "--session", "k", "hello"]).success();
        let body = bodies(&fake).remove(0);
        assert_eq!(legal::check(api, &body), [], "{body:#}");
        let sent = [&body["parallel_tool_calls"], &body["tool_choice"]];
        let warning = output.err.lines().find(|line| line.contains("parallel")).unwrap_or_default();
        pictures.push(format!("{} {sent:?} {warning}", api_name(api)));
    }
    assert_snapshot!(pictures.join("\n"), @r#"
    chat [Bool(false), Null] 
    responses [Bool(false), Null] 
    anthropic [Null, Object {"type": String("auto"), "disable_parallel_tool_use": Bool(true)}] 
    gemini [Null, Null] fake does not support `parallel_tool_calls` for this model; the option is ignored
    ollama [Null, Null] fake does not support `parallel_tool_calls` for this model; the option is ignored
    "#);
}

#[test]
fn cache_key_is_stable_for_a_session_and_contains_no_id() {
    for api in [ProviderApi::OpenAi, ProviderApi::Responses] {
        let fake = FakeProvider::start_blocking();
        let env = environment(&fake, api, "text", "promptCacheKey = true\n");
        for (session, message) in [("k", "one"), ("k", "two"), ("other", "three")] {
            run(&env, &["run", "--session", session, message]).success();
        }
        let keys: Vec<String> =
            bodies(&fake).iter().map(|body| body["prompt_cache_key"].as_str().unwrap().to_owned()).collect();
        assert!(keys[0] == keys[1] && keys[0] != keys[2], "{keys:?}");
        assert!(
            keys.iter().all(|key| key.len() == 32 && key.bytes().all(|b| b.is_ascii_hexdigit())),
            "{keys:?}"
        );
    }
    let fake = FakeProvider::start_blocking();
    let env = environment(&fake, ProviderApi::OpenAi, "text", "");
    run(&env, &["run", "hello"]).success();
    assert_eq!(bodies(&fake)[0].get("prompt_cache_key"), None);
    let env = environment(&fake, ProviderApi::Anthropic, "text", "promptCacheKey = true\n");
    let output = run(&env, &["run", "--session", "k", "hello"]).success();
    assert_snapshot!(output.snapshot(), @r#"
    Grüß dich 🌍
    fake does not support `prompt_cache_key` for this model; the option is ignored
    (to continue: lango run --session k "…")
    [exit 0]
    "#);
}

#[test]
fn capability_that_is_configured_as_missing_is_not_sent() {
    let image = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
    let missing = "[models.\"fake/m1\"]\ncapabilities = { tools = false, images = false, reasoning = false, responseSchema = false }\n[generate]\nresponseSchema = { type = \"object\" }\nthinkingConfig = { thinkingLevel = \"LOW\" }\n";
    for api in ProviderApi::ALL {
        let fake = FakeProvider::start_blocking();
        let env = environment(&fake, api, "text", missing);
        env.file("cat.png", image);
        let output = run(&env, &["run", "--session", "k", "--file", "cat.png", "hello"]).success();
        let body = bodies(&fake).remove(0);
        assert_eq!(legal::check(api, &body), [], "{body:#}");
        let text = body.to_string();
        assert!(!text.contains("iVBORw0KGgo") && body.get("tools").is_none(), "{body:#}");
        assert!(text.contains("fits this JSON Schema") && !text.contains("json_schema"), "{body:#}");
        let reasoning = ["reasoning_effort", "reasoning", "thinking", "thinkingConfig", "think"];
        assert!(reasoning.iter().all(|name| !text.contains(&format!("\"{name}\":"))), "{body:#}");
        if api == ProviderApi::OpenAi {
            assert_snapshot!(output.snapshot(), @r#"
            Grüß dich 🌍
            without tool use, which the model does not support; if it does, set `capabilities` in [models."fake/m1"] of lango.toml
            without images, which the model does not support; if it does, set `capabilities` in [models."fake/m1"] of lango.toml
            without reasoning, which the model does not support; if it does, set `capabilities` in [models."fake/m1"] of lango.toml
            (to continue: lango run --session k "…")
            [exit 0]
            "#);
        }
    }
}

#[test]
fn schema_is_enforced_by_anthropic_if_the_model_is_known_for_it_and_else_an_instruction() {
    let schema =
        "[generate]\nresponseSchema = { type = \"object\", properties = { a = { type = \"string\" } } }\n";
    let enforced = format!("[models.\"fake/m1\"]\ncapabilities = {{ responseSchema = true }}\n{schema}");
    let fake = FakeProvider::start_blocking();
    run(&environment(&fake, ProviderApi::Anthropic, "text", &enforced), &["run", "hello"]).success();
    run(&environment(&fake, ProviderApi::Anthropic, "text", schema), &["run", "hello"]).success();
    fake.reject(
        "old",
        testkit::fakeprov::Rejection {
            status: 400,
            message: "output_config.format: Extra inputs are not permitted".to_owned(),
            when: Box::new(|body| body.pointer("/output_config/format").is_some()),
        },
    );
    let env = environment(&fake, ProviderApi::Anthropic, "old", &enforced);
    assert_snapshot!(run(&env, &["run", "--session", "k", "hello"]).success().snapshot(), @r#"
    Grüß dich 🌍
    fake does not support `output_config.format`; retrying without it
    (to continue: lango run --session k "…")
    [exit 0]
    "#);
    let sent = |body: &Value| {
        (body["output_config"].to_string(), body["system"].to_string().contains("fits this JSON Schema"))
    };
    let sent: Vec<(String, bool)> = bodies(&fake).iter().map(sent).collect();
    let native = r#"{"format":{"type":"json_schema","schema":{"properties":{"a":{"type":"string"}},"type":"object","additionalProperties":false}}}"#.to_owned();
    let instruction = ("null".to_owned(), true);
    assert_eq!(sent, [(native.clone(), false), instruction.clone(), (native, false), instruction]);
}
