//! Decisions on commands and tools, with and without rules.

mod attacks;
mod commands;
mod modes;

use insta::assert_snapshot;
use serde_json::json;

use super::{
    Decision::{Allow, Ask, Deny},
    *,
};
use crate::Effect;

fn spec(name: &str, safety: Safety) -> Spec {
    Spec::new(name, "", json!({"type": "object"}), safety, Effect::Once)
}

/// A complete sandbox without a network, which refuses no path.
fn sandbox() -> CommandSandbox {
    CommandSandbox::new(SandboxCapability::complete())
}

fn decide(policy: &Policy, command: &str) -> Verdict {
    decide_with(policy, command, &[])
}

fn decide_with(policy: &Policy, command: &str, stored: &[PolicyRule]) -> Verdict {
    let (spec, args, sandbox) = (spec("exec", Safety::Execute), json!({"command": command}), sandbox());
    let request = PolicyRequest { stored, ..PolicyRequest::new(&spec, args.as_object().unwrap(), &sandbox) };
    policy.decide(&request, &PathScope::lexical("/project"))
}

fn rules(rules: &[(Decision, &[&str])]) -> Policy {
    let rule = |(decision, words): &(Decision, &[&str])| {
        PolicyRule::new(Subject::Command(words.iter().map(|word| (*word).to_owned()).collect()), *decision)
    };
    Policy { rules: rules.iter().map(rule).collect() }
}

#[test]
fn read_only_commands_inside_the_roots_are_allowed() {
    let commands = [
        "ls",
        "ls -la src",
        "cat README.md",
        "pwd",
        "git status",
        "git --no-pager diff --stat HEAD~1",
        "git log --oneline -n 5",
        "git diff main..feature -- src/a.rs",
        "git branch -a",
        "wc -l src/*.rs",
        "head -n 20 a.txt",
        "grep -rn 'a.*b' src",
        "grep -rn /api/v1 src",
        "find . -name '*.rs' -type f",
        "cat a.txt | sort | uniq -c | sort -rn | head -5",
        "ls 2>/dev/null",
        "ls && pwd; git status || echo none",
        "sed -n '1,40p' a.rs",
        "cd sub && ls",
        "echo $HOME \"$(pwd)\"",
        "cat /project/src/a.rs",
        "test -f a && echo yes",
        "[ -d src ]",
        "for file in a b; do echo $file; done",
        "name=1; echo $name",
        "if true; then ls; fi",
        "LC_ALL=C sort a.txt",
        "time ls",
        "nice -n 5 ls",
        "timeout 5 ls",
        "env ls",
        "command -v cargo",
        "command ls",
        "sh -c 'ls | wc -l'",
        "date +%s",
        "(ls)",
        "{ ls; }",
        "! grep -q x a.txt",
        "cat <<E\ntext\nE",
        "find . -name x -exec echo {} \\;",
        "rg -n foo src",
    ];
    for command in commands {
        let verdict = decide(&Policy::default(), command);
        assert_eq!((verdict.decision, verdict.reason.as_str()), (Allow, script::ONLY_READS), "{command}");
    }
}

#[test]
fn rule_matches_whole_words_not_a_text_prefix() {
    let policy = rules(&[(Allow, &["cargo", "test"]), (Allow, &["rm", "build"])]);
    for command in [
        "cargo test",
        "cargo test -p tools --quiet",
        "cargo test 2>&1 | tail -n 5",
        "timeout 60 cargo test",
        "rm build",
    ] {
        assert_eq!(decide(&policy, command).decision, Allow, "{command}");
    }
    for command in [
        "cargo tests",
        "cargo testing",
        "cargo",
        "cargo +nightly test",
        "RUSTC_WRAPPER=x cargo test",
        "cargo test; rm x",
        "cargo test $(rm x)",
        "cargo test > /etc/x",
        "./cargo test",
        "cargo 'test x'",
        "rm buildx",
    ] {
        assert_eq!(decide(&policy, command).decision, Ask, "{command}");
    }
    assert_eq!(decide(&policy, "cargo test && ls").reason, "a rule says: allow `cargo test …`");
}

