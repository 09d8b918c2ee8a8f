//! Unusual files: damaged, unreadable, moved, linked, owned by others.

use super::{PROGRAM, agent, is_pwned, lango};
use crate::common::TestEnv;
use insta::assert_snapshot;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::{fs, os::unix::fs::PermissionsExt, os::unix::fs::symlink};

fn program() -> TestEnv {
    let env = TestEnv::new();
    env.file("lango.toml", PROGRAM);
    env
}

#[test]
fn damaged_or_unwritable_trust_file_means_not_trusted() {
    let env = program();
    lango(&env, &["trust", "add"]).success();
    let file = env.home().join("trust.json");
    let valid = fs::read_to_string(&file).unwrap();
    fs::write(&file, valid.replace("touch", "catch")).unwrap();
    assert_snapshot!(lango(&env, &["run", "what is 15% of 240?"]).success().snapshot().replace(&session(&env), "ID"), @r#"
    15 / 100 * 240 = 36
    the settings of this folder are not used: the folder is not trusted: /data/trust.json is damaged; remove it and trust your folders again
    → calculate {"expression":"15 / 100 * 240"}
    ← calculate {"expression":"15 / 100 * 240","result":36}
    (to continue: lango run --session ID "…")
    [exit 0]
    "#);
    assert_snapshot!(lango(&env, &["trust", "add"]).failure().snapshot(), @r#"
    /here
      starts programs:
        sh -c "touch pwned" (mcp.x)
    lango: /data/trust.json is damaged; remove it and trust your folders again
    [exit 1]
    "#);
    fs::write(&file, &valid).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o646)).unwrap();
    assert!(lango(&env, &["serve", "--port", "0"]).failure().err.contains("run: chmod 600"));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(lango(&env, &["trust", "add"]).failure().err.contains("trust.json cannot be used"));
    assert!(!is_pwned(&env));
}

/// The id of the newest session.
fn session(env: &TestEnv) -> String {
    let listed = lango(env, &["sessions", "list"]).success().out;
    listed.split_whitespace().next().unwrap_or("none").to_owned()
}

#[test]
fn settings_file_that_is_no_regular_file_is_an_error() {
    for kind in ["directory", "pipe", "device", "large", "binary"] {
        let env = TestEnv::new();
        let file = env.workdir().join("lango.toml");
        match kind {
            "directory" => fs::create_dir_all(file.join("sub")).unwrap(),
            "pipe" => mknodat(CWD, &file, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap(),
            "device" => symlink("/dev/zero", &file).unwrap(),
            "large" => fs::write(&file, vec![b'\n'; 5 << 20]).unwrap(),
            _ => fs::write(&file, b"model = \"\xff\"").unwrap(),
        }
        let output = lango(&env, &["run", "hi"]).failure();
        assert!(output.err.starts_with("lango: lango.toml cannot be read: it is "), "{kind}: {output:?}");
        lango(&env, &["trust", "add"]).failure();
        lango(&env, &["trust", "list"]).success();
    }
}

#[test]
fn empty_directory_in_place_of_settings_is_a_placeholder_of_the_sandbox() {
    let env = TestEnv::new();
    for name in ["lango.toml", ".mcp.json", "agents", ".git"] {
        fs::create_dir(env.workdir().join(name)).unwrap();
    }
    let output = lango(&env, &["run", "hi"]).success();
    assert!(!output.err.contains("trust"), "nothing needs trust: {output:?}");
    lango(&env, &["doctor"]).success();
}

#[test]
fn moved_folder_and_subfolders_are_other_folders() {
    let env = program();
    env.file("sub/lango.toml", PROGRAM);
    lango(&env, &["trust", "add"]).success();
    let notes = |dir: std::path::PathBuf| {
        env.run(env.command_without_trust(["models"]).current_dir(dir)).success().err
    };
    assert_eq!(notes(env.workdir()), "");
    assert!(notes(env.workdir().join("sub")).contains("is not trusted"));
    symlink(env.workdir(), env.workdir().with_file_name("link")).unwrap();
    assert_eq!(notes(env.workdir().with_file_name("link")), "", "a link is the folder that it leads to");
    let moved = env.workdir().with_file_name("moved");
    fs::rename(env.workdir(), &moved).unwrap();
    assert!(notes(moved).contains("is not trusted"));
    assert!(notes(env.home()).is_empty());
}

#[test]
fn editing_or_removing_does_not_end_trust_and_growing_does() {
    let env = program();
    let write = |instruction: &str, tools: &str| {
        env.file("agents/guide/root_agent.yaml", agent(instruction, tools));
        lango(&env, &["run", "--app", "guide", "hi"])
    };
    write("one", "{name: now}, {name: calculate}").failure();
    lango(&env, &["trust", "add"]).success();
    assert_eq!(write("two", "{name: calculate}, {name: now}").success().err.matches("not used").count(), 0);
    write("three", "{name: now}").success();
    env.file("lango.toml", "");
    write("four", "").success();
    let grown = write("five", "{name: exec}").failure();
    assert!(grown.err.contains("does more than when it was trusted"), "{grown:?}");
    write("six", "{name: now}").success();
    env.file("lango.toml", PROGRAM.replace("touch pwned", "touch  pwned"));
    assert!(lango(&env, &["tools"]).success().err.contains("does more than when it was trusted"));
    assert!(!is_pwned(&env));
}

#[test]
fn real_path_of_a_root_counts() {
    let env = TestEnv::new();
    fs::create_dir(env.workdir().join("docs")).unwrap();
    env.file("lango.toml", "[tools]\nroots = [\".\", \"docs\"]\n");
    let added = lango(&env, &["trust", "add"]).success();
    assert!(!added.out.contains("files"), "{added:?}");
    fs::remove_dir(env.workdir().join("docs")).unwrap();
    symlink("/", env.workdir().join("docs")).unwrap();
    assert!(lango(&env, &["models"]).success().err.contains("does more than when it was trusted"));
    assert!(lango(&env, &["trust", "add"]).success().out.contains("read and write /\n"));
}

#[test]
fn folder_that_others_can_change_is_listed() {
    let env = program();
    fs::set_permissions(env.workdir(), fs::Permissions::from_mode(0o777)).unwrap();
    let added = lango(&env, &["trust", "add"]).success();
    assert!(added.out.contains("every user of this machine can change files"), "{added:?}");
    fs::set_permissions(env.workdir(), fs::Permissions::from_mode(0o755)).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(env.workdir(), Some(65534), None).unwrap();
        let note = lango(&env, &["models"]).success().err;
        assert!(note.contains("does more than when it was trusted"), "{note}");
        let added = lango(&env, &["trust", "add"]).success();
        assert!(added.out.contains("the user with the id 65534 can change files"), "{added:?}");
    }
}

#[test]
fn agents_that_name_each_other_again_and_again_are_not_read_without_end() {
    let env = TestEnv::new();
    let two = |level: usize| format!("{{config_path: {level}.yaml}}, {{config_path: {level}.yaml}}");
    let tree = |name: &str, level: usize| format!("name: {name}\nsub_agents: [{}]\n", two(level));
    env.file("agents/guide/root_agent.yaml", tree("guide", 1));
    for level in 1..14 {
        env.file(&format!("agents/guide/{level}.yaml"), tree(&format!("a{level}"), level + 1));
    }
    env.file("agents/guide/14.yaml", "name: leaf\n");
    let output = env.lango(&["run", "hi"]).failure();
    assert!(output.err.contains("the app has more than 1000 agents"), "{output:?}");
}
