//! Servers that are reached by HTTP, through a `lango serve` that outlives them.

use super::{answers, by_word, web::Web};
use crate::{
    common::{CANARY, Place},
    serve::client::Served,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A server of ours that calls tools of `web` by their names.
fn place(web: &Web, more: &str) -> Place {
    let call = |name: &str, args: Value| (name.to_owned(), format!("web__{name}"), args);
    let calls = [
        call("echo", json!({"text": "hello"})),
        call("die", json!({})),
        call("half", json!({})),
        call("hang", json!({})),
        call("who", json!({})),
        call("big", json!({})),
        call("stream", json!({})),
        call("new", json!({})),
    ];
    let calls: Vec<(&str, &str, Value)> =
        calls.iter().map(|(word, name, args)| (word.as_str(), name.as_str(), args.clone())).collect();
    let url = web.url();
    let toml = format!("[approval]\nnetwork = \"allow\"\n[mcp.web]\nurl = \"{url}\"\ntrusted = true\n{more}");
    Place::scripted(&toml, &by_word(&calls))
}

fn serve(place: &Place) -> Served {
    let server = Served::of(place.command(["serve", "--port", "0", "--no-auth"]).env("CANARY", CANARY));
    server.session("lango", "s");
    server
}

/// What the call was answered that this word leads to; nothing if it leads to none.
fn says(server: &Served, word: &str) -> Value {
    let events = server.say("lango", "s", word).well();
    answers(events.as_array().unwrap()).into_iter().next().unwrap_or_default()
}

#[test]
fn a_server_that_went_away_is_named_and_found_again_when_it_is_back() {
    let mut web = Web::start();
    let place = place(&web, "");
    let server = serve(&place);
    assert_eq!(says(&server, "echo")["output"], "hello");
    web.go_away();
    for _ in 0..3 {
        let told = says(&server, "echo")["error"].to_string();
        assert!(
            told.contains("the MCP server `web` (lango.toml) cannot be reached: Connection refused"),
            "{told}"
        );
    }
    web.add_tool("new");
    web.come_back();
    let deadline = Instant::now() + Duration::from_secs(30);
    while says(&server, "echo")["output"] != "hello" {
        assert!(Instant::now() < deadline, "it is not found again");
    }
    assert_eq!(web.heard("tools/call echo"), 2);
    // It was asked anew what it has.
    says(&server, "new");
    assert_eq!(web.heard("tools/call new"), 1);
}

#[test]
fn a_session_that_the_server_forgot_is_begun_anew_and_nobody_notices() {
    let web = Web::start();
    let place = place(&web, "");
    let server = serve(&place);
    assert_eq!(says(&server, "echo")["output"], "hello");
    web.forget();
    assert_eq!(says(&server, "echo")["output"], "hello");
    web.forget();
    web.use_own_words();
    assert_eq!(says(&server, "echo")["output"], "hello");
    assert_eq!(web.heard("initialize"), 3);
}

#[test]
fn a_call_that_the_server_may_have_heard_is_not_made_twice() {
    for word in ["die", "half"] {
        let web = Web::start();
        let place = place(&web, "");
        let server = serve(&place);
        let told = says(&server, word)["error"].to_string();
        assert!(told.contains("was lost during the call, so its outcome is unknown"), "{told}");
        assert_eq!(web.heard(&format!("tools/call {word}")), 1);
        assert_eq!(says(&server, "echo")["output"], "hello", "after {word}");
    }
}

#[test]
fn a_server_that_says_nothing_any_more_slows_no_turn() {
    let mut web = Web::start();
    // Longer than any test waits.
    let place = place(&web, "start_timeout_s = 600\n");
    let server = serve(&place);
    web.go_away();
    says(&server, "nothing");
    web.say_nothing(true);
    web.come_back();
    let deadline = Instant::now() + Duration::from_secs(30);
    // It is looked for again after its rest, and each of these ends all the same.
    while web.heard("initialize") + web.heard("server/discover") == 0 {
        says(&server, "nothing");
        assert!(Instant::now() < deadline, "it is not looked for");
    }
    says(&server, "nothing");
}

#[test]
fn those_who_look_at_an_app_see_the_tools_of_its_servers_and_wait_for_none() {
    let (web, silent) = (Web::start(), Web::start());
    web.add_tool("with-dash");
    silent.say_nothing(true);
    let url = silent.url();
    let place = place(&web, &format!("[mcp.silent]\nurl = \"{url}\"\nstart_timeout_s = 600\n"));
    let server = serve(&place);
    let info = server.get("/apps/lango/app-info");
    let tools = info["agents"]["lango-agent"]["tools"].as_array().unwrap();
    let declared = |name: &str| {
        tools.iter().map(|tool| &tool["functionDeclarations"][0]).find(|tool| tool["name"] == name).cloned()
    };
    assert_eq!(declared("web__echo").unwrap()["parametersJsonSchema"], json!({"type": "object"}));
    assert!(declared("calculate").is_some());
    let built = server.get("/dev/apps/lango/build_graph")["root_agent"]["tools"].clone();
    let is_echo = |tool: &Value| *tool == json!({"name": "web__echo", "type": "tool"});
    assert!(built.as_array().unwrap().iter().any(is_echo), "{built}");
    let drawn = server.get("/dev/apps/lango/graph")["dotSrc"].as_str().unwrap().to_owned();
    assert!(
        drawn.contains("\t\"lango-agent\" -> web__echo [") && drawn.contains(" -> \"web__with-dash\" ["),
        "{drawn}"
    );
}

#[test]
fn a_header_comes_from_the_environment_and_goes_nowhere_else() {
    let web = Web::guarded(&format!("Bearer {CANARY}"));
    let headers = "headers = { Authorization = \"Bearer ${CANARY}\" }\n";
    let place = place(&web, headers);
    let server = serve(&place);
    assert_eq!(says(&server, "who")["output"], "Bearer [masked]");
    let without = place.lango(&["tools"]).well();
    assert!(without.out.contains("it needs the variable CANARY, which is not set"), "{}", without.out);
    let wrong = place.said(place.command(["tools"]).env("CANARY", "sk-another-canary")).well();
    let told = wrong.out.lines().last().unwrap();
    assert_eq!(
        told,
        "the MCP server `web` (lango.toml) cannot be reached: it requires another Authorization header; set it in its `headers`"
    );
}

#[test]
fn long_texts_are_kept_and_not_held() {
    for word in ["big", "stream"] {
        let web = Web::start();
        let place = place(&web, "");
        let server = serve(&place);
        let answer = says(&server, word);
        assert_eq!(answer["bytes"], 21_000_000, "{word}");
        let kept = place.home().join("kept").join(answer["handle"].as_str().unwrap());
        assert_eq!(std::fs::metadata(kept).unwrap().len(), 21_000_000);
        let peak = server.peak_memory();
        assert!(peak < 60_000_000, "{peak} bytes for {word}");
    }
}

#[test]
fn a_list_that_changes_is_followed_and_a_call_ends_with_its_run() {
    let web = Web::start();
    let place = place(&web, "");
    let server = serve(&place);
    assert_eq!(says(&server, "echo")["output"], "hello");
    web.hears("GET");
    web.add_tool("new");
    web.tell_of_other_tools();
    let deadline = Instant::now() + Duration::from_secs(30);
    while web.heard("tools/call new") == 0 {
        says(&server, "new");
        assert!(Instant::now() < deadline, "the new tool is not called");
    }

    let run = server.begin("/apps/lango/users/u/sessions/s", "hang");
    web.hears("tools/call hang");
    assert_eq!(server.ask("POST", &format!("{run}/cancel"), &Value::Null).status, 200);
    web.hears("notifications/cancelled");
}
