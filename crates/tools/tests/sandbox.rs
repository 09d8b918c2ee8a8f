//! Commands in the sandbox, as far as this kernel supports it. The test binary is also the helper, so it has no harness.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "clippy does not recognize a test without a harness as one"
)]

use std::{
    env, fs,
    io::Write,
    net::TcpListener,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, ExitCode, Stdio},
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tools::{
    AppUser, ArtifactFile, OutputStore, Tool, ToolHost, ToolReply, ToolRequest, ToolsError,
    exec::{
        EnvVars, Exec, ExecLimits, ExecToolContext, Sandbox, Watchdog,
        sandbox::{CONFINE, FileConfinement, NetworkConfinement, SandboxConfig, confined_main},
    },
    files::FileRoot,
};

type SandboxCheck = fn(&Path);

const CHECKS: [(&str, SandboxCheck); 5] = [
    ("exec_runs_in_the_sandbox", exec_runs_in_the_sandbox),
    ("writes_outside_are_denied", writes_outside_are_denied),
    ("tcp_and_terminal_are_unavailable", tcp_and_terminal_are_unavailable),
    ("confinement_describes_what_is_in_force", confinement_describes_what_is_in_force),
    ("command_waits_at_the_gate", command_waits_at_the_gate),
];

fn main() -> ExitCode {
    let mut args = env::args_os().skip(1);
    if args.next().is_some_and(|first| first == CONFINE) {
        return confined_main(args);
    }
    let args: Vec<String> = env::args().skip(1).collect();
    let has_flag = |name: &str| args.iter().any(|arg| arg == name);
    let is_selected = |name: &str| {
        args.iter().all(|arg| arg.starts_with("--") || name.contains(arg.as_str()) || arg == "terse")
    };
    for (name, check) in CHECKS.into_iter().filter(|(name, _)| is_selected(name)) {
        match (has_flag("--list"), has_flag("--ignored")) {
            (true, false) => println!("{name}: test"),
            (_, true) => {}
            (false, false) => {
                let helper = env::current_exe().expect("the path of the test binary");
                check(&helper);
                println!("test {name} ... ok");
            }
        }
    }
    ExitCode::SUCCESS
}

/// Runs a script confined to `dir`; `None` where the kernel has no Landlock.
fn confined(helper: &Path, dir: &Path, script: &str) -> Option<(bool, String)> {
    let probe = Command::new(helper).args([CONFINE, "--probe"]).output().expect("the helper must start");
    if !probe.status.success() {
        eprintln!("skipped: {}", String::from_utf8_lossy(&probe.stderr));
        return None;
    }
    let output = Command::new(helper)
        .args([CONFINE, "--rw"])
        .arg(dir)
        .args(["--no-tcp", "--", "sh", "-c", script])
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .expect("the helper must start");
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

/// A host without state and without cancellation.
struct NullHost;

impl ToolHost for NullHost {
    fn state(&self, _key: &str) -> Option<Value> {
        None
    }

    fn set_state(&self, _key: &str, _value: Value) {}

    fn save_artifact(&self, _name: String, _file: ArtifactFile) -> BoxFuture<'_, Result<u64, ToolsError>> {
        Box::pin(async { Ok(0) })
    }

    fn owner(&self) -> AppUser {
        AppUser::default()
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(futures::future::pending())
    }
}

