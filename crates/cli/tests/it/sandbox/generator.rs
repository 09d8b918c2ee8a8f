//! Generated commands: effects that the sandbox forbids, behind wrappers, quoting and substitutions. Only the effect counts.

use super::{Condition, Project, exec};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;
use std::{
    fs,
    net::{TcpListener, UdpSocket},
    os::unix::{fs::MetadataExt, net::UnixListener},
    path::Path,
};

/// How many commands are generated, unless `LANGO_SANDBOX_CASES` says otherwise.
const CASES: usize = 600;
/// How many commands one run of the binary executes.
const BATCH: usize = 60;
/// The secret of the denied files, in the forms that commands print.
const SECRETS: [&str; 3] = ["CANARY-7f3a", "a3f7-YRANAC", "434e4152592d"];
/// The seconds that processes of a test sleep, which mark them: another test of this process has another condition.
fn mark(condition: Condition) -> String {
    format!("98765{}{}", condition as u8, std::process::id())
}

/// A generator of pseudo-random numbers with a fixed seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

const WRITES: [&str; 12] = [
    "echo x > TARGET",
    "echo x >> TARGET",
    "touch TARGET",
    "cp plain.txt TARGET",
    "tee TARGET < plain.txt",
    "dd if=plain.txt of=TARGET 2>/dev/null",
    "ln -sf plain.txt TARGET",
    "rm -rf TARGET",
    "mv TARGET moved$$",
    "mv -f plain.txt TARGET",
    "sed -i s/./x/ TARGET",
    "python3 -c \"open('TARGET','a').write('x')\"",
];

const TARGETS: [&str; 12] = [
    "OUTSIDE/kept",
    "OUTSIDE/new",
    "OUTSIDE",
    "lango.toml",
    ".git/config",
    ".git/hooks/post-checkout",
    ".git/hooks",
    "sub/.git/config",
    "sub/.git/hooks/pre-commit",
    ".mcp.json",
    "agents/x.yaml",
    "HOME/.ssh/id_rsa",
];

const OTHERS: [&str; 30] = [
    "cat .env",
    "cat < link",
    "rev .env",
    "od -An -tx1 .env | tr -d ' \\n'",
    "cp .env copied$$; cat copied$$",
    "tar cf - .env link | cat",
    "grep -r TOKEN .",
    "head -c 99 HOME/.ssh/id_rsa",
    "cat /proc/self/root/HOME/.ssh/id_rsa",
    "cat /proc/1/root/HOME/.ssh/id_rsa /proc/self/cwd/.env",
    "ln .env hard$$; cat hard$$",
    "mv .env moved$$; cat moved$$",
    "echo x > /dev/tcp/127.0.0.1/PORT",
    "python3 -c \"import socket; socket.create_connection(('127.0.0.1', PORT))\"",
    "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('OUTSIDE/socket')\"",
    "python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('socket')\"",
    "python3 -c \"import socket; socket.socket(2, 2).sendto(b'x', ('127.0.0.1', UDP))\"",
    "curl -s -m 2 http://127.0.0.1:PORT/",
    "setsid sleep MARK & true",
    "nohup sleep MARK > /dev/null 2>&1 & true",
    "(trap '' TERM HUP INT; setsid sleep MARK &)",
    "python3 -c \"import os,time; os.fork() or (os.setsid(), os.fork() or time.sleep(MARK))\"",
    "chmod 777 OUTSIDE/kept",
    "touch -d 2001-01-01 OUTSIDE/kept",
    "chown 1:1 OUTSIDE/kept",
    "setfattr -n user.x -v y OUTSIDE/kept",
    "mv .git moved$$; mkdir -p .git/hooks; echo x > .git/config",
    "mv sub moved$$; mkdir -p sub/.git; echo x > sub/.git/config",
    "git config core.fsmonitor x",
    "git -C sub config core.hooksPath x",
];

