//! Messages of a server with faults: each session with it ends in results, or in one clear error per operation.
//!
//! `LANGO_MUTATION_CASES` and `LANGO_MUTATION_SEED` set the number of cases and the seed.

use std::{
    collections::HashSet,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{StreamExt, stream};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::mutation::{MutationCases, library_wording, mutate_bytes, mutate_json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
    time::timeout,
};

use super::{McpServerConfig, McpServers, McpTransport, ParkedCalls, ServerEnv, ToolPins};
use crate::{
    InputReply, Mask, OutputStore, Tool, ToolReply,
    exec::EnvVars,
    testing::{self, RecordingHost},
};

const CASES: u64 = 200;

/// The time limits of the server, and the time after which a case counts as hanging.
const SERVER_TIME: Duration = Duration::from_millis(400);
const LIMIT: Duration = Duration::from_secs(30);

/// The messages of the server, by the method that they answer. One of them is changed.
const METHODS: [&str; 6] =
    ["initialize", "tools/list", "resources/list", "prompts/list", "tools/call", "elicitation/create"];

fn message(method: &str, id: &Value) -> Value {
    let result = match method {
        "initialize" => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": true}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": "s", "version": "1"},
            "instructions": "Be kind.",
        }),
        "tools/list" => json!({"tools": [{
            "name": "ask", "title": "Ask", "description": "Asks.",
            "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}, "required": []},
            "annotations": {"readOnlyHint": true, "destructiveHint": false},
            "outputSchema": {"type": "object"},
        }]}),
        "resources/list" => {
            json!({"resources": [{"uri": "note://1", "name": "one", "mimeType": "text/plain", "size": 3}]})
        }
        "prompts/list" => {
            json!({"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": true}]}]})
        }
        "elicitation/create" => {
            return json!({"jsonrpc": "2.0", "id": "q", "method": method, "params": {
                "message": "Which?",
                "requestedSchema": {"type": "object", "required": ["c"], "properties": {
                    "c": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"], "title": "C"},
                    "d": {"type": "array", "items": {"type": "string", "enum": ["a"]}, "default": ["a"]},
                    "e": {"type": "integer", "minimum": 1, "default": 1},
                    "f": {"type": "string", "format": "email"},
                }},
            }});
        }
        _ => json!({
            "content": [
                {"type": "text", "text": "{\"n\":1}", "annotations": {"audience": ["user"]}},
                {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
                {"type": "resource_link", "uri": "file:///a", "name": "a"},
                {"type": "resource", "resource": {"uri": "note://1", "text": "a note"}},
            ],
            "structuredContent": {"n": 1}, "isError": false,
        }),
    };
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// A server of one case.
struct MutatedServer {
    cases: MutationCases,
    number: u64,
    /// The answer to its question has arrived.
    answered: Notify,
    fault: Mutex<String>,
}

impl MutatedServer {
    fn bytes(&self, method: &str, id: &Value) -> Vec<u8> {
        let mut random = self.cases.random(self.number);
        let mut value = message(method, id);
        if random.choose(&METHODS) != Some(&method) {
            return value.to_string().into_bytes();
        }
        let mut changes = Vec::new();
        if random.below(6) > 0 {
            changes.extend((0..=random.below(2)).map(|_| mutate_json(&mut random, &mut value)));
        }
        let mut bytes = value.to_string().into_bytes();
        if changes.is_empty() {
            changes.push(mutate_bytes(&mut random, &mut bytes));
        }
        *self.fault.lock().unwrap() = format!("{method}: {:.300}", changes.join("; "));
        bytes
    }

    async fn serve(self: Arc<Self>, listener: TcpListener) {
        while let Ok((socket, _)) = listener.accept().await {
            let server = Arc::clone(&self);
            tokio::spawn(async move { server.respond(socket).await });
        }
    }

    async fn respond(&self, mut socket: TcpStream) -> io::Result<()> {
        let (is_post, body) = read_request(&mut socket).await?;
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        let (method, id) = (request["method"].as_str().unwrap_or_default(), &request["id"]);
        if !is_post {
            return send(&mut socket, "405 Method Not Allowed", "text/plain", b"").await;
        }
        if method == "tools/call" {
            return self.call(socket, id).await;
        }
        if request.get("result").or(request.get("error")).is_some() {
            self.answered.notify_one();
        }
        if METHODS.contains(&method) {
            return send(&mut socket, "200 OK", "application/json", &self.bytes(method, id)).await;
        }
        if request["id"].is_null() || method.is_empty() {
            return send(&mut socket, "202 Accepted", "text/plain", b"").await;
        }
        let unknown = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "unknown"}});
        send(&mut socket, "200 OK", "application/json", unknown.to_string().as_bytes()).await
    }

    /// Asks, waits for the answer, and sends the result.
    async fn call(&self, mut socket: TcpStream, id: &Value) -> io::Result<()> {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
        socket.write_all(head.as_bytes()).await?;
        let event = |bytes: Vec<u8>| [b"data: ".to_vec(), bytes, b"\n\n".to_vec()].concat();
        socket.write_all(&event(self.bytes("elicitation/create", id))).await?;
        let _ = timeout(SERVER_TIME / 4, self.answered.notified()).await;
        socket.write_all(&event(self.bytes("tools/call", id))).await?;
        socket.shutdown().await
    }
}

