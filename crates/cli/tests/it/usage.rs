//! `lango usage`, `/context`, `/cost` and `/compact`, `lango store compact`, and deleting beside a kill.

use crate::common::{AuthServer, Terminal, TestEnv};
use rusqlite::Connection;
use std::fs;

const PRICED: &str = "[models.\"scripted/script.yaml\".prices]\ninput = 1.0\ncached = 0.1\noutput = 10.0\n";
const SCRIPT: &str = "
usage: {input: 1000, output: 100, cached: 400}
rules:
  - {reply: [{text: 'noted: {user}'}]}
";

fn today() -> String {
    jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).strftime("%Y-%m-%d").to_string()
}

#[test]
fn usage_sums_model_calls_and_outlives_deleted_sessions() {
    let env = TestEnv::scripted(PRICED, SCRIPT);
    for session in ["a", "a", "b"] {
        env.lango(&["run", "--session", session, "hello"]).success();
    }
    let report = |args: &[&str]| {
        let args: Vec<&str> = ["usage", "--json"].iter().chain(args).copied().collect();
        serde_json::from_str::<serde_json::Value>(&env.lango(&args).success().out).unwrap()
    };
    let by_session = report(&["--by", "session,day"]);
    let [a, b] = &by_session["usage"].as_array().unwrap()[..] else { panic!("{by_session}") };
    assert_eq!((&a["session"], &a["calls"], &a["fresh"]), (&"a".into(), &2.into(), &1200.into()));
    assert_eq!((&b["session"], &b["cacheReads"]), (&"b".into(), &400.into()));
    assert_eq!(a["day"], today());
    let cost = by_session["total"]["cost"].as_f64().unwrap();
    assert!((cost - 3.0 * 0.00164).abs() < 1e-9, "{cost}");
    assert_eq!(report(&["--session", "b"])["total"]["calls"], 1);
    assert_eq!(report(&["--to", "2020-01-01"])["total"]["calls"], 0);
    let table = env.lango(&["usage"]).success().out;
    assert!(table.contains("cache reads") && table.contains("█"), "{table}");

    let server = AuthServer::start(&env, &[]);
    let token = fs::read_to_string(env.home().join("server-token")).unwrap();
    let bearer = format!("Bearer {}", token.trim());
    let user = report(&["--by", "user"])["usage"][0]["user"].as_str().unwrap().to_owned();
    let app = report(&["--by", "app"])["usage"][0]["app"].as_str().unwrap().to_owned();
    let path = format!("/apps/{app}/users/{user}/sessions/a");
    let headers = [("authorization", bearer.as_str())];
    assert_eq!(server.request("DELETE", &path, &headers, b"").status, 200);
    let served = server.get("/usage?by=session", &headers).json();
    assert_eq!((&served["usage"][0]["session"], &served["usage"][0]["calls"]), (&"".into(), &2.into()));
    assert_eq!(served["total"]["cost"], by_session["total"]["cost"]);
}

#[test]
fn unknown_prices_are_said() {
    let env = TestEnv::scripted("", SCRIPT);
    env.lango(&["run", "--session", "a", "hello"]).success();
    let table = env.lango(&["usage"]).success().out;
    assert!(table.contains("unknown") && table.contains("no price is known for scripted/"), "{table}");
}

#[test]
fn invalid_days_and_dimensions_are_refused() {
    let env = TestEnv::new();
    let day = env.lango(&["usage", "--from", "yesterday"]).failure().err;
    assert!(day.contains("expected a day such as 2026-11-19"), "{day}");
    let by = env.lango(&["usage", "--by", "moon"]).failure().err;
    assert!(by.contains("choose from day, app, user, session, agent and model"), "{by}");
}

fn commands(mut terminal: Terminal) -> String {
    terminal.wait_for("› ");
    terminal.type_line("/context");
    terminal.wait_for("the session has no messages yet");
    for n in 0..4 {
        terminal.type_line(&format!("message {n}"));
        terminal.wait_for(&format!("noted: message {n}"));
    }
    terminal.type_line("/cost");
    terminal.wait_for("session  4 calls: 2400 + 1600 cached tokens in, 400 out, $0.006560");
    terminal.type_line("/context");
    terminal.wait_for("it shows all 8 events");
    terminal.type_line("/compact");
    terminal.wait_for("requests leave out 4 earlier events");
    terminal.type_line("/context");
    terminal.wait_for("it shows 4 events, from number 5 on");
    terminal.quit()
}

#[test]
fn chat_shows_context_and_cost_and_compacts_without_adding_to_the_session() {
    let env = TestEnv::scripted(PRICED, SCRIPT);
    commands(Terminal::open(&env, &["chat", "--session", "k"]));
    let shown = env.lango(&["sessions", "show", "--json", "k"]).success();
    assert_eq!(shown.out.lines().count(), 8, "{}", shown.out);
}

#[test]
fn chat_with_a_server_has_the_same_commands() {
    let env = TestEnv::scripted(PRICED, SCRIPT);
    let server = AuthServer::start(&env, &[]);
    let address = format!("http://{}", server.address);
    commands(Terminal::open(&env, &["chat", "--server", &address, "--session", "k"]));
}

#[test]
fn store_compact_refuses_beside_a_server_and_shrinks_the_file_alone() {
    let env = TestEnv::scripted("", SCRIPT);
    env.lango(&["run", "--session", "a", "hello"]).success();
    let conn = Connection::open(env.database()).unwrap();
    conn.execute_batch(
        "CREATE TABLE filler (x); INSERT INTO filler VALUES (zeroblob(4000000)); DROP TABLE filler;",
    )
    .unwrap();
    drop(conn);
    let server = AuthServer::start(&env, &[]);
    let refused = env.lango(&["store", "compact"]).failure().err;
    assert!(refused.contains("is used by another process"), "{refused}");
    drop(server);
    let size = || fs::metadata(env.database()).unwrap().len();
    let before = size();
    let done = env.lango(&["store", "compact"]).success();
    assert!(done.err.contains("it needs up to 1 MB"), "{}", done.err);
    assert!(size() < before / 4, "{before} {}", size());
    env.lango(&["sessions", "show", "a"]).success();
    let conn = Connection::open(env.database()).unwrap();
    assert_eq!(conn.query_row("PRAGMA auto_vacuum", [], |row| row.get::<_, i64>(0)).unwrap(), 2);
}
