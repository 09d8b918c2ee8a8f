//! What files and variables come to, without a network.

use super::*;

fn providers(toml: &str, variables: &[(&str, &str)]) -> Result<Providers, ConfigError> {
    Providers::new(toml::from_str(toml).unwrap(), Path::new("conf/lango.toml"), &Env::of(variables))
}

fn all(toml: &str, variables: &[(&str, &str)]) -> Providers {
    providers(toml, variables).unwrap()
}

#[test]
fn a_key_in_the_environment_is_all_that_is_needed() {
    let all = all("", &[("ANTHROPIC_API_KEY", "k-1"), ("GITHUB_TOKEN", "t")]);
    assert_eq!(all.by_key().as_deref(), Some("anthropic/claude-sonnet-4-5"));
    let configured: Vec<&str> =
        all.iter().filter(|one| one.configured).map(|one| one.name.as_str()).collect();
    assert_eq!(configured, ["anthropic"]);
}

#[test]
fn the_first_provider_with_a_key_is_taken_and_without_any_none_is() {
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
fn another_address_in_the_place_of_openai_speaks_chat_completions() {
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
fn the_host_of_ollama_is_understood_as_ollama_does() {
    let hosts = [
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("box:9000", "http://box:9000"),
        (":9000", "http://127.0.0.1:9000"),
        ("https://box.example/", "https://box.example"),
        ("box", "http://box:11434"),
        ("[::1]", "http://[::1]:11434"),
        ("http://127.0.0.1:11434", "http://127.0.0.1:11434"),
    ];
    for (written, meant) in hosts {
        assert_eq!(all("", &[("OLLAMA_HOST", written)]).get("ollama").unwrap().base_url, meant);
    }
}

#[test]
fn a_key_that_is_not_set_is_told_with_the_fix() {
    let all = all("[mine]\nbase_url = \"http://m\"\nkey = \"${MINE}\"", &[]);
    let told = |name: &str| all.get(name).unwrap().missing_key();
    assert_eq!(told("mine").unwrap(), "the key of mine is ${MINE}, which is not set: set it to the key");
    assert_eq!(
        told("openai").unwrap(),
        "openai needs a key: set OPENAI_API_KEY, or `key` in [providers.openai] of lango.toml"
    );
    assert_eq!(told("ollama"), None);
}

#[test]
fn a_model_leads_to_its_provider() {
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
fn a_provider_without_an_address_is_a_mistake() {
    let told = |toml: &str| providers(toml, &[]).unwrap_err().to_string();
    assert_eq!(
        told("[mine]"),
        "conf/lango.toml: [providers.mine] needs `baseUrl`, the address of the server"
    );
    assert_eq!(
        told("[mine]\nbase_url = \"m:80\""),
        "conf/lango.toml: the address of mine does not begin with http:// or https://"
    );
}

#[test]
fn no_key_is_ever_printed() {
    let toml = "[openai]\nkey = \"canary\"\nheaders = { X = \"${HIDDEN}\" }\norganization = \"canary\"";
    let all = all(toml, &[("HIDDEN", "canary"), ("GEMINI_API_KEY", "canary")]);
    assert!(!format!("{all:?}").contains("canary"));
}

#[test]
fn this_machine_is_known_by_its_address() {
    let here = [
        ("http://127.0.0.1:8080/v1", 8080),
        ("http://localhost", 80),
        ("https://[::1]", 443),
        ("http://u@127.1.2.3:1", 1),
    ];
    for (url, port) in here {
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
    let ports: Vec<_> = all.here().collect();
    assert_eq!(ports, [("ollama", 9000), ("lmstudio", 1234), ("llamacpp", 8080), ("vllm", 8000)]);
}

#[test]
fn opaque_data_is_stamped_with_the_wire_format_where_it_is_not_the_usual_one() {
    let stamp = |toml: &str, name: &str| all(toml, &[]).get(name).unwrap().stamp();
    assert_eq!(stamp("", "openai"), "openai");
    assert_eq!(stamp("[openai]\napi = \"chat\"", "openai"), "openai+chat");
    assert_eq!(stamp("[mine]\nbase_url = \"http://m\"\napi = \"anthropic\"", "mine"), "mine+anthropic");
}
