//! The permissions of a folder as lines of text. No value of a settings file can control the terminal or hide a part of itself.

use super::permission::{Permission, Permissions};
use crate::screen::printable;
use std::{collections::BTreeMap, fmt::Write, path::Path};

/// A heading with its items, one line each.
pub(super) struct Group {
    pub(super) heading: &'static str,
    pub(super) items: Vec<String>,
}

/// The groups that are not empty, the most consequential first.
pub(super) fn groups(permissions: &Permissions, folder: &Path) -> Vec<Group> {
    let mut groups: BTreeMap<Heading, Vec<String>> = BTreeMap::new();
    for permission in permissions {
        if let Some((heading, line)) = line(permission, permissions, folder) {
            groups.entry(heading).or_default().push(line);
        }
    }
    groups.into_iter().map(|(heading, items)| Group { heading: heading.text(), items }).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Heading {
    Folder,
    Programs,
    Hosts,
    Variables,
    Files,
    Approvals,
    Settings,
    Models,
    Agents,
}

impl Heading {
    fn text(self) -> &'static str {
        match self {
            Self::Folder => "the folder",
            Self::Programs => "starts programs",
            Self::Hosts => "sends to hosts",
            Self::Variables => "reads variables",
            Self::Files => "gives tools access to files",
            Self::Approvals => "lets calls run without asking",
            Self::Settings => "other settings",
            Self::Models => "uses models",
            Self::Agents => "defines agents",
        }
    }
}

/// The line of a permission; `None` for one that is part of another's line.
fn line(permission: &Permission, all: &Permissions, folder: &Path) -> Option<(Heading, String)> {
    Some(match permission {
        Permission::ChangedByOthers { who } => {
            (Heading::Folder, format!("{} can change files that are not in this list", visible(who)))
        }
        Permission::Program { setting, argv, dir } => {
            (Heading::Programs, program(setting, argv, dir, folder))
        }
        Permission::ProgramVariable { setting, name, value } => (
            Heading::Programs,
            format!("with the variable {}={} ({})", visible(name), visible(value), visible(setting)),
        ),
        Permission::Host { setting, url, content } => (Heading::Hosts, host(setting, url, content, all)),
        Permission::Secret { setting, url, secret } => {
            let is_shown = all.iter().any(|other| {
                matches!(other, Permission::Host { setting: of, url: to, .. } if of == setting && to == url)
            });
            let host = (!is_shown).then(|| host_name(url))?;
            (Heading::Hosts, format!("{host} gets {} ({})", visible(secret), visible(setting)))
        }
        Permission::Variable { name, setting } => {
            (Heading::Variables, format!("{} ({})", visible(name), visible(setting)))
        }
        Permission::Read { path } => {
            let writes = all.contains(&Permission::Write { path: path.clone() });
            let access = if writes { "read and write" } else { "read" };
            (Heading::Files, format!("{access} {}", visible(path)))
        }
        Permission::Write { path } => {
            let is_shown = all.contains(&Permission::Read { path: path.clone() });
            (Heading::Files, (!is_shown).then(|| format!("write {}", visible(path)))?)
        }
        Permission::Approval { setting, value } => (Heading::Approvals, assignment(setting, value)),
        Permission::Setting { key, value } => (Heading::Settings, assignment(key, value)),
        Permission::Model { setting, model } => {
            (Heading::Models, format!("{} ({})", visible(model), visible(setting)))
        }
        Permission::Agent { app, agent } => (Heading::Agents, agent_line(app, agent, all)),
        Permission::AgentTool { app, agent, tool } => {
            let is_shown = all.contains(&Permission::Agent { app: app.clone(), agent: agent.clone() });
            let agent = (!is_shown).then(|| visible(agent))?;
            (Heading::Agents, format!("{agent} gets the tool {} (agents/{})", visible(tool), visible(app)))
        }
    })
}

fn assignment(key: &str, value: &str) -> String {
    format!("{} = {}", visible(key), visible(value))
}

fn program(setting: &str, argv: &[String], dir: &str, folder: &Path) -> String {
    let words: Vec<String> = argv.iter().map(|word| quoted(word)).collect();
    let place = if Path::new(dir) == folder { String::new() } else { format!(", in {}", visible(dir)) };
    format!("{} ({}{place})", words.join(" "), visible(setting))
}

fn host(setting: &str, url: &str, content: &str, all: &Permissions) -> String {
    let mut line = format!("{} gets {content}", host_name(url));
    for permission in all {
        if let Permission::Secret { setting: of, url: to, secret } = permission
            && of == setting
            && to == url
        {
            // Writing to a String does not fail.
            let _ = write!(line, ", {}", visible(secret));
        }
    }
    format!("{line} ({}, {})", visible(setting), ascii(url))
}

/// The host that a request goes to, which may not be the one that the address seems to name. A template is shown as it is.
fn host_name(url: &str) -> String {
    let parsed = reqwest::Url::parse(url).ok().filter(|_| !url.contains("${"));
    let host = parsed.as_ref().and_then(reqwest::Url::host_str);
    host.map_or_else(|| ascii(url), visible)
}

fn agent_line(app: &str, agent: &str, all: &Permissions) -> String {
    let tools: Vec<String> = all
        .iter()
        .filter_map(|permission| match permission {
            Permission::AgentTool { app: in_app, agent: of, tool } if in_app == app && of == agent => {
                Some(visible(tool))
            }
            _ => None,
        })
        .collect();
    let tools = if tools.is_empty() { "no tools".to_owned() } else { tools.join(", ") };
    format!("{} with {tools} (agents/{})", visible(agent), visible(app))
}

