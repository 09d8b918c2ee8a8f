//! The comparison is strict: only the allowed differences pass, and a server with other ids and times passes.

use super::{
    http::Base,
    ids,
    replay::{Replay, Verdict},
    report::Report,
    rules,
    transcript::{self, Answer, Exchange, Header},
};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    thread,
};

fn recording() -> Vec<Exchange> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    transcript::read_all(&root.join(super::TRANSCRIPTS)).unwrap()
}

/// The compared exchanges: number, recorded response, and our intended response.
fn compared(recording: &[Exchange]) -> Vec<(&str, Value, Value)> {
    let compared = recording.iter().filter(|exchange| rules::not_compared(exchange.number()).is_none());
    let answered = compared.filter_map(|exchange| {
        let recorded = exchange.answer.as_ref()?.snapshot();
        let mut ours = recorded.clone();
        rules::intended(exchange.number(), &mut ours);
        Some((exchange.number(), recorded, ours))
    });
    answered.collect()
}

fn is_same(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Same { .. })
}

/// Every path into a value, containers included.
fn paths(value: &Value) -> Vec<String> {
    fn visit(value: &Value, path: &str, found: &mut Vec<String>) {
        found.push(path.to_owned());
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    visit(value, &format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), found);
                }
            }
            Value::Array(items) => {
                for (at, value) in items.iter().enumerate() {
                    visit(value, &format!("{path}/{at}"), found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    visit(value, "", &mut found);
    found
}

/// Another value of the same type; a container loses an element, or gets one if it is empty.
fn changed(value: &Value) -> Value {
    match value {
        Value::Null => json!("x"),
        Value::Bool(value) => json!(!value),
        Value::Number(number) => {
            number.as_i64().map_or_else(|| json!(number.as_f64().unwrap() + 1.0), |number| json!(number + 1))
        }
        Value::String(text) => json!(format!("{text}x")),
        Value::Array(items) if items.is_empty() => json!([null]),
        Value::Array(items) => json!(items[1..]),
        Value::Object(fields) if fields.is_empty() => json!({"x": null}),
        Value::Object(fields) => fields.clone().into_iter().skip(1).collect(),
    }
}

/// The allowed differences, written independently of the rules: by field, and by exchange if they are limited to some.
fn may_change(number: &str, path: &str) -> bool {
    let key = path.split('/').rfind(|step| step.parse::<usize>().is_err()).unwrap_or_default();
    match key {
        "timestamp" | "lastUpdateTime" | "createTime" | "canonicalUri" => true,
        "language" => ["002", "004", "005"].contains(&number),
        "language_version" => number == "002",
        "detail" => ["006", "060", "061", "007", "056", "062"].contains(&number),
        "error" => number == "053",
        "description" => number == "005" && path.ends_with("/tools/4/functionDeclarations/0/description"),
        "text" => (number == "048" && path == "/body/2/content/parts/0/text") || number == "053",
        _ => false,
    }
}

/// Whether the path is inside the session with a blank id, which is excluded from lists.
fn is_blank(snapshot: &Value, path: &str) -> bool {
    let session: String = path.split_inclusive('/').take(3).collect();
    snapshot.pointer(session.trim_end_matches('/')).is_some_and(|session| session["id"] == "")
}

#[test]
fn recording_equals_itself() {
    let recording = recording();
    let mut replay = Replay::new(false);
    for (number, recorded, ours) in compared(&recording) {
        let verdict = replay.compare(number, recorded, ours);
        assert!(is_same(&verdict), "{number}: {verdict:?}");
    }
}

#[test]
fn change_outside_the_rules_is_a_difference() {
    let recording = recording();
    let mut replay = Replay::new(false);
    let mut seen = String::new();
    for (number, recorded, ours) in compared(&recording) {
        seen.push_str(&ours.to_string());
        for path in paths(&ours).iter().filter(|path| !is_blank(&ours, path)) {
            let mut mutated = ours.clone();
            let value = mutated.pointer_mut(path).unwrap();
            let original = std::mem::replace(value, changed(value));
            let is_equal = is_same(&replay.clone().compare(number, recorded.clone(), mutated));
            let is_new = |id: &str| ids::is_generated(id) && seen.matches(id).count() == 1;
            let free = may_change(number, path) || original.as_str().is_some_and(is_new);
            assert_eq!(is_equal, free, "{number} {path}: {original}");
        }
        replay.compare(number, recorded, ours);
    }
}

#[test]
fn allowed_values_keep_their_type() {
    let recording = recording();
    for (number, recorded, ours) in compared(&recording) {
        let free = |path: &&String| may_change(number, path) && !is_blank(&ours, path);
        let Some(path) = paths(&ours).into_iter().find(|path| free(&path)) else { continue };
        let is_text = ours.pointer(&path).is_some_and(Value::is_string);
        let wrong = if is_text {
            vec![json!(""), json!(null), json!(1)]
        } else {
            vec![json!("now"), json!(null), json!(0), json!(1_794_768_754_799_i64)]
        };
        for value in wrong {
            let mut mutated = ours.clone();
            *mutated.pointer_mut(&path).unwrap() = value.clone();
            let verdict = Replay::new(false).compare(number, recorded.clone(), mutated);
            assert!(!is_same(&verdict), "{number} {path}: {value}");
        }
    }
}

/// The recorded text as a server with other ids and another clock would send it.
fn with_other_ids(text: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let uuid = rest.get(..36).filter(|start| ids::is_generated(start));
        match uuid {
            Some(uuid) => made.push_str(&uuid.chars().rev().collect::<String>()),
            None => made.push(first),
        }
        rest = &rest[uuid.map_or(first.len_utf8(), str::len)..];
    }
    made.replace("17947687", "17947699")
}

/// Sends the recorded response, and returns the first line and the body of the request.
fn answer(mut stream: &TcpStream, exchange: &Exchange) -> (String, String) {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line == "\r\n" {
            break;
        }
        length = line.strip_prefix("Content-Length: ").map_or(length, |value| value.trim().parse().unwrap());
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    stream.write_all(wire(exchange.answer.as_ref()).as_bytes()).unwrap();
    (first, String::from_utf8(body).unwrap())
}

/// A response without a length; it ends with the connection.
fn wire(answer: Option<&Answer>) -> String {
    let Some(answer) = answer else { return "HTTP/1.1 200 OK\r\n\r\n".to_owned() };
    let stays = |header: &&Header| !["content-length", "Transfer-Encoding"].contains(&header.name.as_str());
    let mut lines = vec![format!("HTTP/1.1 {} X", answer.status)];
    lines
        .extend(answer.headers.iter().filter(stays).map(|Header { name, value }| format!("{name}: {value}")));
    lines.join("\r\n") + "\r\n\r\n" + &with_other_ids(&answer.body)
}

#[test]
fn server_with_other_ids_and_times_passes_and_receives_its_own_ids() {
    let exchanges = recording();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = Base::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    let requests = thread::spawn(move || {
        let next = |exchange: &Exchange| answer(&listener.accept().unwrap().0, exchange);
        recording().iter().map(next).collect::<Vec<_>>()
    });
    let mut replay = Replay::new(true);
    let report = Report::new(exchanges.iter().map(|exchange| replay.step(&base, exchange)).collect());
    assert!(report.is_good(), "{}", report.render(false));
    let requests = requests.join().unwrap();
    let approval = exchanges.iter().position(|exchange| exchange.number() == "203").unwrap();
    assert_eq!(requests[approval].1, with_other_ids(exchanges[approval].request.body.as_deref().unwrap()));
}
