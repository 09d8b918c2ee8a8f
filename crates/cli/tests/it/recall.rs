//! Search and recall through the binary.

use crate::{common::TestEnv, tools::tool_results};
use serde_json::{Value, json};

/// Calls `recall` for a message that begins with `find`.
const SCRIPT: &str = "
rules:
  - when: {first_word: find, turn: 0}
    reply: [{call: {name: recall, args: {query: zebra}}}]
  - reply: [{text: 'noted'}]
";

fn search(env: &TestEnv, args: &[&str]) -> Vec<Value> {
    let args: Vec<&str> = ["sessions", "search", "--json"].iter().chain(args).copied().collect();
    env.lango(&args).success().json_lines()
}

#[test]
fn messages_are_found_in_all_sessions() {
    let env = TestEnv::scripted("", SCRIPT);
    env.lango(&["run", "--session", "a", "our zebra is called Zoe"]).success();
    env.lango(&["run", "--session", "b", "das Schloss heißt Größenwahn, 住在大阪城"]).success();
    let found = search(&env, &["ZEBRA", "name"]);
    assert_eq!((&found[0]["session"], &found[0]["author"]), (&json!("a"), &json!("user")), "{found:?}");
    for words in ["grossenwahn", "大阪"] {
        assert_eq!(search(&env, &[words])[0]["session"], "b", "{words}");
    }
    assert!(search(&env, &["zebra", "--session", "b"]).is_empty());
    let shown = env.lango(&["sessions", "search", "zebra"]).success();
    assert!(
        shown.out.starts_with("a:1  ") && shown.out.ends_with("\n  our zebra is called Zoe\n"),
        "{shown:?}"
    );
    let nothing = env.lango(&["sessions", "search", "giraffe"]).success();
    assert_eq!((nothing.out.as_str(), nothing.err.as_str()), ("", "no message was found\n"));
}

#[test]
fn the_index_is_built_anew() {
    let env = TestEnv::scripted("", SCRIPT);
    env.lango(&["run", "--session", "a", "our zebra is called Zoe"]).success();
    assert_eq!(env.lango(&["sessions", "reindex"]).success().out, "the search index was built anew\n");
    assert_eq!(search(&env, &["zebra"]).len(), 1);
}

#[test]
fn a_search_without_sessions_creates_no_files() {
    let env = TestEnv::new();
    let failed = env.lango(&["sessions", "search", "zebra"]).failure();
    assert!(failed.err.contains("there are no sessions yet"), "{failed:?}");
    assert!(!env.home().exists());
}

#[test]
fn the_built_in_agent_recalls_what_another_session_said() {
    let env = TestEnv::scripted("", SCRIPT);
    env.lango(&["run", "--session", "a", "our zebra is called Zoe"]).success();
    let output = env.lango(&["run", "--json", "--session", "b", "find the animal"]).success();
    let found = tool_results(&output)[0]["results"][0].clone();
    assert_eq!(
        (&found["session"], &found["messages"][0]["text"]),
        (&json!("a"), &json!("our zebra is called Zoe"))
    );
}
