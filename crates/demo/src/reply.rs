//! Answers from tool results.

use crate::{clock, file_requests, intent::Intent};
use provider::{ToolCall, ToolResult};
use serde_json::Value;

/// Formats one sentence or block per result. The intents determine which part of a result is shown.
pub(crate) fn format_results(results: &[(&ToolCall, &ToolResult)], intents: &[Intent]) -> String {
    let mut open: Vec<&Intent> = intents.iter().filter(|intent| intent.call().is_some()).collect();
    let formatted = results.iter().map(|(call, result)| {
        let matching = open.iter().position(|intent| {
            intent.call().is_some_and(|(name, args)| name == call.name && args == call.args)
        });
        let intent = matching.map(|at| open.remove(at));
        format_result(call, &result.response, intent)
    });
    formatted.collect::<Vec<_>>().join("\n")
}

fn format_result(call: &ToolCall, response: &Value, intent: Option<&Intent>) -> String {
    if let Some(error) = error_message(response) {
        return format!("I could not {}: {error}", describe_call(call));
    }
    let text = match intent {
        Some(Intent::Clock(question)) => clock::format_answer(question, response),
        Some(Intent::Calculate(expression)) => {
            result_number(response).map(|number| format!("{expression} = {number}"))
        }
        Some(Intent::Files(request)) => format_file_result(request, response),
        Some(
            Intent::Tool { .. } | Intent::Recall(_) | Intent::Name(_) | Intent::Note(_) | Intent::Talk(_),
        )
        | None => None,
    };
    text.unwrap_or_else(|| match response {
        Value::String(text) => format!("{} answered: {text}", call.name),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            format!("{} answered: {response}", call.name)
        }
    })
}

fn describe_call(call: &ToolCall) -> String {
    let arg = |key: &str| call.args.get(key).and_then(Value::as_str).unwrap_or("that");
    match call.name.as_str() {
        "now" => "tell the time".to_owned(),
        "calculate" => format!("calculate {}", arg("expression")),
        "read_file" => format!("read {}", arg("path")),
        "list_files" => format!("list the files in {}", display_folder(arg("path"))),
        "search_files" => format!("search for «{}»", arg("pattern")),
        other => format!("use {other}"),
    }
}

fn display_folder(path: &str) -> &str {
    if path == "." { "this folder" } else { path }
}

/// The error message of a tool.
fn error_message(response: &Value) -> Option<String> {
    let error = response.get("error").filter(|error| !error.is_null() && **error != Value::Bool(false))?;
    let words = error.as_str().or_else(|| error.get("message").and_then(Value::as_str));
    let detail = || response.get("message").and_then(Value::as_str);
    Some(words.or_else(detail).map_or_else(|| error.to_string(), str::to_owned))
}

