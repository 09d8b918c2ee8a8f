//! The sandbox through the binary: as root, as an ordinary user, and where the system refuses namespaces.

mod escapes;
mod generator;
mod modes;
mod programs;
mod rows;

use crate::{common::LANGO, serve::client::TestServer};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
};
use tempfile::TempDir;

/// Everything that the policy can analyse runs.
const SETTINGS: &str = "model = \"scripted/script.yaml\"\n[approval]\nexecute = \"allow\"\n";

/// A user who is not root, and needs no entry in the user database.
const ORDINARY: u32 = 65_533;

/// Who runs the binary, and what the system offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    /// As the user of the tests.
    Plain,
    /// As another user than root.
    OrdinaryUser,
    /// With a seccomp filter that refuses namespaces.
    NoNamespaces,
}

impl Condition {
    /// What can be tested here: only root can become another user.
    fn all() -> Vec<Self> {
        let mut all = vec![Self::Plain, Self::NoNamespaces];
        all.extend(rustix::process::geteuid().is_root().then_some(Self::OrdinaryUser));
        all
    }
}

/// A project with a repository, a submodule-like nested one, a denied file and its surroundings.
struct Project {
    dir: TempDir,
    condition: Condition,
}

impl Project {
    fn new(condition: Condition) -> Self {
        let dir = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
        let project = Self { dir, condition };
        for (name, text) in [
            ("here/lango.toml", SETTINGS),
            ("here/.env", "TOKEN=CANARY-7f3a\n"),
            ("here/plain.txt", "plain\n"),
            ("here/.git/HEAD", "ref: refs/heads/main\n"),
            ("here/.git/config", "[core]\n"),
            ("here/sub/.git/HEAD", "ref: refs/heads/main\n"),
            ("here/sub/.git/config", "[core]\n"),
            ("outside/kept", "kept\n"),
            ("home/.ssh/id_rsa", "CANARY-7f3a\n"),
        ] {
            project.file(name, text);
        }
        for name in ["here/.git", "here/sub/.git"] {
            for dir in ["hooks", "objects", "refs"] {
                fs::create_dir_all(project.path(name).join(dir)).unwrap();
            }
        }
        std::os::unix::fs::symlink(".env", project.path("here/link")).unwrap();
        if condition == Condition::OrdinaryUser {
            // The build directory may be inaccessible to others.
            fs::copy(LANGO, project.path("lango")).unwrap();
        }
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Runs the calls, each in a turn of its own step or all at once, and returns their results.
    fn run(&self, calls: &[Value], variables: &[(&str, &str)]) -> Vec<Value> {
        self.script(calls);
        let output = self.output(&["run", "--json", "go"], variables);
        let events: Vec<Value> = output.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let parts =
            events.iter().flat_map(|event| event["content"]["parts"].as_array().cloned().unwrap_or_default());
        let results: Vec<Value> = parts
            .filter_map(|part| part.get("functionResponse").map(|found| found["response"].clone()))
            .collect();
        assert_eq!(results.len(), calls.len(), "{output}");
        results
    }

    /// Like [`run`](Self::run), on a server whose administrator approves each call that asks.
    fn run_approved(&self, calls: &[Value]) -> Vec<Value> {
        self.script(calls);
        // The session is a new one.
        let _ = fs::remove_dir_all(self.path("data"));
        let mut command = self.command(&["serve", "--port", "0", "--no-auth"], &[]);
        let server = without_namespaces(|| TestServer::spawn(&mut command));
        let session = server.create_session("lango", "s");
        server.send_message("lango", "s", "go").success();
        let parts = || {
            let events = server.get(&session)["events"].as_array().unwrap().clone();
            events
                .iter()
                .flat_map(|event| event["content"]["parts"].as_array().unwrap().clone())
                .collect::<Vec<_>>()
        };
        let name = "adk_request_confirmation";
        let answer = |call: &Value| json!({"functionResponse": {"id": call["id"], "name": name, "response": {"confirmed": true}}});
        let found = parts();
        let questions = found.iter().map(|part| &part["functionCall"]).filter(|call| call["name"] == name);
        let answers: Vec<Value> = questions.map(answer).collect();
        assert!(!answers.is_empty(), "{found:?}");
        let body = json!({
            "appName": "lango", "userId": "u", "sessionId": "s",
            "newMessage": {"role": "user", "parts": answers},
        });
        server.request("POST", "/run", &body).success();
        let found = parts();
        server.kill();
        let made = found.iter().map(|part| &part["functionCall"]).filter(|call| call["name"] == "exec");
        let last = |call: &Value| {
            let mut results = found.iter().map(|part| &part["functionResponse"]);
            results.rfind(|result| result["id"] == call["id"]).unwrap()["response"].clone()
        };
        made.map(last).collect()
    }

    /// Makes the scripted model call these tools at once.
    fn script(&self, calls: &[Value]) {
        let calls: Vec<Value> = calls.iter().map(|call| json!({"call": call})).collect();
        let rules =
            json!({"rules": [{"when": {"first_word": "go"}, "reply": calls}, {"reply": [{"text": "done"}]}]});
        self.file("here/script.yaml", &rules.to_string());
    }

    /// The binary with these arguments.
    fn command(&self, args: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = match self.condition {
            Condition::OrdinaryUser => {
                self.give_away();
                let mut command = Command::new(self.path("lango"));
                command.uid(ORDINARY).gid(ORDINARY);
                command
            }
            Condition::Plain | Condition::NoNamespaces => Command::new(LANGO),
        };
        command
            .arg("--trust")
            .args(args)
            .current_dir(self.path("here"))
            .stdin(Stdio::null())
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.path("home"))
            .env("LANGO_HOME", self.path("data"))
            .env("LANGO_DISCOVER", "false")
            .envs(variables.iter().copied());
        command
    }

