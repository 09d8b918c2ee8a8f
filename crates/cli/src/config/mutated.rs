//! Configuration and agent files with faults: each is read, or has one clear error.
//!
//! `LANGO_MUTATION_CASES` and `LANGO_MUTATION_SEED` set the number of cases and the seed.

use super::{Env, ModelName, load_from};
use crate::{args::LocationArgs, screen::format_error, wiring};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};
use testkit::mutation::{MutationCases, library_wording, mutate_text};
use tools::mcp::McpTransport;

const CASES: u64 = 400;

/// The time after which a case counts as hanging.
const LIMIT: Duration = Duration::from_secs(20);

const ROOT: &str = "\
# An agent.
name: root
description: 'Greets: all people'
model: demo
instruction: |
  Be brief.
    Be polite.
tools:
  - name: now
  - {name: calculate}
sub_agents:
  - config_path: sub.yaml
generate_content_config:
  temperature: 0.5
  maxOutputTokens: 100
  stopSequences: [a, \"b\"]
  thinkingConfig: {thinkingBudget: 0, includeThoughts: false}
include_contents: none
output_key: answer
output_schema:
  type: object
  properties: {x: {type: integer}, y: {type: integer}}
  required: [x, y]
disallow_transfer_to_parent: true
disallow_transfer_to_peers: no
";

const SUB: &str =
    "name: sub\ninstruction: >-\n  Be\n  brief.\ndescription: &d A helper.\nmodel: demo\ntools: []\n";

const PROJECT: &str = r#"{
  "mcpServers": {
    "a": {
      "type": "stdio",
      "command": "x",
      "args": ["${ROOM:-here}", "b"],
      "env": {"A": "${TEAM}"}
    },
    "b": {
      "url": "https://example.com/mcp",
      "headers": {"Authorization": "Bearer ${MCP_TOKEN}"},
      "disabled": false
    }
  }
}
"#;

/// The example of the documentation, which has every key.
fn settings() -> &'static str {
    let page = include_str!("../../../../docs/src/configuration.md");
    page.split_once("```toml").unwrap().1.split_once("```").unwrap().0
}

/// The files of a folder: `lango.toml`, the root agent, its sub-agent, `.mcp.json`.
const FILES: [&str; 4] = ["lango.toml", "agents/a/root_agent.yaml", "agents/a/sub.yaml", ".mcp.json"];

/// Loads the files of a folder as a program that is started there would. Returns the error as it is displayed.
fn load(dir: &Path) -> Option<String> {
    let location = LocationArgs { config: Some(dir.join("lango.toml")), agents_dir: None, trust: true };
    let env = Env::of(&[("MCP_TOKEN", "t"), ("TEAM", "x"), ("HOME", "/nowhere"), ("PATH", "/usr/bin:/bin")]);
    let settings = match load_from(&location, &env, (dir, &dir.join("home"))) {
        Ok(settings) => settings,
        Err(error) => return Some(format_error(&error.into())),
    };
    // A server that cannot be used does not prevent the start; its problem is displayed.
    let unusable = settings.mcp.all().find_map(|server| match &server.transport {
        McpTransport::Unavailable(why) => Some(why.clone()),
        McpTransport::Stdio { .. } | McpTransport::Http { .. } => None,
    });
    let planned = wiring::plan_with(&settings, "a", &ModelName::demo());
    planned.err().map(|error| format_error(&error)).or(unusable)
}

fn write(dir: &Path, texts: [&str; 4]) {
    fs::create_dir_all(dir.join("agents/a")).unwrap();
    for (file, text) in FILES.iter().zip(texts) {
        fs::write(dir.join(file), text).unwrap();
    }
}

/// What is wrong with an error as a person reads it.
fn fault_of(error: &str, dir: &Path) -> Option<String> {
    let own = error.replace(&dir.display().to_string(), "");
    let words = library_wording(&own).map(|words| format!("library wording: {words}"));
    let shape = (error.trim().is_empty() || error.lines().count() != 1).then(|| "not one line".to_owned());
    words.or(shape)
}

#[test]
fn mutated_configuration_is_read_or_has_one_clear_error() {
    let cases = MutationCases::from_env(CASES);
    let (mut faults, mut errors) = (Vec::new(), 0);
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), ["", ROOT, SUB, PROJECT]);
    assert_eq!(load(dir.path()), None, "the files without a fault are read");
    for number in 0..cases.count {
        let mut random = cases.random(number);
        let which = *random.choose(&[0, 1, 1, 1, 2, 3]).unwrap();
        let mut texts = [if which == 0 { settings() } else { "" }, ROOT, SUB, PROJECT];
        let text = texts[which];
        let (mut changed, mut fault) = mutate_text(&mut random, text);
        for _ in 0..random.below(3) {
            if !changed.trim().is_empty() {
                let (again, more) = mutate_text(&mut random, &changed);
                (changed, fault) = (again, format!("{fault}; {more}"));
            }
        }
        texts[which] = &changed;
        write(dir.path(), texts);
        let began = Instant::now();
        let Some(error) = load(dir.path()) else { continue };
        errors += 1;
        if let Some(why) =
            fault_of(&error, dir.path()).or((began.elapsed() > LIMIT).then(|| "hangs".to_owned()))
        {
            faults.push(format!("case {number} ({}: {fault}): {why}: {error}", FILES[which]));
        }
    }
    assert!(errors > cases.count / 10, "{errors} errors of {} cases", cases.count);
    assert!(faults.is_empty(), "seed {}, {} faults:\n{}", cases.seed, faults.len(), faults.join("\n"));
}
