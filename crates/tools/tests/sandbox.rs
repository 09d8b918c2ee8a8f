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
    net::TcpListener,
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixListener,
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode},
    sync::Arc,
    time::Duration,
};

use futures::future::BoxFuture;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use serde_json::{Value, json};
use tempfile::TempDir;
use tools::{
    AppUser, ArtifactFile, CallingTurn, OutputStore, SandboxAccess, SandboxProfile, Tool, ToolHost,
    ToolReply, ToolRequest, ToolsError,
    exec::{
        Confinement, EnvVars, Exec, ExecLimits, ExecToolContext, Sandbox, Watchdog,
        sandbox::{
            CONFINE, Guarantee, RootAccess, SandboxConfig, SandboxLimit, SandboxLimits, SandboxSettings,
            Tested, confined_main,
            deny::{DEFAULT_DENY_READ, DenyList},
        },
    },
    files::FileRoot,
};

const PATH: &str = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

type SandboxCheck = fn(&Path);

/// Arguments that run one check under other conditions.
const WITHOUT_NAMESPACES: &str = "__without_namespaces";
const AS_USER: &str = "__as_user";

const CHECKS: [(&str, SandboxCheck); 11] = [
    ("workspace_writes_inside_the_root_only", workspace_writes_inside_the_root_only),
    ("read_only_writes_nothing_but_tmp", read_only_writes_nothing_but_tmp),
    ("protected_paths_stay_as_they_are", protected_paths_stay_as_they_are),
    ("repository_that_a_command_creates_runs_nothing", repository_that_a_command_creates_runs_nothing),
    ("network_sockets_and_processes_are_out_of_reach", network_sockets_and_processes_are_out_of_reach),
    ("landlock_confines_where_namespaces_are_refused", landlock_confines_where_namespaces_are_refused),
    ("ordinary_user_gets_the_same_sandbox", ordinary_user_gets_the_same_sandbox),
    ("processes_end_with_the_call", processes_end_with_the_call),
    ("every_guarantee_is_tested", every_guarantee_is_tested),
    ("every_limit_is_tested", every_limit_is_tested),
    ("memory_hog_and_fork_bomb_end_with_an_error", memory_hog_and_fork_bomb_end_with_an_error),
];

fn main() -> ExitCode {
    let mut args = env::args_os().skip(1);
    if args.next().is_some_and(|first| first == CONFINE) {
        return confined_main(args);
    }
    let args: Vec<String> = env::args().skip(1).collect();
    if let [first, name] = args.as_slice()
        && first == WITHOUT_NAMESPACES
    {
        refuse_namespaces();
        return run_check(name);
    }
    if let [first, name] = args.as_slice()
        && first == AS_USER
    {
        return run_check(name);
    }
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

/// Runs one check in this process.
fn run_check(name: &str) -> ExitCode {
    let (_, check) = CHECKS.into_iter().find(|(known, _)| *known == name).expect("the name of a check");
    check(&env::current_exe().expect("the path of the test binary"));
    ExitCode::SUCCESS
}

/// Makes the system refuse namespaces to this process and its children, as containers do.
fn refuse_namespaces() {
    let refuse = SeccompAction::Errno(1);
    let rules = [libc::SYS_unshare, libc::SYS_mount].map(|number| (number, Vec::new())).into();
    let arch = env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap();
    seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
}

/// Runs checks in processes of their own.
fn run_again(helper: &Path, mode: &str, names: &[&str], change: fn(&mut Command)) {
    for name in names {
        let mut command = Command::new(helper);
        command.args([mode, name]).current_dir("/");
        change(&mut command);
        let output = command.output().expect("the test binary must start");
        let text = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&text));
    }
}

/// The profile `read-only` is complete without namespaces; `workspace` keeps what Landlock and seccomp can.
fn landlock_confines_where_namespaces_are_refused(helper: &Path) {
    let names = [
        "read_only_writes_nothing_but_tmp",
        "network_sockets_and_processes_are_out_of_reach",
        "processes_end_with_the_call",
        "workspace_writes_inside_the_root_only",
        "every_guarantee_is_tested",
        "every_limit_is_tested",
        "memory_hog_and_fork_bomb_end_with_an_error",
    ];
    run_again(helper, WITHOUT_NAMESPACES, &names, |_| {});
}

