//! The tools `exec` and `exec_*` with real commands.

use std::{fs, path::Path, sync::Arc, time::Duration};

use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{
    AppUser, Tool, ToolReply,
    files::FileRoot,
    outputs::ReadOutput,
    testing::{RecordingHost, call_tool, request},
};

fn context(limits: ExecLimits) -> (TempDir, Arc<ExecToolContext>) {
    let dir = tempfile::tempdir().unwrap();
    let (root, tmp) = (dir.path().join("root"), dir.path().join("tmp"));
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::create_dir(&tmp).unwrap();
    let env = EnvVars {
        path: "/usr/local/bin:/usr/bin:/bin".to_owned(),
        home: root.display().to_string(),
        lang: "C.UTF-8".to_owned(),
        tmp,
    };
    let context = ExecToolContext {
        roots: FileRoot::new(&root).unwrap().into(),
        outputs: OutputStore::new(&dir.path().join("outputs")),
        env,
        sandbox: Sandbox::unrestricted("a test").into(),
        watchdog: Watchdog::disabled(),
        limits,
    };
    (dir, Arc::new(context))
}

fn short_grace() -> ExecLimits {
    ExecLimits { grace: Duration::from_millis(100), ..ExecLimits::default() }
}

async fn exec(command: &str) -> Value {
    let (_dir, context) = context(short_grace());
    call_tool(&Exec::new(context), json!({"command": command})).await.unwrap()
}

fn is_alive(pid: i32) -> bool {
    Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok())
        && !fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
}