#[test]
fn denial_overrides_every_other_rule() {
    let mut policy = rules(&[(Deny, &["rm"]), (Allow, &["rm", "x"]), (Deny, &["git", "push"])]);
    policy.rules.push(PolicyRule::new(Subject::Class(Safety::Execute), Allow));
    for command in [
        "rm x",
        "ls; rm x",
        "/bin/rm x",
        "sudo rm x",
        "env rm x",
        "sh -c 'rm x'",
        "find . -exec rm {} +",
        "xargs rm",
        "git push",
    ] {
        assert_eq!(decide(&policy, command).decision, Deny, "{command}");
    }
    assert_eq!(decide(&policy, "ls; rm x").reason, "a rule says: deny `rm …` (command 2 of 2)");
    // The rule for the class allows everything else, except a script that cannot be parsed and may contain `rm`.
    assert_eq!(decide(&policy, "X=1 make > /tmp/x").decision, Allow);
    assert_eq!(decide(&policy, "f() { rm x; }; f").decision, Ask);
    policy.rules.push(PolicyRule::new(Subject::Tool("exec".to_owned()), Deny));
    assert_eq!(decide(&policy, "ls").decision, Deny);
}

#[test]
fn prefix_rule_does_not_allow_commands_that_can_run_anything() {
    let policy = rules(&[
        (Allow, &["env"]),
        (Allow, &["sudo"]),
        (Allow, &["sh"]),
        (Allow, &["xargs"]),
        (Allow, &["eval"]),
        (Allow, &["find"]),
    ]);
    for command in ["env rm x", "sh -c 'rm x'", "sh x.sh", "xargs rm", "eval rm", "find . -delete"] {
        assert_eq!(decide(&policy, command).decision, Ask, "{command}");
    }
}

#[test]
fn offered_rule_is_the_exact_command_or_a_harmless_prefix() {
    let rows: [(&str, &[&str]); 16] = [
        ("cargo test -p x", &["allow `cargo test -p x`"]),
        ("npm run build --watch", &["allow `npm run build --watch`"]),
        ("make test", &["allow `make test`"]),
        ("git commit -m x", &["allow `git commit -m x`"]),
        ("rm -rf build", &["allow `rm -rf build`"]),
        ("ls && rm a && cargo build", &["allow `rm a`", "allow `cargo build`"]),
        ("mkdir -p build/out", &["allow `mkdir …`"]),
        ("mkdir --mode=777 build", &["allow `mkdir --mode=777 build`"]),
        ("touch a b", &["allow `touch …`"]),
        // A script that changes its directory, or whose words are not known, is allowed as a whole.
        ("cd sub && ./build.sh", &["allow `cd sub && ./build.sh`"]),
        ("rm $X", &["allow `rm $X`"]),
        ("ls > out", &["allow `ls > out`"]),
        ("X=1 rm a", &["allow `X=1 rm a`"]),
        ("cat a | sh", &[]),
        ("touch .git/config", &[]),
        ("f() { ls; }; f", &[]),
    ];
    for (command, offered) in rows {
        let verdict = decide(&Policy::default(), command);
        let rules: Vec<String> = verdict.offered.iter().map(PolicyRule::to_string).collect();
        assert_eq!(
            (verdict.decision, rules),
            (Ask, offered.iter().map(|rule| (*rule).to_owned()).collect()),
            "{command}"
        );
        if !offered.is_empty() {
            assert_eq!(
                decide_with(&Policy::default(), command, &verdict.offered).decision,
                Allow,
                "{command}"
            );
        }
    }
}