/// As an ordinary user, if this test runs as root.
fn ordinary_user_gets_the_same_sandbox(helper: &Path) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // The build directory may be inaccessible to others.
    let dir = tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir().unwrap();
    let copy = dir.path().join("helper");
    fs::copy(helper, &copy).unwrap();
    let names: Vec<&str> =
        CHECKS.iter().map(|(name, _)| *name).filter(|name| !name.starts_with("ordinary")).collect();
    run_again(&copy, AS_USER, &names, |command| {
        command.uid(65_533).gid(65_533);
    });
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

/// A project with a root, a directory outside, and the data directory.
struct Project {
    dir: TempDir,
    tool: Exec,
    runtime: tokio::runtime::Runtime,
    /// Whether the profile `workspace` is complete.
    is_full: bool,
}

impl Project {
    /// `None` where the kernel offers no sandbox.
    fn new(helper: &Path) -> Option<Self> {
        Self::with_limits(helper, SandboxLimits::default())
    }

    fn with_limits(helper: &Path, limits: SandboxLimits) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in ["root", "outside", "data/tmp", "home/.ssh"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        fs::write(base.join("outside/kept"), "kept").unwrap();
        fs::write(base.join("home/.ssh/id_x"), "secret").unwrap();
        fs::write(base.join("data/token"), "secret").unwrap();
        let settings = SandboxSettings { limits, ..settings(&base) };
        let sandbox = Sandbox::build(SandboxConfig { helper: helper.to_owned(), settings });
        if let Confinement::Open { why } = sandbox.confinement() {
            eprintln!("skipped: {why}");
            return None;
        }
        let is_full = matches!(sandbox.confinement(), Confinement::Full { .. });
        let limits = ExecLimits { grace: Duration::from_millis(100), ..ExecLimits::default() };
        let context = ExecToolContext {
            roots: FileRoot::new(&base.join("root")).unwrap().into(),
            outputs: OutputStore::new(&base.join("data/outputs")),
            env: EnvVars {
                path: PATH.to_owned(),
                home: base.join("home").display().to_string(),
                lang: "C".to_owned(),
                tmp: base.join("data/tmp"),
            },
            sandbox: sandbox.into(),
            watchdog: Watchdog::disabled(),
            limits,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Some(Self { dir, tool: Exec::new(Arc::new(context)), runtime, is_full })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn call(&self, access: SandboxAccess, args: &Value) -> Value {
        let request = ToolRequest {
            id: String::new(),
            args: args.as_object().unwrap().clone(),
            turn: CallingTurn::default(),
            host: Arc::new(NullHost),
            sandbox: access,
            input: None,
        };
        match self.runtime.block_on(self.tool.call(request)).unwrap() {
            ToolReply::Done(answer) => answer,
            other @ (ToolReply::Untrusted { .. } | ToolReply::Pending(_) | ToolReply::Ask(_)) => {
                panic!("{other:?}")
            }
        }
    }

    fn run(&self, profile: SandboxProfile, command: &str) -> Value {
        self.call(SandboxAccess { profile, protected: Vec::new() }, &json!({"command": command}))
    }

    #[track_caller]
    fn succeeds(&self, profile: SandboxProfile, command: &str) -> String {
        let answer = self.run(profile, command);
        assert_eq!(answer["exit_code"], 0, "{command}: {answer}");
        answer["output"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn fails(&self, profile: SandboxProfile, command: &str) {
        let answer = self.run(profile, command);
        assert_ne!(answer["exit_code"], 0, "{command}: {answer}");
    }
}

fn settings(base: &Path) -> SandboxSettings {
    SandboxSettings {
        roots: vec![RootAccess { path: base.join("root"), write: true }],
        home: base.join("home"),
        path: PATH.to_owned(),
        data_dir: base.join("data"),
        deny: DenyList::new(DEFAULT_DENY_READ, &base.join("home")),
        ..SandboxSettings::default()
    }
}

fn workspace_writes_inside_the_root_only(helper: &Path) {
    let Some(project) = Project::new(helper) else { return };
    symlink(project.path("outside"), project.path("root/link")).unwrap();
    fs::write(project.path("root/.env"), "secret").unwrap();
    let workspace = SandboxProfile::Workspace;
    let text = project.succeeds(
        workspace,
        "echo x > a && mkdir b && mv a b/ && cat b/a && echo y > $TMPDIR/t && echo > /dev/null",
    );
    assert!(text.starts_with("x\n"), "{text}");
    for script in [
        "echo x > ../outside/new",
        "echo x > link/new",
        "rm ../outside/kept",
        "cat ../outside/kept",
        "cat ../data/token",
        "ls ../home/.ssh",
        "mv b/a ../outside/",
        "touch /x",
        "mount -t tmpfs x /mnt",
        "unshare -U true",
        "python3 -c \"import socket; socket.sethostname('x')\"",
        "cd /proc/sys/kernel && text=$(cat core_pattern) && echo \"$text\" > core_pattern",
    ] {
        project.fails(workspace, script);
    }
    let only_full = [
        "cat .env",
        "cat < .env",
        "chmod 777 ../outside/kept",
        "touch ../outside/kept",
        "chown 1 ../outside",
    ];
    for script in only_full.iter().filter(|_| project.is_full) {
        project.fails(workspace, script);
    }
    assert_eq!(fs::read_dir(project.path("outside")).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(project.path("outside/kept")).unwrap(), "kept");
    assert_eq!(fs::read_to_string(project.path("root/.env")).unwrap(), "secret");
    assert!(!project.path("root/lango.toml").exists(), "placeholders are removed");
    assert!(!project.path("root/agents").exists() && !project.path("root/.git").exists());
}

fn read_only_writes_nothing_but_tmp(helper: &Path) {
    let Some(project) = Project::new(helper) else { return };
    fs::write(project.path("root/a"), "a").unwrap();
    fs::write(project.path("root/.env"), "secret").unwrap();
    let read_only = SandboxProfile::ReadOnly;
    assert_eq!(project.succeeds(read_only, "cat a; echo y > $TMPDIR/t && cat $TMPDIR/t"), "ay\n");
    for script in [
        "echo x > a",
        "touch new",
        "chmod 777 a",
        "rm a",
        "touch -d 2001-01-01 a",
        "mv a b",
        "test -e $TMPDIR/t",
        "cat .env",
    ] {
        project.fails(read_only, script);
    }
    assert_eq!(fs::read_dir(project.path("root")).unwrap().count(), 2);
}

fn protected_paths_stay_as_they_are(helper: &Path) {
    let Some(project) = Project::new(helper) else { return };
    let workspace = SandboxProfile::Workspace;
    for dir in ["root/sub/.git/hooks", "root/sub/.git/objects", "root/sub/.git/refs"] {
        fs::create_dir_all(project.path(dir)).unwrap();
    }
    fs::write(project.path("root/sub/.git/config"), "[core]\n").unwrap();
    fs::write(project.path("root/sub/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    for script in [
        "echo x > lango.toml",
        "echo x > .mcp.json",
        "mkdir agents/x",
        "mkdir .git/hooks",
        "echo x > sub/.git/hooks/pre-commit",
        "echo x > sub/.git/config",
        "rm sub/.git/config",
        "mv sub/.git sub/old",
        "mv sub old",
        "rm -rf sub",
        "ln -sfn /tmp sub/.git/hooks",
        "mv -T /tmp sub/.git/hooks",
        "rm lango.toml",
        "mv lango.toml x",
    ] {
        project.fails(workspace, script);
        assert_eq!(fs::read_to_string(project.path("root/sub/.git/config")).unwrap(), "[core]\n", "{script}");
        assert_eq!(fs::read_dir(project.path("root/sub/.git/hooks")).unwrap().count(), 0, "{script}");
    }
    assert_eq!(fs::read_dir(project.path("root")).unwrap().count(), 1, "placeholders are removed");
    project.succeeds(workspace, "echo x > sub/.git/index && mkdir sub/.git/x");
    let config = project.path("root/sub/.git/config").canonicalize().unwrap();
    let granted = SandboxAccess { profile: workspace, protected: vec![config] };
    let answer = project
        .call(granted, &json!({"command": "echo x > sub/.git/config", "protected": ["sub/.git/config"]}));
    assert_eq!(answer["exit_code"], 0, "{answer}");
    assert_eq!(fs::read_to_string(project.path("root/sub/.git/config")).unwrap(), "x\n");
    let asked = SandboxAccess { profile: workspace, protected: Vec::new() };
    let answer = project
        .call(asked, &json!({"command": "echo y > sub/.git/config", "protected": ["sub/.git/config"]}));
    assert_ne!(answer["exit_code"], 0, "{answer}");
}

/// A command cannot leave a repository behind that makes git run a program.
fn repository_that_a_command_creates_runs_nothing(helper: &Path) {
    let Some(project) = Project::new(helper) else { return };
    let workspace = SandboxProfile::Workspace;
    fs::write(project.path("root/real.json"), "{}").unwrap();
    symlink("real.json", project.path("root/.mcp.json")).unwrap();
    for script in [
        "mkdir -p a/.git/hooks a/.git/objects a/.git/refs; echo > a/.git/HEAD; echo x > a/.git/hooks/pre-commit; printf '[core]\\nfsmonitor=x' > a/.git/config",
        "mkdir -p b/objects b/refs; echo > b/HEAD; printf '[core]\\nfsmonitor=x' > b/config",
        "mkdir -p d e; echo 'gitdir: ../e' > d/.git; printf '[core]\\nfsmonitor=x' > e/config",
        "mkdir f; ln -s ../a/.git f/.git",
        "rm .mcp.json; echo x > .mcp.json",
    ] {
        let answer = project.run(workspace, script);
        assert!(
            answer["note"].as_str().is_some_and(|note| note.contains(".quarantined")),
            "{script}: {answer}"
        );
    }
    for gone in ["a/.git/hooks", "a/.git/config", "b/config", "d/.git", "f/.git"] {
        assert!(!fs::exists(project.path("root").join(gone)).unwrap(), "{gone}");
    }
    assert_eq!(fs::read_to_string(project.path("root/.mcp.json")).unwrap(), "{}");
    let answer = project.run(workspace, "git init -q new && cd new && git status -s");
    if answer["exit_code"] == 0 {
        assert!(answer.get("note").is_none() && project.path("root/new/.git/config").exists(), "{answer}");
    }
}

fn network_sockets_and_processes_are_out_of_reach(helper: &Path) {
    let Some(project) = Project::new(helper) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let _socket = UnixListener::bind(project.path("root/socket")).unwrap();
    let python = |code: &str| format!("/usr/bin/env python3 -c 'import os, socket; {code}'");
    // Without namespaces, an ordinary user cannot change the bounding set.
    let sets = if project.is_full { "Cap.*" } else { "Cap[EPIA].*" };
    let caps = &format!("grep -c '{sets}:.*[1-9a-f]' /proc/self/status || true");
    for profile in [SandboxProfile::ReadOnly, SandboxProfile::Workspace] {
        project.fails(profile, &format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'"));
        project.fails(profile, "exec 3</dev/tty");
        project.fails(profile, &python("socket.socket(socket.AF_UNIX).connect(\"socket\")"));
        project.fails(profile, &format!("kill -0 {}", std::process::id()));
        project.fails(profile, &format!("cat /proc/{}/environ", std::process::id()));
        assert_eq!(project.succeeds(profile, caps), "0\n");
        assert_eq!(project.succeeds(profile, "grep NoNewPrivs /proc/self/status"), "NoNewPrivs:\t1\n");
    }
    project.fails(SandboxProfile::ReadOnly, "bash -c 'exec 3<>/dev/udp/127.0.0.1/9'");
    if project.is_full {
        let net = project.succeeds(SandboxProfile::Workspace, "tail -n +3 /proc/net/dev | cut -d: -f1");
        assert_eq!(net.trim(), "lo");
        project.succeeds(SandboxProfile::Workspace, "bash -c 'exec 3<>/dev/udp/127.0.0.1/9'");
    }
}

fn processes_end_with_the_call(helper: &Path) {
    let Some(project) = Project::new(helper) else { return };
    let marker = project.path("root/alive");
    for script in [
        "setsid sh -c 'sleep 1; touch alive' & sleep 0.1",
        "(setsid nohup sh -c 'trap \"\" TERM HUP; sleep 1; touch alive' >/dev/null 2>&1 &) ; true",
    ] {
        let answer = project.run(SandboxProfile::Workspace, script);
        assert!(answer["note"].as_str().is_some_and(|note| note.contains("exec_start")), "{answer}");
    }
    let answer = project.run(SandboxProfile::Workspace, "kill -9 $$");
    assert_eq!(answer["signal"], 9, "{answer}");
    let answer = project.call(
        SandboxAccess { profile: SandboxProfile::Workspace, protected: Vec::new() },
        &json!({"command": "trap '' TERM; sleep 100 & sleep 100", "timeout_s": 1}),
    );
    assert!(answer["timed_out"].is_string(), "{answer}");
    assert!(!marker.exists());
}

fn every_guarantee_is_tested(helper: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path();
    let missing =
        Sandbox::build(SandboxConfig { helper: "/no/such/helper".into(), settings: settings(base) });
    assert!(
        matches!(missing.confinement(), Confinement::Open { why } if why.contains("could not be started"))
    );
    assert_eq!(missing.missing(SandboxProfile::ReadOnly).len(), 8);
    let sandbox = Sandbox::build(SandboxConfig { helper: helper.to_owned(), settings: settings(base) });
    for profile in [SandboxProfile::ReadOnly, SandboxProfile::Workspace] {
        let tested = sandbox.test(profile).unwrap();
        assert_eq!(tested.len(), Guarantee::ALL.len());
        for (guarantee, outcome) in tested {
            let missing = sandbox.missing(profile).contains(&guarantee);
            assert_eq!(outcome == Tested::Broken, missing, "{profile}: {guarantee}: {outcome:?}");
        }
    }
    let mut open = settings(base);
    (open.network, open.unix_sockets) = (true, true);
    let sandbox = Sandbox::build(SandboxConfig { helper: helper.to_owned(), settings: open });
    let allowed = |profile| {
        let tested = sandbox.test(profile).unwrap();
        tested
            .iter()
            .filter(|(_, outcome)| *outcome == Tested::Allowed)
            .map(|(guarantee, _)| *guarantee)
            .collect::<Vec<_>>()
    };
    if !matches!(sandbox.confinement(), Confinement::Open { .. }) {
        assert_eq!(allowed(SandboxProfile::Workspace), [Guarantee::NoNetwork, Guarantee::NoUnixSockets]);
        assert_eq!(allowed(SandboxProfile::ReadOnly), []);
    }
}

/// Memory is limited everywhere. Processes need namespaces of a recent kernel, or a delegated cgroup.
fn every_limit_is_tested(helper: &Path) {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::build(SandboxConfig { helper: helper.to_owned(), settings: settings(dir.path()) });
    if matches!(sandbox.confinement(), Confinement::Open { .. }) {
        return;
    }
    let is_full = matches!(sandbox.confinement(), Confinement::Full { .. });
    let tested = sandbox.test_limits().unwrap();
    assert_eq!(tested.len(), SandboxLimit::ALL.len());
    for (limit, holds) in tested {
        match limit {
            SandboxLimit::Memory | SandboxLimit::FileSize => assert!(holds, "{limit}"),
            SandboxLimit::TemporaryFiles => assert_eq!(holds, is_full, "{limit}"),
            SandboxLimit::Processes if holds => {}
            SandboxLimit::Processes => eprintln!("processes are not limited here"),
        }
    }
}

fn memory_hog_and_fork_bomb_end_with_an_error(helper: &Path) {
    let limits = SandboxLimits {
        memory_bytes: 256 << 20,
        processes: 400,
        file_bytes: 64 << 20,
        ..SandboxLimits::default()
    };
    let Some(project) = Project::with_limits(helper, limits) else { return };
    let workspace = SandboxProfile::Workspace;
    // It holds all of its input, which has no end.
    for hog in ["tail /dev/zero", "tail /dev/zero & tail /dev/zero & wait"] {
        let answer = project.run(workspace, hog);
        assert!(
            answer["note"].as_str().is_some_and(|note| note.contains("[tools] memoryMb")),
            "{hog}: {answer}"
        );
    }
    let sandbox =
        Sandbox::build(SandboxConfig { helper: helper.to_owned(), settings: settings(project.dir.path()) });
    if !sandbox.test_limits().unwrap().contains(&(SandboxLimit::Processes, true)) {
        eprintln!("skipped: processes are not limited here");
        return;
    }
    let many = "i=0; while [ $i -lt 900 ]; do sleep 60 & i=$((i+1)); done";
    let answer = project.run(workspace, many);
    assert!(answer["note"].as_str().is_some_and(|note| note.contains("[tools] processes")), "{answer}");
    let answer = project.run(workspace, "bomb() { bomb | bomb & }; bomb");
    assert!(answer.get("exit_code").is_some() && !answer.to_string().contains("panicked"), "{answer}");
    let held = project
        .run(workspace, "i=0; while [ $i -lt 900 ]; do (trap '' TERM; sleep 60) & i=$((i+1)); done; echo x");
    assert!(!held.to_string().contains("panicked"), "{held}");
    assert_eq!(project.succeeds(workspace, "echo alive"), "alive\n");
}