    /// The output of the binary.
    fn output(&self, args: &[&str], variables: &[(&str, &str)]) -> String {
        let mut command = self.command(args, variables);
        let output = match self.condition {
            Condition::NoNamespaces => without_namespaces(|| command.output().unwrap()),
            Condition::Plain | Condition::OrdinaryUser => command.output().unwrap(),
        };
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }

    /// Writes the settings anew, whatever a command made of them.
    fn restore_settings(&self) {
        let _ = fs::remove_file(self.path("here/lango.toml"));
        self.file("here/lango.toml", SETTINGS);
    }

    /// Makes the ordinary user the owner of everything.
    fn give_away(&self) {
        if self.condition == Condition::OrdinaryUser {
            give_to(self.dir.path(), ORDINARY);
        }
    }

    fn exec(&self, command: &str) -> Value {
        self.run(&[exec(command)], &[]).remove(0)
    }
}

fn exec(command: &str) -> Value {
    json!({"name": "exec", "args": {"command": command, "timeout_s": 5}})
}

fn give_to(dir: &Path, user: u32) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            give_to(&entry.path(), user);
        }
        if !kind.is_symlink() {
            chown(entry.path(), Some(user), Some(user)).unwrap();
        }
    }
    chown(dir, Some(user), Some(user)).unwrap();
}

/// Runs a function on a thread whose children cannot make namespaces. A filter applies to one thread and what it starts.
pub(crate) fn without_namespaces<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    without_calls(&[libc::SYS_unshare, libc::SYS_mount], run)
}

/// Like [`without_namespaces`], also without Landlock: nothing can be confined.
fn without_sandbox<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    without_calls(&[libc::SYS_unshare, libc::SYS_mount, libc::SYS_landlock_create_ruleset], run)
}

fn without_calls<T: Send>(refused: &[libc::c_long], run: impl FnOnce() -> T + Send) -> T {
    let filtered = || {
        let rules = refused.iter().map(|number| (*number, Vec::new())).collect();
        let arch = std::env::consts::ARCH.try_into().unwrap();
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(1), arch).unwrap();
        seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
        run()
    };
    thread::scope(|scope| scope.spawn(filtered).join().unwrap())
}
