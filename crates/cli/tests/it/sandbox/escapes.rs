//! Attempts to leave the sandbox that succeeded in earlier versions.

use super::{Condition, Project, exec};
use serde_json::json;
use std::{fs, path::Path};

/// The conditions in which `workspace` is complete.
fn complete() -> impl Iterator<Item = Condition> {
    Condition::all().into_iter().filter(|condition| *condition != Condition::NoNamespaces)
}

/// A pair of datagram sockets is not connected for good: each end can send to the path of another socket.
#[test]
fn doctor_tests_sockets_of_every_kind() {
    for condition in Condition::all() {
        let doctor = Project::new(condition).output(&["doctor"], &[]);
        let tested: Vec<&str> = doctor.lines().filter(|line| line.contains(", tested: no writing")).collect();
        assert_eq!(tested.len(), 2, "{condition:?}: {doctor}");
        for line in tested {
            let kept = line.split("NOT kept").next().unwrap();
            assert!(kept.contains("no Unix sockets"), "{condition:?}: {doctor}");
        }
    }
}

/// The directories above a protected path are mount points. Those inside a protected directory must not become writable by that.
#[test]
fn repository_inside_a_protected_directory_does_not_make_it_writable() {
    for condition in complete() {
        let project = Project::new(condition);
        for name in ["HEAD", "config", "objects/x", "refs/x", "hooks/x"] {
            project.file(&format!("here/agents/lib/.git/{name}"), "");
        }
        project.file("here/agents/lib/tool.txt", "kept\n");
        project.file(
            "here/setup.sh",
            "for name in tool.txt new .git/new; do echo x >> agents/lib/$name; done\n",
        );
        project.exec("sh ./setup.sh");
        assert_eq!(fs::read_to_string(project.path("here/agents/lib/tool.txt")).unwrap(), "kept\n");
        for name in ["new", ".git/new"] {
            assert!(!project.path("here/agents/lib").join(name).exists(), "{condition:?}, {name}");
        }
    }
}

/// A denied name counts in every directory that commands can read, not in the roots only.
#[test]
fn private_key_of_a_toolchain_cannot_be_read() {
    for condition in complete() {
        let project = Project::new(condition);
        project.file("tool/bin/known", "");
        project.file("tool/etc/site.key", "-----BEGIN PRIVATE KEY-----\nCANARY-7f3a\n");
        project.file("tool/etc/.env", "CANARY-7f3a\n");
        project.file("tool/etc/plain", "plain\n");
        let tool = project.path("tool");
        project.file(
            "here/setup.sh",
            &format!("cd {}/etc && cat plain; cat site.key .env; cat site.key .env >&2\n", tool.display()),
        );
        let path = format!("{}:/usr/bin:/bin", tool.join("bin").display());
        let answer = project.run(&[exec("sh ./setup.sh")], &[("PATH", &path)]).remove(0);
        let output = answer["output"].as_str().unwrap();
        assert!(output.starts_with("plain\n") && !output.contains("CANARY"), "{condition:?}: {answer}");
    }
}

/// `git config` and editors save by renaming a new file over the old one, which removes a mount.
#[test]
fn file_that_another_program_replaces_meanwhile_is_protected_again() {
    let command = "echo > started; until [ -e replaced ]; do :; done; \
                   while cat .env 2> /dev/null | grep -q CANARY; do :; done; \
                   while (echo x >> .git/config) 2> /dev/null; do :; done; echo protected";
    for condition in complete() {
        let project = Project::new(condition);
        project.file("here/setup.sh", command);
        let replace = |name: &str| {
            let (new, old) = (project.path("outside/new"), project.path("here").join(name));
            fs::copy(&old, &new).unwrap();
            fs::rename(new, old).unwrap();
        };
        let wait_for = |path: &Path| {
            while !path.exists() {
                std::thread::yield_now();
            }
        };
        let answer = std::thread::scope(|scope| {
            let running = scope.spawn(|| {
                let call = json!({"name": "exec", "args": {"command": "sh ./setup.sh", "timeout_s": 20}});
                project.run(&[call], &[]).remove(0)
            });
            wait_for(&project.path("here/started"));
            replace(".env");
            replace(".git/config");
            project.file("here/replaced", "");
            running.join().unwrap()
        });
        assert_eq!(answer["output"], "protected\n", "{condition:?}: {answer}");
    }
}

/// The home directory as the root: denied directories contain denied names, and the data directory has any name.
#[test]
fn sandbox_is_complete_where_the_root_is_the_home_directory() {
    for condition in complete() {
        let project = Project::new(condition);
        for name in [".ssh/id_rsa", ".aws/credentials", "sub/deep/id_ed25519", "state/keys/id_rsa"] {
            project.file(&format!("here/{name}"), "CANARY-7f3a\n");
        }
        let home = project.path("here").display().to_string();
        let data = project.path("here/state").display().to_string();
        project.file(
            "here/setup.sh",
            "cat .ssh/id_rsa .aws/credentials sub/deep/id_ed25519 state/keys/id_rsa; mv sub s; mv state t; mv .ssh u; \
             cat */deep/id_ed25519 */keys/id_rsa u/id_rsa; echo ran\n",
        );
        let answer =
            project.run(&[exec("sh ./setup.sh")], &[("HOME", &home), ("LANGO_HOME", &data)]).remove(0);
        let output = answer["output"].as_str().unwrap_or_default();
        assert!(output.ends_with("ran\n") && !output.contains("CANARY"), "{condition:?}: {answer}");
    }
}
