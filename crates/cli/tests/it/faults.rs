//! Faults of the machine: each has its error message, and no data is lost.

use crate::common::{CliOutput, LANGO, QUESTION, StoredLog, Terminal, TestEnv};
use insta::assert_snapshot;
use rustix::process::{Pid, Signal};
use session::SessionKey;
use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// An environment with a session.
fn used() -> TestEnv {
    let env = TestEnv::canned();
    env.lango(&["run", "--session", "k", "hello"]).success();
    env
}

fn log(env: &TestEnv) -> StoredLog {
    StoredLog::read(&env.database(), &SessionKey::new("canned", "user", "k"))
}

/// Runs the binary as an unprivileged user, since root ignores file permissions.
fn run_unprivileged(env: &TestEnv, args: &[&str]) -> CliOutput {
    let mut command = if rustix::process::geteuid().is_root() {
        let copy = env.workdir().join("lango");
        fs::hard_link(LANGO, &copy).or_else(|_| fs::copy(LANGO, &copy).map(drop)).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy);
        command
    } else {
        Command::new(LANGO)
    };
    command
        .arg("--trust")
        .args(args)
        .current_dir(env.workdir())
        .stdin(Stdio::null())
        .env_clear()
        .envs(env.variables());
    let output = env.run(&mut command);
    let _ = fs::remove_file(env.workdir().join("lango"));
    output
}