#[test]
fn stored_rule_allows_nothing_else() {
    let stored = |command: &str| decide(&Policy::default(), command).offered;
    let rows = [
        ("rm build", "rm build -rf /"),
        ("make test", "make test --eval=x"),
        ("make test", "cd sub && make test"),
        ("./build.sh", "cd sub && ./build.sh"),
        ("./build.sh", "cd sub; ./build.sh"),
        ("cd sub && ./build.sh", "./build.sh"),
        ("cd sub && ./build.sh", "./build.sh; cd sub"),
        ("mkdir build", "mkdir /etc/x"),
        ("mkdir build", "mkdir ../x"),
        ("mkdir build", "mkdir .git/hooks"),
        ("mkdir build", "mkdir $X"),
        ("mkdir build", "mkdir -Z x"),
        ("touch a", "touch -r /etc/passwd a"),
        ("git commit -m x", "git commit -m x --no-verify"),
        ("rm $X", "rm $X; rm y"),
    ];
    for (approved, command) in rows {
        let rules = stored(approved);
        assert!(!rules.is_empty(), "{approved}");
        assert_eq!(decide_with(&Policy::default(), command, &rules).decision, Ask, "{approved} → {command}");
    }
    // A prefix that is not in the table has no effect, however it came into the file.
    let wide = PolicyRule::new(Subject::Command(vec!["git".to_owned(), "diff".to_owned()]), Allow);
    assert_eq!(decide_with(&Policy::default(), "git diff --output=x", &[wide]).decision, Ask);
}

#[test]
fn file_tools_are_allowed_by_path_pattern() {
    let write = |path: &str, stored: &[PolicyRule]| {
        let (spec, sandbox, args) = (spec("write_file", Safety::Write), sandbox(), json!({"path": path}));
        let request = PolicyRequest {
            target: Some(path),
            stored,
            ..PolicyRequest::new(&spec, args.as_object().unwrap(), &sandbox)
        };
        Policy::default().decide(&request, &PathScope::lexical("/project"))
    };
    let offered = |path: &str| write(path, &[]).offered.iter().map(PolicyRule::to_string).collect::<Vec<_>>();
    assert_eq!(offered("src/a/b.rs"), ["allow write_file on `src/a/**`"]);
    assert_eq!(offered("README.md"), ["allow write_file on `README.md`"]);
    assert_eq!(offered(".git/hooks/x"), Vec::<String>::new());
    let rules = write("src/a.rs", &[]).offered;
    for (path, decision) in [
        ("src/b.rs", Allow),
        ("src/deep/c.rs", Allow),
        ("srcs/a.rs", Ask),
        ("a.rs", Ask),
        ("src/../x", Ask),
        ("src/.git/config", Ask),
        ("src/lango.toml", Ask),
    ] {
        assert_eq!(write(path, &rules).decision, decision, "{path}");
    }
}

