//! More than one directory: each is reached by its own paths, closed for itself, and written only where it may be.

use super::{answers, call, exec, one_by_one, run};
use crate::common::Place;
use serde_json::{Value, json};
use std::{fs, os::unix::fs::symlink, path::PathBuf};

/// The working directory, `lib` beside it, and `docs` that is there to be read.
const ROOTS: &str = "[tools]\nroots = [\".\", \"../lib\", { path = \"../docs\", write = false }]\n";
const ALLOWED: &str = "[approval]\nwrite = \"allow\"\nexecute = \"allow\"\n";

struct Roots {
    place: Place,
    lib: PathBuf,
    docs: PathBuf,
}

/// The script is made when the names of the directories are known.
fn roots(toml: &str, calls: impl FnOnce(&str, &str) -> Vec<Value>) -> Roots {
    let place = Place::scripted(&format!("{ROOTS}{toml}"), "");
    let beside = place.here().parent().unwrap().canonicalize().unwrap();
    let (lib, docs) = (beside.join("lib"), beside.join("docs"));
    for dir in [&lib, &docs] {
        fs::create_dir(dir).unwrap();
        fs::write(dir.join("a.txt"), "needle\n").unwrap();
        symlink("..", dir.join("out")).unwrap();
    }
    fs::write(beside.join("secret.txt"), "outside\n").unwrap();
    place.file("script.yaml", one_by_one(&calls(lib.to_str().unwrap(), docs.to_str().unwrap())));
    Roots { place, lib, docs }
}

#[test]
fn every_root_is_searched_edited_and_undone_by_absolute_paths() {
    let Roots { place, lib, .. } = roots(ALLOWED, |lib, docs| {
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
    let said = answers(&run(&place).well());
    let lib = lib.display();
    assert_eq!(said[0]["matches"][0]["path"], format!("{lib}/a.txt"), "{}", said[0]);
    assert_eq!(said[1]["total"], 2, "{}", said[1]);
    assert_eq!(said[2]["text"], "needle\n", "{}", said[2]);
    assert_eq!((&said[3]["replaced"], &said[3]["path"]), (&json!(1), &json!(format!("{lib}/a.txt"))));
    assert_eq!((&said[4]["bytes"], &said[5]["path"]), (&json!(1), &json!("here.txt")));
    assert_eq!(said[6]["output"], "thread\n", "{}", said[6]);

    let undo = one_by_one(&[call("undo_edit", json!({"undo": said[3]["undo"]}))]);
    place.file("script.yaml", undo);
    let undone = answers(&place.lango(&["run", "--json", "--session", "later", "go"]).well());
    assert_eq!((&undone[0]["undone"], &undone[0]["path"]), (&json!(true), &json!(format!("{lib}/a.txt"))));
}

fn at(exec: &serde_json::Map<String, Value>, workdir: &str) -> Value {
    let mut exec = exec.clone();
    exec["args"]["workdir"] = workdir.into();
    exec.into()
}

#[test]
fn no_root_is_a_way_out_and_what_is_there_to_be_read_is_not_written() {
    let Roots { place, lib, docs } = roots(ALLOWED, |lib, docs| {
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
            // The way was good when it was looked at, and another when it was used.
            exec(&format!("mkdir {lib}/d && echo x > {lib}/d/f")),
            read(format!("{lib}/d/f")),
            exec(&format!("mv {lib}/d {lib}/e && ln -s .. {lib}/d")),
            read(format!("{lib}/d/secret.txt")),
            write(format!("{lib}/d/f")),
        ]
    });
    let said = answers(&run(&place).well());
    let beside = lib.parent().unwrap();
    let told =
        |answer: &Value| answer["error"].as_str().unwrap_or("ran").replace(beside.to_str().unwrap(), "");
    let table: Vec<String> = said.iter().map(told).collect();
    insta::assert_snapshot!(table.join("\n"));
    assert_eq!(fs::read_dir(&docs).unwrap().count(), 2);
    assert!(!beside.join("new.txt").exists() && !beside.join("f").exists());
}

/// What the kernel allows is told by `lango doctor`; where it has no Landlock there is nothing to be seen here.
#[test]
fn commands_write_in_the_roots_that_may_be_written_and_nowhere_else() {
    let Roots { place, lib, docs } = roots(ALLOWED, |lib, docs| {
        vec![
            exec(&format!("echo x > {lib}/made")),
            exec(&format!("echo x > {docs}/made")),
            exec("echo x > ../made"),
            exec(&format!("cat {docs}/a.txt")),
        ]
    });
    let is_confined = place.lango(&["doctor"]).well().out.contains("(Landlock ");
    let said = answers(&run(&place).well());
    assert!(lib.join("made").exists(), "{}", said[0]);
    assert_eq!(said[3]["output"], "needle\n");
    if is_confined {
        assert!(said[1]["exit_code"] != 0 && said[2]["exit_code"] != 0, "{said:?}");
        assert!(!docs.join("made").exists() && !place.here().join("../made").exists());
    }
}

#[test]
fn commands_that_only_look_are_free_in_every_root_and_ask_outside() {
    let Roots { place, .. } = roots("", |lib, docs| {
        let file = |dir: &str| exec(&format!("cat {dir}/a.txt"));
        vec![
            file(lib),
            file(docs),
            exec(&format!("cat {lib}/out/secret.txt")),
            exec(&format!("cat {lib}-not/x")),
        ]
    });
    let said = answers(&run(&place).well());
    assert_eq!((&said[0]["output"], &said[1]["output"]), (&json!("needle\n"), &json!("needle\n")));
    for (answer, why) in [(&said[2], "through a link"), (&said[3], "is outside the working directory")] {
        assert!(answer["error"].as_str().unwrap().contains(why), "{answer}");
    }
}

#[test]
fn roots_are_shown_to_people_and_to_the_model() {
    let Roots { place, .. } = roots("", |_, _| Vec::new());
    let doctor = place.lango(&["doctor"]).well().picture();
    let line = doctor.lines().find(|line| line.contains("roots  ")).unwrap();
    insta::assert_snapshot!(line, @"ok    roots          /here, /lib, /docs (read only)");
    let tools = place.lango(&["tools"]).well().picture();
    let lines: Vec<&str> = tools.lines().filter(|line| line.starts_with("files in")).collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    files in /here
    files in /lib
    files in /docs (read only)
    ");
}

#[test]
fn roots_that_make_no_sense_are_told_with_the_fix() {
    let place = Place::new();
    let told = |toml: &str| {
        place.file("lango.toml", toml);
        place.lango(&["tools"]).badly().picture()
    };
    place.file("sub/a.txt", "");
    let pictures = [
        told("[tools]\nroot = \".\"\nroots = [\"sub\"]\n"),
        told("[tools]\nroots = [\".\", \"sub\"]\n"),
        told("[tools]\nroots = [\".\", \"../nowhere\"]\n"),
        told("[tools]\nroots = [{ path = \".\", wirte = false }]\n"),
    ];
    insta::assert_snapshot!(pictures.join("\n"));
}
