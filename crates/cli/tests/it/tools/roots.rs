//! Several roots: each is reached by its own paths, cannot be escaped, and is written only if it is writable.

use super::{call, exec, one_by_one, run, tool_results};
use crate::common::TestEnv;
use serde_json::{Value, json};
use std::{fs, os::unix::fs::symlink, path::PathBuf};

/// The working directory, `lib` beside it, and the read-only `docs`.
const ROOTS: &str = "[tools]\nroots = [\".\", \"../lib\", { path = \"../docs\", write = false }]\n";
const ALLOWED: &str = "[approval]\nwrite = \"allow\"\nexecute = \"allow\"\n";

struct Roots {
    env: TestEnv,
    lib: PathBuf,
    docs: PathBuf,
}

/// The calls depend on the paths of the directories.
fn roots(toml: &str, calls: impl FnOnce(&str, &str) -> Vec<Value>) -> Roots {
    let env = TestEnv::scripted(&format!("{ROOTS}{toml}"), "");
    let beside = env.workdir().parent().unwrap().canonicalize().unwrap();
    let (lib, docs) = (beside.join("lib"), beside.join("docs"));
    for dir in [&lib, &docs] {
        fs::create_dir(dir).unwrap();
        fs::write(dir.join("a.txt"), "needle\n").unwrap();
        symlink("..", dir.join("out")).unwrap();
    }
    fs::write(beside.join("secret.txt"), "outside\n").unwrap();
    env.file("script.yaml", one_by_one(&calls(lib.to_str().unwrap(), docs.to_str().unwrap())));
    Roots { env, lib, docs }
}

#[test]
fn tools_reach_every_root_by_absolute_paths() {
    let Roots { env, lib, .. } = roots(ALLOWED, |lib, docs| {
        vec![
            call("search_files", json!({"pattern": "needle", "path": lib})),
            call("list_files", json!({"path": docs})),
            call("read_file", json!({"path": format!("{docs}/a.txt")})),
            call("edit_file", json!({"path": format!("{lib}/a.txt"), "old": "needle", "new": "thread"})),
            call("write_file", json!({"path": format!("{lib}/new/b.txt"), "content": "b"})),
            call("write_file", json!({"path": "here.txt", "content": "h"})),
            exec("cat a.txt").as_object().map(|exec| at(exec, lib)).unwrap(),
        ]
    });
    let results = tool_results(&run(&env).success());
    let lib = lib.display();
    assert_eq!(results[0]["matches"][0]["path"], format!("{lib}/a.txt"), "{}", results[0]);
    assert_eq!(results[1]["total"], 2, "{}", results[1]);
    assert_eq!(results[2]["text"], "needle\n", "{}", results[2]);
    assert_eq!((&results[3]["replaced"], &results[3]["path"]), (&json!(1), &json!(format!("{lib}/a.txt"))));
    assert_eq!((&results[4]["bytes"], &results[5]["path"]), (&json!(1), &json!("here.txt")));
    assert_eq!(results[6]["output"], "thread\n", "{}", results[6]);

    let undo = one_by_one(&[call("undo_edit", json!({"undo": results[3]["undo"]}))]);
    env.file("script.yaml", undo);
    let undone = tool_results(&env.lango(&["run", "--json", "--session", "later", "go"]).success());
    assert_eq!((&undone[0]["undone"], &undone[0]["path"]), (&json!(true), &json!(format!("{lib}/a.txt"))));
}

fn at(exec: &serde_json::Map<String, Value>, workdir: &str) -> Value {
    let mut exec = exec.clone();
    exec["args"]["workdir"] = workdir.into();
    exec.into()
}