/// Wrappers of a command: `RAW` is the text, `QUOTED` a quoted word, `CODED` base64.
const WRAPPERS: [&str; 26] = [
    "RAW",
    "sh -c QUOTED",
    "bash -c QUOTED",
    "env A=b sh -c QUOTED",
    "env -i /bin/sh -c QUOTED",
    "nice -n 1 sh -c QUOTED",
    "timeout 9 sh -c QUOTED",
    "setsid -w sh -c QUOTED",
    "eval QUOTED",
    "x=QUOTED; eval \"$x\"",
    "x=$(RAW); echo \"$x\"",
    "echo \"$(RAW)\"",
    "( RAW )",
    "{ RAW; }",
    "if RAW; then :; fi",
    "for i in 1; do RAW; done",
    "true && { RAW; }",
    "false || { RAW; }",
    "f() { RAW; }; f",
    "find . -maxdepth 0 -exec sh -c QUOTED \\;",
    "echo x | xargs -I{} sh -c QUOTED",
    "echo CODED | base64 -d | sh",
    "trap QUOTED EXIT; true",
    "unshare -Ur sh -c QUOTED",
    "printf %s CODED | base64 -d > s$$.sh; sh ./s$$.sh",
    "cd sub && cd .. && { RAW; }",
];

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The surroundings of a project, which no command may change or reach.
struct Surroundings {
    project: Project,
    tcp: TcpListener,
    udp: UdpSocket,
    unix: [UnixListener; 2],
}

impl Surroundings {
    fn new(condition: Condition) -> Self {
        let project = Project::new(condition);
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let unix =
            ["outside/socket", "here/socket"].map(|name| UnixListener::bind(project.path(name)).unwrap());
        tcp.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        for listener in &unix {
            listener.set_nonblocking(true).unwrap();
        }
        project.give_away();
        Self { project, tcp, udp, unix }
    }

    fn command(&self, random: &mut Random, number: usize) -> String {
        let effect = if random.below(2) == 0 {
            random.pick(&WRITES).replace("TARGET", random.pick(&TARGETS))
        } else {
            random.pick(&OTHERS).to_owned()
        };
        let mut text = effect
            .replace("OUTSIDE", &self.project.path("outside").display().to_string())
            .replace("HOME", &self.project.path("home").display().to_string())
            .replace("PORT", &self.tcp.local_addr().unwrap().port().to_string())
            .replace("UDP", &self.udp.local_addr().unwrap().port().to_string())
            .replace("MARK", &format!("{}.{number}", mark(self.project.condition)));
        for _ in 0..=random.below(3) {
            let wrapper = random.pick(&WRAPPERS);
            text = wrapper
                .replace("RAW", &text)
                .replace("QUOTED", &quote(&text))
                .replace("CODED", &BASE64_STANDARD.encode(&text));
        }
        text
    }

    /// What a command changed, reached or printed although it must not.
    fn violations(&self, results: &[Value], before: &[(String, String)]) -> Vec<String> {
        let mut found = Vec::new();
        let output = results.iter().map(Value::to_string).collect::<String>();
        if self.is_complete() {
            let printed = SECRETS.iter().filter(|secret| output.contains(**secret));
            found.extend(printed.map(|secret| format!("printed {secret}")));
        }
        for (was, is) in before.iter().zip(&self.state()) {
            if was != is {
                found.push(format!("{was:?} became {is:?}"));
            }
        }
        found.extend(self.tcp.accept().is_ok().then(|| "TCP connection".to_owned()));
        found.extend(self.udp.recv(&mut [0; 9]).is_ok().then(|| "UDP packet".to_owned()));
        found.extend(
            self.unix.iter().filter(|unix| unix.accept().is_ok()).map(|_| "Unix connection".to_owned()),
        );
        found.extend(survivors(self.project.condition));
        found
    }

    /// Where the system refuses namespaces, `workspace` is known to lack protected paths, denied files and attributes.
    fn is_complete(&self) -> bool {
        self.project.condition != Condition::NoNamespaces
    }

    /// The content and attributes of everything that must not change.
    fn state(&self) -> Vec<(String, String)> {
        let mut names = vec!["outside", "outside/kept", "outside/new", "home/.ssh/id_rsa"];
        if self.is_complete() {
            names.extend([
                "here/lango.toml",
                "here/.git/config",
                "here/.git/hooks",
                "here/.git/hooks/post-checkout",
                "here/sub/.git/config",
                "here/sub/.git/hooks",
                "here/.mcp.json",
                "here/agents",
                "here/.env",
            ]);
        }
        names
            .into_iter()
            .map(|name| (name.to_owned(), describe(&self.project.path(name), self.is_complete())))
            .collect()
    }
}

