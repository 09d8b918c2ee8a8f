//! Serves connections: selects the API, the scenario and the script of each request.

use super::{
    ProviderApi, SCENARIOS, differs,
    failure::{self, failure},
    http::{FakeConnection, FakeReply, FakeRequest},
    log::RequestLog,
    models,
    play::{self, After, PlayRequest},
};
use serde_json::{Value, json};
use std::{io, sync::Arc, time::Duration};
use tokio::{net::TcpListener, select, sync::oneshot, task::JoinSet};

/// Scenarios whose tool calls a client may execute. After the tool results they answer with text.
const WITH_CALLS: &[&str] = &[
    "ok", "bytes1", "crlf", "nospace", "comment", "noblank", "big", "sameidx", "gapidx", "noid", "sameid",
    "nodone", "badargs", "oddtypes",
];

/// The resource that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestTarget {
    Answer,
    Models,
}

/// Serves until `stop` resolves; then all connections are closed.
pub(super) async fn serve(listener: TcpListener, log: Arc<RequestLog>, mut stop: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        let stream = select! {
            _ = &mut stop => return,
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        if let Ok((stream, _)) = stream {
            // Sends small chunks without delay. The scenarios do not depend on it, so an error is ignored.
            let _ = stream.set_nodelay(true);
            connections.spawn(serve_connection(FakeConnection::new(stream), Arc::clone(&log)));
        }
    }
}

async fn serve_connection(mut connection: FakeConnection, log: Arc<RequestLog>) {
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
    // Only the connection can fail: the client has disconnected.
    answered.inspect_err(|_| log.mark_aborted(number))
}

async fn answer(
    connection: &mut FakeConnection,
    log: &RequestLog,
    request: &FakeRequest,
    (named, api, want): (&str, ProviderApi, RequestTarget),
) -> io::Result<After> {
    let rejection = log.rejection(named);
    if let Some(rejection) = rejection.as_ref().filter(|rejection| (rejection.when)(&request.json())) {
        return reply(connection, &failure::rejection(api, rejection)).await;
    }
    let (scenario, pause) = with_pause(if rejection.is_some() { "text" } else { named });
    if !SCENARIOS.contains(&scenario) {
        return reply(connection, &not_found("scenario", named)).await;
    }
    let scenario = if differs(api, scenario) { by_count(scenario, request.path(), log) } else { "ok" };
    if let Some(plain) = plain_reply(scenario, api, request) {
        return reply(connection, &plain).await;
    }
    if scenario == "hanghead" {
        connection.until_disconnected().await?;
    }
    match want {
        RequestTarget::Models => reply(connection, &FakeReply::json(200, &models::models(api))).await,
        RequestTarget::Answer => {
            let script = script_for(scenario, &request.json());
            play::play(connection, &PlayRequest { api, scenario, script, key: request.key(), pause }).await
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

/// Resolves scenarios whose response depends on the number of requests of the path.
fn by_count<'a>(scenario: &'a str, path: &str, log: &RequestLog) -> &'a str {
    match scenario {
        "flaky" => ["r429now", "r503now"].get(log.count(path) - 1).copied().unwrap_or("ok"),
        "ctxonce" if log.count(path) == 1 => "ctx400",
        "ctxonce" => "ok",
        _ => scenario,
    }
}

/// The response of a scenario that does not stream.
fn plain_reply(scenario: &str, api: ProviderApi, request: &FakeRequest) -> Option<FakeReply> {
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
        "redirect" => Some(FakeReply::json(302, &json!({})).with("Location", redirect_target(request))),
        "r429now" => failure(api, "r429", "").map(|reply| reply.with("Retry-After", "0")),
        "r503now" => failure(api, "r503", "").map(|reply| reply.with("Retry-After", "0")),
        _ => failure(api, scenario, request.key()),
    }
}

/// The same URL under another host name of this server, with the scenario `text`.
fn redirect_target(request: &FakeRequest) -> String {
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

/// Whether the last message of a request contains a tool result, in any API.
fn ends_with_result(body: &Value) -> bool {
    let messages = ["messages", "contents", "input"].iter().find_map(|key| body.get(key)?.as_array());
    let Some(last) = messages.and_then(|messages| messages.last()) else { return false };
    let is_result = |part: &Value| part["type"] == "tool_result" || part.get("functionResponse").is_some();
    let parts = ["parts", "content"].iter().find_map(|key| last.get(key)?.as_array());
    last["role"] == "tool"
        || last["type"] == "function_call_output"
        || parts.is_some_and(|parts| parts.iter().any(is_result))
}
