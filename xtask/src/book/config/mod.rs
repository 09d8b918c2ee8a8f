//! The configuration reference, generated from the serde types of `lango.toml`.
//!
//! | module | contents |
//! |---|---|
//! | `types` | keys, kinds of values and doc comments, from the source |
//! | `known` | the table of known providers, from the source |
//! | `defaults` | numbers in doc comments, compared with the code that sets them |

mod defaults;
mod known;
mod types;

use super::is_rust;
use std::fmt::Write;
use types::{Field, KeyKind, Types};

/// The module and the type of the whole file.
const ROOT: (&str, &str) = ("file", "ConfigFile");

/// Upper-case string literals of the configuration that are not environment variables.
const NO_VARIABLES: [&str; 4] = ["KEY", "LANGO_", "MCP_TOKEN", "TEAM"];

/// The generated parts of the page.
pub(super) struct Reference {
    pub(super) keys: String,
    pub(super) providers: String,
}

/// One table of the file, such as `[server.jwt]`.
struct Section {
    path: String,
    intro: String,
    fields: Vec<Field>,
}

impl Reference {
    pub(super) fn generate(files: &[(String, String)]) -> Result<Self, Vec<String>> {
        let one = |problem: String| vec![problem];
        let types = Types::parse(files).map_err(one)?;
        let mut sections = Vec::new();
        collect(&types, ROOT, (String::new(), String::new()), &mut sections).map_err(one)?;
        let mut problems: Vec<String> = sections.iter().flat_map(undocumented).collect();
        problems.extend(defaults::check(files, leaves(&sections)));
        if !problems.is_empty() {
            return Err(problems);
        }
        let keys = sections.iter().map(section).collect::<Vec<_>>().join("\n");
        let known = known::parse(types.module("known").map_err(one)?).map_err(one)?;
        Ok(Self { keys, providers: providers(&known) })
    }
}

/// All keys with a value, each with the path of its table.
fn leaves(sections: &[Section]) -> impl Iterator<Item = (String, &Field)> {
    sections.iter().flat_map(|section| {
        let dot = if section.path.is_empty() { "" } else { "." };
        section.fields.iter().map(move |field| (format!("{}{dot}{}", section.path, field.key), field))
    })
}

/// Collects a table, then its nested tables.
fn collect(
    types: &Types,
    (module, name): (&str, &str),
    (path, intro): (String, String),
    sections: &mut Vec<Section>,
) -> Result<(), String> {
    let (leaves, tables): (Vec<Field>, Vec<Field>) =
        types.fields(module, name)?.into_iter().partition(|field| table(&field.kind).is_none());
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let inner: Vec<(String, Field)> = tables.into_iter().map(|field| (below(&field.key), field)).collect();
    sections.push(Section { path, intro, fields: leaves });
    for (path, field) in inner {
        let Some((module, name)) = table(&field.kind) else { continue };
        let path = match (&field.kind, field.docs.name) {
            (KeyKind::Map(_), name) => format!("{path}.{}", name.as_deref().unwrap_or("<name>")),
            (KeyKind::Value(_) | KeyKind::Words(_) | KeyKind::List(_) | KeyKind::Table(..), _) => path,
        };
        collect(types, (module, name), (path, field.docs.text), sections)?;
    }
    Ok(())
}

/// The module and type of a table with its own keys.
fn table(kind: &KeyKind) -> Option<(&str, &str)> {
    match kind {
        KeyKind::Table(module, name) => Some((module, name)),
        KeyKind::Map(inner) => match &**inner {
            KeyKind::Table(module, name) => Some((module, name)),
            KeyKind::Value(_) | KeyKind::Words(_) | KeyKind::List(_) | KeyKind::Map(_) => None,
        },
        KeyKind::Value(_) | KeyKind::Words(_) | KeyKind::List(_) => None,
    }
}

fn undocumented(section: &Section) -> Vec<String> {
    let mut problems = Vec::new();
    for field in &section.fields {
        let key = format!("the key `{}` of [{}]", field.key, section.path);
        if field.docs.text.is_empty() {
            problems.push(format!("{key} has no doc comment"));
        }
        let unnamed = field.foreign_keys.iter().find(|key| !field.docs.text.contains(&format!("`{key}`")));
        problems.extend(unnamed.map(|inner| format!("the doc comment of {key} does not name `{inner}`")));
        if default(field).is_none() {
            problems.push(format!("the doc comment of {key} needs a line `Default: …`"));
        }
    }
    problems
}

