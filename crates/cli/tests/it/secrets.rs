//! A key is sent to its provider and seen nowhere else, whatever goes wrong.

use crate::common::{CANARY, Place, REST, Said, api_name, provider};
use std::{fs, path::Path};
use testkit::{ProviderApi, fakeprov::Fake};

/// No byte of the key in what was said, and none in what was stored.
#[track_caller]
fn assert_hidden(place: &Place, said: &Said, when: &str) {
    assert!(!said.out.contains(CANARY) && !said.err.contains(CANARY), "{when}: {said:?}");
    for file in files(&place.home()) {
        let bytes = fs::read(&file).unwrap();
        let found = bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
        assert!(!found, "{when}: it stands in {}", file.display());
    }
}

fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn a_key_is_in_no_output_and_no_file_whatever_the_server_does() {
    let fake = Fake::start_blocking();
    for api in ProviderApi::ALL {
        for scenario in ["two", "auth401", "echokey", "echokey200", "html", "redirect", "bad400"] {
            let place = Place::with_provider(&fake, api, scenario);
            for args in
                [&["run", "--session", "k", "hello"][..], &["run", "--json", "--session", "k", "hello"]]
            {
                let said = place.keyed(args);
                assert_hidden(&place, &said, &format!("{scenario} in {}: {args:?}", api_name(api)));
            }
            let said = place.keyed(&["sessions", "show", "k", "--json"]);
            assert_hidden(&place, &said, &format!("{scenario} in {}, stored", api_name(api)));
        }
    }
    let sent = fake
        .requests()
        .iter()
        .filter(|request| request.headers.iter().any(|(_, value)| value.contains(CANARY)))
        .count();
    assert!(sent > 70, "the key was sent: {sent}");
    let elsewhere = fake.requests().into_iter().filter(|request| request.path.contains(CANARY));
    assert_eq!(elsewhere.count(), 0, "the key is in no address");
}

#[test]
fn a_key_does_not_follow_a_redirect() {
    let fake = Fake::start_blocking();
    for api in ProviderApi::ALL {
        Place::with_provider(&fake, api, "redirect").keyed(&["run", "hello"]).badly();
    }
    let followed = fake.requests().into_iter().filter(|request| !request.path.contains("/s/redirect"));
    assert_eq!(followed.count(), 0);
}

#[test]
fn a_wrong_address_shows_no_key_either() {
    let fake = Fake::start_blocking();
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
        let place = Place::new();
        let toml = format!(
            "model = \"fake/model-x\"\n[providers.fake]\nbase_url = \"{url}\"\nkey = \"{CANARY}\"\n{REST}"
        );
        place.file("lango.toml", toml);
        for args in
            [&["run", "--session", "k", "hello"][..], &["run", "--json", "hello"], &["models"], &["doctor"]]
        {
            let said = place.keyed(args);
            assert!(!said.err.contains("panicked"), "{said:?}");
            assert_hidden(&place, &said, &format!("{url}: {args:?}"));
        }
    }
}

#[test]
fn what_a_server_echoes_to_a_list_of_models_is_hidden_too() {
    let fake = Fake::start_blocking();
    for api in ProviderApi::ALL {
        let place = Place::with_provider(&fake, api, "echokey");
        for args in [&["models"][..], &["models", "--json"], &["doctor"], &["doctor", "--json"]] {
            let said = place.keyed(args);
            assert_hidden(&place, &said, &format!("{args:?} in {}", api_name(api)));
        }
    }
}

#[test]
fn a_header_is_as_secret_as_a_key() {
    let fake = Fake::start_blocking();
    let place = Place::new();
    let headers = "headers = { \"X-Team\" = \"${CANARY}\" }\n";
    let provider =
        provider("fake", &fake, ProviderApi::OpenAi, "echokey").replace("key =", &format!("{headers}key ="));
    place.file("lango.toml", format!("model = \"fake/model-x\"\n{provider}{REST}"));
    assert_hidden(&place, &place.keyed(&["run", "hello"]).badly(), "a header");
    assert_eq!(fake.requests()[0].header("x-team"), Some(CANARY));
}