#[test]
fn rules_round_trip_through_json() {
    let mut policy = rules(&[(Allow, &["cargo", "test"])]);
    policy.rules.push(PolicyRule::new(Subject::Exactly(vec!["rm".to_owned(), "x".to_owned()]), Ask));
    policy.rules.push(PolicyRule::new(Subject::Tool("fetch".to_owned()), Deny));
    policy.rules.push(PolicyRule::new(Subject::Class(Safety::Write), Allow));
    policy.rules.push(PolicyRule::new(Subject::Script("cd a && ls".to_owned()), Allow));
    let pattern = PathPattern { tool: "write_file".to_owned(), pattern: "src/**".to_owned() };
    policy.rules.push(PolicyRule::new(Subject::Path(pattern), Allow));
    let stored = serde_json::to_string(&policy).unwrap();
    assert_snapshot!(stored, @r#"[{"decision":"allow","command":["cargo","test"]},{"decision":"ask","exactly":["rm","x"]},{"decision":"deny","tool":"fetch"},{"decision":"allow","class":"write"},{"decision":"allow","script":"cd a && ls"},{"decision":"allow","path":{"tool":"write_file","pattern":"src/**"}}]"#);
    assert_eq!(serde_json::from_str::<Policy>(&stored).unwrap(), policy);
}

fn decide_tool(policy: &Policy, name: &str, safety: Safety, args: &Value) -> Verdict {
    let (spec, sandbox) = (spec(name, safety), sandbox());
    let request = PolicyRequest {
        target: args["path"].as_str(),
        tainted_by: None,
        ..PolicyRequest::new(&spec, args.as_object().unwrap(), &sandbox)
    };
    policy.decide(&request, &PathScope::lexical("/project"))
}

#[test]
fn read_tools_are_allowed_by_default_and_others_by_a_rule_for_the_tool() {
    let none = json!({});
    let plain = |name, safety| decide_tool(&Policy::default(), name, safety, &none).decision;
    assert_eq!(plain("read_file", Safety::Read), Allow);
    for safety in [Safety::Write, Safety::Execute, Safety::Network] {
        assert_eq!(plain("x", safety), Ask);
    }
    let asked = decide_tool(&Policy::default(), "fetch", Safety::Network, &none);
    assert_eq!(asked.reason, "`fetch` uses the network");
    let policy = Policy { rules: asked.offered };
    assert_eq!(policy.rules[0].to_string(), "allow the tool fetch");
    assert_eq!(decide_tool(&policy, "fetch", Safety::Network, &none).decision, Allow);
    assert_eq!(decide_tool(&policy, "other", Safety::Network, &none).decision, Ask);
}

#[test]
fn sensitive_files_ask_even_if_writing_is_allowed() {
    let policy = Policy { rules: vec![PolicyRule::new(Subject::Class(Safety::Write), Allow)] };
    let write =
        |path: &str| decide_tool(&policy, "write_file", Safety::Write, &json!({"path": path})).decision;
    assert_eq!((write("src/a.rs"), write(".gitignore")), (Allow, Allow));
    for path in [".git/config", "sub/.git/hooks/x", ".GIT/config", "lango.toml", ".mcp.json", ".envrc"] {
        assert_eq!(write(path), Ask, "{path}");
    }
    assert_eq!(decide(&policy, "ls > out").decision, Allow);
    assert_eq!(decide(&policy, "ls > /tmp/out").decision, Ask);
    assert_eq!(decide(&policy, "ls > .git/config").decision, Ask);
}

#[test]
fn allowed_calls_ask_again_after_untrusted_text() {
    let policy = rules(&[(Allow, &["cargo", "test"])]);
    let (spec, source, sandbox) = (spec("exec", Safety::Execute), "a page from example.com", sandbox());
    let decide = |command: &str| {
        let args = json!({"command": command});
        let request = PolicyRequest {
            target: args["path"].as_str(),
            tainted_by: Some(source),
            ..PolicyRequest::new(&spec, args.as_object().unwrap(), &sandbox)
        };
        policy.decide(&request, &PathScope::lexical("/project"))
    };
    let asked = decide("cargo test");
    assert_eq!(asked.decision, Ask);
    assert_eq!(
        asked.reason,
        "untrusted text is in the conversation (a page from example.com), so exec needs approval again"
    );
    assert_eq!(decide("git status").decision, Allow);
}

#[test]
fn on_disk_scope_resolves_links_and_expands_globs() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap().join("root");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    std::fs::write(root.join("a"), "").unwrap();
    std::os::unix::fs::symlink("/etc", root.join("out")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", root.join("sub/out")).unwrap();
    std::os::unix::fs::symlink("../a", root.join("sub/good")).unwrap();
    let scope = PathScope::on_disk(vec![root.clone()], Path::new(""));
    let (spec, policy, sandbox) = (spec("exec", Safety::Execute), Policy::default(), sandbox());
    let decide = |command: &str| {
        let args = json!({"command": command});
        let request = PolicyRequest {
            target: args["path"].as_str(),
            tainted_by: None,
            ..PolicyRequest::new(&spec, args.as_object().unwrap(), &sandbox)
        };
        policy.decide(&request, &scope).decision
    };
    for command in
        ["cat a", "cd sub && ls", "ls not_there", "cat a*", "cat s*/g*", "cat sub/good", "cat no*/x"]
    {
        assert_eq!(decide(command), Allow, "{command}");
    }
    for command in [
        "cat out/passwd",
        "ls out",
        "cat sub/out",
        "cd sub && cat out",
        "cd out && ls",
        "cat < out/passwd",
        "cat o*/passwd",
        "cat o[u]t/passwd",
        "cat *",
        "cat s*/o*",
        "cat sub/*",
        "grep -r root *",
        "cd sub && cat o?t",
        "sh -c 'cd sub && cat out'",
    ] {
        assert_eq!(decide(command), Ask, "{command}");
    }
}

/// If writing is allowed, sensitive files still ask, whatever path or link names them.
#[test]
fn sensitive_file_is_recognized_by_any_path() {
    let dir = tempfile::tempdir().unwrap();
    // Sensitive names above the root have no effect.
    let root = dir.path().canonicalize().unwrap().join(".cargo/root");
    std::fs::create_dir_all(root.join(".git/hooks")).unwrap();
    std::os::unix::fs::symlink(".git/hooks", root.join("link")).unwrap();
    let policy = Policy { rules: vec![PolicyRule::new(Subject::Class(Safety::Write), Allow)] };
    let (exec, write, sandbox) =
        (spec("exec", Safety::Execute), spec("write_file", Safety::Write), sandbox());
    let decide = |spec: &Spec, args: &Value, target: Option<&str>, workdir: &str| {
        let scope = PathScope::on_disk(vec![root.clone()], workdir.as_ref());
        let request =
            PolicyRequest { target, ..PolicyRequest::new(spec, args.as_object().unwrap(), &sandbox) };
        policy.decide(&request, &scope).decision
    };
    let run = |command: &str, workdir: &str| decide(&exec, &json!({"command": command}), None, workdir);
    assert_eq!(run("echo x > a", ""), Allow);
    for command in [
        "echo x > .git/hooks/a",
        "echo x > '.git/hooks/a'",
        "echo x > \".git\"/hooks/a",
        "echo x > .gi\\t/hooks/a",
        "echo x > ./.GIT/config",
        "cd .git && echo x > config",
        "cd .git && cd hooks && echo x > a",
        "sh -c 'cd .git && echo x > config'",
        "echo x > link/a",
        "cd link && echo x > a",
        "echo x > l*k/a",
    ] {
        assert_eq!(run(command, ""), Ask, "{command}");
    }
    assert_eq!((run("echo x > a", ".git"), run("echo x > a", "link")), (Ask, Ask));
    let path = |path: &str| json!({"path": path});
    assert_eq!(decide(&write, &path("other/a"), Some("b"), ""), Allow);
    assert_eq!(decide(&write, &path("other/a"), Some(".git/hooks/a"), ""), Ask);
    assert_eq!(decide(&write, &path("link/a"), Some("b"), ""), Ask);
    assert_eq!(decide(&write, &json!({"path": ".git/a"}), Some("elsewhere/a"), ""), Ask);
}

#[test]
fn git_asks_if_the_repository_config_can_run_programs() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("a/.git")).unwrap();
    std::fs::create_dir_all(root.join("a/sub")).unwrap();
    std::fs::create_dir_all(root.join("b")).unwrap();
    std::fs::write(root.join("b/.git"), "gitdir: ../a/.git\n").unwrap();
    let (spec, policy, sandbox) = (spec("exec", Safety::Execute), Policy::default(), sandbox());
    let decide = |config: &str, command: &str, workdir: &str| {
        std::fs::write(root.join("a/.git/config"), config).unwrap();
        let args = json!({"command": command});
        let request = PolicyRequest::new(&spec, args.as_object().unwrap(), &sandbox);
        policy.decide(&request, &PathScope::on_disk(vec![root.clone()], workdir.as_ref()))
    };
    let honest = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://x.example/filter/y.git\n[branch \"command\"]\n";
    let evil = format!("{honest}[diff \"x\"]\n\tTextConv = touch made\n");
    let cases = [("git diff", "a"), ("git log -p", "a/sub"), ("cd a && git status", ""), ("git show", "b")];
    for (command, workdir) in cases {
        assert_eq!(decide(honest, command, workdir).decision, Allow, "{command}");
        let verdict = decide(&evil, command, workdir);
        assert_eq!(verdict.decision, Ask, "{command}");
        assert_eq!(
            verdict.reason.split(" (command").next().unwrap(),
            "the git configuration of the repository may run a program or read other files (`diff.textconv`)"
        );
    }
    assert_eq!(decide(&evil, "git status", "").decision, Allow, "no repository");
    for evil in [
        "[diff \"a=b\"] textconv = x",
        "[filter \"x\"]\nclean = x",
        "[Core]\nWorkTree=/",
        "[include]\npath=x",
    ] {
        assert_eq!(decide(evil, "git status", "a").decision, Ask, "{evil}");
    }
}
