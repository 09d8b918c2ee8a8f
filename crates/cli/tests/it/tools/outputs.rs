//! Outputs: kept whole, shown in part, without secrets, at a price that does not grow with them.

use super::{answers, exec, one_by_one, run};
use crate::common::Place;
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::Stdio,
};

const SECRET: &str = "sk-canary-0123456789";
const HEADER: &str = "header-canary-98765-43210";

fn files(dir: &Path, found: &mut Vec<Vec<u8>>) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            files(&entry.path(), found);
        } else {
            found.push(fs::read(entry.path()).unwrap());
        }
    }
}

#[test]
fn a_secret_of_the_configuration_is_in_nothing_that_a_tool_leaves_behind() {
    let toml = format!(
        "[providers.team]\napi = \"chat\"\nbase_url = \"http://127.0.0.1:1\"\nkey = \"{SECRET}\"\n[telemetry]\nendpoint = \"http://127.0.0.1:1\"\nheaders = {{ X-Key = \"{HEADER}\" }}\n[approval]\nexecute = \"allow\"\nwrite = \"allow\"\n"
    );
    let calls = [
        exec("cat lango.toml"),
        json!({"name": "read_file", "args": {"path": "lango.toml"}}),
        json!({"name": "search_files", "args": {"pattern": "canary"}}),
        exec("for i in $(seq 3000); do cat lango.toml; done"),
        exec("cat lango.toml >&2; exit 3"),
    ];
    let place = Place::scripted(&toml, &one_by_one(&calls));
    let said = run(&place).well();
    assert!([SECRET, HEADER].iter().all(|secret| !said.out.contains(secret) && !said.err.contains(secret)));
    assert!(answers(&said).iter().all(|answer| answer.to_string().contains("[masked]")), "{said:?}");
    let mut left = Vec::new();
    files(&place.home(), &mut left);
    assert!(left.len() > 1);
    let holds =
        |file: &[u8], secret: &str| file.windows(secret.len()).any(|bytes| bytes == secret.as_bytes());
    assert!(left.iter().all(|file| !holds(file, SECRET) && !holds(file, HEADER)));
}

/// The most memory that a run had, when its model waits after the last call.
fn peak_kb(command: &str) -> (u64, Value) {
    let script = json!({"rules": [
        {"when": {"first_word": "go", "turn": 0}, "reply": [{"call": exec(command)}]},
        {"when": {"first_word": "go", "turn": 1}, "reply": [{"text": "done"}, "hang"]},
    ]});
    let place = Place::scripted("[approval]\nexecute = \"allow\"\n", &script.to_string());
    let mut running = place.command(["run", "--json", "--session", "k", "go"]);
    let mut child = running.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let events = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let answered = |event: &Value| event["content"]["parts"][0].get("functionResponse").cloned();
    let answer = events.into_iter().find_map(|event| answered(&event)).unwrap();
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    child.kill().unwrap();
    child.wait().unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    (peak.split_whitespace().next().unwrap().parse().unwrap(), answer["response"].clone())
}

#[test]
fn a_hundred_megabytes_of_output_cost_less_than_twenty_of_memory() {
    let (idle, _) = peak_kb("true");
    let (peak, answer) = peak_kb("yes 0123456789012345678901234567890 | head -c 100000000");
    assert_eq!(answer["bytes"], 100_000_000);
    assert!(answer["handle"].as_str().unwrap().starts_with("out-"));
    assert!(answer["output"].as_str().unwrap().contains("bytes left out"));
    assert!(peak.saturating_sub(idle) < 20_000, "{idle} kB before, {peak} kB with it");
}