fn set_mode(path: impl AsRef<std::path::Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn uncreatable_data_directory_is_reported() {
    let env = TestEnv::new();
    let outside = env.workdir().parent().unwrap().to_path_buf();
    set_mode(&outside, 0o555);
    let output = run_unprivileged(&env, &["run", "hello"]).failure();
    set_mode(&outside, 0o755);
    assert_snapshot!(output.snapshot(), @"
    lango: /data cannot be created; set LANGO_HOME to a directory that can be written: Permission denied
    [exit 1]
    ");
}

#[test]
fn read_only_database_is_reported_and_unchanged() {
    let env = used();
    set_mode(env.home().parent().unwrap(), 0o755);
    for path in [env.home(), env.database()] {
        set_mode(&path, if path.is_dir() { 0o555 } else { 0o444 });
    }
    let output = run_unprivileged(&env, &["run", "--session", "k", "hello"]).failure();
    for path in [env.home(), env.database()] {
        set_mode(&path, if path.is_dir() { 0o755 } else { 0o644 });
    }
    assert_snapshot!(output.snapshot(), @"
    lango: /data/lango.db cannot be written: it is read-only; set LANGO_HOME to a directory that can be written
    [exit 1]
    ");
    assert_eq!(log(&env).user_messages(), ["hello"]);
    env.lango(&["run", "--session", "k", "hello again"]).success();
}

#[test]
fn file_that_is_not_a_database_is_reported_and_unchanged() {
    let env = TestEnv::new();
    fs::create_dir(env.home()).unwrap();
    let text = "My diary. ".repeat(1_000);
    fs::write(env.database(), &text).unwrap();
    let (run, list) = (env.lango(&["run", "hello"]).failure(), env.lango(&["sessions", "list"]).failure());
    assert_eq!(run.snapshot(), list.snapshot());
    assert_snapshot!(run.snapshot(), @"
    lango: /data/lango.db is damaged or not a database; move it away to start with an empty database, or restore a copy
    [exit 1]
    ");
    assert_eq!(fs::read_to_string(env.database()).unwrap(), text);
}

#[test]
fn damaged_database_is_reported() {
    let env = used();
    let mut bytes = fs::read(env.database()).unwrap();
    let middle = bytes.len() / 4;
    bytes[middle..].fill(0xa5);
    fs::write(env.database(), &bytes).unwrap();
    let output = env.lango(&["run", "--session", "k", "hello"]).failure();
    assert_snapshot!(output.snapshot(), @"
    lango: /data/lango.db is damaged or not a database; move it away to start with an empty database, or restore a copy
    [exit 1]
    ");
}

#[test]
fn database_of_a_newer_version_is_refused() {
    let env = used();
    let file = rusqlite::Connection::open(env.database()).unwrap();
    file.execute("INSERT INTO schema_version (version, applied_at) VALUES (999, 0)", []).unwrap();
    drop(file);
    let output = env.lango(&["run", "--session", "k", "hello"]).failure();
    assert_snapshot!(output.snapshot().replace(&known_schema(&env), "N"), @"
    lango: /data/lango.db was written by a newer version (schema 999, this one N); use that version, or another data directory
    [exit 1]
    ");
}

fn known_schema(env: &TestEnv) -> String {
    let file = rusqlite::Connection::open(env.database()).unwrap();
    let known = "SELECT 'reads ' || MAX(version) FROM schema_version WHERE version < 999";
    file.query_row(known, [], |row| row.get(0)).unwrap()
}

#[test]
fn locked_database_delays_writes_but_not_reads() {
    let env = used();
    let file = rusqlite::Connection::open(env.database()).unwrap();
    file.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let waiting =
        env.command(["run", "--session", "k", "wait"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let output = env.lango(&["sessions", "list"]).success();
    assert!(output.out.contains("hello") && !output.out.contains("wait"), "{output:?}");
    file.execute_batch("ROLLBACK").unwrap();
    env.cli_output(&waiting.unwrap().wait_with_output().unwrap()).success();
    assert_eq!(log(&env).user_messages(), ["hello", "wait"]);
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_a_process_that_waits_for_a_locked_database() {
    let env = used();
    let file = rusqlite::Connection::open(env.database()).unwrap();
    file.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut command = env.command(["run", "--session", "k", "wait"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for_sigint_handler(&child);
    let began = Instant::now();
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = env.cli_output(&child.wait_with_output().unwrap());
    assert_eq!(output.code, Some(130), "{output:?}");
    assert!(began.elapsed() < Duration::from_secs(20), "it took {:?}", began.elapsed());
    file.execute_batch("ROLLBACK").unwrap();
    assert_eq!(log(&env).user_messages(), ["hello"]);
    env.lango(&["run", "--session", "k", "now"]).success();
}

#[cfg(target_os = "linux")]
/// Waits until the process has a handler for SIGINT. Before that, the signal kills it.
fn wait_for_sigint_handler(child: &Child) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let has_handler = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << (Signal::INT.as_raw() - 1)) != 0
    };
    while !has_handler() {
        assert!(Instant::now() < deadline, "no handler for SIGINT");
        std::thread::yield_now();
    }
}

/// Runs `work` while the data directory and its files are read-only.
fn read_only<T>(env: &TestEnv, work: impl FnOnce() -> T) -> T {
    set_mode(env.home().parent().unwrap(), 0o755);
    let files: Vec<_> = fs::read_dir(env.home()).unwrap().map(|entry| entry.unwrap().path()).collect();
    for path in files.iter().filter(|path| path.is_file()) {
        set_mode(path, 0o444);
    }
    set_mode(env.home(), 0o555);
    let done = work();
    set_mode(env.home(), 0o755);
    files.iter().filter(|path| path.is_file()).for_each(|path| set_mode(path, 0o644));
    done
}

#[test]
fn sessions_are_readable_in_a_read_only_directory() {
    let env = used();
    let (list, show) = read_only(&env, || {
        (
            run_unprivileged(&env, &["sessions", "list"]).success(),
            run_unprivileged(&env, &["sessions", "show", "k"]).success(),
        )
    });
    assert!(list.out.starts_with("k ") && list.err.is_empty(), "{list:?}");
    assert!(show.out.contains("You said: hello"), "{show:?}");
    assert_eq!(fs::read_dir(env.home()).unwrap().count(), 2, "reading creates no files");
}

#[test]
fn sessions_in_the_wal_are_readable_in_a_read_only_directory() {
    let env = used();
    let title =
        |file: &rusqlite::Connection| file.execute("UPDATE sessions SET title = 'only in the log'", []);
    change_in_wal(&env, title);
    let list = read_only(&env, || run_unprivileged(&env, &["sessions", "list"]).success());
    assert!(list.out.contains("only in the log") && list.err.is_empty(), "{list:?}");

    // Without its index the WAL cannot be read in a read-only directory, which is reported.
    fs::remove_file(env.home().join("lango.db-shm")).unwrap();
    let list = read_only(&env, || run_unprivileged(&env, &["sessions", "list"]).success());
    assert_snapshot!(list.snapshot().replace(char::is_numeric, "0"), @"
    k  0000-00-00 00:00  hello
    (/data/lango.db is read without its write-ahead log, which cannot be used here: the newest messages may be missing)
    [exit 0]
    ");
    let list = env.lango(&["sessions", "list"]).success();
    assert!(list.out.contains("only in the log"), "no data is lost: {list:?}");
}

/// Changes the database like a process that is killed before its next checkpoint.
fn change_in_wal(env: &TestEnv, change: impl Fn(&rusqlite::Connection) -> rusqlite::Result<usize>) {
    let file = rusqlite::Connection::open(env.database()).unwrap();
    change(&file).unwrap();
    let files = ["", "-wal", "-shm"].map(|suffix| env.home().join(format!("lango.db{suffix}")));
    let contents = files.each_ref().map(|path| fs::read(path).unwrap());
    drop(file);
    for (path, bytes) in files.iter().zip(contents) {
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn older_database_in_a_read_only_directory_is_refused() {
    let env = used();
    let file = rusqlite::Connection::open(env.database()).unwrap();
    file.execute("DELETE FROM schema_version WHERE version > 1", []).unwrap();
    drop(file);
    let output = read_only(&env, || run_unprivileged(&env, &["sessions", "list"]).failure());
    let known = output.snapshot().replace(char::is_numeric, "N");
    assert_snapshot!(known, @"
    lango: /data/lango.db was written by an older version (schema N, this one reads N) and cannot be upgraded where it is; copy it to a directory that can be written
    [exit N]
    ");
}

#[test]
fn damaged_session_is_listed_as_damaged_and_others_work() {
    let env = used();
    env.lango(&["run", "--session", "other", "hello"]).success();
    let file = rusqlite::Connection::open(env.database()).unwrap();
    file.execute("UPDATE messages SET content = CAST(x'ff' AS TEXT) WHERE session_key = 1", []).unwrap();
    let list = env.lango(&["sessions", "list"]).success();
    assert_snapshot!(list.snapshot().replace(char::is_numeric, "0"), @"
    other  0000-00-00 00:00  hello
    k      0000-00-00 00:00  (damaged: it cannot be read)
    [exit 0]
    ");
    let show = env.lango(&["sessions", "show", "k"]).failure();
    assert_snapshot!(show.snapshot(), @"
    lango: session canned/user/k is damaged; other sessions are not affected: start another one, or restore a backup of the database
    [exit 1]
    ");
    assert_eq!(env.lango(&["run", "--session", "k", "hello"]).failure().snapshot(), show.snapshot());
    env.lango(&["run", "--session", "other", "hello again"]).success();
}

/// Uses a tmpfs of four megabytes, if this machine allows the mount.
#[test]
fn run_on_a_full_disk_reports_the_error_and_loses_no_data() {
    let env = TestEnv::canned();
    fs::create_dir(env.home()).unwrap();
    let script = r#"
        mount -t tmpfs -o size=4m none "$LANGO_HOME" || { echo cannot mount; exit 0; }
        "$1" --trust run --session k one >/dev/null 2>&1 || exit 1
        cat /dev/zero > "$LANGO_HOME/filler" 2>/dev/null
        "$1" --trust run --session k two; echo "[exit $?]"
        "$1" --trust sessions list | cut -c 1-2,22-
        "$1" --trust sessions show k | head -n 1
        mount -o remount,ro "$LANGO_HOME"
        "$1" --trust run --session k two; echo "[exit $?]"
        "$1" --trust sessions list | cut -c 1-2,22-
        mount -o remount,rw "$LANGO_HOME"
        rm "$LANGO_HOME/filler"
        "$1" --trust run --session k three; echo "[exit $?]"
        "$1" --trust sessions show k
    "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", script, "sh", LANGO]);
    command.current_dir(env.workdir()).stdin(Stdio::null()).env_clear().envs(env.variables());
    let Ok(output) = command.output() else { return println!("there is no unshare here") };
    let out = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    if out.contains("cannot mount") || err.contains("unshare") {
        return println!("not here: {out}{err}");
    }
    let home = env.home().display().to_string();
    assert_snapshot!(format!("{out}---\n{}", err.replace(&home, "/data")), @r#"
    [exit 1]
    k one
            user  one
    [exit 1]
    k one
    Hello from canned model. You said: three
    [exit 0]
            user  one
     canned_root  Hello from canned model. You said: one
                  [scripted/canned-1: 10 tokens in, 5 out]
            user  three
     canned_root  Hello from canned model. You said: three
                  [scripted/canned-1: 10 tokens in, 5 out]
                  [total: 20 tokens in, 10 out]
    ---
    lango: there is no space left to write /data/lango.db; free some space and send the message again, nothing else is lost
    lango: /data/lango.db cannot be written: it is read-only; set LANGO_HOME to a directory that can be written
    (to continue: lango run --session k "…")
    "#);
}

/// A file size limit makes a write fail like a broken disk, without privileges.
#[test]
fn failed_write_is_reported_and_loses_no_data() {
    let env = used();
    env.file("long.txt", "word ".repeat(600_000));
    let mut shell = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 2000; exec \"$1\" --trust run --session k < long.txt";
    shell.args(["-c", script, "sh", LANGO]).current_dir(env.workdir()).env_clear().envs(env.variables());
    assert_snapshot!(env.run(&mut shell).failure().snapshot(), @"
    lango: /data/lango.db cannot be read or written: disk I/O error (SQLite code 778); check the disk and send the message again
    [exit 1]
    ");
    env.lango(&["run", "--session", "k", "hello again"]).success();
    assert_eq!(log(&env).user_messages(), ["hello", "hello again"]);
}

#[test]
fn closed_stdout_exits_quietly_after_completing_the_turn() {
    for args in [&["run", "--json", "--session", "k", "tool"][..], &["run", "--session", "k", "tool"]] {
        let env = TestEnv::canned();
        let mut command = env.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = env.cli_output(&child.wait_with_output().unwrap()).success();
        assert!(!output.err.contains("lango:"), "{output:?}");
        assert_eq!(log(&env).events.len(), 4, "message, call, result, answer");
    }
    let env = used();
    let mut command = env.command(["sessions", "show", "k"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(env.cli_output(&child.wait_with_output().unwrap()).success().err, "");
}

#[test]
fn closed_stdin_is_treated_as_empty() {
    let env = TestEnv::new();
    let closed = |command: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec \"{LANGO}\" {command} <&-")]);
        shell.current_dir(env.workdir()).env_clear().envs(env.variables());
        env.run(&mut shell)
    };
    assert_snapshot!(closed("run").failure().snapshot(), @r#"
    lango: the message is empty; write it as in: lango run "what time is it?"
    [exit 1]
    "#);
    assert_eq!(closed("chat").success().snapshot(), "\n[exit 0]");
}

#[test]
fn one_megabyte_line_is_stored_whole() {
    let env = TestEnv::new();
    let line = format!("please remember {}", "many words ".repeat(100_000));
    let start = Instant::now();
    env.lango_with_stdin(&["chat", "--session", "k"], format!("{line}\nwhat is 1 + 1?\n").as_bytes())
        .success();
    assert!(start.elapsed() < Duration::from_mins(1), "it took {:?}", start.elapsed());
    let output = env.lango(&["sessions", "show", "k", "--json"]).success();
    let first = &output.json_lines()[0];
    assert_eq!(first["content"]["parts"][0]["text"].as_str().unwrap().len(), line.len());
    assert!(output.out.contains("= 2"), "the next message is answered");
}

#[test]
fn invalid_utf8_is_not_sent() {
    let env = TestEnv::canned();
    let output =
        env.lango_with_stdin(&["chat", "--session", "k"], b"hello\ncaf\xe9\nhello again\n").failure();
    assert!(
        output.err.ends_with("lango: the message is not valid UTF-8 after 3 bytes; it was not sent\n"),
        "{output:?}"
    );
    assert_eq!(log(&env).user_messages(), ["hello"]);
    let odd = OsStr::from_bytes(b"caf\xe9");
    let output = env.run(&mut env.command([OsStr::new("run"), odd])).failure();
    assert_snapshot!(output.snapshot(), @"
    error: invalid UTF-8 was detected in one or more arguments

    Usage: lango run [OPTIONS] [MESSAGE]

    For more information, try '--help'.
    [exit 2]
    ");
}

#[test]
fn data_directory_name_need_not_be_utf8() {
    let env = TestEnv::canned();
    let odd = env.workdir().join(OsStr::from_bytes(b"caf\xe9"));
    let output = env.run(env.command(["run", "hello"]).env("LANGO_HOME", &odd)).success();
    assert!(output.out.contains("You said: hello"), "{output:?}");
    assert!(odd.join("lango.db").exists());
}

const EVIL: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}";

#[test]
fn output_of_models_and_tools_contains_no_terminal_controls() {
    let script = r#"
model: evil
rules:
  - when: {tool: any}
    reply: [{text: "it said {tool.response}\e]0;owned\a"}, {refuse: {code: NO, message: "\e[31mno"}}]
  - when: {first_word: fail}
    reply: [{fail: {code: NO, message: "\e[31mno"}}]
  - reply:
      - thought: "hm \e[2J"
      - text: "hello \e]0;owned\a \x9b31m"
      - call: {name: read_file, args: {path: evil.txt}}
      - call: {name: "\e[31mred", args: {"\e[31m": "\e[31m"}}
"#;
    let env = TestEnv::scripted("", script);
    env.file("evil.txt", EVIL);
    let outputs = [
        env.lango(&["run", "--session", "k", "\u{1b}[31mhello"]),
        env.lango(&["run", "--session", "k", "--json", "hello"]),
        env.lango(&["run", "--session", "k", "fail"]),
        env.lango_with_stdin(&["chat"], format!("{EVIL}\n").as_bytes()),
        env.lango(&["sessions", "list"]),
        env.lango(&["sessions", "show", "k"]),
        env.lango(&["sessions", "show", "k", "--json"]),
        env.lango(&["sessions", "show", "k", "--as", "openai"]),
        env.lango(&["sessions", "show", EVIL]),
        env.lango(&["run", "--app", EVIL, "hello"]),
        env.lango(&["run", "--model", EVIL, "hello"]),
    ];
    for output in outputs {
        let all = format!("{}{}", output.out, output.err);
        assert!(!all.is_empty());
        assert!(
            !all.contains(|letter: char| letter.is_control() && letter != '\n' && letter != '\t'),
            "{all:?}"
        );
    }
}

/// "no" in tag letters, which models read and terminals do not show.
const TAGS: &str = "\u{e006e}\u{e006f}";

fn is_invisible(text: &str) -> bool {
    text.contains(|c: char| matches!(c, '\u{e0000}'..='\u{e01ef}' | '\u{202a}'..='\u{202e}' | '\u{200b}'))
}

fn env_with_invisible_text() -> TestEnv {
    let script = r#"
rules:
  - when: {tool: any}
    reply: [{text: "got {tool.response}"}]
  - reply:
      - text: "yes\U000E006E\U000E006F \u202Etxt\u200B"
      - call: {name: write_file, args: {path: "a\U000E006E\U000E006F.txt", content: "x"}}
"#;
    TestEnv::scripted("", script)
}

#[test]
fn invisible_characters_of_arguments_are_shown_as_escapes() {
    let env = TestEnv::new();
    let session = format!("k{TAGS}");
    let run = env.lango(&["run", "--session", &session, "hi"]);
    assert!(run.err.contains("--session k<U+E006E><U+E006F>"), "{run:?}");
    for args in [
        &["run", &format!("--bogus{TAGS}")][..],
        &["serve", "--port", &format!("80{TAGS}")],
        &["sessions", "show", &session, &format!("--as{TAGS}")],
        &["chat", "--server", &format!("http://a\u{202e}b{TAGS}"), "--bad"],
        &["run", "--config", &format!("none{TAGS}.toml"), "hi"],
        &["sessions", "show", &format!("none{TAGS}")],
    ] {
        let output = env.lango(args);
        assert_ne!(output.code, Some(0), "{output:?}");
        assert!(!is_invisible(&output.out) && !is_invisible(&output.err), "{args:?}: {output:?}");
    }
}

#[test]
fn invisible_characters_are_shown_as_escapes_in_a_pipe_and_stored_unchanged() {
    let env = env_with_invisible_text();
    let run = env.lango(&["run", "--session", "k", &format!("hi{TAGS}")]);
    assert!(run.out.contains("yes<U+E006E><U+E006F> <U+202E>txt<U+200B>"), "{run:?}");
    assert!(
        run.err.contains("a<U+E006E><U+E006F>.txt"),
        "the call, and the question that no one answers: {run:?}"
    );
    let json = env.lango(&["sessions", "show", "k", "--json"]).success();
    let shown = env.lango(&["sessions", "show", "k"]).success();
    let list = env.lango(&["sessions", "list"]).success();
    for output in [&run, &json, &shown, &list] {
        assert!(!is_invisible(&output.out) && !is_invisible(&output.err), "{output:?}");
    }
    let stored: Vec<serde_json::Value> =
        json.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(stored[0]["content"]["parts"][0]["text"], format!("hi{TAGS}"));
    assert_eq!(stored[1]["content"]["parts"][0]["text"], format!("yes{TAGS} \u{202e}txt\u{200b}"));
}

#[test]
fn invisible_characters_are_shown_as_escapes_on_a_terminal() {
    let env = env_with_invisible_text();
    let mut terminal = Terminal::open(&env, &["chat"]);
    terminal.type_line("go");
    terminal.wait_for("yes<U+E006E><U+E006F> <U+202E>txt<U+200B>");
    terminal.wait_for("→ write_file");
    terminal.wait_for("a<U+E006E><U+E006F>.txt");
    // The question.
    terminal.wait_for("a<U+E006E><U+E006F>.txt");
    terminal.wait_for(QUESTION);
    terminal.type_line("n");
    terminal.wait_for("got {");
    let screen = terminal.quit();
    assert!(!is_invisible(&screen), "{screen:?}");
}