/// The number in the response of a calculation.
pub(crate) fn result_number(response: &Value) -> Option<String> {
    let found = field(response, "result|value|answer|output").unwrap_or(response);
    match found {
        Value::Number(number) => Some(format_number(number.as_f64(), number.to_string())),
        Value::String(text) => Some(text.clone()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn format_number(value: Option<f64>, text: String) -> String {
    match value {
        // Print 240.0 as 240; beyond 2^53 the original text is more exact.
        Some(value) if value.fract() == 0.0 && value.abs() < 9e15 => format!("{value:.0}"),
        Some(_) | None => text,
    }
}

fn field<'a>(response: &'a Value, keys: &str) -> Option<&'a Value> {
    keys.split('|').find_map(|key| response.get(key))
}

fn format_file_result(request: &file_requests::FileRequest, response: &Value) -> Option<String> {
    match request {
        file_requests::FileRequest::Read { path, aspect } => {
            if let Some(kind) = response.get("binary").and_then(Value::as_str) {
                return Some(format!("{path} is not text but {kind}."));
            }
            let content = field(response, "content|contents|text|data").unwrap_or(response).as_str()?;
            Some(format_file(path, content, *aspect))
        }
        file_requests::FileRequest::List { path, count } => {
            let entries = entries(response)?;
            Some(format_listing(display_folder(path), &entries, total(response), *count))
        }
        file_requests::FileRequest::Find { name } => {
            let entries = entries(response)?;
            let named = |entry: &&String| entry.to_lowercase().contains(&name.to_lowercase());
            let found: Vec<&str> = entries.iter().filter(named).map(String::as_str).collect();
            Some(match found.as_slice() {
                [] => format!("No, I do not see {name} here."),
                [one] => format!("Yes, there is {one}."),
                many => format!("Yes, there are {}: {}.", many.len(), many.join(", ")),
            })
        }
        file_requests::FileRequest::Search { pattern, count, .. } => {
            let matches = field(response, "matches|results|hits").unwrap_or(response).as_array()?;
            let total = total(response).unwrap_or(matches.len());
            Some(format_matches(pattern, matches, total, *count))
        }
    }
}

fn format_file(path: &str, content: &str, aspect: file_requests::FileAspect) -> String {
    let lines: Vec<&str> = content.lines().collect();
    let excerpt = || {
        let head = lines.iter().take(40).copied().collect::<Vec<_>>().join("\n");
        let more = lines.len().saturating_sub(40);
        let rest = if more > 0 { format!("\n({more} more lines)") } else { String::new() };
        format!("```\n{head}\n```{rest}")
    };
    let non_blank = lines.iter().filter(|line| !line.trim().is_empty());
    match aspect {
        _ if content.trim().is_empty() => format!("{path} is empty."),
        file_requests::FileAspect::Content => format!("This is in {path}:\n{}", excerpt()),
        file_requests::FileAspect::Summary => {
            format!("I cannot summarise, but I can show what is in {path}:\n{}", excerpt())
        }
        file_requests::FileAspect::Lines => {
            format!("{path} has {}.", pluralize(lines.len(), "line", "lines"))
        }
        file_requests::FileAspect::Words => {
            format!("{path} has {}.", pluralize(content.split_whitespace().count(), "word", "words"))
        }
        file_requests::FileAspect::FirstLine => {
            format!("{path} begins with: {}", non_blank.clone().next().unwrap_or(&""))
        }
        file_requests::FileAspect::LastLine => {
            format!("{path} ends with: {}", non_blank.clone().next_back().unwrap_or(&""))
        }
    }
}

/// The names in a listing, for any shape of its entries. Folders end with a slash.
fn entries(response: &Value) -> Option<Vec<String>> {
    let list = field(response, "files|entries|items|paths|names").unwrap_or(response).as_array()?;
    let name = |entry: &Value| {
        let name = entry.as_str().or_else(|| field(entry, "path|name|file").and_then(Value::as_str))?;
        let kind = field(entry, "type|kind").and_then(Value::as_str).unwrap_or_default();
        let flag = field(entry, "is_dir|directory").and_then(Value::as_bool).unwrap_or_default();
        let slash = (flag || kind.starts_with("dir") || kind == "folder") && !name.ends_with('/');
        Some(format!("{name}{}", if slash { "/" } else { "" }))
    };
    Some(list.iter().filter_map(name).collect())
}

/// The total count, if the tool returned only the first entries.
fn total(response: &Value) -> Option<usize> {
    let total = response.get("total").and_then(Value::as_u64);
    total.and_then(|total| usize::try_from(total).ok())
}

fn format_listing(folder: &str, entries: &[String], total: Option<usize>, count: bool) -> String {
    let folders = entries.iter().filter(|entry| entry.ends_with('/')).count();
    let files = pluralize(entries.len() - folders, "file", "files");
    let counts = match total.filter(|total| *total > entries.len()) {
        Some(total) => format!("{total} files and folders"),
        None if folders == 0 => files,
        None => format!("{files} and {}", pluralize(folders, "folder", "folders")),
    };
    let verb = if entries.len() == 1 { "is" } else { "are" };
    if count || entries.is_empty() {
        return format!("There {verb} {counts} in {folder}.");
    }
    let head: Vec<&str> = entries.iter().take(50).map(String::as_str).collect();
    let more = total.unwrap_or(entries.len()).saturating_sub(head.len());
    let rest = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!("There {verb} {counts} in {folder}: {}{rest}.", head.join(", "))
}

fn format_matches(pattern: &str, matches: &[Value], total: usize, count: bool) -> String {
    if matches.is_empty() {
        return format!("I found nothing for «{pattern}».");
    }
    let found = pluralize(total, "match", "matches");
    if count {
        return format!("I found {found} for «{pattern}».");
    }
    let line = |found: &Value| {
        let place = field(found, "path|file|name").and_then(Value::as_str).unwrap_or_default();
        let number = field(found, "line|line_number").filter(|line| line.is_number());
        let text = field(found, "text|content|match").and_then(Value::as_str).or(found.as_str());
        let place = number.map_or_else(|| place.to_owned(), |number| format!("{place}:{number}"));
        format!("- {place}: {}", text.unwrap_or_default().trim())
    };
    let lines: Vec<String> = matches.iter().take(20).map(line).collect();
    let more = total.saturating_sub(20);
    let rest = if more > 0 { format!("\n({more} more)") } else { String::new() };
    format!("I found {found} for «{pattern}»:\n{}{rest}", lines.join("\n"))
}

fn pluralize(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
