//! Instruction templates: `{key}` is a state value, `{key?}` an optional one, `{artifact.name}` the text of an artifact.

use crate::state::Scope;

/// A literal or a placeholder of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart<'a> {
    Text(&'a str),
    Key { name: &'a str, optional: bool },
}

/// Fills a template. `lookup` returns the text of a key. Fails with the first required key that is missing.
pub fn fill(template: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut filled = String::with_capacity(template.len());
    for part in template_parts(template) {
        match part {
            TemplatePart::Text(text) => filled.push_str(text),
            TemplatePart::Key { name, optional } => match lookup(name) {
                Some(value) => filled.push_str(&value),
                None if optional => {}
                None => return Err(name.to_owned()),
            },
        }
    }
    Ok(filled)
}

/// The artifacts that a template refers to.
pub fn artifact_names(template: &str) -> Vec<&str> {
    let keys = template_parts(template).into_iter().filter_map(|part| match part {
        TemplatePart::Key { name, .. } => name.strip_prefix("artifact."),
        TemplatePart::Text(_) => None,
    });
    keys.collect()
}

fn template_parts(template: &str) -> Vec<TemplatePart<'_>> {
    let mut parts = Vec::new();
    let mut rest = template;
    let mut searched = 0;
    while let Some(open) = rest[searched..].find('{').map(|at| at + searched) {
        let braces = braces_at(&rest[open..]);
        let length = braces.map_or_else(|| run_of('{', &rest[open..]), str::len);
        // `${key}` is shell syntax and `\{key}` an escape: both stay literal.
        let escaped = rest[..open].ends_with(['$', '\\']);
        let Some(key) = braces.filter(|_| !escaped).and_then(key_in) else {
            searched = open + length;
            continue;
        };
        parts.push(TemplatePart::Text(&rest[..open]));
        parts.push(key);
        rest = &rest[open + length..];
        searched = 0;
    }
    parts.push(TemplatePart::Text(rest));
    parts
}

/// The braces at the start of the text, with their contents. As in ADK, `{{key}}` is the same as `{key}`.
fn braces_at(text: &str) -> Option<&str> {
    let open = run_of('{', text);
    let close = text[open..].find(['{', '}']).map(|at| at + open)?;
    let closing = run_of('}', &text[close..]);
    (closing > 0).then(|| &text[..close + closing])
}

fn run_of(brace: char, text: &str) -> usize {
    text.len() - text.trim_start_matches(brace).len()
}

/// The placeholder in braces. Braces around anything else are literal: instructions often contain code and JSON.
fn key_in(braces: &str) -> Option<TemplatePart<'_>> {
    let inside = braces.trim_matches(['{', '}']).trim();
    let (name, optional) = inside.strip_suffix('?').map_or((inside, false), |name| (name, true));
    is_key(name).then_some(TemplatePart::Key { name, optional })
}

fn is_key(name: &str) -> bool {
    if let Some(file) = name.strip_prefix("artifact.") {
        return !file.is_empty() && !file.contains(['{', '\n']);
    }
    let (_, bare) = Scope::of(name);
    let mut letters = bare.chars();
    letters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_name(template: &str) -> Result<String, String> {
        fill(template, |key| (key == "name" || key == "user:lang").then(|| "Ada".to_owned()))
    }

    #[test]
    fn a_placeholder_is_replaced_by_its_value() {
        assert_eq!(with_name("Hello {name}, {user:lang}!").unwrap(), "Hello Ada, Ada!");
    }

    #[test]
    fn a_missing_key_is_an_error_unless_it_is_optional() {
        assert_eq!(with_name("Hello {who}").unwrap_err(), "who");
        assert_eq!(with_name("Hello {who?}!").unwrap(), "Hello !");
    }

    #[test]
    fn braces_without_a_key_are_literal() {
        for text in [r#"{"a": 1}"#, "{}", "{ a b }", "fn main() { x; }}", "{", "}{", "{1}", "{é{"] {
            assert_eq!(with_name(text).unwrap(), text);
        }
    }

    #[test]
    fn doubled_braces_equal_single_braces() {
        assert_eq!(with_name("{{name}} {{{name} {name}}!").unwrap(), "Ada Ada Ada!");
    }

    #[test]
    fn a_key_after_a_dollar_or_backslash_is_literal() {
        assert_eq!(with_name(r"${name} \{name} {name}").unwrap(), r"${name} \{name} Ada");
    }

    #[test]
    fn artifact_names_lists_the_artifacts_of_a_template() {
        assert_eq!(artifact_names("{artifact.notes.txt} {name} {artifact.b?}"), ["notes.txt", "b"]);
    }
}
