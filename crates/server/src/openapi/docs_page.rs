//! The API description as one HTML page, without scripts and external resources.

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

/// Renders an OpenAPI document.
pub(super) fn render(document: &Value) -> String {
    let info = &document["info"];
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Lango {0}</title>\n<style>\n{STYLE}\n</style>\n<h1>Lango <span class=\"quiet\">{0}</span></h1>\n",
        text(&info["version"])
    );
    for paragraph in info["description"].as_str().unwrap_or_default().split("\n\n") {
        let _ = writeln!(html, "<p>{}", render_code(paragraph));
    }
    html.push_str("<p>For programs: <a href=\"openapi.json\">openapi.json</a>\n");
    for tag in list(&document["tags"]) {
        let _ = writeln!(html, "<h2>{}</h2>\n<p>{}", text(&tag["name"]), text(&tag["description"]));
        for (path, method, operation) in operations(document) {
            if operation["tags"][0] == tag["name"] {
                html.push_str(&render_operation(path, method, operation));
            }
        }
    }
    html.push_str("<h2>schemas</h2>\n");
    for (name, schema) in fields(&document["components"]["schemas"]) {
        let _ =
            writeln!(html, "<h3 id=\"{0}\">{0}</h3>\n<pre>{1}</pre>", escape(name), render_schema(schema));
    }
    html.push_str("</html>\n");
    html
}

fn operations(document: &Value) -> impl Iterator<Item = (&String, &String, &Value)> {
    let paths = fields(&document["paths"]);
    paths
        .flat_map(|(path, methods)| fields(methods).map(move |(method, operation)| (path, method, operation)))
}

fn render_operation(path: &str, method: &str, operation: &Value) -> String {
    let (path, summary) = (escape(path), render_code(operation["summary"].as_str().unwrap_or_default()));
    let public = if operation["security"].is_null() { "" } else { ", no token required" };
    let mut html = format!(
        "<details><summary><span class=\"method\">{method}</span><code>{path}</code> {summary}<span class=\"quiet\">{public}</span></summary>\n<table>\n"
    );
    for parameter in list(&operation["parameters"]) {
        let description = render_code(parameter["description"].as_str().unwrap_or_default());
        let (name, location) = (text(&parameter["name"]), text(&parameter["in"]));
        let _ = writeln!(html, "<tr><td><code>{name}</code><td>{location}<td>{description}");
    }
    let body = &operation["requestBody"];
    if body.is_object() {
        let required = if body["required"] == true { "" } else { "optional" };
        let schema = render_schema(&body["content"]["application/json"]["schema"]);
        let _ = writeln!(html, "<tr><td><code>body</code><td>{required}<td><code>{schema}</code>");
    }
    for (status, response) in fields(&operation["responses"]) {
        let bodies = fields(&response["content"]).map(|(media_type, content)| {
            let schema = render_schema(&content["schema"]);
            if media_type == "application/json" { schema } else { escape(media_type) }
        });
        let bodies = bodies.collect::<Vec<_>>().join(" or ");
        let _ =
            writeln!(html, "<tr><td>{status}<td>{}<td><code>{bodies}</code>", text(&response["description"]));
    }
    html.push_str("</table></details>\n");
    html
}

/// A schema as JSON, with links to the schemas that it references.
fn render_schema(schema: &Value) -> String {
    if let Some(name) = referenced_name(schema) {
        return format!("<a href=\"#{name}\">{name}</a>");
    }
    let Ok(json) = serde_json::to_string_pretty(schema) else { return String::new() };
    let json = if json.lines().count() > 4 { json } else { schema.to_string() };
    let mut html = String::with_capacity(json.len());
    let mut rest = json.as_str();
    while let Some((before, after)) = rest.split_once(PREFIX) {
        let (name, remainder) = after.split_once('"').unwrap_or((after, ""));
        let _ = write!(html, "{}<a href=\"#{name}\">{name}</a>", escape(before.trim_end_matches('"')));
        rest = remainder;
    }
    html.push_str(&escape(rest));
    html
}

const PREFIX: &str = "#/components/schemas/";

fn referenced_name(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix(PREFIX)
}

fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    escape(value.as_str().unwrap_or_default())
}

/// Renders text between backticks as code.
fn render_code(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(index, part)| {
        let part = escape(part);
        if index % 2 == 1 { format!("<code>{part}</code>") } else { part }
    });
    parts.collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