#[test]
fn roots_cannot_be_escaped_and_read_only_roots_not_written() {
    let Roots { env, lib, docs } = roots(ALLOWED, |lib, docs| {
        let read = |path: String| call("read_file", json!({"path": path}));
        let write = |path: String| call("write_file", json!({"path": path, "content": "x"}));
        vec![
            read(format!("{lib}/../secret.txt")),
            read(format!("{lib}/out/secret.txt")),
            read(format!("{lib}-not/a.txt")),
            read("../lib/a.txt".to_owned()),
            read("/etc/passwd".to_owned()),
            write(format!("{lib}/out/new.txt")),
            write(format!("{docs}/new.txt")),
            call("edit_file", json!({"path": format!("{docs}/a.txt"), "old": "needle", "new": "thread"})),
            // Replaces a checked directory by a symlink before its use.
            exec(&format!("mkdir {lib}/d && echo x > {lib}/d/f")),
            read(format!("{lib}/d/f")),
            exec(&format!("mv {lib}/d {lib}/e && ln -s .. {lib}/d")),
            read(format!("{lib}/d/secret.txt")),
            write(format!("{lib}/d/f")),
        ]
    });
    let results = tool_results(&run(&env).success());
    let beside = lib.parent().unwrap();
    let outcome =
        |answer: &Value| answer["error"].as_str().unwrap_or("ran").replace(beside.to_str().unwrap(), "");
    let table: Vec<String> = results.iter().map(outcome).collect();
    insta::assert_snapshot!(table.join("\n"));
    assert_eq!(fs::read_dir(&docs).unwrap().count(), 2);
    assert!(!beside.join("new.txt").exists() && !beside.join("f").exists());
}

/// Without Landlock, which `lango doctor` reports, writes are not confined and not checked here.
#[test]
fn commands_write_only_in_writable_roots() {
    let Roots { env, lib, docs } = roots(ALLOWED, |lib, docs| {
        vec![
            exec(&format!("echo x > {lib}/made")),
            exec(&format!("echo x > {docs}/made")),
            exec("echo x > ../made"),
            exec(&format!("cat {docs}/a.txt")),
        ]
    });
    let is_confined = env.lango(&["doctor"]).success().out.contains("(Landlock ");
    let results = tool_results(&run(&env).success());
    assert!(lib.join("made").exists(), "{}", results[0]);
    assert_eq!(results[3]["output"], "needle\n");
    if is_confined {
        assert!(results[1]["exit_code"] != 0 && results[2]["exit_code"] != 0, "{results:?}");
        assert!(!docs.join("made").exists() && !env.workdir().join("../made").exists());
    }
}

#[test]
fn read_only_commands_run_in_every_root_and_ask_outside() {
    let Roots { env, .. } = roots("", |lib, docs| {
        let file = |dir: &str| exec(&format!("cat {dir}/a.txt"));
        vec![
            file(lib),
            file(docs),
            exec(&format!("cat {lib}/out/secret.txt")),
            exec(&format!("cat {lib}-not/x")),
        ]
    });
    let results = tool_results(&run(&env).success());
    assert_eq!((&results[0]["output"], &results[1]["output"]), (&json!("needle\n"), &json!("needle\n")));
    for (answer, why) in [(&results[2], "through a link"), (&results[3], "is outside the working directory")]
    {
        assert!(answer["error"].as_str().unwrap().contains(why), "{answer}");
    }
}

#[test]
fn doctor_and_tools_list_the_roots() {
    let Roots { env, .. } = roots("", |_, _| Vec::new());
    let doctor = env.lango(&["doctor"]).success().snapshot();
    let line = doctor.lines().find(|line| line.contains("roots  ")).unwrap();
    insta::assert_snapshot!(line, @"ok    roots          /here, /lib, /docs (read only)");
    let tools = env.lango(&["tools"]).success().snapshot();
    let lines: Vec<&str> = tools.lines().filter(|line| line.starts_with("files in")).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    files in /here
    files in /lib
    files in /docs (read only)
    ");
}

#[test]
fn invalid_roots_are_rejected_with_the_fix() {
    let env = TestEnv::new();
    let error = |toml: &str| {
        env.file("lango.toml", toml);
        env.lango(&["tools"]).failure().snapshot()
    };
    env.file("sub/a.txt", "");
    let errors = [
        error("[tools]\nroot = \".\"\nroots = [\"sub\"]\n"),
        error("[tools]\nroots = [\".\", \"sub\"]\n"),
        error("[tools]\nroots = [\".\", \"../nowhere\"]\n"),
        error("[tools]\nroots = [{ path = \".\", wirte = false }]\n"),
    ];
    insta::assert_snapshot!(errors.join("\n"));
}