/// End to end: tool, network namespace, helper and shell.
fn exec_runs_in_the_sandbox(helper: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let (root, tmp) = (dir.path().join("root"), dir.path().join("tmp"));
    fs::create_dir(&root).unwrap();
    fs::create_dir(&tmp).unwrap();
    let path = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned();
    let writable = vec![root.clone(), tmp.clone()];
    let sandbox = Sandbox::build(SandboxConfig {
        helper: helper.to_owned(),
        writable,
        network: false,
        path: path.clone(),
    });
    let confinement = sandbox.confinement().clone();
    let limits = ExecLimits {
        time: Duration::from_secs(5),
        grace: Duration::from_millis(100),
        ..ExecLimits::default()
    };
    let context = ExecToolContext {
        roots: FileRoot::new(&root).unwrap().into(),
        outputs: OutputStore::new(&dir.path().join("outputs")),
        env: EnvVars { path, home: root.display().to_string(), lang: "C".to_owned(), tmp },
        sandbox: sandbox.into(),
        watchdog: Watchdog::new(helper.to_owned()),
        limits,
    };
    let tool = Exec::new(Arc::new(context));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let run = |command: &str| {
        let args = json!({"command": command, "timeout_s": 1});
        let request = ToolRequest {
            id: String::new(),
            args: args.as_object().unwrap().clone(),
            host: Arc::new(NullHost),
        };
        match runtime.block_on(tool.call(request)).unwrap() {
            ToolReply::Done(answer) => answer,
            ToolReply::Pending(_) => panic!("exec must not be pending"),
        }
    };
    let fine = run("echo x > inside && echo y > \"$TMPDIR/t\" && cat inside && echo $HOME");
    assert_eq!(fine["output"], format!("x\n{}\n", root.display()), "{fine}");
    let slow = run("sleep 100 & sleep 100");
    assert!(slow["timed_out"].is_string(), "{slow}");
    if let FileConfinement::Landlock(_) = confinement.files {
        let out = run("echo x > ../outside");
        assert!(out["exit_code"] != 0 && !dir.path().join("outside").exists(), "{out}");
    }
    if let NetworkConfinement::Namespace(_) = confinement.network {
        let net = run("cat /proc/net/dev | tail -n +3 | cut -d: -f1");
        assert_eq!(net["output"].as_str().unwrap().trim(), "lo", "{net}");
    }
}

fn writes_outside_are_denied(helper: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let (inside, outside) = (dir.path().join("inside"), dir.path().join("outside"));
    fs::create_dir(&inside).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("kept"), "kept").unwrap();
    symlink(&outside, inside.join("link")).unwrap();
    let Some((ok, text)) = confined(
        helper,
        &inside,
        "echo x > a && mkdir b && mv a b/ && cat ../outside/kept && echo > /dev/null",
    ) else {
        return;
    };
    assert!(ok && text == "kept", "{text}");
    for script in [
        "echo x > ../outside/new",
        "echo x > link/new",
        "rm ../outside/kept",
        "mv b/a ../outside/",
        ": > ../outside/kept",
        "ln b/a ../outside/a",
        "mkdir ../outside/d",
        "sh -c 'echo x > ../outside/new'",
        "kill -0 $PPID",
    ] {
        let (ok, text) = confined(helper, &inside, script).unwrap();
        assert!(!ok, "{script}: {text}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "kept");
}

fn tcp_and_terminal_are_unavailable(helper: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    let by_bash = |script: &str| format!("command -v bash > /dev/null || exit 1; bash -c '{script}'");
    let Some((ok, text)) = confined(helper, dir.path(), &by_bash(&connect)) else { return };
    assert!(!ok, "{text}");
    let (ok, text) = confined(helper, dir.path(), "exec 3</dev/tty").unwrap();
    assert!(!ok, "{text}");
}

/// If the program dies before it opens the gate, the command never runs.
fn command_waits_at_the_gate(helper: &Path) {
    let dir = tempfile::tempdir().unwrap();
    if confined(helper, dir.path(), "true").is_none() {
        return;
    }
    let output = |input: &[u8]| {
        let mut command = Command::new(helper);
        command.args([CONFINE, "--gate", "--", "sh", "-c", "echo ran; cat"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the helper must start");
        child.stdin.take().unwrap().write_all(input).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    assert_eq!((output(b"").as_str(), output(b"\n").as_str()), ("", "ran\n"));
}

fn confinement_describes_what_is_in_force(helper: &Path) {
    let config = |network| SandboxConfig {
        helper: helper.to_owned(),
        writable: Vec::new(),
        network,
        path: "/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
    };
    let sandbox = Sandbox::build(config(false));
    let text = sandbox.confinement().to_string();
    match &sandbox.confinement().files {
        FileConfinement::Landlock(version) => {
            assert!(text.contains(&format!("(Landlock {version})")), "{text}");
        }
        FileConfinement::Open { why } => assert!(text.contains(why.as_str()) && !why.is_empty(), "{text}"),
    }
    assert_ne!(sandbox.confinement().network, NetworkConfinement::Allowed);
    assert_eq!(Sandbox::build(config(true)).confinement().network, NetworkConfinement::Allowed);
    let no_helper = Sandbox::build(SandboxConfig { helper: "/no/such/helper".into(), ..config(false) });
    assert!(
        matches!(&no_helper.confinement().files, FileConfinement::Open { why } if why.contains("could not be started"))
    );
}
