//! From a connection to the answer: which API, which scenario, which script.

use super::{
    ProviderApi, SCENARIOS, differs,
    failure::failure,
    http::{FakeConnection, FakeReply, FakeRequest},
    log::RequestLog,
    models,
    play::{self, After, Ask},
};
use serde_json::{Value, json};
use std::{io, sync::Arc, time::Duration};
use tokio::{net::TcpListener, select, sync::oneshot, task::JoinSet};

/// Scenarios whose calls a client may run and answer. Then they say text.
const WITH_CALLS: &[&str] = &[
    "ok", "bytes1", "crlf", "nospace", "comment", "noblank", "big", "sameidx", "gapidx", "noid", "sameid",
    "nodone", "badargs",
];

/// What a path asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestTarget {
    Answer,
    Models,
}

/// Serves until it is told to stop; then all connections end.
pub(super) async fn serve(listener: TcpListener, log: Arc<RequestLog>, mut stop: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        let stream = select! {
            _ = &mut stop => return,
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        if let Ok((stream, _)) = stream {
            // Without it small pieces wait for each other; the faults do not depend on it.
            let _ = stream.set_nodelay(true);
            connections.spawn(converse(FakeConnection::new(stream), Arc::clone(&log)));
        }
    }
}

async fn converse(mut connection: FakeConnection, log: Arc<RequestLog>) {
    while let Ok(request) = connection.request().await {
        let after = exchange(&mut connection, &log, &request).await;
        if !matches!(after, Ok(After::NextRequest)) || request.header("connection") == Some("close") {
            return;
        }
    }
}

async fn exchange(
    connection: &mut FakeConnection,
    log: &RequestLog,
    request: &FakeRequest,
) -> io::Result<After> {
    match request.path() {
        "/log" => return reply(connection, &FakeReply::json(200, &log.to_json())).await,
        "/reset" => {
            log.clear();
            return reply(connection, &FakeReply::json(200, &json!({}))).await;
        }
        _ => {}
    }
    let named = scenario_of(request.path());
    let wanted = wanted(request);
    let number = log.record(request, named, wanted.map(|(api, _)| api));
    let answered = match wanted {
        Some((api, want)) => answer(connection, log, request, (named, api, want)).await,
        None => reply(connection, &not_found("path", request.path())).await,
    };
    // Nothing fails here but the connection: the client has gone away.
    answered.inspect_err(|_| log.mark_aborted(number))
}

async fn answer(
    connection: &mut FakeConnection,
    log: &RequestLog,
    request: &FakeRequest,
    (named, api, want): (&str, ProviderApi, RequestTarget),
) -> io::Result<After> {
    let (scenario, pause) = with_pause(named);
    if !SCENARIOS.contains(&scenario) {
        return reply(connection, &not_found("scenario", named)).await;
    }
    let scenario = if differs(api, scenario) { by_count(scenario, request.path(), log) } else { "ok" };
    if let Some(refused) = refusal(scenario, api, request) {
        return reply(connection, &refused).await;
    }
    if scenario == "hanghead" {
        connection.gone().await?;
    }
    match want {
        RequestTarget::Models => reply(connection, &FakeReply::json(200, &models::models(api))).await,
        RequestTarget::Answer => {
            let script = script_for(scenario, &request.json());
            play::play(connection, &Ask { api, scenario, script, key: request.key(), pause }).await
        }
    }
}

async fn reply(connection: &mut FakeConnection, reply: &FakeReply) -> io::Result<After> {
    connection.reply(reply).await?;
    Ok(After::NextRequest)
}

fn not_found(what: &str, name: &str) -> FakeReply {
    FakeReply::json(404, &json!({"error": {"message": format!("no such {what}: {name}")}}))
}

fn scenario_of(path: &str) -> &str {
    match path.split('/').collect::<Vec<_>>()[..] {
        ["", "s", scenario, ..] => scenario,
        _ => "ok",
    }
}

