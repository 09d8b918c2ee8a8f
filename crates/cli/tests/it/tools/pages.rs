//! Hostile pages: each attack is refused, or its content is sanitized.

use super::{call, one_by_one, run, tool_results};
use crate::common::TestEnv;
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    process::{Command, Stdio},
    sync::Arc,
    thread,
};

/// An HTTP server on loopback that answers each path with `answer`. It ends with the test's process.
fn serve(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            thread::spawn(move || {
                let mut request = [0; 4096];
                let length = stream.read(&mut request).unwrap_or_default();
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                // The client may close the connection early.
                let _ = stream.write_all(&answer(request.split(' ').nth(1).unwrap_or_default()));
            });
        }
    });
    address
}

fn page(headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// The results of `fetch` for an agent that may access this server and no other local address.
fn fetched(server: SocketAddr, urls: &[String]) -> (TestEnv, Vec<Value>) {
    let toml = format!("[tools]\nfetchLocal = [\"{server}\"]\n[approval]\nnetwork = \"allow\"\n");
    // A fetched page taints its session, so each URL is fetched in its own session.
    let env = TestEnv::scripted(&toml, "");
    let answers = urls.iter().map(|url| {
        env.file("script.yaml", one_by_one(&[call("fetch", json!({"url": url}))]));
        let output = env.lango(&["run", "--json", "--session", url, "go"]).success();
        tool_results(&output)[0].clone()
    });
    let answers = answers.collect();
    (env, answers)
}

#[test]
fn redirects_to_forbidden_addresses_are_refused() {
    let other = serve(|_| page("", b"SECRET"));
    let targets = [
        format!("http://{other}/"),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://10.0.0.1/".to_owned(),
        "http://2130706433/".to_owned(),
        "http://0x7f.1/".to_owned(),
        "http://[::1]/".to_owned(),
        "http://[::ffff:7f00:1]/".to_owned(),
        "http://[::ffff:169.254.169.254]/".to_owned(),
        "http://localhost/".to_owned(),
        "file:///etc/passwd".to_owned(),
        "//192.168.0.1/".to_owned(),
        "/loop".to_owned(),
    ];
    let led = targets.clone();
    let server = serve(move |path| {
        let at = path.trim_start_matches("/to/").parse::<usize>();
        let to = at.map_or("/loop", |at| led[at].as_str());
        format!("HTTP/1.1 302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            .into_bytes()
    });
    let urls: Vec<String> = (0..targets.len()).map(|at| format!("http://{server}/to/{at}")).collect();
    let (_env, results) = fetched(server, &urls);
    let rows = targets.iter().zip(&results).map(|(to, answer)| {
        let error = answer["error"].as_str().unwrap_or_else(|| panic!("{to} was fetched: {answer}"));
        format!("{to}\n    {error}")
            .replace(&other.to_string(), "OTHER")
            .replace(&server.to_string(), "SERVER")
    });
    insta::assert_snapshot!(rows.collect::<Vec<_>>().join("\n"));
}

#[test]
fn fetch_local_allows_exactly_one_address() {
    let server = serve(|_| page("", b"hello"));
    let port = server.port();
    let urls = [
        format!("http://127.0.0.1:{port}/"),
        format!("http://localhost:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://127.1:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        "http://127.0.0.1:1/".to_owned(),
    ];
    let (_env, results) = fetched(server, &urls);
    assert_eq!(results[0]["output"], "hello", "{}", results[0]);
    for (url, answer) in urls.iter().zip(&results).skip(1) {
        assert!(answer["error"].as_str().unwrap().contains("is not fetched"), "{url}: {answer}");
    }
}

/// A hundred megabytes of zeros, compressed to a hundred kilobytes.
fn bomb() -> Vec<u8> {
    let pack = "head -c 104857600 /dev/zero | gzip -9";
    Command::new("sh").args(["-c", pack]).stdin(Stdio::null()).output().unwrap().stdout
}

#[test]
fn compression_bombs_endless_pages_and_escapes_are_contained() {
    let bomb = bomb();
    assert!(bomb.len() > 50_000 && bomb.len() < 1_000_000);
    let server = serve(move |path| match path {
        "/bomb" => page("Content-Type: text/html\r\nContent-Encoding: gzip\r\n", &bomb),
        "/bare" => page("Content-Type: application/gzip\r\n", &bomb),
        "/endless" => page("Content-Type: text/plain\r\n", &vec![b'x'; 40 << 20]),
        _ => {
            page("Content-Type: text/plain\r\n", b"\x1b]0;title\x07\x1b[31mred\x1b[0m\x1b[2J\xc2\x9b1A end\n")
        }
    });
    let urls = ["/bomb", "/bare", "/endless", "/escapes"].map(|path| format!("http://{server}{path}"));
    let (env, results) = fetched(server, &urls);
    assert_eq!(results[0]["cut"], "only the first 5242880 bytes were decompressed", "{}", results[0]);
    assert!(results[1]["binary"].is_string(), "{}", results[1]);
    assert_eq!(results[2]["cut"], "only the first 5242880 bytes were read");
    let escapes = results[3]["output"].as_str().unwrap();
    assert!(escapes.ends_with(" end\n") && !escapes.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{escapes:?}");
    // No output on the terminal contains them either.
    env.file("script.yaml", one_by_one(&[call("fetch", json!({"url": urls[3]}))]));
    let shown = env.lango(&["run", "--session", "plain", "go"]).success();
    let again = env.lango(&["sessions", "show", "plain"]).success();
    for text in [shown.out, shown.err, again.out] {
        assert!(!text.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{text:?}");
    }
}

#[test]
fn invalid_fetch_local_address_is_rejected() {
    let env = TestEnv::scripted("[tools]\nfetchLocal = [\"localhost:80\"]\n", &one_by_one(&[]));
    let output = run(&env).failure();
    assert!(output.err.contains("lango.toml:3:"), "{output:?}");
}
