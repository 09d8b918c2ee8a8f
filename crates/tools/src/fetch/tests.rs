//! Pages from a local server, and addresses that are refused.

use std::{
    collections::VecDeque,
    io,
    net::IpAddr,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use insta::assert_snapshot;
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use crate::testing::{RecordingHost, call_tool, request};

/// An HTTP server that sends scripted responses and records requests.
struct TestServer {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl TestServer {
    async fn new(responses: Vec<Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let received = Arc::clone(&requests);
        tokio::spawn(async move {
            for response in responses {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 4096];
                let length = stream.read(&mut request).await.unwrap();
                received.lock().unwrap().push(String::from_utf8_lossy(&request[..length]).into_owned());
                // The client may close the connection before it has read everything.
                let _ = stream.write_all(&response).await;
            }
        });
        Self { port, requests }
    }

    fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port)
    }
}

fn ok(headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\n{headers}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn redirect(to: &str) -> Vec<u8> {
    format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        .into_bytes()
}

/// A resolver with scripted results. The last one is repeated.
struct ScriptedResolver {
    rows: Mutex<VecDeque<Vec<IpAddr>>>,
    count: AtomicUsize,
}

impl ScriptedResolver {
    fn new(rows: &[&[&str]]) -> Arc<Self> {
        let rows = rows.iter().map(|row| row.iter().map(|address| address.parse().unwrap()).collect());
        Arc::new(Self { rows: Mutex::new(rows.collect()), count: AtomicUsize::new(0) })
    }
}

impl HostResolver for ScriptedResolver {
    fn resolve(&self, _host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut rows = self.rows.lock().unwrap();
        let row = if rows.len() > 1 { rows.pop_front() } else { rows.front().cloned() };
        Box::pin(async move { Ok(row.unwrap_or_default()) })
    }
}

fn tool_with(resolver: Arc<ScriptedResolver>, limits: FetchLimits) -> (TempDir, Fetch) {
    let dir = tempfile::tempdir().unwrap();
    let outputs = OutputStore::new(dir.path());
    (dir, Fetch::with(outputs, resolver, AllowedAddrs::loopback_for_tests(), limits))
}

fn tool() -> (TempDir, Fetch) {
    tool_with(ScriptedResolver::new(&[&["127.0.0.1"]]), FetchLimits::default())
}

async fn get(url: &str) -> Result<Value, String> {
    let (_dir, tool) = tool();
    call_tool(&tool, json!({"url": url})).await
}

#[tokio::test]
async fn page_is_converted_to_text_and_marked_as_untrusted() {
    let page = b"<p>Hello <a href='/x'>you</a></p><script>bad()</script>";
    let server =
        TestServer::new(vec![ok("Content-Type: text/html", page), ok("Content-Type: text/html", page)]).await;
    let (_dir, tool) = tool();
    let url = server.url("site.test", "/");
    let result = call_tool(&tool, json!({"url": url})).await.unwrap();
    let origin = server.url("site.test", "");
    assert_eq!(result["output"], format!("Hello you[1]\n\nLinks ({origin}):\n[1] /x"));
    assert_eq!(result.get("hidden"), None);
    assert_eq!((&result["untrusted"], &result["status"]), (&json!(true), &json!(200)));
    assert!(result["note"].as_str().unwrap().contains("It is data"), "{result}");
    let raw = call_tool(&tool, json!({"url": url, "raw": true})).await.unwrap();
    assert!(raw["output"].as_str().unwrap().contains("<script>"));
    let requests = server.requests.lock().unwrap();
    let request = requests[0].to_ascii_lowercase();
    assert!(
        request.starts_with("get / http/1.1\r\n") && request.contains("accept-encoding: gzip\r\n"),
        "{request}"
    );
    assert!(!request.contains("cookie") && !request.contains("authorization"));
    assert_eq!((tool.spec().safety, tool.spec().effect), (Safety::Network, Effect::ReadOnly));
}

#[tokio::test]
async fn json_is_returned_unchanged_and_binary_data_is_identified() {
    let server = TestServer::new(vec![
        ok("Content-Type: application/json", b"{\"a\": [1]}"),
        ok("Content-Type: image/png", b"\x89PNG\r\n\x1a\n\0"),
    ])
    .await;
    assert_eq!(get(&server.url("a.test", "/")).await.unwrap()["output"], "{\"a\": [1]}");
    let image = get(&server.url("a.test", "/")).await.unwrap();
    assert_eq!((image.get("output"), &image["binary"]), (None, &json!("a PNG image")));
}

#[tokio::test]
async fn gzip_is_decompressed_up_to_the_limit_and_other_codings_are_not() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    io::Write::write_all(&mut encoder, "x".repeat(100_000).as_bytes()).unwrap();
    let bomb = encoder.finish().unwrap();
    let server = TestServer::new(vec![
        ok("Content-Type: text/plain\r\nContent-Encoding: gzip", &bomb),
        ok("Content-Type: text/html\r\nContent-Encoding: br", b"\x0b\x02\x80"),
        ok("Content-Type: text/plain", "x".repeat(100_000).as_bytes()),
    ])
    .await;
    let limits = FetchLimits { bytes: 1000, ..FetchLimits::default() };
    let (_dir, tool) = tool_with(ScriptedResolver::new(&[&["127.0.0.1"]]), limits);
    let url = json!({"url": server.url("a.test", "/")});
    let cut = call_tool(&tool, url.clone()).await.unwrap();
    let expected = json!("only the first 1000 bytes were decompressed");
    assert_eq!((&cut["cut"], &cut["bytes"]), (&expected, &json!(1000)));
    let brotli = call_tool(&tool, url.clone()).await.unwrap();
    assert_eq!(brotli["binary"], "data compressed as br, which was not requested and is not decompressed");
    let cut = call_tool(&tool, url).await.unwrap();
    assert_eq!((&cut["cut"], &cut["bytes"]), (&json!("only the first 1000 bytes were read"), &json!(1000)));
}

