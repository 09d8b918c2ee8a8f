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
        call("big", json!({"bytes": 100_000_000})),
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

/// What the call was answered that this word leads to.
fn says(server: &Served, word: &str) -> Value {
    answers(server.say("lango", "s", word).well().as_array().unwrap())[0].clone()
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
    web.add_tool(json!({"name": "new", "inputSchema": {"type": "object"}}));
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
    for _ in 0..2 {
        assert_eq!(says(&server, "echo")["output"], "hello");
        web.forget();
    }
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
