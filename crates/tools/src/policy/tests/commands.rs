//! The table of common commands: whether each runs, asks or is refused in each mode.

use super::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct CommandTable {
    read_only: Vec<String>,
    build: Vec<String>,
    network: Vec<String>,
    dangerous: Vec<String>,
}

/// The decisions on one command in the modes plan, ask, edits and auto.
struct TableRow {
    command: String,
    decisions: [Decision; 4],
}

fn table() -> CommandTable {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/approvals/commands.toml");
    toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn rows(commands: &[String], sandbox: &CommandSandbox, root: &Path) -> Vec<TableRow> {
    let scope = PathScope::on_disk(vec![root.to_owned()], Path::new(""));
    let spec = spec("exec", Safety::Execute);
    let decide = |command: &String, mode| {
        let args = json!({"command": command});
        let request = PolicyRequest { mode, ..PolicyRequest::new(&spec, args.as_object().unwrap(), sandbox) };
        Policy::default().decide(&request, &scope).decision
    };
    let row = |command: &String| TableRow {
        command: command.clone(),
        decisions: ApprovalMode::ALL.map(|mode| decide(command, mode)),
    };
    commands.iter().map(row).collect()
}

fn count(rows: &[TableRow], mode: usize, decision: Decision) -> usize {
    rows.iter().filter(|row| row.decisions[mode] == decision).count()
}

/// The page of the book that shows the table.
fn page(sections: &[(&str, Vec<TableRow>)]) -> String {
    let line = |TableRow { command, decisions }: &TableRow| {
        let shown = decisions.map(|decision| match decision {
            Allow => "runs",
            Ask => "asks",
            Deny => "is refused",
        });
        format!("| `{}` | {} |\n", command.replace('|', "\\|"), shown.join(" | "))
    };
    let section = |(title, rows): &(&str, Vec<TableRow>)| {
        let lines: String = rows.iter().map(line).collect();
        format!("## {title}\n\n| command | plan | ask | edits | auto |\n|---|---|---|---|---|\n{lines}\n")
    };
    sections.iter().map(section).collect()
}

#[test]
fn common_commands_meet_the_targets_of_each_mode() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    let writable = vec![root.clone()];
    let sandbox = CommandSandbox { writable, home: "/people/ann".into(), ..sandbox() };
    let table = table();
    let of = |commands: &[String]| rows(commands, &sandbox, &root);
    let (read_only, build, network, dangerous) =
        (of(&table.read_only), of(&table.build), of(&table.network), of(&table.dangerous));
    assert_eq!((read_only.len(), build.len(), network.len(), dangerous.len()), (50, 40, 20, 10));
    let [_, ask, _, auto] = [0, 1, 2, 3];
    let failing = |rows: &[TableRow], mode: usize| -> Vec<String> {
        rows.iter().filter(|row| row.decisions[mode] != Allow).map(|row| row.command.clone()).collect()
    };
    assert!(count(&read_only, ask, Allow) >= 48, "{:?}", failing(&read_only, ask));
    let in_auto = count(&read_only, auto, Allow) + count(&build, auto, Allow);
    assert!(in_auto >= 85, "{:?} {:?}", failing(&read_only, auto), failing(&build, auto));
    for row in &dangerous {
        assert!(!row.decisions.contains(&Allow), "{} runs without asking: {:?}", row.command, row.decisions);
    }
    // Nothing that acts runs in plan, and builds ask in ask.
    assert_eq!((count(&build, 0, Deny), count(&build, ask, Ask)), (40, 40));
    // The sandbox has no network: the answer is the setting, and no question.
    assert_eq!(count(&network, auto, Deny), 20, "{:?}", failing(&network, auto));

    // With a network, they ask in ask and run in auto.
    let online = CommandSandbox { network: true, ..sandbox };
    let online = rows(&table.network, &online, &root);
    assert_eq!((count(&online, ask, Allow), count(&online, auto, Deny)), (0, 0));
    check_page(&page(&[
        ("Read-only commands", read_only),
        ("Builds and tests", build),
        ("Network commands", network),
        ("Network commands, with `network = true`", online),
        ("Dangerous commands", dangerous),
    ]));
}

/// Checks the tables of the page in the book, or writes them if `UPDATE_TABLES` is set.
fn check_page(tables: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/approval-commands.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, found) = text.split_at(text.find("## ").unwrap_or(text.len()));
    if std::env::var_os("UPDATE_TABLES").is_some() {
        std::fs::write(&path, format!("{before}{}\n", tables.trim_end())).unwrap();
        return;
    }
    assert_eq!(found.trim_end(), tables.trim_end(), "run this test with UPDATE_TABLES=1 to write the page");
}