/// `slowtext-250` is `slowtext` with 250 ms between the deltas.
fn with_pause(named: &str) -> (&str, Duration) {
    let given = named.split_once('-').and_then(|(scenario, millis)| Some((scenario, millis.parse().ok()?)));
    let (scenario, millis) = given.unwrap_or((named, 10));
    (scenario, Duration::from_millis(millis))
}

fn wanted(request: &FakeRequest) -> Option<(ProviderApi, RequestTarget)> {
    let path = request.path();
    let answers = [
        ("/chat/completions", ProviderApi::OpenAi),
        ("/responses", ProviderApi::Responses),
        ("/messages", ProviderApi::Anthropic),
        (":streamGenerateContent", ProviderApi::Gemini),
        (":generateContent", ProviderApi::Gemini),
        ("/api/chat", ProviderApi::Ollama),
    ];
    if let Some((_, api)) = answers.iter().find(|(end, _)| path.ends_with(end)) {
        return Some((*api, RequestTarget::Answer));
    }
    let lists = if path.ends_with("/api/tags") {
        ProviderApi::Ollama
    } else if !path.ends_with("/models") {
        return None;
    } else if request.header("anthropic-version").is_some() {
        ProviderApi::Anthropic
    } else if path.ends_with("/v1beta/models") || request.header("x-goog-api-key").is_some() {
        ProviderApi::Gemini
    } else {
        ProviderApi::OpenAi
    };
    Some((lists, RequestTarget::Models))
}

/// What is served this time, where it depends on how often the path was asked for.
fn by_count<'a>(scenario: &'a str, path: &str, log: &RequestLog) -> &'a str {
    match scenario {
        "flaky" => ["r429now", "r503now"].get(log.count(path) - 1).copied().unwrap_or("ok"),
        "ctxonce" if log.count(path) == 1 => "ctx400",
        "ctxonce" => "ok",
        _ => scenario,
    }
}

/// An answer in one piece, for all scenarios that do not stream.
fn refusal(scenario: &str, api: ProviderApi, request: &FakeRequest) -> Option<FakeReply> {
    match scenario {
        "html" => Some(FakeReply {
            status: 200,
            content_type: "text/html",
            headers: Vec::new(),
            body: "<html><body>Sign in to the proxy</body></html>".to_owned(),
        }),
        "json200" => {
            let error = json!({"message": "upstream failed", "code": 502, "type": "upstream_error"});
            Some(FakeReply::json(200, &json!({"error": error})))
        }
        "redirect" => Some(FakeReply::json(302, &json!({})).with("Location", elsewhere(request))),
        "r429now" => failure(api, "r429", "").map(|reply| reply.with("Retry-After", "0")),
        "r503now" => failure(api, "r503", "").map(|reply| reply.with("Retry-After", "0")),
        _ => failure(api, scenario, request.key()),
    }
}

/// The same place under another host name.
fn elsewhere(request: &FakeRequest) -> String {
    let host = request.header("host").unwrap_or_default();
    let port = host.rsplit_once(':').map_or("80", |(_, port)| port);
    format!("http://localhost:{port}{}", request.target.replacen("/s/redirect/", "/s/text/", 1))
}

fn script_for<'a>(scenario: &'a str, body: &Value) -> &'a str {
    match scenario {
        "two" if ends_with_result(body) => "think",
        _ if WITH_CALLS.contains(&scenario) && ends_with_result(body) => "text",
        _ => scenario,
    }
}

/// Whether the last message of a request holds a tool's result, in any API.
fn ends_with_result(body: &Value) -> bool {
    let messages = ["messages", "contents", "input"].iter().find_map(|key| body.get(key)?.as_array());
    let Some(last) = messages.and_then(|messages| messages.last()) else { return false };
    let is_result = |part: &Value| part["type"] == "tool_result" || part.get("functionResponse").is_some();
    let parts = ["parts", "content"].iter().find_map(|key| last.get(key)?.as_array());
    last["role"] == "tool"
        || last["type"] == "function_call_output"
        || parts.is_some_and(|parts| parts.iter().any(is_result))
}
