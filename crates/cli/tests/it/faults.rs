//! What goes wrong on real machines: each fault has its sentence, and nothing is lost.

use crate::common::{LANGO, Log, Place, Said};
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

/// A place with a conversation in it.
fn used() -> Place {
    let place = Place::canned();
    place.lango(&["run", "--session", "k", "hello"]).well();
    place
}

fn log(place: &Place) -> Log {
    Log::read(&place.database(), &SessionKey::new("canned", "user", "k"))
}

/// Runs the binary as somebody whom files do not have to obey; root would be let in everywhere.
fn as_nobody(place: &Place, args: &[&str]) -> Said {
    let mut command = if rustix::process::geteuid().is_root() {
        let copy = place.here().join("lango");
        fs::hard_link(LANGO, &copy).or_else(|_| fs::copy(LANGO, &copy).map(drop)).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(copy);
        command
    } else {
        Command::new(LANGO)
    };
    command.args(args).current_dir(place.here()).stdin(Stdio::null()).env_clear().envs(place.variables());
    let said = place.said(&mut command);
    let _ = fs::remove_file(place.here().join("lango"));
    said
}

fn set_mode(path: impl AsRef<std::path::Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_home_that_cannot_be_made_is_told() {
    let place = Place::new();
    let outside = place.here().parent().unwrap().to_path_buf();
    set_mode(&outside, 0o555);
    let said = as_nobody(&place, &["run", "hello"]).badly();
    set_mode(&outside, 0o755);
    assert_snapshot!(said.picture(), @"
    lango: /data cannot be made; set LANGO_HOME to a directory that can be written: Permission denied
    [exit 1]
    ");
}

#[test]
fn a_database_that_cannot_be_written_is_told_and_stays() {
    let place = used();
    set_mode(place.home().parent().unwrap(), 0o755);
    for path in [place.home(), place.database()] {
        set_mode(&path, if path.is_dir() { 0o555 } else { 0o444 });
    }
    let said = as_nobody(&place, &["run", "--session", "k", "hello"]).badly();
    for path in [place.home(), place.database()] {
        set_mode(&path, if path.is_dir() { 0o755 } else { 0o644 });
    }
    assert_snapshot!(said.picture(), @"
    lango: /data/lango.db cannot be written: it is read-only; set LANGO_HOME to a directory that can be written
    [exit 1]
    ");
    assert_eq!(log(&place).asked(), ["hello"]);
    place.lango(&["run", "--session", "k", "hello again"]).well();
}

#[test]
fn a_file_that_is_no_database_is_told_and_stays_as_it_is() {
    let place = Place::new();
    fs::create_dir(place.home()).unwrap();
    let text = "My diary. ".repeat(1_000);
    fs::write(place.database(), &text).unwrap();
    let (run, list) = (place.lango(&["run", "hello"]).badly(), place.lango(&["sessions", "list"]).badly());
    assert_eq!(run.picture(), list.picture());
    assert_snapshot!(run.picture(), @"
    lango: /data/lango.db is damaged or not a database; move it away to start anew, or restore a copy
    [exit 1]
    ");
    assert_eq!(fs::read_to_string(place.database()).unwrap(), text);
}

#[test]
fn a_damaged_database_is_told() {
    let place = used();
    let mut bytes = fs::read(place.database()).unwrap();
    let middle = bytes.len() / 4;
    bytes[middle..].fill(0xa5);
    fs::write(place.database(), &bytes).unwrap();
    let said = place.lango(&["run", "--session", "k", "hello"]).badly();
    assert_snapshot!(said.picture(), @"
    lango: /data/lango.db is damaged or not a database; move it away to start anew, or restore a copy
    [exit 1]
    ");
}

#[test]
fn a_database_of_a_newer_version_is_left_alone() {
    let place = used();
    let file = rusqlite::Connection::open(place.database()).unwrap();
    file.execute("INSERT INTO schema_version (version, applied_at) VALUES (999, 0)", []).unwrap();
    drop(file);
    let said = place.lango(&["run", "--session", "k", "hello"]).badly();
    assert_snapshot!(said.picture().replace(&known_schema(&place), "N"), @"
    lango: /data/lango.db was written by a newer version (schema 999, this one N); use that version, or another data directory
    [exit 1]
    ");
}

fn known_schema(place: &Place) -> String {
    let file = rusqlite::Connection::open(place.database()).unwrap();
    let known = "SELECT 'knows ' || MAX(version) FROM schema_version WHERE version < 999";
    file.query_row(known, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_database_that_another_program_holds_is_waited_for_and_can_be_read() {
    let place = used();
    let file = rusqlite::Connection::open(place.database()).unwrap();
    file.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let waiting = place
        .command(["run", "--session", "k", "wait"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let said = place.lango(&["sessions", "list"]).well();
    assert!(said.out.contains("hello") && !said.out.contains("wait"), "{said:?}");
    file.execute_batch("ROLLBACK").unwrap();
    place.heard(&waiting.unwrap().wait_with_output().unwrap()).well();
    assert_eq!(log(&place).asked(), ["hello", "wait"]);
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_a_program_that_waits_for_a_locked_database() {
    let place = used();
    let file = rusqlite::Connection::open(place.database()).unwrap();
    file.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let mut command = place.command(["run", "--session", "k", "wait"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until_it_listens(&child);
    let began = Instant::now();
    rustix::process::kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let said = place.heard(&child.wait_with_output().unwrap());
    assert_eq!(said.code, Some(130), "{said:?}");
    assert!(began.elapsed() < Duration::from_secs(20), "it took {:?}", began.elapsed());
    file.execute_batch("ROLLBACK").unwrap();
    assert_eq!(log(&place).asked(), ["hello"]);
    place.lango(&["run", "--session", "k", "now"]).well();
}

#[cfg(target_os = "linux")]
/// Waits until a program has a handler for Ctrl-C: before that it is simply ended by it.
fn until_it_listens(child: &Child) {
    let deadline = Instant::now() + Duration::from_secs(30);
    let listens = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & (1 << (Signal::INT.as_raw() - 1)) != 0
    };
    while !listens() {
        assert!(Instant::now() < deadline, "it does not listen");
        std::thread::yield_now();
    }
}

/// Makes the home and all that is in it read-only while something is done.
fn read_only<T>(place: &Place, work: impl FnOnce() -> T) -> T {
    set_mode(place.home().parent().unwrap(), 0o755);
    let files: Vec<_> = fs::read_dir(place.home()).unwrap().map(|entry| entry.unwrap().path()).collect();
    for path in files.iter().filter(|path| path.is_file()) {
        set_mode(path, 0o444);
    }
    set_mode(place.home(), 0o555);
    let done = work();
    set_mode(place.home(), 0o755);
    files.iter().filter(|path| path.is_file()).for_each(|path| set_mode(path, 0o644));
    done
}

#[test]
fn sessions_are_listed_and_shown_where_nothing_can_be_written() {
    let place = used();
    let (list, show) = read_only(&place, || {
        (
            as_nobody(&place, &["sessions", "list"]).well(),
            as_nobody(&place, &["sessions", "show", "k"]).well(),
        )
    });
    assert!(list.out.starts_with("k ") && list.err.is_empty(), "{list:?}");
    assert!(show.out.contains("You said: hello"), "{show:?}");
    assert_eq!(fs::read_dir(place.home()).unwrap().count(), 2, "looking leaves nothing behind");
}

#[test]
fn sessions_that_a_killed_program_left_in_the_log_are_shown_where_nothing_can_be_written() {
    let place = used();
    let title =
        |file: &rusqlite::Connection| file.execute("UPDATE sessions SET title = 'only in the log'", []);
    left_in_the_log(&place, title);
    let list = read_only(&place, || as_nobody(&place, &["sessions", "list"]).well());
    assert!(list.out.contains("only in the log") && list.err.is_empty(), "{list:?}");

    // Without its index the log cannot be read here, and that is said.
    fs::remove_file(place.home().join("lango.db-shm")).unwrap();
    let list = read_only(&place, || as_nobody(&place, &["sessions", "list"]).well());
    assert_snapshot!(list.picture().replace(char::is_numeric, "0"), @"
    k  0000-00-00 00:00  hello
    (/data/lango.db is read without its write-ahead log, which cannot be used here: the newest messages may be missing)
    [exit 0]
    ");
    let list = place.lango(&["sessions", "list"]).well();
    assert!(list.out.contains("only in the log"), "nothing is lost: {list:?}");
}

/// Changes the database as a process does that is killed before its next checkpoint.
fn left_in_the_log(place: &Place, change: impl Fn(&rusqlite::Connection) -> rusqlite::Result<usize>) {
    let file = rusqlite::Connection::open(place.database()).unwrap();
    change(&file).unwrap();
    let beside = ["", "-wal", "-shm"].map(|suffix| place.home().join(format!("lango.db{suffix}")));
    let kept = beside.each_ref().map(|path| fs::read(path).unwrap());
    drop(file);
    for (path, bytes) in beside.iter().zip(kept) {
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn an_older_database_that_cannot_be_upgraded_is_told() {
    let place = used();
    let file = rusqlite::Connection::open(place.database()).unwrap();
    file.execute("DELETE FROM schema_version WHERE version > 1", []).unwrap();
    drop(file);
    let said = read_only(&place, || as_nobody(&place, &["sessions", "list"]).badly());
    let known = said.picture().replace(char::is_numeric, "N");
    assert_snapshot!(known, @"
    lango: /data/lango.db was written by an older version (schema N, this one reads N) and cannot be upgraded where it is; copy it to a directory that can be written
    [exit N]
    ");
}

#[test]
fn a_damaged_session_is_named_in_the_list_and_others_go_on() {
    let place = used();
    place.lango(&["run", "--session", "other", "hello"]).well();
    let file = rusqlite::Connection::open(place.database()).unwrap();
    file.execute("UPDATE messages SET content = CAST(x'ff' AS TEXT) WHERE session_key = 1", []).unwrap();
    let list = place.lango(&["sessions", "list"]).well();
    assert_snapshot!(list.picture().replace(char::is_numeric, "0"), @"
    other  0000-00-00 00:00  hello
    k      0000-00-00 00:00  (damaged: it cannot be read)
    [exit 0]
    ");
    let show = place.lango(&["sessions", "show", "k"]).badly();
    assert_snapshot!(show.picture(), @"
    lango: session canned/user/k is damaged; other sessions go on: begin another one, or restore a copy of the database
    [exit 1]
    ");
    assert_eq!(place.lango(&["run", "--session", "k", "hello"]).badly().picture(), show.picture());
    place.lango(&["run", "--session", "other", "hello again"]).well();
}

/// In a file system of four megabytes, where this machine lets us make one.
#[test]
fn a_full_disk_is_told_and_loses_nothing() {
    let place = Place::canned();
    fs::create_dir(place.home()).unwrap();
    let script = r#"
        mount -t tmpfs -o size=4m none "$LANGO_HOME" || { echo cannot mount; exit 0; }
        "$1" run --session k one >/dev/null 2>&1 || exit 1
        cat /dev/zero > "$LANGO_HOME/filler" 2>/dev/null
        "$1" run --session k two; echo "[exit $?]"
        "$1" sessions list | cut -c 1-2,22-
        "$1" sessions show k | head -n 1
        mount -o remount,ro "$LANGO_HOME"
        "$1" run --session k two; echo "[exit $?]"
        "$1" sessions list | cut -c 1-2,22-
        mount -o remount,rw "$LANGO_HOME"
        rm "$LANGO_HOME/filler"
        "$1" run --session k three; echo "[exit $?]"
        "$1" sessions show k
    "#;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", script, "sh", LANGO]);
    command.current_dir(place.here()).stdin(Stdio::null()).env_clear().envs(place.variables());
    let Ok(output) = command.output() else { return println!("there is no unshare here") };
    let out = String::from_utf8(output.stdout).unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    if out.contains("cannot mount") || err.contains("unshare") {
        return println!("not here: {out}{err}");
    }
    let home = place.home().display().to_string();
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
                  [in all: 20 tokens in, 10 out]
    ---
    lango: there is no space left to write /data/lango.db; make room and send the message again, nothing else is lost
    lango: /data/lango.db cannot be written: it is read-only; set LANGO_HOME to a directory that can be written
    (lango run --session k "…" goes on from here)
    "#);
}

/// A file that may not grow is as good as a disk that breaks in the middle of a write, and needs no rights.
#[test]
fn a_write_that_fails_is_told_and_loses_nothing() {
    let place = used();
    place.file("long.txt", "word ".repeat(600_000));
    let mut shell = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 2000; exec \"$1\" run --session k < long.txt";
    shell.args(["-c", script, "sh", LANGO]).current_dir(place.here()).env_clear().envs(place.variables());
    assert_snapshot!(place.said(&mut shell).badly().picture(), @"
    lango: /data/lango.db cannot be read or written: disk I/O error (SQLite code 778); check the disk and send the message again
    [exit 1]
    ");
    place.lango(&["run", "--session", "k", "hello again"]).well();
    assert_eq!(log(&place).asked(), ["hello", "hello again"]);
}

#[test]
fn a_reader_that_has_had_enough_ends_us_quietly_and_not_the_turn() {
    for args in [&["run", "--json", "--session", "k", "tool"][..], &["run", "--session", "k", "tool"]] {
        let place = Place::canned();
        let mut command = place.command(args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let said = place.heard(&child.wait_with_output().unwrap()).well();
        assert!(!said.err.contains("lango:"), "{said:?}");
        assert_eq!(log(&place).events.len(), 4, "question, call, answer of the tool, answer");
    }
    let place = used();
    let mut command = place.command(["sessions", "show", "k"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(place.heard(&child.wait_with_output().unwrap()).well().err, "");
}

#[test]
fn a_closed_standard_input_says_nothing() {
    let place = Place::new();
    let closed = |command: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec \"{LANGO}\" {command} <&-")]);
        shell.current_dir(place.here()).env_clear().envs(place.variables());
        place.said(&mut shell)
    };
    assert_snapshot!(closed("run").badly().picture(), @r#"
    lango: the message is empty; write it as in: lango run "what time is it?"
    [exit 1]
    "#);
    assert_eq!(closed("chat").well().picture(), "\n[exit 0]");
}

#[test]
fn a_line_of_a_megabyte_is_taken_whole() {
    let place = Place::new();
    let line = format!("please remember {}", "many words ".repeat(100_000));
    let start = Instant::now();
    place.fed(&["chat", "--session", "k"], format!("{line}\nwhat is 1 + 1?\n").as_bytes()).well();
    assert!(start.elapsed() < Duration::from_mins(1), "it took {:?}", start.elapsed());
    let said = place.lango(&["sessions", "show", "k", "--json"]).well();
    let first = &said.json_lines()[0];
    assert_eq!(first["content"]["parts"][0]["text"].as_str().unwrap().len(), line.len());
    assert!(said.out.contains("= 2"), "the next message is answered");
}

#[test]
fn what_is_no_text_is_not_sent() {
    let place = Place::canned();
    let said = place.fed(&["chat", "--session", "k"], b"hello\ncaf\xe9\nhello again\n").badly();
    assert!(
        said.err.ends_with("lango: the message is not valid UTF-8 after 3 bytes; it was not sent\n"),
        "{said:?}"
    );
    assert_eq!(log(&place).asked(), ["hello"]);
    let odd = OsStr::from_bytes(b"caf\xe9");
    let said = place.said(&mut place.command([OsStr::new("run"), odd])).badly();
    assert_snapshot!(said.picture(), @"
    error: invalid UTF-8 was detected in one or more arguments

    Usage: lango run [OPTIONS] [MESSAGE]

    For more information, try '--help'.
    [exit 2]
    ");
}

#[test]
fn a_home_with_an_odd_name_is_a_home() {
    let place = Place::canned();
    let odd = place.here().join(OsStr::from_bytes(b"caf\xe9"));
    let said = place.said(place.command(["run", "hello"]).env("LANGO_HOME", &odd)).well();
    assert!(said.out.contains("You said: hello"), "{said:?}");
    assert!(odd.join("lango.db").exists());
}

const EVIL: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}";

#[test]
fn nothing_that_a_model_or_a_tool_says_steers_the_terminal() {
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
    let place = Place::scripted("", script);
    place.file("evil.txt", EVIL);
    let outputs = [
        place.lango(&["run", "--session", "k", "\u{1b}[31mhello"]),
        place.lango(&["run", "--session", "k", "--json", "hello"]),
        place.lango(&["run", "--session", "k", "fail"]),
        place.fed(&["chat"], format!("{EVIL}\n").as_bytes()),
        place.lango(&["sessions", "list"]),
        place.lango(&["sessions", "show", "k"]),
        place.lango(&["sessions", "show", "k", "--json"]),
        place.lango(&["sessions", "show", "k", "--as", "openai"]),
        place.lango(&["sessions", "show", EVIL]),
        place.lango(&["run", "--app", EVIL, "hello"]),
        place.lango(&["run", "--model", EVIL, "hello"]),
    ];
    for said in outputs {
        let all = format!("{}{}", said.out, said.err);
        assert!(!all.is_empty());
        assert!(
            !all.contains(|letter: char| letter.is_control() && letter != '\n' && letter != '\t'),
            "{all:?}"
        );
    }
}
