//! Derives the permissions of settings. Pure: paths are resolved by a function of the caller, and no file is read.

use super::{
    keys::{KeyRule, rule},
    permission::{Permission, Permissions, variables},
};
use crate::config::{AgentConfig, known_endpoint};
use serde_json::{Map, Value};
use session::postgres::PostgresUrl;
use std::path::Path;

/// The folder whose settings are examined.
#[derive(Clone, Copy)]
pub(super) struct FolderPaths<'a> {
    /// Without symbolic links.
    pub(super) folder: &'a Path,
    /// Resolves the symbolic links of a path as far as it exists.
    pub(super) real: &'a dyn Fn(&Path) -> std::path::PathBuf,
}

impl FolderPaths<'_> {
    fn resolve(&self, written: &str) -> String {
        (self.real)(&self.folder.join(written)).display().to_string()
    }

    fn contains(&self, path: &str) -> bool {
        Path::new(path).starts_with(self.folder)
    }
}

/// The permissions of a `lango.toml`.
pub(super) fn of_file(file: &Map<String, Value>, paths: FolderPaths<'_>) -> Permissions {
    let mut found = Permissions::new();
    walk(&mut Vec::new(), file, paths, &mut found);
    for (section, of_entry) in SECTIONS {
        for (name, entry) in entries(file, section) {
            of_entry(&format!("{section}.{name}"), name, entry, paths, &mut found);
        }
    }
    if let Some(telemetry) = file.get("telemetry").and_then(Value::as_object) {
        of_telemetry(telemetry, &mut found);
    }
    found
}

/// The permissions of a `.mcp.json`.
pub(super) fn of_project(file: &Value, paths: FolderPaths<'_>) -> Permissions {
    let mut found = Permissions::new();
    let servers = file.get("mcpServers").and_then(Value::as_object);
    for (name, server) in servers.into_iter().flatten() {
        let Some(server) = server.as_object() else { continue };
        if server.get("disabled") != Some(&Value::Bool(true)) {
            let setting = format!(".mcp.json {name}");
            of_server(&setting, name, server, paths, &mut found);
            of_variables(&setting, &Value::Object(server.clone()), &mut found);
        }
    }
    found
}

/// The permissions of an agent and its sub-agents.
pub(super) fn of_agent(app: &str, config: &AgentConfig) -> Permissions {
    // Every field is named: a new one must be classified. Instructions, descriptions, schemas and transfer settings stay inside
    // the conversation; a reserved `output_key` is refused when the file is read.
    let AgentConfig {
        name,
        description: _,
        instruction: _,
        model,
        tools,
        sub_agents,
        generate,
        include_contents: _,
        output_key: _,
        disallow_transfer_to_parent: _,
        disallow_transfer_to_peers: _,
        file: _,
    } = config;
    let mut found = Permissions::new();
    found.insert(Permission::Agent { app: app.to_owned(), agent: name.clone() });
    found.extend(model.iter().filter_map(|model| of_model(format!("agents/{app}, agent {name}"), model)));
    let tool = |tool: &str| Permission::AgentTool {
        app: app.to_owned(),
        agent: name.clone(),
        tool: tool.to_owned(),
    };
    // No list of tools means all tools.
    found.extend(
        tools
            .as_ref()
            .map_or_else(|| vec![tool("all tools")], |tools| tools.iter().map(|name| tool(name)).collect()),
    );
    for (key, value) in &generate.extra {
        list(&format!("agents/{app}, agent {name}, generate_content_config.{key}"), value, &mut found);
    }
    for sub in sub_agents {
        found.extend(of_agent(app, sub));
    }
    found
}

/// Applies the rules to every key. A value without a rule is listed.
fn walk<'a>(
    key: &mut Vec<&'a str>,
    table: &'a Map<String, Value>,
    paths: FolderPaths<'_>,
    found: &mut Permissions,
) {
    for (name, value) in table {
        key.push(name);
        match (rule(key), value) {
            (Some(rule), _) => apply(rule, &key.join("."), value, (paths, found)),
            (None, Value::Object(below)) => walk(key, below, paths, found),
            (None, _) => list(&key.join("."), value, found),
        }
        key.pop();
    }
}

