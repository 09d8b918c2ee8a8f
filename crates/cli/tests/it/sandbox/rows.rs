//! Findings about earlier versions, one test each.

use super::{Condition, Project, exec};
use serde_json::json;
use std::{fs, os::unix::fs::PermissionsExt};

#[test]
fn commands_run_for_every_user_and_without_namespaces() {
    for condition in Condition::all() {
        let project = Project::new(condition);
        let answer = project.exec("cat plain.txt");
        assert_eq!(
            (&answer["exit_code"], &answer["output"]),
            (&json!(0), &json!("plain\n")),
            "{condition:?}: {answer}"
        );
        let answer = project.exec("echo made > made && cat made");
        if condition == Condition::NoNamespaces {
            let error = answer["error"].as_str().unwrap();
            assert!(error.contains("does not guarantee \"no writing to protected paths\""), "{answer}");
            assert!(!project.path("here/made").exists());
        } else {
            assert_eq!(
                (&answer["exit_code"], &answer["output"]),
                (&json!(0), &json!("made\n")),
                "{condition:?}: {answer}"
            );
        }
        let doctor = project.output(&["doctor"], &[]);
        let expected = if condition == Condition::NoNamespaces {
            "NOT kept: no writing to protected paths, no reading of denied files, no change of file attributes"
        } else {
            "workspace, tested: no writing outside the roots, no writing to protected paths, no reading of denied files"
        };
        assert!(doctor.contains(expected), "{condition:?}: {doctor}");
    }
}

/// The helper makes the sandbox itself, also where bubblewrap is installed.
#[test]
fn bubblewrap_on_the_path_is_never_run() {
    for condition in Condition::all() {
        let project = Project::new(condition);
        let ran = project.path("outside/bwrap-ran").display().to_string();
        for name in ["bwrap", "unshare", "newuidmap", "newgidmap", "systemd-run"] {
            let path = format!("bin/{name}");
            project.file(&path, &format!("#!/bin/sh\necho {name} >> {ran}\nexit 1\n"));
            fs::set_permissions(project.path(&path), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", project.path("bin").display());
        let sandbox_of = |variables: &[(&str, &str)]| {
            let doctor = project.output(&["doctor"], variables);
            doctor.lines().filter(|line| line.contains("tested:")).map(str::to_owned).collect::<Vec<_>>()
        };
        let (with, without) = (sandbox_of(&[("PATH", &path)]), sandbox_of(&[]));
        assert_eq!(with, without, "{condition:?}");
        assert_eq!(with.len(), 3, "{condition:?}: {with:?}");
        let answer = project.run(&[exec("cat plain.txt")], &[("PATH", &path)]).remove(0);
        assert_eq!(answer["output"], "plain\n", "{condition:?}: {answer}");
        assert!(!project.path("outside/bwrap-ran").exists(), "{condition:?}");
    }
}

/// `ls` of the project is neither found by a relative entry of `PATH` nor by one inside a root.
#[test]
fn programs_of_the_project_are_not_found_for_harmless_commands() {
    for condition in Condition::all() {
        let project = Project::new(condition);
        // Without a rule, `ls` is classified as harmless, and anything else would ask.
        project.file("here/lango.toml", "model = \"scripted/script.yaml\"\n");
        for name in ["ls", "sh", "ip", "unshare", "lango", "cat"] {
            let path = format!("here/bin/{name}");
            project.file(&path, "#!/bin/sh\necho owned > /proc/self/cwd/../outside/owned\necho owned\n");
            fs::set_permissions(project.path(&path), fs::Permissions::from_mode(0o755)).unwrap();
        }
        let inside = project.path("here/bin").display().to_string();
        for path in [
            "./bin:/usr/bin:/bin".to_owned(),
            format!("{inside}:/usr/bin:/bin"),
            "bin::/usr/bin:/bin".to_owned(),
        ] {
            let answer = project.run(&[exec("ls plain.txt")], &[("PATH", &path)]).remove(0);
            assert_eq!(answer["output"], "plain.txt\n", "{condition:?}, {path}: {answer}");
        }
        assert!(!project.path("outside/owned").exists());
    }
}

#[test]
fn failed_command_names_the_setting_that_would_allow_it() {
    let project = Project::new(Condition::Plain);
    let answer = project.exec("touch /usr/x");
    assert!(answer["note"].as_str().is_some_and(|note| note.contains("[tools] writable")), "{answer}");
    // The policy does not see what the script writes.
    project.file("here/setup.sh", "echo x >> .git/config\n");
    let answer = project.exec("sh ./setup.sh");
    assert!(answer["note"].as_str().is_some_and(|note| note.contains("`protected`")), "{answer}");
}

/// A job that runs when the program is killed ends, and its placeholders are removed.
#[test]
fn placeholders_are_removed_after_a_kill() {
    let project = Project::new(Condition::Plain);
    let answer = project.exec("kill -9 $$");
    assert_eq!(answer["signal"], 9, "{answer}");
    let names: Vec<String> = fs::read_dir(project.path("here"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| ["agents", ".mcp.json"].contains(&name.as_str()))
        .collect();
    assert_eq!(names, Vec::<String>::new());
}
