//! Approval modes and rules for every user, and where the system refuses namespaces, so that `workspace` is incomplete.

use super::{Condition, Project, exec, without_namespaces, without_sandbox};
use crate::{
    common::{QUESTION, Terminal, TestEnv},
    tools::{exec as exec_call, one_by_one},
};

const MISSING: &str = "does not guarantee \"no writing to protected paths\", \"no reading of denied files\"";

#[test]
fn modes_need_a_complete_sandbox_for_every_user() {
    for condition in Condition::all() {
        let project = Project::new(condition);
        project.file("here/lango.toml", "model = \"scripted/script.yaml\"\n");
        for (mode, made) in [("edits", false), ("auto", true)] {
            project.script(&[exec("touch made")]);
            let output = project.output(&["run", "--json", "--mode", mode, "go"], &[]);
            if condition == Condition::NoNamespaces {
                let error = format!(
                    "the mode {mode} is not available, because the sandbox of this machine {MISSING}"
                );
                assert!(output.contains(&error), "{output}");
                let served = project.output(&["serve", "--port", "0", "--mode", mode], &[]);
                assert!(served.contains(&error), "{served}");
            }
            let expected = made && condition != Condition::NoNamespaces;
            assert_eq!(project.path("here/made").exists(), expected, "{condition:?}, {mode}: {output}");
        }
        // The mode of the configuration is an error, too.
        if condition == Condition::NoNamespaces {
            project
                .file("here/lango.toml", "model = \"scripted/script.yaml\"\n[approval]\nmode = \"auto\"\n");
            let output = project.output(&["run", "--json", "go"], &[]);
            assert!(output.contains("the mode auto is not available"), "{output}");
        }
    }
}

/// A rule allows the command, and each call asks nevertheless, for this call only.
#[test]
fn command_for_an_incomplete_profile_asks_every_time_and_names_the_guarantee() {
    let toml = "[approval]\nexecute = \"allow\"\n";
    let calls = [exec_call("ls"), exec_call("touch made"), exec_call("touch made")];
    let env = TestEnv::scripted(toml, &one_by_one(&calls));
    without_namespaces(|| {
        let mut terminal = Terminal::open(&env, &["chat", "--session", "k"]);
        terminal.wait_for("› ");
        terminal.type_line("go");
        for _ in 0..2 {
            terminal.wait_for("touch made");
            terminal.wait_for("It asks because the sandbox of this machine");
            terminal.wait_for("writing to protected paths");
            terminal.wait_for("[y = yes, n = no");
            terminal.wait_for(QUESTION);
            terminal.type_line("y");
        }
        terminal.wait_for("done");
        terminal.wait_for("› ");
        terminal.type_line("/mode auto");
        terminal.wait_for("the mode auto is not available");
        terminal.quit();
    });
    assert!(env.workdir().join("made").exists());
}

/// Where nothing can be confined, commands that only read ask too, whatever rules and modes say; tools that read do not.
#[test]
fn command_that_only_reads_asks_where_the_read_only_profile_is_incomplete() {
    for condition in Condition::all() {
        let project = Project::new(condition);
        let read = serde_json::json!({"name": "read_file", "args": {"path": "plain.txt"}});
        project.script(&[exec("cat plain.txt"), read]);
        let run = |mode: &[&str]| {
            without_sandbox(|| project.output(&[&["run", "--json"], mode, &["go"]].concat(), &[]))
        };
        for mode in [&["--mode", "ask"], &["--mode", "plan"]] {
            let output = run(mode);
            let missing =
                "the sandbox of this machine does not guarantee \\\"no writing outside the roots\\\"";
            assert!(output.contains(missing), "{condition:?}, {mode:?}: {output}");
            let asked = output.matches("no one is available to approve it").count();
            assert!(asked == 1 && !output.contains("exit_code"), "{condition:?}, {mode:?}: {output}");
        }
        let output = run(&["--mode", "auto"]);
        assert!(output.contains("the mode auto is not available"), "{condition:?}: {output}");
        let doctor = without_sandbox(|| project.output(&["doctor"], &[]));
        assert!(doctor.contains("Commands can do whatever this program can"), "{condition:?}: {doctor}");
    }
}
