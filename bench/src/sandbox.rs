//! The overhead of the sandbox: `true` by the tool `exec` in each profile, compared with a plain spawn of the shell.

use crate::{
    BenchEnv, Result,
    figure::{Figure, Target},
    measure::{Samples, milliseconds},
};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use std::{
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Instant,
};
use tokio::runtime::Runtime;
use tools::{
    AppUser, ArtifactFile, CallingTurn, OutputStore, SandboxAccess, SandboxProfile, Tool, ToolHost,
    ToolReply, ToolRequest, ToolsError,
    exec::{
        Confinement, EnvVars, Exec, ExecLimits, ExecToolContext, Sandbox, Watchdog,
        sandbox::{
            RootAccess, SandboxConfig, SandboxSettings,
            deny::{DEFAULT_DENY_READ, DenyList},
        },
    },
    files::FileRoot,
};

const WARM_UP: usize = 10;
const ROUNDS: usize = 200;
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

pub(crate) fn run(env: &BenchEnv) -> Result<Vec<Figure>> {
    let binary = env
        .binary
        .as_deref()
        .ok_or("no binary to measure; `cargo xtask bench` builds it and passes its path")?;
    let directory = env.directory()?;
    let tool = exec_tool(binary, &directory.path().canonicalize()?)?;
    let runtime = Runtime::new()?;
    let sandboxed = |profile| runtime.block_on(call_true(&tool, profile));
    let (mut plain, mut read_only, mut workspace) = (Vec::new(), Vec::new(), Vec::new());
    // Alternating, so that all meet the same noise.
    for round in 0..WARM_UP + ROUNDS {
        let times = [
            timed(spawn_true)?,
            timed(|| sandboxed(SandboxProfile::ReadOnly))?,
            timed(|| sandboxed(SandboxProfile::Workspace))?,
        ];
        if round >= WARM_UP {
            plain.push(times[0]);
            read_only.push(times[1] - times[0]);
            workspace.push(times[2] - times[0]);
        }
    }
    let overhead =
        |name: &str, values| Figure::median(name, &Samples::new(values), "ms").target(Target::AtMost(10.0));
    Ok(vec![
        Figure::median("sandbox/plain_spawn", &Samples::new(plain), "ms"),
        overhead("sandbox/read-only/overhead", read_only),
        overhead("sandbox/workspace/overhead", workspace),
    ])
}

/// A project with an empty root, and the tool that runs commands in it.
fn exec_tool(binary: &Path, base: &Path) -> Result<Exec> {
    for name in ["root", "home", "data/tmp"] {
        std::fs::create_dir_all(base.join(name))?;
    }
    let settings = SandboxSettings {
        roots: vec![RootAccess { path: base.join("root"), write: true }],
        home: base.join("home"),
        path: PATH.to_owned(),
        data_dir: base.join("data"),
        deny: DenyList::new(DEFAULT_DENY_READ, &base.join("home")),
        ..SandboxSettings::default()
    };
    let sandbox = Sandbox::build(SandboxConfig { helper: binary.to_owned(), settings });
    if !matches!(sandbox.confinement(), Confinement::Full { .. }) {
        return Err(format!("the sandbox is not complete here: {}", sandbox.confinement()).into());
    }
    let env = EnvVars {
        path: PATH.to_owned(),
        home: base.join("home").display().to_string(),
        lang: "C".to_owned(),
        tmp: base.join("data/tmp"),
    };
    Ok(Exec::new(Arc::new(ExecToolContext {
        roots: FileRoot::new(&base.join("root"))?.into(),
        outputs: OutputStore::new(&base.join("data/outputs")),
        env,
        sandbox: sandbox.into(),
        watchdog: Watchdog::disabled(),
        limits: ExecLimits::default(),
    })))
}

fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    work()?;
    Ok(milliseconds(start.elapsed()))
}

fn spawn_true() -> Result<()> {
    let status = Command::new("/bin/sh").args(["-c", "true"]).stdin(Stdio::null()).output()?.status;
    if status.success() { Ok(()) } else { Err("`true` failed".into()) }
}

async fn call_true(tool: &Exec, profile: SandboxProfile) -> Result<()> {
    let args = json!({"command": "true"}).as_object().cloned().unwrap_or_default();
    let sandbox = SandboxAccess { profile, protected: Vec::new() };
    let host = Arc::new(NoopHost);
    match tool
        .call(ToolRequest {
            id: String::new(),
            args,
            turn: CallingTurn::default(),
            host,
            sandbox,
            input: None,
        })
        .await?
    {
        ToolReply::Done(answer) if answer["exit_code"] == 0 => Ok(()),
        _ => Err("`true` failed in the sandbox".into()),
    }
}

/// A host without state and without cancellation.
struct NoopHost;

impl ToolHost for NoopHost {
    fn state(&self, _key: &str) -> Option<Value> {
        None
    }

    fn set_state(&self, _key: &str, _value: Value) {}

    fn save_artifact(
        &self,
        _name: String,
        _file: ArtifactFile,
    ) -> BoxFuture<'_, std::result::Result<u64, ToolsError>> {
        Box::pin(async { Ok(0) })
    }

    fn owner(&self) -> AppUser {
        AppUser::default()
    }

    fn cancelled(&self) -> BoxFuture<'_, ()> {
        Box::pin(futures::future::pending())
    }
}