fn section(section: &Section) -> String {
    let mut text = match section.path.as_str() {
        "" => "### Top-level keys\n".to_owned(),
        path => format!("### `[{path}]`\n\n{}\n", section.intro),
    };
    text += "\n| key | type | default | environment | meaning |\n|---|---|---|---|---|\n";
    for field in &section.fields {
        let default = default(field).unwrap_or_default();
        let environment = field.docs.environment.as_deref().unwrap_or_default();
        let cells =
            [&format!("`{}`", field.key), &field.kind.to_string(), &default, environment, &field.docs.text];
        let _ = writeln!(text, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    text
}

/// The default from the doc comment, or from the type; `None` if neither has one.
fn default(field: &Field) -> Option<String> {
    if let Some(default) = &field.docs.default {
        return Some(default.clone());
    }
    if field.is_required {
        return Some("required".to_owned());
    }
    match &field.kind {
        KeyKind::List(_) | KeyKind::Map(_) => Some("empty".to_owned()),
        KeyKind::Value(text) if text == "boolean" => Some("`false`".to_owned()),
        KeyKind::Value(_) => Some("none".to_owned()),
        KeyKind::Words(_) | KeyKind::Table(..) => None,
    }
}

fn providers(known: &[known::Known]) -> String {
    let code = |text: &String| format!("`{text}`");
    let mut text =
        "| provider | format | base URL | key | model if none is named |\n|---|---|---|---|---|\n".to_owned();
    for row in known {
        let url = match &row.url_variable {
            Some(variable) => format!("`{}`, or `{variable}`", row.url),
            None => code(&row.url),
        };
        let keys: Vec<String> = row.keys.iter().map(code).collect();
        let keys = match keys.as_slice() {
            [] => "none".to_owned(),
            keys if row.is_chosen_by_key => keys.join(" or "),
            keys => format!("{}, which alone does not choose it", keys.join(" or ")),
        };
        let model = row.model.as_ref().map_or_else(|| "—".to_owned(), code);
        let _ = writeln!(text, "| `{}` | `{}` | {url} | {keys} | {model} |", row.name, row.api);
    }
    text
}

/// Environment variables that the configuration reads but the page does not mention.
pub(super) fn unmentioned_variables(files: &[(String, String)], page: &str) -> Vec<String> {
    let sources = files.iter().filter(|(path, _)| path.starts_with("crates/cli/src/config/"));
    let sources = sources.filter(|(path, _)| is_rust(path) && !path.ends_with("/tests.rs"));
    let mut missing: Vec<String> = Vec::new();
    for (path, text) in sources {
        let shipped = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        for name in shipped.split('"').skip(1).step_by(2).filter(|name| is_variable(name)) {
            let problem = format!("{path} reads `{name}`, which docs/src/configuration.md does not mention");
            if !page.contains(&format!("`{name}`")) && !missing.contains(&problem) {
                missing.push(problem);
            }
        }
    }
    missing
}

fn is_variable(text: &str) -> bool {
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.len() > 2
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(is_name)
        && !NO_VARIABLES.contains(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
        use super::models::Seconds;
        use tools::Decision;

        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase", default)]
        pub(super) struct ConfigFile {
            /// The model, as `a|b`.
            ///
            /// Default: `demo`
            /// Environment: `LANGO_MODEL`
            model: Option<String>,
            /// More.
            #[serde(alias = "base_urls")]
            base_urls: Vec<String>,
            /// Limits.
            server: Server,
            /// Prices.
            ///
            /// Name: `"<provider>/<model>"`
            models: BTreeMap<String, Model>,
        }

        #[derive(Deserialize)]
        struct Server {
            /// Time.
            ///
            /// Default: the usual one
            #[serde(rename = "timeoutS")]
            timeout: Option<Seconds>,
            /// Needed.
            name: String,
        }

        #[derive(Deserialize)]
        #[serde(default)]
        struct Model {
            /// What happens.
            ///
            /// Default: `"ask"`
            on_call: Option<Decision>,
            /// Either.
            root: Option<Root>,
            /// A table with `text` and `mimeType`.
            file: Option<Artifact>,
        }

        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Root { Plain(PathBuf), Limited(Limited) }

        #[derive(Deserialize)]
        struct Limited { path: PathBuf, write: bool }
    "#;
    const KNOWN: &str = "const KNOWN: &[Known] = &[];";
    const TOOLS: &str = r#"
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Decision { Allow, AskTwice }

        #[derive(Deserialize)]
        pub struct Artifact { pub text: String, #[serde(rename = "mimeType")] pub mime_type: String }
    "#;

    fn generated(source: &str) -> Result<String, Vec<String>> {
        let files = [
            ("crates/cli/src/config/file.rs", source),
            ("crates/cli/src/config/known.rs", KNOWN),
            ("crates/tools/src/policy.rs", TOOLS),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        Reference::generate(&files).map(|reference| reference.keys)
    }

    #[test]
    fn every_key_has_type_default_and_meaning() {
        let page = generated(SOURCE).unwrap();
        for line in [
            "| `model` | string | `demo` | `LANGO_MODEL` | The model, as `a\\|b`. |",
            "| `baseUrls` | list of strings | empty |  | More. |",
            "### `[server]`",
            "| `timeoutS` | seconds | the usual one |  | Time. |",
            "| `name` | string | required |  | Needed. |",
            "### `[models.\"<provider>/<model>\"]`",
            "| `on_call` | `\"allow\"` or `\"ask_twice\"` | `\"ask\"` |  | What happens. |",
            "| `root` | path or `{ path, write }` | none |  | Either. |",
            "| `file` | table | none |  | A table with `text` and `mimeType`. |",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
        assert!(!page.contains("| `server`"), "a table has its own section");
    }

    #[test]
    fn undocumented_keys_are_reported() {
        let reported = |source: String| generated(&source).unwrap_err().join("; ");
        assert!(
            reported(SOURCE.replace("/// Needed.", "")).contains("`name` of [server] has no doc comment")
        );
        assert!(reported(SOURCE.replace("and `mimeType`", "")).contains("does not name `mimeType`"));
        assert!(reported(SOURCE.replace("/// Default: `\"ask\"`", "")).contains("`on_call` of [models"));
        assert!(
            reported(SOURCE.replace("Option<Seconds>", "Option<Unheard>"))
                .contains("the type Unheard is not found")
        );
    }

    #[test]
    fn undocumented_variable_is_reported() {
        let source = "fn a() { env(\"LANGO_A\"); env(\"LANGO_B\"); env(\"Lango\"); }\n#[cfg(test)]\nmod tests { const C: &str = \"LANGO_C\"; }\n";
        let files = [("crates/cli/src/config/env.rs".to_owned(), source.to_owned())];
        let reported = unmentioned_variables(&files, "set `LANGO_A`");
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(reported[0].contains("`LANGO_B`"));
    }
}
