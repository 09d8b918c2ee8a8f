//! Resolution of providers from files and variables.

use super::*;

fn providers(toml: &str, variables: &[(&str, &str)]) -> Result<Providers, ConfigError> {
    Providers::new(toml::from_str(toml).unwrap(), Path::new("conf/lango.toml"), &Env::of(variables))
}

fn all(toml: &str, variables: &[(&str, &str)]) -> Providers {
    providers(toml, variables).unwrap()
}

#[test]
fn environment_key_alone_configures_a_provider() {
    let all = all("", &[("ANTHROPIC_API_KEY", "k-1"), ("GITHUB_TOKEN", "t")]);
    assert_eq!(all.by_key().as_deref(), Some("anthropic/claude-sonnet-4-5"));
    let configured: Vec<&str> =
        all.iter().filter(|one| one.configured).map(|one| one.name.as_str()).collect();
    assert_eq!(configured, ["anthropic"]);
}

#[test]
fn default_provider_is_the_first_with_a_key() {
    let both = [("GOOGLE_API_KEY", "g"), ("OPENAI_API_KEY", "o")];
    assert_eq!(all("", &both).by_key().as_deref(), Some("openai/gpt-5-mini"));
    assert_eq!(all("", &both[..1]).by_key().as_deref(), Some("gemini/gemini-2.5-flash"));
    assert_eq!(all("", &[("GITHUB_TOKEN", "t")]).by_key(), None);
    assert_eq!(
        all("[github]\nkey = \"${GITHUB_TOKEN}\"", &[("GITHUB_TOKEN", "t")]).by_key().as_deref(),
        Some("github/openai/gpt-4.1-mini")
    );
    assert_eq!(all("", &[]).by_key(), None);
}

#[test]
fn openai_at_another_base_url_defaults_to_chat_completions() {
    let of = |toml: &str, variables: &[(&str, &str)]| {
        let all = all(toml, variables);
        let openai = all.get("openai").unwrap();
        (openai.api, openai.base_url.clone())
    };
    let own = "https://api.openai.com/v1".to_owned();
    assert_eq!(of("", &[]), (ApiName::Responses, own.clone()));
    assert_eq!(of("[openai]\napi = \"chat\"", &[]), (ApiName::Chat, own));
    let other = ("OPENAI_BASE_URL", "http://a/v1/");
    assert_eq!(of("", &[other]), (ApiName::Chat, "http://a/v1".to_owned()));
    let file = "[openai]\nbase_url = \"http://b/v1\"\n";
    assert_eq!(of(file, &[other]), (ApiName::Chat, "http://b/v1".to_owned()));
    let both = format!("{file}api = \"responses\"");
    assert_eq!(of(&both, &[]), (ApiName::Responses, "http://b/v1".to_owned()));
}

#[test]
fn ollama_host_is_parsed_as_ollama_parses_it() {
    let hosts = [
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:9000", "http://127.0.0.1:9000"),
        ("http://0.0.0.0:9000/v1?a=0.0.0.0", "http://127.0.0.1:9000/v1?a=0.0.0.0"),
        ("http://me:0.0.0.0@0.0.0.0", "http://me:0.0.0.0@127.0.0.1"),
        ("10.0.0.0", "http://10.0.0.0:11434"),
        ("http://10.0.0.0:80/0.0.0.0", "http://10.0.0.0:80/0.0.0.0"),
        ("0.0.0.0.example", "http://0.0.0.0.example:11434"),
        ("box:9000", "http://box:9000"),
        (":9000", "http://127.0.0.1:9000"),
        ("https://box.example/", "https://box.example"),
        ("box", "http://box:11434"),
        ("[::1]", "http://[::1]:11434"),
        ("http://127.0.0.1:11434", "http://127.0.0.1:11434"),
    ];
    for (written, url) in hosts {
        assert_eq!(all("", &[("OLLAMA_HOST", written)]).get("ollama").unwrap().base_url, url);
    }
}

#[test]
fn missing_api_key_error_names_the_fix() {
    let all = all("[mine]\nbase_url = \"http://m\"\nkey = \"${MINE}\"", &[]);
    let error = |name: &str| all.get(name).unwrap().missing_key();
    assert_eq!(error("mine").unwrap(), "the key of mine is ${MINE}, which is not set: set it to the key");
    assert_eq!(
        error("openai").unwrap(),
        "openai needs a key: set OPENAI_API_KEY, or `key` in [providers.openai] of lango.toml"
    );
    assert_eq!(error("ollama"), None);
}

#[test]
fn model_name_resolves_to_its_provider() {
    let all = all("[mine]\nbase_url = \"http://m\"", &[]);
    let split = |name: &str| all.split(name).map(|(provider, model)| format!("{} {model}", provider.name));
    assert_eq!(split("openai/gpt-x").as_deref(), Some("openai gpt-x"));
    assert_eq!(split("openrouter/meta/llama").as_deref(), Some("openrouter meta/llama"));
    assert_eq!(split("mine/any").as_deref(), Some("mine any"));
    assert_eq!(split("claude-x").as_deref(), Some("anthropic claude-x"));
    assert_eq!(split("anthropic").as_deref(), Some("anthropic claude-sonnet-4-5"));
    assert_eq!(split("ollama").as_deref(), Some("ollama "));
    assert_eq!(split("nobody/x"), None);
    assert_eq!(split("llama3"), None);
}

#[test]
fn provider_without_a_valid_base_url_is_rejected() {
    let error = |toml: &str| providers(toml, &[]).unwrap_err().to_string();
    assert_eq!(
        error("[mine]"),
        "conf/lango.toml: [providers.mine] needs `baseUrl`, the address of the server"
    );
    assert_eq!(
        error("[mine]\nbase_url = \"m:80\""),
        "conf/lango.toml: the address of mine does not begin with http:// or https://"
    );
}

#[test]
fn debug_output_contains_no_api_key() {
    let toml = "[openai]\nkey = \"canary\"\nheaders = { X = \"${HIDDEN}\" }\norganization = \"canary\"";
    let all = all(toml, &[("HIDDEN", "canary"), ("GEMINI_API_KEY", "canary")]);
    assert!(!format!("{all:?}").contains("canary"));
}

#[test]
fn loopback_port_accepts_loopback_hosts_only() {
    let loopback = [
        ("http://127.0.0.1:8080/v1", 8080),
        ("http://localhost", 80),
        ("https://[::1]", 443),
        ("http://u@127.1.2.3:1", 1),
    ];
    for (url, port) in loopback {
        assert_eq!(loopback_port(url), Some(port), "{url}");
    }
    for elsewhere in [
        "https://127.0.0.1.example/v1",
        "http://localhost.example",
        "http://[fe80::1]:1",
        "http://127.0.0.1@box",
    ] {
        assert_eq!(loopback_port(elsewhere), None, "{elsewhere}");
    }
    let all = all("", &[("OLLAMA_HOST", "127.0.0.1:9000")]);
    let ports: Vec<_> = all.local().collect();
    assert_eq!(ports, [("ollama", 9000), ("lmstudio", 1234), ("llamacpp", 8080), ("vllm", 8000)]);
}

#[test]
fn stamp_includes_a_non_default_wire_format() {
    let stamp = |toml: &str, name: &str| all(toml, &[]).get(name).unwrap().stamp();
    assert_eq!(stamp("", "openai"), "openai");
    assert_eq!(stamp("[openai]\napi = \"chat\"", "openai"), "openai+chat");
    assert_eq!(stamp("[mine]\nbase_url = \"http://m\"\napi = \"anthropic\"", "mine"), "mine+anthropic");
}
