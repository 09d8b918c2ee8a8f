//! The description for people: one page, without a script and without anything from elsewhere.

use serde_json::{Map, Value};
use std::fmt::Write as _;

const STYLE: &str = "\
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin: 2rem 0 .3rem; } h3 { margin: 1.2rem 0 .2rem; font: 600 15px ui-monospace, monospace; }
details { border-top: 1px solid #8884; padding: .35rem 0; } summary { cursor: pointer; }
code, pre { font: 13px/1.45 ui-monospace, monospace; } pre { overflow-x: auto; padding: .6rem; background: #8881; }
table { border-collapse: collapse; margin: .5rem 0; } td, th { text-align: left; padding: .15rem .9rem .15rem 0; vertical-align: top; }
.method { display: inline-block; width: 4.2rem; font-weight: 700; text-transform: uppercase; }
.quiet { opacity: .7; }";

/// All of it, from the description itself.
pub(super) fn page(document: &Value) -> String {
    let info = &document["info"];
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Lango {0}</title>\n<style>\n{STYLE}\n</style>\n<h1>Lango <span class=\"quiet\">{0}</span></h1>\n",
        text(&info["version"])
    );
    for paragraph in info["description"].as_str().unwrap_or_default().split("\n\n") {
        let _ = writeln!(html, "<p>{}", in_code(paragraph));
    }
    html.push_str("<p>For programs: <a href=\"/openapi.json\">openapi.json</a>\n");
    for tag in list(&document["tags"]) {
        let _ = writeln!(html, "<h2>{}</h2>\n<p>{}", text(&tag["name"]), text(&tag["description"]));
        for (path, method, operation) in operations(document) {
            if operation["tags"][0] == tag["name"] {
                html.push_str(&described(path, method, operation));
            }
        }
    }
    html.push_str("<h2>schemas</h2>\n");
    for (name, schema) in fields(&document["components"]["schemas"]) {
        let _ = writeln!(html, "<h3 id=\"{0}\">{0}</h3>\n<pre>{1}</pre>", escaped(name), linked(schema));
    }
    html.push_str("</html>\n");
    html
}

fn operations(document: &Value) -> impl Iterator<Item = (&String, &String, &Value)> {
    let paths = fields(&document["paths"]);
    paths
        .flat_map(|(path, methods)| fields(methods).map(move |(method, operation)| (path, method, operation)))
}

fn described(path: &str, method: &str, operation: &Value) -> String {
    let (path, about) = (escaped(path), in_code(operation["summary"].as_str().unwrap_or_default()));
    let open = if operation["security"].is_null() { "" } else { ", without a token" };
    let mut html = format!(
        "<details><summary><span class=\"method\">{method}</span><code>{path}</code> {about}<span class=\"quiet\">{open}</span></summary>\n<table>\n"
    );
    for parameter in list(&operation["parameters"]) {
        let about = in_code(parameter["description"].as_str().unwrap_or_default());
        let (name, place) = (text(&parameter["name"]), text(&parameter["in"]));
        let _ = writeln!(html, "<tr><td><code>{name}</code><td>{place}<td>{about}");
    }
    let body = &operation["requestBody"];
    if body.is_object() {
        let need = if body["required"] == true { "" } else { "may be left out" };
        let schema = linked(&body["content"]["application/json"]["schema"]);
        let _ = writeln!(html, "<tr><td><code>body</code><td>{need}<td><code>{schema}</code>");
    }
    for (status, answer) in fields(&operation["responses"]) {
        let kinds = fields(&answer["content"]).map(|(kind, content)| {
            let schema = linked(&content["schema"]);
            if kind == "application/json" { schema } else { escaped(kind) }
        });
        let kinds = kinds.collect::<Vec<_>>().join(" or ");
        let _ =
            writeln!(html, "<tr><td>{status}<td>{}<td><code>{kinds}</code>", text(&answer["description"]));
    }
    html.push_str("</table></details>\n");
    html
}

/// A schema as JSON, with links to those that it names.
fn linked(schema: &Value) -> String {
    if let Some(name) = named(schema) {
        return format!("<a href=\"#{name}\">{name}</a>");
    }
    let Ok(written) = serde_json::to_string_pretty(schema) else { return String::new() };
    let written = if written.lines().count() > 4 { written } else { schema.to_string() };
    let mut html = String::with_capacity(written.len());
    let mut rest = written.as_str();
    while let Some((before, after)) = rest.split_once(PREFIX) {
        let (name, behind) = after.split_once('"').unwrap_or((after, ""));
        let _ = write!(html, "{}<a href=\"#{name}\">{name}</a>", escaped(before.trim_end_matches('"')));
        rest = behind;
    }
    html.push_str(&escaped(rest));
    html
}

const PREFIX: &str = "#/components/schemas/";

fn named(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix(PREFIX)
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    escaped(value.as_str().unwrap_or_default())
}

/// What stands between backticks is code.
fn in_code(text: &str) -> String {
    let pieces = text.split('`').enumerate().map(|(number, piece)| {
        let piece = escaped(piece);
        if number % 2 == 1 { format!("<code>{piece}</code>") } else { piece }
    });
    pieces.collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