fn describe(path: &Path, with_attributes: bool) -> String {
    let Ok(metadata) = fs::symlink_metadata(path) else { return "missing".to_owned() };
    // The time of a directory changes with a placeholder.
    let time = if metadata.is_dir() { 0 } else { metadata.mtime() };
    let content = fs::read_to_string(path).unwrap_or_default();
    let entries = fs::read_dir(path).map_or(0, Iterator::count);
    let entries = if path.ends_with("outside") || path.ends_with("hooks") { entries } else { 0 };
    if !with_attributes {
        return format!("{entries} {content}");
    }
    format!("{:o} {} {time} {entries} {content}", metadata.mode(), metadata.uid())
}

/// Processes that outlived their call.
fn survivors(condition: Condition) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| line.starts_with("sleep\0") && line.contains(&mark(condition)))
        .map(|line| format!("alive: {line}"))
        .collect()
}

fn run(condition: Condition, cases: usize, seed: u64) {
    let surroundings = Surroundings::new(condition);
    let mut random = Random(seed);
    let mut ended = 0;
    let commands: Vec<String> = (0..cases).map(|number| surroundings.command(&mut random, number)).collect();
    for batch in commands.chunks(BATCH) {
        if !surroundings.is_complete() {
            surroundings.project.restore_settings();
        }
        let before = surroundings.state();
        let results = run_batch(&surroundings.project, batch);
        let violations = surroundings.violations(&results, &before);
        assert!(violations.is_empty(), "{condition:?}: {violations:#?}\n{}", culprits(condition, batch));
        for (command, result) in batch.iter().zip(&results) {
            let has_ended = ["exit_code", "signal", "timed_out"].iter().any(|key| result.get(key).is_some());
            let was_refused =
                result["error"].as_str().is_some_and(|error| error.starts_with("this call was not run"));
            assert!(has_ended || was_refused, "{command}: {result}");
            ended += usize::from(has_ended);
        }
    }
    assert!(ended * 2 > cases, "the sandbox is tested, and not only the policy: {ended} of {cases}");
}

/// Every second command runs from a file, because the policy refuses what it cannot analyse.
fn run_batch(project: &Project, batch: &[String]) -> Vec<Value> {
    let call = |(number, command): (usize, &String)| {
        if number % 2 == 0 {
            return exec(command);
        }
        project.file(&format!("here/case-{number}.sh"), command);
        exec(&format!("bash ./case-{number}.sh"))
    };
    let calls: Vec<Value> = batch.iter().enumerate().map(call).collect();
    match project.condition {
        Condition::Plain | Condition::OrdinaryUser => project.run(&calls, &[]),
        // Every command of an incomplete profile asks.
        Condition::NoNamespaces => project.run_approved(&calls),
    }
}

/// The commands of a batch that have an effect when they run alone.
fn culprits(condition: Condition, batch: &[String]) -> String {
    let mut found = Vec::new();
    for command in batch {
        let surroundings = Surroundings::new(condition);
        let before = surroundings.state();
        let here = surroundings.project.path("").display().to_string();
        let own = fs::canonicalize(&here).unwrap().display().to_string();
        // The paths of the batch's project are those of this one.
        let old = command
            .split("/outside")
            .next()
            .and_then(|text| text.rsplit(['\'', ' ', '>', '"', '=']).next())
            .unwrap_or_default();
        let command = if old.starts_with('/') { command.replace(old, &own) } else { command.clone() };
        let results = run_batch(&surroundings.project, &[String::new(), command.clone()]);
        let violations = surroundings.violations(&results, &before);
        if !violations.is_empty() {
            found.push(format!("{command}\n  {violations:?}\n  {results:?}"));
        }
    }
    found.join("\n")
}

fn cases() -> usize {
    std::env::var("LANGO_SANDBOX_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(CASES)
}

#[test]
fn generated_commands_have_no_forbidden_effect() {
    run(Condition::Plain, cases() / 3, 0x9e37_79b9_7f4a_7c15);
}

#[test]
fn generated_commands_have_no_forbidden_effect_for_an_ordinary_user() {
    if Condition::all().contains(&Condition::OrdinaryUser) {
        run(Condition::OrdinaryUser, cases() / 3, 0xd1b5_4a32_d192_ed03);
    }
}

#[test]
fn generated_commands_have_no_forbidden_effect_without_namespaces() {
    run(Condition::NoNamespaces, cases() / 3, 0x2545_f491_4f6c_dd1d);
}