/// Waits until a process is gone: signals take effect asynchronously.
async fn dies(pid: i32) -> bool {
    for _ in 0..1000 {
        if !is_alive(pid) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    false
}

async fn read_pid(path: &Path) -> i32 {
    loop {
        if let Some(pid) = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()) {
            return pid;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn stdout_and_stderr_are_interleaved_and_the_exit_status_is_returned() {
    let answer = exec("echo one; echo two >&2; echo three; exit 3").await;
    assert_eq!(answer["output"], "one\ntwo\nthree\n");
    assert_eq!(answer["exit_code"], 3);
    assert!(answer["duration_ms"].as_u64().unwrap() < 10_000);
    let killed = exec("kill -9 $$").await;
    assert_eq!((killed.get("exit_code"), &killed["signal"]), (None, &json!(9)));
}

/// Even `git status` would run programs that the configuration of such a directory names.
#[tokio::test]
async fn git_ignores_directory_that_looks_like_a_bare_repository() {
    let make = "git init -q --bare x && git --git-dir=x config core.bare false && \
         git --git-dir=x config core.worktree \"$PWD/x\" && git --git-dir=x config core.fsmonitor 'touch ../made; false'";
    let answer = exec(&format!("{make}; cd x; git status; ls ..")).await;
    let text = answer["output"].as_str().unwrap();
    assert!(text.contains("safe.bareRepository") || text.contains("not found"), "{text}");
    assert!(!text.contains("made\n"), "{text}");
}

#[tokio::test]
async fn environment_has_only_the_configured_variables() {
    let answer = exec("env | cut -d= -f1 | sort | tr '\\n' ' '; cat; echo $TERM").await;
    let shells_own = ["OLDPWD", "PWD", "SHLVL", "_"];
    let text = answer["output"].as_str().unwrap();
    let (names, term) = text.rsplit_once(' ').unwrap();
    let is_configured = |name: &&str| !shells_own.contains(name) && !name.starts_with("GIT_");
    let names: Vec<&str> = names.split(' ').filter(is_configured).collect();
    assert_eq!((names, term), (vec!["HOME", "LANG", "PATH", "TERM", "TMPDIR"], "dumb\n"));
}

#[tokio::test]
async fn workdir_must_be_inside_the_root() {
    let (_dir, context) = context(short_grace());
    let inside = context.roots.first().path().join("sub").display().to_string();
    let tool = Exec::new(context);
    let answer = call_tool(&tool, json!({"command": "pwd", "workdir": "sub"})).await.unwrap();
    assert_eq!(answer["output"], format!("{inside}\n"));
    for workdir in ["..", "/", "nowhere"] {
        assert!(call_tool(&tool, json!({"command": "pwd", "workdir": workdir})).await.is_err(), "{workdir}");
    }
    let preview = tool.preview(json!({"command": "rm x", "workdir": "sub"}).as_object().unwrap());
    assert_eq!(preview.unwrap(), "in sub: rm x");
}

#[tokio::test]
async fn timeout_terminates_the_whole_process_group() {
    let (dir, context) = context(ExecLimits { time: Duration::from_millis(300), ..short_grace() });
    let command = "trap '' TERM; echo begun; sleep 1000 & echo $! > pid; wait; sleep 1000";
    let answer = call_tool(&Exec::new(context), json!({"command": command})).await.unwrap();
    assert_eq!(answer["timed_out"], "terminated after 0.3 s");
    assert_eq!(answer["output"], "begun\n");
    assert!(dies(read_pid(&dir.path().join("root/pid")).await).await);
}

#[tokio::test]
async fn background_processes_are_terminated_at_the_exit() {
    let (dir, context) = context(short_grace());
    let answer = call_tool(&Exec::new(context), json!({"command": "sleep 1000 & echo $! > pid; echo done"}))
        .await
        .unwrap();
    assert_eq!((&answer["output"], &answer["exit_code"]), (&json!("done\n"), &json!(0)));
    assert!(answer["note"].as_str().unwrap().contains("exec_start"), "{answer}");
    assert!(dies(read_pid(&dir.path().join("root/pid")).await).await);
}

#[tokio::test]
async fn dropped_or_cancelled_call_terminates_its_processes() {
    let (dir, context) = context(short_grace());
    let tool = Exec::new(context);
    let pid = dir.path().join("root/pid");
    let host = Arc::new(RecordingHost::default());
    {
        let running = tool.call(request(&host, json!({"command": "sleep 1000 & echo $! > pid; wait"})));
        tokio::select! {
            _ = running => panic!("the command must not exit"),
            _ = read_pid(&pid) => {}
        }
    }
    assert!(dies(read_pid(&pid).await).await);
    let host = Arc::new(RecordingHost { cancelled: true, ..RecordingHost::default() });
    let answer = tool.call(request(&host, json!({"command": "sleep 1000"}))).await;
    assert!(matches!(answer, Err(ToolsError::Cancelled)));
}

#[tokio::test]
async fn large_output_is_not_held_in_memory() {
    let (_dir, context) = context(short_grace());
    let before = peak_kib();
    let command = "echo first; head -c 100000000 /dev/zero | tr '\\0' 'x'; echo; echo last";
    let answer = call_tool(&Exec::new(Arc::clone(&context)), json!({"command": command})).await.unwrap();
    let grown = peak_kib() - before;
    assert!(grown < 20 * 1024, "{grown} KiB");
    assert_eq!(answer["bytes"], 100_000_000 + 12);
    let text = answer["output"].as_str().unwrap();
    assert!(text.starts_with("first\n") && text.ends_with("last\n") && text.len() < 64 * 1024);
    let page = json!({"handle": answer["handle"], "tail": 1});
    assert_eq!(call_tool(&ReadOutput::new(context.outputs.clone()), page).await.unwrap()["output"], "last\n");
}

/// Peak resident memory of this process.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn binary_output_is_identified_and_escape_sequences_are_removed() {
    let answer = exec("printf '\\033]0;owned\\007\\033[31mred\\033[0m'").await;
    assert_eq!(answer["output"], "red");
    assert!(answer["handle"].as_str().unwrap().starts_with("out-"));
    let binary = exec("printf '\\177ELF\\000'").await;
    assert_eq!((binary.get("output"), &binary["binary"]), (None, &json!("an ELF program or library")));
}

#[tokio::test]
async fn output_is_reported_as_progress() {
    let (_dir, context) = context(short_grace());
    let host = Arc::new(RecordingHost::default());
    let answer = Exec::new(context).call(request(&host, json!({"command": "printf '\\033[1mone\\n'"}))).await;
    assert!(matches!(answer, Ok(ToolReply::Done(_))));
    assert_eq!(*host.progress.lock().unwrap(), ["one\n"]);
}

#[tokio::test]
async fn job_can_be_started_polled_and_stopped() {
    let (dir, context) = context(short_grace());
    let jobs = BackgroundJobs::new(context);
    let (start, status, stop) =
        (ExecStart::new(Arc::clone(&jobs)), ExecStatus::new(Arc::clone(&jobs)), ExecStop::new(jobs));
    let command = "echo one; read x < go; echo two; sleep 1000 & echo $! > pid; wait";
    assert!(
        call_tool(&stop, json!({"job": "job-1"})).await.unwrap_err().contains("job `job-1` does not exist")
    );
    rustix::fs::mknodat(
        rustix::fs::CWD,
        dir.path().join("root/go"),
        rustix::fs::FileType::Fifo,
        0o600.into(),
        0,
    )
    .unwrap();
    let started = call_tool(&start, json!({"command": command})).await.unwrap();
    assert_eq!((&started["job"], &started["state"]), (&json!("job-1"), &json!("running")));
    let first = call_tool(&status, json!({"job": "job-1", "wait_s": 30})).await.unwrap();
    assert_eq!((&first["new_output"], &first["state"]), (&json!("one\n"), &json!("running")));
    fs::write(dir.path().join("root/go"), "\n").unwrap();
    let second = call_tool(&status, json!({"job": "job-1", "wait_s": 30})).await.unwrap();
    assert_eq!(second["new_output"], "two\n");
    let pid = read_pid(&dir.path().join("root/pid")).await;
    let stopped = call_tool(&stop, json!({"job": "job-1"})).await.unwrap();
    assert_eq!((&stopped["state"], &stopped["new_output"]), (&json!("stopped"), &json!("")));
    assert!(dies(pid).await);
    assert_eq!(call_tool(&stop, json!({"job": "job-1"})).await.unwrap()["state"], "stopped");
    let list = call_tool(&status, json!({})).await.unwrap();
    assert_eq!(list["jobs"][0]["command"], command);
}

#[tokio::test]
async fn jobs_of_other_owners_are_invisible_and_do_not_count_against_the_limit() {
    let (_dir, context) = context(ExecLimits { jobs: 1, ..short_grace() });
    let jobs = BackgroundJobs::new(context);
    let (start, status, stop) =
        (ExecStart::new(Arc::clone(&jobs)), ExecStatus::new(Arc::clone(&jobs)), ExecStop::new(jobs));
    let host_of = |user: &str| {
        let owner = AppUser { app: "a".to_owned(), user: user.to_owned() };
        Arc::new(RecordingHost { owner, ..RecordingHost::default() })
    };
    let (ann, bob) = (host_of("ann"), host_of("bob"));
    start.call(request(&ann, json!({"command": "sleep 1000"}))).await.unwrap();
    assert_eq!(status.call(request(&bob, json!({}))).await.unwrap(), ToolReply::Done(json!({"jobs": []})));
    let none =
        "job `job-1` does not exist; jobs end with the program, and exec_status lists the current ones";
    let job = || request(&bob, json!({"job": "job-1"}));
    assert_eq!(status.call(job()).await.unwrap_err().to_string(), none);
    assert_eq!(stop.call(job()).await.unwrap_err().to_string(), none);
    start.call(request(&bob, json!({"command": "sleep 1000"}))).await.unwrap();
    let ToolReply::Done(hers) = status.call(request(&ann, json!({"job": "job-1"}))).await.unwrap() else {
        panic!()
    };
    assert_eq!(hers["state"], "running");
}

#[tokio::test]
async fn exited_job_reports_its_exit_code() {
    let (_dir, context) = context(short_grace());
    let jobs = BackgroundJobs::new(context);
    let (start, status) = (ExecStart::new(Arc::clone(&jobs)), ExecStatus::new(jobs));
    call_tool(&start, json!({"command": "exit 7"})).await.unwrap();
    let seen = call_tool(&status, json!({"job": "job-1", "wait_s": 30})).await.unwrap();
    assert_eq!((&seen["state"], &seen["exit_code"]), (&json!("exited"), &json!(7)));
}

#[tokio::test]
async fn running_jobs_are_limited_and_terminated_on_drop() {
    let (dir, context) = context(ExecLimits { jobs: 1, ..short_grace() });
    let jobs = BackgroundJobs::new(context);
    let start = ExecStart::new(jobs);
    call_tool(&start, json!({"command": "sleep 1000 & echo $! > pid; wait"})).await.unwrap();
    let error = call_tool(&start, json!({"command": "true"})).await.unwrap_err();
    assert_eq!(error, "1 jobs are running, which is the limit; stop one with exec_stop");
    let pid = read_pid(&dir.path().join("root/pid")).await;
    drop(start);
    assert!(dies(pid).await);
}

#[tokio::test]
async fn built_in_tools_with_their_classes() {
    let (_dir, context) = context(short_grace());
    let registry = crate::all_built_in((*context).clone(), crate::fetch::AllowedAddrs::default()).unwrap();
    let lines: Vec<String> = registry
        .iter()
        .map(|tool| format!("{:<13} {:?}, {:?}", tool.spec().name, tool.spec().safety, tool.spec().effect))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    now           Read, ReadOnly
    calculate     Read, ReadOnly
    read_file     Read, ReadOnly
    list_files    Read, ReadOnly
    search_files  Read, ReadOnly
    write_file    Write, Idempotent
    edit_file     Write, Once
    undo_edit     Write, Idempotent
    exec          Execute, Once
    exec_start    Execute, Once
    exec_status   Read, ReadOnly
    exec_stop     Read, Idempotent
    read_output   Read, ReadOnly
    fetch         Network, ReadOnly
    ");
}
