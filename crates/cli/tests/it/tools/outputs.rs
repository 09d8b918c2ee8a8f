//! Outputs of commands: stored whole, shown in part, masked, and handled in bounded memory.

use super::{exec, one_by_one, run, tool_results};
use crate::common::TestEnv;
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
fn configured_secrets_are_masked_in_results_and_files() {
    let toml = format!(
        "[providers.team]\napi = \"chat\"\nbase_url = \"http://127.0.0.1:1\"\nkey = \"{SECRET}\"\n[telemetry]\nendpoint = \"http://127.0.0.1:1\"\nheaders = {{ X-Key = \"{HEADER}\" }}\n[approval]\nexecute = \"allow\"\nwrite = \"allow\"\n"
    );
    let calls = [
        exec("cat lango.toml"),
        json!({"name": "read_file", "args": {"path": "lango.toml"}}),
        json!({"name": "search_files", "args": {"pattern": "canary"}}),
        exec("for i in $(seq 3000); do cat lango.toml; done"),
        exec("cat lango.toml >&2; exit 3"),
        exec("base64 -w0 lango.toml"),
        exec("od -An -v -tx1 lango.toml | tr -d ' \\n'"),
    ];
    let env = TestEnv::scripted(&toml, &one_by_one(&calls));
    let output = run(&env).success();
    assert!(
        [SECRET, HEADER].iter().all(|secret| !output.out.contains(secret) && !output.err.contains(secret))
    );
    assert!(tool_results(&output).iter().all(|answer| answer.to_string().contains("[masked]")), "{output:?}");
    let mut left = Vec::new();
    files(&env.home(), &mut left);
    assert!(left.len() > 1);
    let encoded = [
        "c2stY2FuYXJ5LTAxMjM0NTY3ODk",
        "NrLWNhbmFyeS0wMTIzNDU2Nzg5",
        "zay1jYW5hcnktMDEyMzQ1Njc4",
        "736b2d63616e617279",
    ];
    assert!(encoded.iter().all(|form| !output.out.contains(form)), "{output:?}");
    let holds =
        |file: &[u8], secret: &str| file.windows(secret.len()).any(|bytes| bytes == secret.as_bytes());
    assert!(left.iter().all(|file| !holds(file, SECRET) && !holds(file, HEADER)));
}

/// The peak memory of a run, measured while its model waits after the last call, and the result of the call.
fn peak_kb(command: &str) -> (u64, Value) {
    let script = json!({"rules": [
        {"when": {"first_word": "go", "turn": 0}, "reply": [{"call": exec(command)}]},
        {"when": {"first_word": "go", "turn": 1}, "reply": [{"text": "done"}, "hang"]},
    ]});
    let env = TestEnv::scripted("[approval]\nexecute = \"allow\"\n", &script.to_string());
    let mut running = env.command(["run", "--json", "--session", "k", "go"]);
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
fn hundred_megabytes_of_output_use_less_than_twenty_of_memory() {
    let (idle, _) = peak_kb("true");
    let (peak, answer) = peak_kb("yes 0123456789012345678901234567890 | head -c 100000000");
    assert_eq!(answer["bytes"], 100_000_000);
    assert!(answer["handle"].as_str().unwrap().starts_with("out-"));
    assert!(answer["output"].as_str().unwrap().contains("bytes left out"));
    assert!(peak.saturating_sub(idle) < 20_000, "{idle} kB before, {peak} kB with it");
}
