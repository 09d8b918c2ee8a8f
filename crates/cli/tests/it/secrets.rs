//! An API key is sent to its provider and appears nowhere else.

use crate::common::{CANARY, CliOutput, REST, TestEnv, api_name, provider};
use std::{fs, path::Path};
use testkit::{ProviderApi, fakeprov::FakeProvider};

/// Checks that the key is in no output and in no file.
#[track_caller]
fn assert_hidden(env: &TestEnv, output: &CliOutput, when: &str) {
    assert!(!output.out.contains(CANARY) && !output.err.contains(CANARY), "{when}: {output:?}");
    for file in files(&env.home()) {
        let bytes = fs::read(&file).unwrap();
        let found = bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
        assert!(!found, "{when}: the key is in {}", file.display());
    }
}

fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn api_key_appears_in_no_output_and_no_file() {
    let fake = FakeProvider::start_blocking();
    for api in ProviderApi::ALL {
        for scenario in ["two", "auth401", "echokey", "echokey200", "html", "redirect", "bad400"] {
            let env = TestEnv::with_provider(&fake, api, scenario);
            for args in
                [&["run", "--session", "k", "hello"][..], &["run", "--json", "--session", "k", "hello"]]
            {
                let output = env.lango_with_key(args);
                assert_hidden(&env, &output, &format!("{scenario} in {}: {args:?}", api_name(api)));
            }
            let output = env.lango_with_key(&["sessions", "show", "k", "--json"]);
            assert_hidden(&env, &output, &format!("{scenario} in {}, stored", api_name(api)));
        }
    }
    let sent = fake
        .requests()
        .iter()
        .filter(|request| request.headers.iter().any(|(_, value)| value.contains(CANARY)))
        .count();
    assert!(sent > 70, "the key was sent: {sent}");
    let elsewhere = fake.requests().into_iter().filter(|request| request.path.contains(CANARY));
    assert_eq!(elsewhere.count(), 0, "the key is in no URL");
}

#[test]
fn redirects_are_not_followed_with_an_api_key() {
    let fake = FakeProvider::start_blocking();
    for api in ProviderApi::ALL {
        TestEnv::with_provider(&fake, api, "redirect").lango_with_key(&["run", "hello"]).failure();
    }
    let followed = fake.requests().into_iter().filter(|request| !request.path.contains("/s/redirect"));
    assert_eq!(followed.count(), 0);
}

#[test]
fn errors_about_base_urls_contain_no_api_key() {
    let fake = FakeProvider::start_blocking();
    let here = fake.url("ok");
    for url in [
        "http://127.0.0.1:9/v1".to_owned(),
        format!("http://user:{CANARY}@127.0.0.1:9/v1"),
        format!("http://127.0.0.1:9/v1?key={CANARY}"),
        format!("{here}/nowhere/{CANARY}"),
        format!("ftp://{CANARY}"),
        format!("http://{CANARY} is no host"),
        format!("http://[{CANARY}"),
    ] {
        let env = TestEnv::new();
        let toml = format!(
            "model = \"fake/model-x\"\n[providers.fake]\nbase_url = \"{url}\"\nkey = \"{CANARY}\"\n{REST}"
        );
        env.file("lango.toml", toml);
        for args in
            [&["run", "--session", "k", "hello"][..], &["run", "--json", "hello"], &["models"], &["doctor"]]
        {
            let output = env.lango_with_key(args);
            assert!(!output.err.contains("panicked"), "{output:?}");
            assert_hidden(&env, &output, &format!("{url}: {args:?}"));
        }
    }
}

#[test]
fn api_key_echoed_by_a_model_list_is_masked() {
    let fake = FakeProvider::start_blocking();
    for api in ProviderApi::ALL {
        let env = TestEnv::with_provider(&fake, api, "echokey");
        for args in [&["models"][..], &["models", "--json"], &["doctor"], &["doctor", "--json"]] {
            let output = env.lango_with_key(args);
            assert_hidden(&env, &output, &format!("{args:?} in {}", api_name(api)));
        }
    }
}

#[test]
fn provider_header_value_is_masked() {
    let fake = FakeProvider::start_blocking();
    let env = TestEnv::new();
    let headers = "headers = { \"X-Team\" = \"${CANARY}\" }\n";
    let provider =
        provider("fake", &fake, ProviderApi::OpenAi, "echokey").replace("key =", &format!("{headers}key ="));
    env.file("lango.toml", format!("model = \"fake/model-x\"\n{provider}{REST}"));
    assert_hidden(&env, &env.lango_with_key(&["run", "hello"]).failure(), "a header");
    assert_eq!(fake.requests()[0].header("x-team"), Some(CANARY));
}
