//! Modes: each with each class of tool, protected paths, untrusted text, and a sandbox with missing guarantees.

use super::*;
use crate::exec::sandbox::Guarantee;

/// A call for the tests: a tool, its class, and its arguments.
fn calls() -> Vec<(&'static str, Spec, Value)> {
    let named = |name: &str, safety| spec(name, safety);
    vec![
        ("read a file", named("read_file", Safety::Read), json!({"path": "a"})),
        ("write a file", named("write_file", Safety::Write), json!({"path": "src/a"})),
        ("write a protected file", named("write_file", Safety::Write), json!({"path": ".git/config"})),
        ("write with another tool", named("server__write", Safety::Write), json!({"path": "src/a"})),
        ("a command that reads", named("exec", Safety::Execute), json!({"command": "ls"})),
        ("a command that acts", named("exec", Safety::Execute), json!({"command": "make"})),
        ("a command that writes a file", named("exec", Safety::Execute), json!({"command": "echo x > a"})),
        (
            "a command on a protected file",
            named("exec", Safety::Execute),
            json!({"command": "cp a .git/hooks/b"}),
        ),
        ("a command with sudo", named("exec", Safety::Execute), json!({"command": "sudo make"})),
        (
            "a command that cannot be parsed",
            named("exec", Safety::Execute),
            json!({"command": "f() { ls; }; f"}),
        ),
        ("a background job", named("exec_start", Safety::Execute), json!({"command": "make"})),
        ("another program", named("deploy", Safety::Execute), json!({})),
        ("the network", named("fetch", Safety::Network), json!({"url": "https://example.com"})),
    ]
}

fn decide_in(
    mode: ApprovalMode,
    sandbox: &CommandSandbox,
    tainted_by: Option<&str>,
    call: &(Spec, Value),
) -> Verdict {
    let (spec, args) = call;
    let target = args["path"].as_str();
    let base = PolicyRequest::new(spec, args.as_object().unwrap(), sandbox);
    let request = PolicyRequest { target, tainted_by, mode, ..base };
    Policy::default().decide(&request, &PathScope::lexical("/project"))
}