fn apply(rule: KeyRule, key: &str, value: &Value, (paths, found): (FolderPaths<'_>, &mut Permissions)) {
    let is_higher = |default: f64| value.as_f64().is_none_or(|number| number > default);
    let is_listed = match rule {
        KeyRule::Harmless(_) => return,
        KeyRule::Section => false,
        KeyRule::Listed => true,
        KeyRule::OneOf(values) => values.contains(&as_text(value).as_str()),
        KeyRule::Raised { default, zero_is_none } => {
            is_higher(default) || zero_is_none && value.as_f64() == Some(0.0)
        }
        KeyRule::LowerThan(default) => value.as_f64().is_none_or(|number| number < default),
        KeyRule::Path => {
            for path in elements(value).filter_map(Value::as_str) {
                found.insert(of_database(key, path).unwrap_or_else(|| of_path(key, paths.resolve(path))));
            }
            false
        }
        KeyRule::PathRead => {
            elements(value).for_each(|root| of_root(root, paths, found));
            false
        }
        KeyRule::ModelNames => {
            let names = elements(value).filter_map(Value::as_str);
            found.extend(names.filter_map(|name| of_model(key.to_owned(), name)));
            false
        }
    };
    if is_listed {
        list(key, value, found);
    }
    of_variables(key, value, found);
}

/// A setting with its value, one for each element of a list or table.
fn list(key: &str, value: &Value, found: &mut Permissions) {
    let setting = |key: String, value: String| match key.strip_prefix("approval.") {
        Some(_) => Permission::Approval { setting: key, value },
        None => Permission::Setting { key, value },
    };
    match value {
        Value::Array(values) if !values.is_empty() => {
            found.extend(values.iter().map(|value| setting(key.to_owned(), as_text(value))));
        }
        Value::Object(values) if !values.is_empty() => {
            found.extend(values.iter().map(|(name, value)| setting(format!("{key}.{name}"), as_text(value))));
        }
        _ => {
            found.insert(setting(key.to_owned(), as_text(value)));
        }
    }
}

/// A database on a server receives every conversation. Its password is not shown.
fn of_database(key: &str, value: &str) -> Option<Permission> {
    let url = PostgresUrl::parse(value)?;
    let content = "every conversation".to_owned();
    Some(Permission::Host { setting: key.to_owned(), url: url.to_string(), content })
}

fn of_path(key: &str, path: String) -> Permission {
    match key {
        "tools.writable" => Permission::Write { path },
        _ => Permission::Setting { key: key.to_owned(), value: path },
    }
}

/// The default root is the folder, so that directories inside it add nothing.
fn of_root(root: &Value, paths: FolderPaths<'_>, found: &mut Permissions) {
    let path = root.as_str().or_else(|| root.get("path").and_then(Value::as_str)).unwrap_or_default();
    let path = paths.resolve(path);
    if paths.contains(&path) {
        return;
    }
    if root.get("write") != Some(&Value::Bool(false)) {
        found.insert(Permission::Write { path: path.clone() });
    }
    found.insert(Permission::Read { path });
}

/// The model `demo` is part of the program.
fn of_model(setting: String, model: &str) -> Option<Permission> {
    let is_demo = model.split('/').next() == Some("demo");
    (!is_demo).then(|| Permission::Model { setting, model: model.to_owned() })
}

/// The variables that the strings of a value name.
fn of_variables(setting: &str, value: &Value, found: &mut Permissions) {
    match value {
        Value::String(text) => found.extend(
            variables(text)
                .map(|name| Permission::Variable { name: name.to_owned(), setting: setting.to_owned() }),
        ),
        Value::Array(values) => values.iter().for_each(|value| of_variables(setting, value, found)),
        Value::Object(values) => values.values().for_each(|value| of_variables(setting, value, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

type OfEntry = fn(&str, &str, &Map<String, Value>, FolderPaths<'_>, &mut Permissions);

/// The sections whose permissions are made of several keys.
const SECTIONS: [(&str, OfEntry); 4] =
    [("providers", of_provider), ("mcp", of_enabled_server), ("commands", of_command), ("stubs", of_stub)];

fn of_provider(
    setting: &str,
    name: &str,
    entry: &Map<String, Value>,
    _: FolderPaths<'_>,
    found: &mut Permissions,
) {
    let known = known_endpoint(name);
    let url = text(entry, "baseUrl").or_else(|| text(entry, "base_url"));
    let Some(url) = url.map(str::to_owned).or_else(|| known.map(|(url, _)| url.to_owned())) else { return };
    let (setting, content) = (setting.to_owned(), "messages".to_owned());
    let mut secret = |secret: String| {
        found.insert(Permission::Secret { setting: setting.clone(), url: url.clone(), secret });
    };
    match text(entry, "key") {
        Some(key) => variables(key).for_each(|name| secret(format!("${{{name}}} as key"))),
        // The variables of the known provider.
        None => {
            known.iter().flat_map(|(_, keys)| *keys).for_each(|name| secret(format!("${{{name}}} as key")));
        }
    }
    let organization = text(entry, "organization").map(|text| ("openai-organization", text));
    for (header, value) in strings(entry, "headers").chain(organization) {
        variables(value).for_each(|name| secret(format!("${{{name}}} in the header {header}")));
    }
    found.insert(Permission::Host { setting, url, content });
}

fn of_enabled_server(
    setting: &str,
    name: &str,
    entry: &Map<String, Value>,
    paths: FolderPaths<'_>,
    found: &mut Permissions,
) {
    if entry.get("enabled") != Some(&Value::Bool(false)) {
        of_server(setting, name, entry, paths, found);
    }
}

fn of_server(
    setting: &str,
    _: &str,
    entry: &Map<String, Value>,
    paths: FolderPaths<'_>,
    found: &mut Permissions,
) {
    if let Some(command) = text(entry, "command") {
        let args = elements_of(entry, "args").map(as_word);
        of_program(setting, std::iter::once(command.to_owned()).chain(args).collect(), entry, (paths, found));
    }
    let Some(url) = text(entry, "url") else { return };
    let (setting, url) = (setting.to_owned(), url.to_owned());
    let secrets = variables(&url).map(|name| format!("${{{name}}} in the address"));
    let headers = strings(entry, "headers").flat_map(|(header, value)| {
        variables(value).map(move |name| format!("${{{name}}} in the header {header}"))
    });
    for secret in secrets.chain(headers) {
        found.insert(Permission::Secret { setting: setting.clone(), url: url.clone(), secret });
    }
    found.insert(Permission::Host { setting, url, content: "calls of tools".to_owned() });
}

fn of_command(
    setting: &str,
    _: &str,
    entry: &Map<String, Value>,
    paths: FolderPaths<'_>,
    found: &mut Permissions,
) {
    let argv = elements_of(entry, "command").map(as_word).collect();
    of_program(setting, argv, entry, (paths, found));
}

fn of_program(
    setting: &str,
    argv: Vec<String>,
    entry: &Map<String, Value>,
    (paths, found): (FolderPaths<'_>, &mut Permissions),
) {
    let dir = paths.resolve(text(entry, "cwd").unwrap_or_default());
    found.insert(Permission::Program { setting: setting.to_owned(), argv, dir });
    found.extend(strings(entry, "env").map(|(name, value)| Permission::ProgramVariable {
        setting: setting.to_owned(),
        name: name.to_owned(),
        value: value.to_owned(),
    }));
}

fn of_stub(setting: &str, _: &str, entry: &Map<String, Value>, _: FolderPaths<'_>, found: &mut Permissions) {
    let class = text(entry, "safety").unwrap_or("read");
    let value = format!("a tool of the class {class} with fixed answers");
    found.insert(Permission::Setting { key: setting.to_owned(), value });
}

fn of_telemetry(entry: &Map<String, Value>, found: &mut Permissions) {
    let setting = "telemetry".to_owned();
    let url = text(entry, "endpoint").unwrap_or("the collector of the environment").to_owned();
    for (header, value) in strings(entry, "headers") {
        found.extend(variables(value).map(|name| Permission::Secret {
            setting: setting.clone(),
            url: url.clone(),
            secret: format!("${{{name}}} in the header {header}"),
        }));
    }
    if entry.contains_key("endpoint") {
        found.insert(Permission::Host { setting, url, content: "traces".to_owned() });
    }
}

fn entries<'a>(
    file: &'a Map<String, Value>,
    section: &str,
) -> impl Iterator<Item = (&'a String, &'a Map<String, Value>)> {
    let entries = file.get(section).and_then(Value::as_object);
    entries.into_iter().flatten().filter_map(|(name, entry)| Some((name, entry.as_object()?)))
}

/// The elements of a list; a single value is a list of one.
fn elements(value: &Value) -> impl Iterator<Item = &Value> {
    let list = value.as_array();
    let single = list.is_none().then_some(value);
    list.into_iter().flatten().chain(single)
}

fn elements_of<'a>(entry: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = &'a Value> {
    entry.get(key).into_iter().flat_map(elements)
}

fn text<'a>(entry: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    entry.get(key).and_then(Value::as_str)
}

fn strings<'a>(entry: &'a Map<String, Value>, key: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let table = entry.get(key).and_then(Value::as_object);
    table.into_iter().flatten().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
}

/// A word of a command line.
fn as_word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn as_text(value: &Value) -> String {
    value.to_string()
}

#[cfg(test)]
mod tests;
