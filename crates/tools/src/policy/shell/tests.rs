//! Parsed scripts, one line per simple command, and a comparison with real shells.

use super::*;

/// One line per command: assignments, words, redirections.
fn render(script: &str) -> String {
    let commands = match parse(script) {
        Ok(commands) => commands,
        Err(why) => return format!("it {why}"),
    };
    let line = |simple: &SimpleCommand| {
        let assigns = simple.assigns.iter().map(|name| format!("{name}="));
        let words = simple.words.iter().map(|word| match &word.text {
            WordValue::Known(text) => format!("{text:?}"),
            WordValue::Pattern(text) => format!("pattern {text:?}"),
            WordValue::Unknown => format!("unknown {}", word.raw),
        });
        let redirects = simple
            .redirects
            .iter()
            .map(|redirect| format!("{} {}", if redirect.writes { ">" } else { "<" }, redirect.target.raw));
        assigns.chain(words).chain(redirects).collect::<Vec<_>>().join(" · ")
    };
    commands.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_command_of_lists_and_compound_commands_is_found() {
    let rows = [
        ("ls -l", r#""ls" · "-l""#),
        ("ls;rm x", "\"ls\"\n\"rm\" · \"x\""),
        ("ls && rm x || echo no", "\"ls\"\n\"rm\" · \"x\"\n\"echo\" · \"no\""),
        ("a | b | c &", "\"a\"\n\"b\"\n\"c\""),
        ("a\nb\n\n# c\nd # e", "\"a\"\n\"b\"\n\"d\""),
        ("! a", "\"a\""),
        ("(a; b) > f; { c; }", "\"a\"\n\"b\"\n> f\n\"c\""),
        ("a \\\n b", "\"a\" · \"b\""),
        ("a \\\n\\\n\t&& b", "\"a\"\n\"b\""),
        ("if a; then b; elif c; then d; else e; fi", "\"a\"\n\"b\"\n\"c\"\n\"d\"\n\"e\""),
        ("while a; do b; done", "\"a\"\n\"b\""),
        ("for x in 1 $(a); do b $x; done", "x=\n\"a\"\n\"b\" · unknown $x"),
        ("case $x in a|b) c;; *) d;; esac", "\"c\"\n\"d\""),
        ("echo a#b '#' \\#", r##""echo" · "a#b" · "#" · "#""##),
    ];
    for (script, expected) in rows {
        assert_eq!(render(script), expected, "{script}");
    }
}

#[test]
fn commands_in_substitutions_and_here_documents_are_found() {
    let rows = [
        ("ls $(rm x)", "\"ls\" · unknown $(rm x)\n\"rm\" · \"x\""),
        ("ls `rm x`", "\"ls\" · unknown `rm x`\n\"rm\" · \"x\""),
        (
            "ls \"a $(rm `b \\`c\\``)\"",
            "\"ls\" · unknown \"a $(rm `b \\`c\\``)\"\n\"rm\" · unknown `b \\`c\\``\n\"b\" · unknown `c`\n\"c\"",
        ),
        ("ls '$(rm x)'", r#""ls" · "$(rm x)""#),
        ("ls \\$(rm)", "it has a `(` inside a word, as in a function or pattern"),
        ("X=$(rm x) ls", "X= · \"ls\"\n\"rm\" · \"x\""),
        ("ls > $(rm x)", "\"ls\" · > $(rm x)\n\"rm\" · \"x\""),
        ("cat <<E\n$(rm x)\nE", "\"cat\"\n\"rm\" · \"x\""),
        ("cat <<'E'\n$(rm x)\nE", "\"cat\""),
        ("cat <<-E\n\t`rm x`\n\tE\nls", "\"cat\"\n\"rm\" · \"x\"\n\"ls\""),
        ("cat <<A <<B\na\nA\n$(b)\nB\nls", "\"cat\"\n\"b\"\n\"ls\""),
    ];
    for (script, expected) in rows {
        assert_eq!(render(script), expected, "{script}");
    }
}

#[test]
fn words_are_known_patterns_or_unknown() {
    let rows = [
        ("l\\s \"-l\"'a'b", r#""ls" · "-lab""#),
        ("$X a", r#"unknown $X · "a""#),
        ("ls *.rs '*.rs' ~ ~/x a~", r#""ls" · pattern "*.rs" · "*.rs" · unknown ~ · unknown ~/x · "a~""#),
        ("ls {a,b} {} \"{a,b}\"", r#""ls" · unknown {a,b} · "{}" · "{a,b}""#),
        ("A=1 B+=2 c D=3", r#"A= · B= · "c" · "D=3""#),
        ("a 2>&1 >&- < in 2>>log <>rw", r#""a" · < in · > log · > rw"#),
        ("a >&file", r#""a" · > file"#),
        ("echo $ a$", r#""echo" · "$" · "a$""#),
        ("ls ''", r#""ls" · """#),
    ];
    for (script, expected) in rows {
        assert_eq!(render(script), expected, "{script}");
    }
}

#[test]
fn ambiguous_or_unsupported_syntax_is_a_parse_error() {
    let scripts = [
        "f() { rm x; }; f",
        "function f { rm x; }",
        "a &> f rm",
        "a |& b",
        "a <<< b",
        "diff <(a) <(b)",
        "echo $((1+1))",
        "((x++))",
        "[[ a ]]",
        "echo ${x:-$(rm)}",
        "echo ${x@P}",
        "echo $'a'",
        "echo $\"a\"",
        "a=(b c)",
        "coproc a",
        "select x in a; do b; done",
        "echo \"a",
        "echo 'a",
        "echo `a",
        "echo $(a",
        "(a",
        "a)",
        "{ a; ",
        "fi",
        "if a; fi",
        "a ;; b",
        "cat <<E\nbody",
        "cat <<$X\nE\n",
        "echo $(cat <<E)\nrm x\nE\n",
        "cat <<E $(a\n)\nE\n",
        "echo $[1]",
        "ls @(a|b)",
        "a\\",
        "| a",
        "; a",
        "a | | b",
        "for ((;;)); do a; done",
        "case a in b) c",
        "cat $\\\nHOME/x",
        "cat <<E\\\nF\n$(rm x)\nEF\n",
        "cat <<E\nfoo \\\nE\ncat <<'X'\nE\nrm x\nX\n",
        "echo \"`echo \\\"'\\\" ; rm x ; echo \\\"'\\\"`\"",
    ];
    for script in scripts {
        assert!(parse(script).is_err(), "{script}: {}", render(script));
    }
}

#[test]
fn invisible_characters_are_a_parse_error() {
    for (script, why) in [
        ("ls\rrm x", "contains a carriage return"),
        ("ls\u{0}", "contains a control character (\\u{0})"),
        ("ls\u{1b}[2K", "contains a control character (\\u{1b})"),
        ("ls\u{a0}-l", "contains white space that shells do not recognize (\\u{a0})"),
        ("ls \u{202e}x", "contains an invisible or bidirectional character (\\u{202e})"),
        ("l\u{200b}s", "contains an invisible or bidirectional character (\\u{200b})"),
        ("ls\u{2028}rm", "contains white space that shells do not recognize (\\u{2028})"),
    ] {
        assert_eq!(parse(script).unwrap_err().to_string(), why, "{script:?}");
    }
}

#[test]
fn nesting_is_limited() {
    for (open, close) in [("( ", ")"), ("echo $(", ")"), ("{ ", "; }"), ("if a; then ", "; fi")] {
        let deep = format!("{}ls{}", open.repeat(5000), close.repeat(5000));
        assert_eq!(parse(&deep).unwrap_err().0, "is nested too deeply", "{open}");
    }
}

/// Script fragments that are nested at `%`. None loops forever.
const FRAMES: [&str; 35] = [
    "%",
    "echo; %",
    "% | echo",
    "! %",
    "( % )",
    "{ %; }",
    "echo $(%)",
    "echo `%`",
    "echo \"$(%)\"",
    "echo \"`%`\"",
    "echo '%'",
    "echo \"%\"",
    "x=$(%)",
    "x=1 %",
    "echo \\%",
    "echo \\\"%\\\"",
    "# %\n",
    "echo #%\n",
    "cat <<E\n%\nE\n",
    "cat <<'E'\n%\nE\n",
    "cat <<E; %\nE\n",
    "cat <<E\n$(%)\nE\n",
    "cat <<E\n`%`\nE\n",
    "(cat <<E)\nE\n%",
    "echo $(cat <<E\n%\nE\n)",
    "if echo; then %; fi",
    "if %; then echo; fi",
    "case a in a) %;; esac",
    "case a in (b|a) %\nesac",
    "for x in a; do %; done",
    "echo a \\\n; %",
    "echo a >b; %",
    "% &",
    "echo '; %; echo '",
    "echo \"; %; echo \"",
];

/// Text that is inserted at random positions.
const NOISE: [&str; 23] = [
    "'", "\"", "\\", "`", "\n", "#", ";", "$", "(", ")", "&", "|", "E", "\nE\n", "<<E", "<<'X'", "\nX\n",
    " \\\n", "{", "}", " ", "evil", "\\\"",
];

/// `evil` in nested frames, innermost first, with noise.
fn framed(frames: &[usize], noise: &[(usize, usize)]) -> String {
    let mut script = frames.iter().fold("evil".to_owned(), |inner, &at| FRAMES[at].replace('%', &inner));
    for &(what, offset) in noise {
        script.insert_str(script.floor_char_boundary(offset % (script.len() + 1)), NOISE[what]);
    }
    script
}

/// Runs a script with `evil` as the only program on the PATH, and returns whether it ran.
fn runs_evil(shell: &str, dir: &std::path::Path, script: &str) -> bool {
    let mark = dir.join("mark");
    let _ = std::fs::remove_file(&mark);
    let status = std::process::Command::new(shell)
        .args(["-c", script])
        .env_clear()
        .env("PATH", dir)
        .current_dir(dir)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status();
    // Background commands get some time to run.
    let waits = if script.contains('&') { 20 } else { 1 };
    (0..waits).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(u64::from(waits > 1)));
        mark.exists()
    }) && status.is_ok()
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_scripts_never_panic(script in "[a-z$(){}`'\"\\\\;&|<> \n#=*~!E]{0,40}") {
        let _ = parse(&script);
    }

    /// A command on a line of its own is found whatever surrounds it, or the script does not parse.
    #[test]
    fn command_in_random_context_is_found(before in "[a-z '\";|&(){}$`\n#<>-]{0,12}", after in "[a-z '\";|&(){}$`\n#<>-]{0,12}") {
        let script = format!("{before}\n$(evil)\n{after}");
        if let Ok(commands) = parse(&script) {
            let quoted = before.contains(['\'', '#', '<']);
            let found = commands.iter().any(|simple| simple.words.iter().any(|word| word.known() == Some("evil")));
            proptest::prop_assert!(found || quoted, "{script:?}: {commands:?}");
        }
    }

    /// Real shells are the oracle: a command that they run was found, or the script does not parse.
    #[test]
    fn real_shells_run_only_commands_that_were_found(
        frames in proptest::collection::vec(0..FRAMES.len(), 1..5),
        noise in proptest::collection::vec((0..NOISE.len(), 0_usize..200), 0..4),
    ) {
        let script = framed(&frames, &noise);
        let Ok(commands) = parse(&script) else { return Ok(()) };
        let may_be_evil = |simple: &SimpleCommand| simple.words.first().is_some_and(|word| word.known().is_none_or(|name| name == "evil"));
        if commands.iter().any(may_be_evil) {
            return Ok(());
        }
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("evil");
        std::fs::write(&program, "#!/bin/sh\n: > mark\n").unwrap();
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        for shell in ["/bin/sh", "/bin/bash"] {
            proptest::prop_assert!(!runs_evil(shell, dir.path(), &script), "{shell}: {script:?}: {commands:?}");
        }
    }
}