/// Whether the request is a POST, and its body.
async fn read_request(socket: &mut TcpStream) -> io::Result<(bool, Vec<u8>)> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or_default();
            if bytes.len() >= end + 4 + length {
                return Ok((head.starts_with("post"), bytes[end + 4..].to_vec()));
            }
        }
        match socket.read(&mut buffer).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend(&buffer[..count]),
        }
    }
}

async fn send(socket: &mut TcpStream, status: &str, kind: &str, body: &[u8]) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    socket.write_all(&[head.as_bytes(), body].concat()).await?;
    socket.shutdown().await
}

fn env(dir: &TempDir, problems: &Arc<Mutex<Vec<String>>>) -> ServerEnv {
    let problems = Arc::clone(problems);
    ServerEnv {
        env: EnvVars {
            path: String::new(),
            home: String::new(),
            lang: String::new(),
            tmp: dir.path().join("tmp"),
        },
        sandbox: crate::exec::Sandbox::unrestricted("a test").into(),
        grace: Duration::from_secs(1),
        max_time: Duration::from_mins(1),
        outputs: OutputStore::new(&dir.path().join("outputs")),
        mask: Mask::default(),
        pins: Arc::new(ToolPins::new(&dir.path().join("mcp.jsonl"))),
        parked: ParkedCalls::default(),
        can_ask: true,
        on_problem: Arc::new(move |problem| problems.lock().unwrap().push(problem.to_owned())),
    }
}

/// Calls a tool, and answers its questions.
async fn call(tool: &dyn Tool) -> Result<Value, String> {
    let host: Arc<RecordingHost> = Arc::default();
    let mut input = None;
    for _ in 0..4 {
        let request = crate::ToolRequest { input, ..testing::request(&host, json!({"a": "x"})) };
        match tool.call(request).await {
            Ok(ToolReply::Done(value) | ToolReply::Untrusted { value, .. }) => return Ok(value),
            Ok(ToolReply::Pending(_)) => return Err("pending".to_owned()),
            Ok(ToolReply::Ask(_)) => {
                input = Some(InputReply::Accept(json!({"c": "a"}).as_object().unwrap().clone()));
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    Err("it asks again and again".to_owned())
}

/// Lists and calls the tools of the server. Returns the fault, and what a person or a model reads.
async fn run_case(cases: MutationCases, number: u64) -> (String, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = Arc::new(MutatedServer { cases, number, answered: Notify::new(), fault: Mutex::default() });
    let serving = tokio::spawn(Arc::clone(&server).serve(listener));
    let (dir, problems) = (tempfile::tempdir().unwrap(), Arc::default());
    let transport = McpTransport::Http { url: url.clone(), headers: Vec::new() };
    let config = McpServerConfig {
        start_time: SERVER_TIME,
        call_time: SERVER_TIME,
        trusted: true,
        ..McpServerConfig::new("s", transport)
    };
    let servers = McpServers::new(vec![config], HashSet::new(), &env(&dir, &problems));
    let session = async {
        let mut errors = Vec::new();
        for listed in servers.tools().await {
            errors.extend(call(&*listed.tool).await.err());
        }
        servers.offers().await;
        errors
    };
    let errors = timeout(LIMIT, session).await.unwrap_or_else(|_| vec!["hangs".to_owned()]);
    serving.abort();
    let fault = server.fault.lock().unwrap().clone();
    let reported = problems.lock().unwrap().clone();
    let texts = errors.into_iter().chain(reported);
    (fault, texts.map(|text| text.replace(&url, "")).collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn mutated_messages_end_in_results_or_in_one_clear_error() {
    let cases = MutationCases::from_env(CASES);
    let all = stream::iter(0..cases.count)
        .map(|number| async move { (number, tokio::spawn(run_case(cases, number)).await) })
        .buffer_unordered(16)
        .collect::<Vec<_>>()
        .await;
    let (mut faults, mut errors) = (Vec::new(), 0);
    for (number, outcome) in all {
        let (fault, texts) = match outcome {
            Ok(outcome) => outcome,
            Err(panic) => {
                faults.push(format!("case {number}: {panic}"));
                continue;
            }
        };
        errors += u64::from(!texts.is_empty());
        for text in texts {
            let words = library_wording(&text).map(|words| format!("library wording: {words}"));
            let shape = (text.trim().is_empty() || text.lines().count() != 1 || text == "hangs")
                .then(|| "not one line".to_owned());
            if let Some(why) = words.or(shape) {
                faults.push(format!("case {number} ({fault}): {why}: {text}"));
            }
        }
    }
    assert!(errors > cases.count / 20, "{errors} errors of {} cases", cases.count);
    assert!(faults.is_empty(), "seed {}, {} faults:\n{}", cases.seed, faults.len(), faults.join("\n"));
}