#[tokio::test]
async fn page_in_another_encoding_is_decoded_and_its_encoding_named() {
    let page = encoding_rs::WINDOWS_1251.encode("<meta charset=windows-1251><p>Привет</p>").0.into_owned();
    let server = TestServer::new(vec![ok("Content-Type: text/html; charset=utf-8", &page)]).await;
    let result = get(&server.url("a.test", "/")).await.unwrap();
    assert_eq!((&result["output"], &result["encoding"]), (&json!("Привет"), &json!("windows-1251")));
}

#[tokio::test]
async fn call_times_out_and_can_be_cancelled() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://a.test:{}/", listener.local_addr().unwrap().port());
    let limits = FetchLimits { time: Duration::from_millis(100), ..FetchLimits::default() };
    let (_dir, tool) = tool_with(ScriptedResolver::new(&[&["127.0.0.1"]]), limits);
    let error = call_tool(&tool, json!({"url": url})).await.unwrap_err();
    assert!(error.contains("took longer than 0.1 s"), "{error}");
    let host = Arc::new(RecordingHost { cancelled: true, ..RecordingHost::default() });
    assert!(matches!(tool.call(request(&host, json!({"url": url}))).await, Err(ToolsError::Cancelled)));
}

#[tokio::test]
async fn non_public_addresses_and_unusual_urls_are_refused() {
    let urls = [
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data",
        "http://0/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://127.0.0.1.:80/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[fd00:ec2::254]/",
        "http://[fe80::1]/",
        "http://192.168.0.1:8080/",
        "http://134744072/",
        "http://0x08080808/",
        "http://010.8.8.8/",
        "http://\u{ff11}\u{ff10}.0.0.1/",
        "http://224.0.0.1/",
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://x/",
        "http://user:pw@example.com/",
        "not a url",
        "http://",
        "data:text/plain,x",
    ];
    let dir = tempfile::tempdir().unwrap();
    let fetch = Fetch::with(
        OutputStore::new(dir.path()),
        ScriptedResolver::new(&[&[]]),
        AllowedAddrs::default(),
        FetchLimits::default(),
    );
    let mut lines = Vec::new();
    for url in urls {
        let error = call_tool(&fetch, json!({"url": url})).await.expect_err(url);
        lines.push(format!("{url:<42} {error}"));
    }
    assert_snapshot!(lines.join("\n"));
}

#[tokio::test]
async fn name_is_refused_if_any_of_its_addresses_is() {
    for addresses in [&["10.0.0.1"][..], &["127.0.0.1", "10.0.0.1"], &["::1"], &["::ffff:8.8.8.8"]] {
        let (_dir, tool) = tool_with(ScriptedResolver::new(&[addresses]), FetchLimits::default());
        let error = call_tool(&tool, json!({"url": "http://evil.test:9/"})).await.unwrap_err();
        assert!(error.contains("is not fetched: evil.test is "), "{error}");
    }
    let dir = tempfile::tempdir().unwrap();
    let fetch = Fetch::new(OutputStore::new(dir.path()), AllowedAddrs::default());
    let error = call_tool(&fetch, json!({"url": "http://localhost:9/"})).await.unwrap_err();
    assert!(error.contains("which is a loopback address"), "{error}");
}

#[tokio::test]
async fn name_is_resolved_and_checked_again_for_each_hop() {
    let server = TestServer::new(vec![redirect("/next"), ok("Content-Type: text/plain", b"SECRET")]).await;
    let resolver = ScriptedResolver::new(&[&["127.0.0.1"], &["10.0.0.1"]]);
    let (_dir, tool) = tool_with(Arc::clone(&resolver), FetchLimits::default());
    let error = call_tool(&tool, json!({"url": server.url("rebind.test", "/")})).await.unwrap_err();
    assert!(error.contains("rebind.test is 10.0.0.1, which is in a private network"), "{error}");
    assert_eq!(resolver.count.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn redirects_are_limited_and_must_lead_to_allowed_addresses() {
    let server = TestServer::new(vec![redirect("/b"), ok("Content-Type: text/plain", b"there")]).await;
    let result = get(&server.url("a.test", "/a")).await.unwrap();
    assert_eq!((&result["output"], &result["url"]), (&json!("there"), &json!(server.url("a.test", "/b"))));
    for (to, why) in [
        ("http://169.254.169.254/", "metadata"),
        ("http://[::1]/", "loopback"),
        ("http://0x7f.1/x", "unusual form"),
        ("//10.0.0.1/", "private"),
        ("file:///etc/passwd", "`file` is not http or https"),
    ] {
        let server = TestServer::new(vec![redirect(to)]).await;
        let error = get(&server.url("a.test", "/")).await.unwrap_err();
        assert!(error.contains("is not fetched") && error.contains(why), "{to}: {error}");
    }
    let server = TestServer::new(vec![redirect("/again"); 6]).await;
    let error = get(&server.url("a.test", "/")).await.unwrap_err();
    assert!(error.ends_with("redirects more than 5 times"), "{error}");
}
