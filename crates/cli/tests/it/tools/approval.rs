//! Who decides: rules, a person at the terminal, a client on the wire; and nobody, whose answer is no.

use super::{answers, call, exec, one_by_one, run};
use crate::{
    common::{Place, Terminal},
    serve::client::Served,
};
use serde_json::{Value, json};
use std::fs;

fn write(content: &str) -> Value {
    call("write_file", json!({"path": "a.txt", "content": content}))
}

#[test]
fn without_anyone_to_ask_the_answer_is_no_and_everyone_sees_why() {
    let place = Place::scripted("", &one_by_one(&[write("new\n")]));
    let said = place.lango(&["run", "--session", "k", "go"]).well();
    insta::assert_snapshot!(said.err.lines().nth(1).unwrap(), @r#"← write_file {"error":"this call was not run: `write_file` writes files, and no one is available to approve it"}"#);
    assert!(!place.here().join("a.txt").exists());
}

#[test]
fn rules_of_the_configuration_decide_by_class_by_tool_and_by_command() {
    let toml = r#"
[approval]
write = "allow"
tools = { now = "deny" }
commands = { "touch" = "allow", "touch b" = "deny", "rm" = "deny" }
"#;
    let calls = [write("x"), call("now", json!({})), exec("touch a"), exec("touch b"), exec("ls; /bin/rm a")];
    let place = Place::scripted(toml, &one_by_one(&calls));
    let said = answers(&run(&place).well());
    assert_eq!((&said[0]["bytes"], &said[2]["exit_code"]), (&json!(1), &json!(0)));
    let refused: Vec<&str> = [1, 3, 4].map(|at: usize| said[at]["error"].as_str().unwrap()).to_vec();
    insta::assert_snapshot!(refused.join("\n"), @r"
    this call is not allowed: a rule says: deny the tool now
    this call is not allowed: a rule says: deny `touch b …`
    this call is not allowed: a rule says: deny `rm …` (command 2 of 2)
    ");
}

#[test]
fn a_person_sees_the_change_and_says_yes_with_one_key() {
    let place = Place::scripted("", &one_by_one(&[write("new\n")]));
    place.file("a.txt", "old\n");
    let mut terminal = Terminal::open(&place, &["chat"]);
    terminal.says("go");
    for shown in ["May write_file run?", "-old", "+new", "[y/N/a = always]"] {
        terminal.sees(shown);
    }
    terminal.types("y");
    terminal.sees("← write_file");
    terminal.leaves();
    assert_eq!(fs::read_to_string(place.here().join("a.txt")).unwrap(), "new\n");
}

#[test]
fn no_is_no() {
    let place = Place::scripted("", &one_by_one(&[exec("touch made")]));
    let mut terminal = Terminal::open(&place, &["chat"]);
    terminal.says("go");
    terminal.sees("touch made");
    terminal.sees("[y/N");
    terminal.types("n");
    terminal.sees("This tool call is rejected.");
    terminal.leaves();
    assert!(!place.here().join("made").exists());
}

#[test]
fn always_is_a_rule_that_can_be_seen_and_revoked() {
    let place = Place::scripted("", &one_by_one(&[exec("git init made"), exec("git init also")]));
    let mut terminal = Terminal::open(&place, &["chat"]);
    terminal.says("go");
    terminal.sees("To allow this permanently, the rule would be: allow `git init …`.");
    terminal.types("a");
    terminal.sees("done");
    terminal.leaves();
    assert!(place.here().join("made").exists() && place.here().join("also").exists());

    let listed = place.lango(&["rules", "list"]).well().out;
    let id = listed.split_whitespace().next().unwrap().to_owned();
    assert_eq!(listed, format!("{id}  allow `git init …`  (user of lango)\n"));
    let said = answers(&place.lango(&["run", "--json", "go"]).well());
    assert_eq!(said[0]["exit_code"], 0);
    place.lango(&["rules", "revoke", &id]).well();
    assert_eq!(place.lango(&["rules", "list"]).well().out, "");
    let said = answers(&place.lango(&["run", "--json", "go"]).well());
    assert!(said[0]["error"].as_str().unwrap().contains("no one is available to approve it"));
    place.lango(&["rules", "revoke", &id]).badly();
}

#[test]
fn a_question_survives_the_program_that_asked_it() {
    let place = Place::scripted("", &one_by_one(&[exec("echo once >> made")]));
    let mut terminal = Terminal::open(&place, &["chat", "--session", "k"]);
    terminal.says("go");
    terminal.sees("[y/N");
    drop(terminal);
    let mut terminal = Terminal::open(&place, &["chat", "--session", "k"]);
    terminal.sees("echo once >> made");
    terminal.sees("[y/N");
    terminal.types("y");
    terminal.sees("← exec");
    terminal.leaves();
    assert_eq!(fs::read_to_string(place.here().join("made")).unwrap(), "once\n");
}

/// The question as ADK's page gets it, and the answer as it sends it.
#[test]
fn on_the_wire_it_is_adks_tool_confirmation() {
    let place = Place::scripted("", &one_by_one(&[exec("echo once >> made")]));
    let server = Served::start(&place);
    let session = server.session("lango", "s");
    server.say("lango", "s", "go").well();
    let events = server.get(&session)["events"].clone();
    let part = |event: &Value| event["content"]["parts"][0]["functionCall"].clone();
    let asked =
        events.as_array().unwrap().iter().map(part).find(|call| call["name"] == "adk_request_confirmation");
    let asked = asked.unwrap();
    let confirmation = &asked["args"]["toolConfirmation"];
    insta::assert_snapshot!(confirmation["hint"].as_str().unwrap());
    assert_eq!(confirmation["confirmed"], false);
    server.kill();

    let server = Served::start(&place);
    let answer =
        json!({"id": asked["id"], "name": "adk_request_confirmation", "response": {"confirmed": true}});
    let body = json!({
        "appName": "lango", "userId": "u", "sessionId": "s",
        "newMessage": {"role": "user", "parts": [{"functionResponse": answer}]},
    });
    server.ask("POST", "/run", &body).well();
    let repeated = server.ask("POST", "/run", &body);
    assert_eq!(repeated.status, 409, "an answer counts once");
    assert_eq!(fs::read_to_string(place.here().join("made")).unwrap(), "once\n");
}