fn picture(sandbox: &CommandSandbox, tainted_by: Option<&str>) -> String {
    let lines = calls().into_iter().map(|(title, spec, args)| {
        let call = (spec, args);
        let decide = |mode| decide_in(mode, sandbox, tainted_by, &call).decision.to_string();
        let [plan, ask, edits, auto] = ApprovalMode::ALL.map(decide);
        format!("{title:<32} {plan:<6} {ask:<6} {edits:<6} {auto}")
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn each_mode_decides_on_each_class_of_tool() {
    assert_snapshot!(picture(&sandbox(), None), @"
read a file                      allow  allow  allow  allow
write a file                     deny   ask    allow  allow
write a protected file           deny   ask    ask    ask
write with another tool          deny   ask    ask    ask
a command that reads             allow  allow  allow  allow
a command that acts              deny   ask    ask    allow
a command that writes a file     deny   ask    allow  allow
a command on a protected file    deny   ask    ask    ask
a command with sudo              deny   deny   deny   deny
a command that cannot be parsed  deny   ask    ask    ask
a background job                 deny   ask    ask    allow
another program                  deny   ask    ask    ask
the network                      deny   ask    ask    ask
");
}

#[test]
fn untrusted_text_drops_edits_and_auto_to_ask() {
    assert_snapshot!(picture(&sandbox(), Some("a page")), @"
    read a file                      allow  allow  allow  allow
    write a file                     deny   ask    ask    ask
    write a protected file           deny   ask    ask    ask
    write with another tool          deny   ask    ask    ask
    a command that reads             allow  allow  allow  allow
    a command that acts              deny   ask    ask    ask
    a command that writes a file     deny   ask    ask    ask
    a command on a protected file    deny   ask    ask    ask
    a command with sudo              deny   deny   deny   deny
    a command that cannot be parsed  deny   ask    ask    ask
    a background job                 deny   ask    ask    ask
    another program                  deny   ask    ask    ask
    the network                      deny   ask    ask    ask
    ");
}

#[test]
fn incomplete_sandbox_drops_edits_and_auto_to_ask_and_asks_for_every_command() {
    let missing = ProfileSupport::Missing(vec![Guarantee::NoNetwork]);
    let capability = SandboxCapability { read_only: missing.clone(), workspace: missing };
    assert_snapshot!(picture(&CommandSandbox::new(capability.clone()), None), @"
    read a file                      allow  allow  allow  allow
    write a file                     deny   ask    ask    ask
    write a protected file           deny   ask    ask    ask
    write with another tool          deny   ask    ask    ask
    a command that reads             ask    ask    ask    ask
    a command that acts              deny   ask    ask    ask
    a command that writes a file     deny   ask    ask    ask
    a command on a protected file    deny   ask    ask    ask
    a command with sudo              deny   deny   deny   deny
    a command that cannot be parsed  deny   ask    ask    ask
    a background job                 deny   ask    ask    ask
    another program                  deny   ask    ask    ask
    the network                      deny   ask    ask    ask
    ");
    let reason = |command: &str| {
        let call = (spec("exec", Safety::Execute), json!({"command": command}));
        decide_in(ApprovalMode::Ask, &CommandSandbox::new(capability.clone()), None, &call).reason
    };
    assert_snapshot!(reason("ls"), @r#"the sandbox of this machine does not guarantee "no network""#);
    assert_snapshot!(reason("make"), @r#"`make` is not on the allowed list, and the sandbox of this machine does not guarantee "no network""#);
    assert_snapshot!(capability.check_mode(ApprovalMode::Auto).unwrap_err(), @r#"the mode auto is not available, because the sandbox of this machine does not guarantee "no network". Use the mode ask; lango doctor shows what the sandbox provides"#);
    assert_eq!(capability.check_mode(ApprovalMode::Plan), Ok(()));
}

#[test]
fn incomplete_sandbox_ends_rules_for_commands() {
    let rules = decide(&Policy::default(), "make").offered;
    let (spec, args) = (spec("exec", Safety::Execute), json!({"command": "make"}));
    let decide = |sandbox: &CommandSandbox| {
        let base = PolicyRequest::new(&spec, args.as_object().unwrap(), sandbox);
        let request = PolicyRequest { stored: &rules, ..base };
        Policy::default().decide(&request, &PathScope::lexical("/project")).decision
    };
    assert_eq!(decide(&sandbox()), Allow);
    assert_eq!(decide(&CommandSandbox::new(SandboxCapability::none())), Ask);
    let configured = [
        PolicyRule::new(Subject::Class(Safety::Execute), Allow),
        PolicyRule::new(Subject::Command(vec!["make".to_owned()]), Allow),
    ];
    for rule in configured {
        let policy = Policy { rules: vec![rule] };
        let decide = |sandbox: &CommandSandbox| {
            let request = PolicyRequest::new(&spec, args.as_object().unwrap(), sandbox);
            policy.decide(&request, &PathScope::lexical("/project"))
        };
        assert_eq!(decide(&sandbox()).decision, Allow);
        let incomplete = SandboxCapability {
            workspace: ProfileSupport::Missing(vec![Guarantee::ProtectedPaths]),
            ..SandboxCapability::complete()
        };
        let verdict = decide(&CommandSandbox::new(incomplete));
        assert_eq!((verdict.decision, verdict.offered.len()), (Ask, 0));
        assert!(
            verdict.reason.ends_with("does not guarantee \"no writing to protected paths\""),
            "{verdict:?}"
        );
    }
}

/// The argument `protected` asks by name, also if a rule allows the command, and grants those paths only.
#[test]
fn named_protected_paths_ask_and_are_granted() {
    let (spec, sandbox) = (spec("exec", Safety::Execute), sandbox());
    let policy = Policy { rules: vec![PolicyRule::new(Subject::Class(Safety::Execute), Allow)] };
    let decide = |paths: &[&str]| {
        let args = json!({"command": "./setup.sh", "protected": paths});
        let request = PolicyRequest {
            mode: ApprovalMode::Auto,
            ..PolicyRequest::new(&spec, args.as_object().unwrap(), &sandbox)
        };
        policy.decide(&request, &PathScope::lexical("/project"))
    };
    assert_eq!(decide(&[]).decision, Allow);
    let verdict = decide(&[".git/hooks", "bare/config"]);
    assert_eq!(verdict.decision, Ask);
    assert_snapshot!(verdict.reason, @"it must write the protected path `.git/hooks`, `bare/config`");
    assert_eq!(verdict.protected, [Path::new("/project/.git/hooks"), Path::new("/project/bare/config")]);
    assert_eq!(verdict.offered, []);
    for above in [".", "..", "/", "a/.."] {
        assert_eq!(decide(&[above]).decision, Deny, "{above}");
    }
}

#[test]
fn plan_refuses_what_rules_allow() {
    let policy = Policy { rules: vec![PolicyRule::new(Subject::Class(Safety::Execute), Allow)] };
    let (spec, args, sandbox) = (spec("exec", Safety::Execute), json!({"command": "make"}), sandbox());
    let request = PolicyRequest {
        mode: ApprovalMode::Plan,
        ..PolicyRequest::new(&spec, args.as_object().unwrap(), &sandbox)
    };
    assert_eq!(policy.decide(&request, &PathScope::lexical("/project")).decision, Deny);
}

/// What the sandbox would refuse anyway is answered with the setting that would allow it.
#[test]
fn forbidden_commands_are_answered_with_the_setting() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let sandbox = CommandSandbox { writable: vec![root.clone()], home: "/people/ann".into(), ..sandbox() };
    let scope = PathScope::on_disk(vec![root], Path::new(""));
    let spec = spec("exec", Safety::Execute);
    let decide = |command: &str| {
        let args = json!({"command": command});
        let request = PolicyRequest::new(&spec, args.as_object().unwrap(), &sandbox);
        Policy::default().decide(&request, &scope)
    };
    let lines = ["curl https://example.com", "rm -rf /etc/x", "echo x > ~/.bashrc", "cp a ../b", "sudo ls"];
    let lines = lines.map(|command| {
        let verdict = decide(command);
        assert_eq!(verdict.decision, Deny, "{command}");
        format!("{}; {}", verdict.reason, verdict.remedy.unwrap())
    });
    assert_snapshot!(lines.join("\n"), @"
    `curl` needs the network, which commands do not have; set `network = true` in [tools] of lango.toml to give commands the network; the tool fetch reads pages without that
    commands cannot write to `/etc/x`; name its directory in `roots` or `writable` of [tools] in lango.toml to allow that
    commands cannot write to `/people/ann/.bashrc`; name its directory in `roots` or `writable` of [tools] in lango.toml to allow that
    commands cannot write to `../b`; name its directory in `roots` or `writable` of [tools] in lango.toml to allow that
    `sudo` cannot gain privileges in the sandbox; no setting allows that; the person can run it in a terminal
    ");
    for command in
        ["curl http://localhost:8080", "cp /etc/hosts a", "echo x > a", "cp a $X", "cargo build --offline"]
    {
        assert_eq!(decide(command).decision, Ask, "{command}");
    }
}