/// A word of a command line, quoted where its end would not be visible.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,~${}".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("\"{}\"", visible(&word.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// The text on one line, with control and invisible characters as escapes.
pub(crate) fn visible(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        // No-break and other wide or narrow spaces look like a space.
        if c.is_control() || c.is_whitespace() && c != ' ' {
            // Writing to a String does not fail.
            let _ = write!(escaped, "<U+{:04X}>", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    printable(&escaped)
}

/// Like [`visible`], with all characters outside ASCII as escapes: letters of other scripts can imitate the name of a host.
fn ascii(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in visible(text).chars() {
        if c.is_ascii() {
            escaped.push(c);
        } else {
            // Writing to a String does not fail.
            let _ = write!(escaped, "<U+{:04X}>", u32::from(c));
        }
    }
    escaped
}

/// All lines: each heading with its items below it.
pub(crate) fn lines(permissions: &Permissions, folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for group in groups(permissions, folder) {
        lines.push(format!("  {}:", group.heading));
        lines.extend(group.items.into_iter().map(|item| format!("    {item}")));
    }
    if lines.is_empty() {
        lines.push("  it has instructions and settings for the model only".to_owned());
    }
    lines
}

/// At most `rows` lines of at most `columns` characters. Returns `false` if something was left out. Every group keeps its
/// heading with the number of its items, so that many items of one group cannot hide another group.
pub(super) fn folded(
    permissions: &Permissions,
    folder: &Path,
    rows: usize,
    columns: usize,
) -> (Vec<String>, bool) {
    let all = lines(permissions, folder);
    let fits = |line: &String| width(line) <= columns;
    if all.len() <= rows && all.iter().all(fits) {
        return (all, true);
    }
    let groups = groups(permissions, folder);
    // The items of each group are shown in rounds, as long as there is room.
    let mut shown = vec![0; groups.len()];
    let mut left = rows.saturating_sub(groups.len());
    while left > 0 {
        let before = left;
        for (count, group) in shown.iter_mut().zip(&groups) {
            if left > 0 && *count < group.items.len() {
                *count += 1;
                left -= 1;
            }
        }
        if before == left {
            break;
        }
    }
    let mut lines = Vec::new();
    for (group, count) in groups.iter().zip(shown) {
        let total = group.items.len();
        let more = if count < total { format!(" ({count} of {total} shown)") } else { String::new() };
        lines.push(shortened(&format!("  {}{more}:", group.heading), columns));
        lines.extend(group.items.iter().take(count).map(|item| shortened(&format!("    {item}"), columns)));
    }
    (lines, false)
}

fn shortened(line: &str, columns: usize) -> String {
    if width(line) <= columns {
        return line.to_owned();
    }
    let mut left = columns.saturating_sub(2);
    let fits = |c: &char| {
        let fits = char_width(*c) <= left;
        left = left.saturating_sub(char_width(*c));
        fits
    };
    let head: String = line.chars().take_while(fits).collect();
    format!("{head}…")
}

/// The end of a text, which a path is recognised by.
pub(super) fn tail(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let reversed: String = text.chars().rev().collect();
    shortened(&reversed, columns).chars().rev().collect()
}

fn width(line: &str) -> usize {
    line.chars().map(char_width).sum()
}

/// At least the columns of a character: many outside ASCII are two columns wide.
fn char_width(c: char) -> usize {
    if c.is_ascii() { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(count: usize) -> Permissions {
        (0..count)
            .map(|number| Permission::Setting { key: format!("k{number:03}"), value: "1".to_owned() })
            .collect()
    }

    #[test]
    fn values_cannot_hide_or_control() {
        assert_eq!(visible("a\u{1b}[2K\r\nb\tc"), "a<U+001B>[2K<U+000D><U+000A>b<U+0009>c");
        assert_eq!(visible("x\u{e0041}\u{202e}y\u{a0}"), "x<U+E0041><U+202E>y<U+00A0>");
        assert_eq!(quoted("a\"b \\"), "\"a\\\"b \\\\\"");
        assert_eq!(quoted(""), "\"\"");
        assert_eq!(host_name("https://api.openai.com@evil.example/v1"), "evil.example");
        assert_eq!(host_name("https://\u{430}pi.example/"), "xn--pi-6kc.example");
        assert_eq!(host_name("https://${HOST}/"), "https://${HOST}/");
    }

    #[test]
    fn long_list_keeps_every_heading_on_the_screen() {
        let mut all = settings(500);
        all.insert(Permission::Program {
            setting: "mcp.x".to_owned(),
            argv: vec!["evil".to_owned(), "y".repeat(500)],
            dir: "/f".to_owned(),
        });
        let (lines, is_complete) = folded(&all, Path::new("/f"), 10, 40);
        assert!(!is_complete);
        assert_eq!(lines.len(), 10);
        assert_eq!(lines[0], "  starts programs:");
        assert!(lines[1].starts_with("    evil yyy") && lines[1].ends_with('…'), "{lines:?}");
        assert_eq!(lines[2], "  other settings (7 of 500 shown):");
        assert!(lines.iter().all(|line| width(line) <= 40));
        assert_eq!(shortened(&"\u{754c}".repeat(9), 10), format!("{}…", "\u{754c}".repeat(4)));
        assert_eq!(tail("/a/very/long/path", 8), "…g/path");
        assert_eq!(
            folded(&settings(3), Path::new("/f"), 10, 40),
            (super::lines(&settings(3), Path::new("/f")), true)
        );
    }
}
