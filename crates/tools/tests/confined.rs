//! Commands in their cage, as the kernel of this machine allows. The test is its own helper, so it has no harness.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test without a harness looks like a program"
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
        Cage, Environment, Exec, Limits, Shell, Watchdog,
        confine::{CONFINE, Files, Network, Wanted, confined_main},
    },
    files::FileRoot,
};

type Check = fn(&Path);

const CHECKS: [(&str, Check); 5] = [
    ("exec_runs_in_its_cage", exec_runs_in_its_cage),
    ("writes_stay_inside", writes_stay_inside),
    ("there_is_no_tcp_and_no_terminal", there_is_no_tcp_and_no_terminal),
    ("the_cage_says_what_is_in_force", the_cage_says_what_is_in_force),
    ("a_command_waits_for_leave", a_command_waits_for_leave),
];

fn main() -> ExitCode {
    let mut args = env::args_os().skip(1);
    if args.next().is_some_and(|first| first == CONFINE) {
        return confined_main(args);
    }
    let args: Vec<String> = env::args().skip(1).collect();
    let is = |name: &str| args.iter().any(|arg| arg == name);
    let wanted = |name: &str| {
        args.iter().all(|arg| arg.starts_with("--") || name.contains(arg.as_str()) || arg == "terse")
    };
    for (name, check) in CHECKS.into_iter().filter(|(name, _)| wanted(name)) {
        match (is("--list"), is("--ignored")) {
            (true, false) => println!("{name}: test"),
            (_, true) => {}
            (false, false) => {
                let helper = env::current_exe().expect("this test is a file");
                check(&helper);
                println!("test {name} ... ok");
            }
        }
    }
    ExitCode::SUCCESS
}

/// Runs a script confined to `dir`; `None` where the kernel has no Landlock.
fn confined(helper: &Path, dir: &Path, script: &str) -> Option<(bool, String)> {
    let probe = Command::new(helper).args([CONFINE, "--probe"]).output().expect("the helper starts");
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
        .expect("the helper starts");
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

/// A turn that nobody stops and nobody watches.
struct Nobody;

impl ToolHost for Nobody {
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

/// The whole way: the tool, the namespace, the helper, the shell.
fn exec_runs_in_its_cage(helper: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let (root, tmp) = (dir.path().join("root"), dir.path().join("tmp"));
    fs::create_dir(&root).unwrap();
    fs::create_dir(&tmp).unwrap();
    let path = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned();
    let writable = vec![root.clone(), tmp.clone()];
    let cage =
        Cage::build(Wanted { helper: helper.to_owned(), writable, network: false, path: path.clone() });
    let confinement = cage.confinement().clone();
    let limits =
        Limits { time: Duration::from_secs(5), grace: Duration::from_millis(100), ..Limits::default() };
    let shell = Shell {
        roots: FileRoot::new(&root).unwrap().into(),
        outputs: OutputStore::new(&dir.path().join("kept")),
        environment: Environment { path, home: root.display().to_string(), lang: "C".to_owned(), tmp },
        cage: cage.into(),
        watchdog: Watchdog::new(helper.to_owned()),
        limits,
    };
    let tool = Exec::new(Arc::new(shell));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let run = |command: &str| {
        let args = json!({"command": command, "timeout_s": 1});
        let call = ToolRequest {
            id: String::new(),
            args: args.as_object().unwrap().clone(),
            host: Arc::new(Nobody),
        };
        match runtime.block_on(tool.call(call)).unwrap() {
            ToolReply::Done(answer) => answer,
            ToolReply::Pending(_) => panic!("exec answers at once"),
        }
    };
    let fine = run("echo x > inside && echo y > \"$TMPDIR/t\" && cat inside && echo $HOME");
    assert_eq!(fine["output"], format!("x\n{}\n", root.display()), "{fine}");
    let slow = run("sleep 100 & sleep 100");
    assert!(slow["timed_out"].is_string(), "{slow}");
    if let Files::Landlock(_) = confinement.files {
        let out = run("echo x > ../outside");
        assert!(out["exit_code"] != 0 && !dir.path().join("outside").exists(), "{out}");
    }
    if let Network::Namespace(_) = confinement.network {
        let net = run("cat /proc/net/dev | tail -n +3 | cut -d: -f1");
        assert_eq!(net["output"].as_str().unwrap().trim(), "lo", "{net}");
    }
}

fn writes_stay_inside(helper: &Path) {
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

fn there_is_no_tcp_and_no_terminal(helper: &Path) {
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

/// Whoever would give leave may be dead: then nothing runs.
fn a_command_waits_for_leave(helper: &Path) {
    let dir = tempfile::tempdir().unwrap();
    if confined(helper, dir.path(), "true").is_none() {
        return;
    }
    let said = |leave: &[u8]| {
        let mut command = Command::new(helper);
        command.args([CONFINE, "--gate", "--", "sh", "-c", "echo ran; cat"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the helper starts");
        child.stdin.take().unwrap().write_all(leave).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    assert_eq!((said(b"").as_str(), said(b"\n").as_str()), ("", "ran\n"));
}

fn the_cage_says_what_is_in_force(helper: &Path) {
    let wanted = |network| Wanted {
        helper: helper.to_owned(),
        writable: Vec::new(),
        network,
        path: "/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
    };
    let cage = Cage::build(wanted(false));
    let said = cage.confinement().to_string();
    match &cage.confinement().files {
        Files::Landlock(version) => assert!(said.contains(&format!("(Landlock {version})")), "{said}"),
        Files::Open { why } => assert!(said.contains(why.as_str()) && !why.is_empty(), "{said}"),
    }
    assert_ne!(cage.confinement().network, Network::Allowed);
    assert_eq!(Cage::build(wanted(true)).confinement().network, Network::Allowed);
    let nobody = Cage::build(Wanted { helper: "/no/such/helper".into(), ..wanted(false) });
    assert!(
        matches!(&nobody.confinement().files, Files::Open { why } if why.contains("could not be started"))
    );
}
