//! The built-in providers, parsed from the table in the source.

use syn::{Expr, ExprCall, ExprStruct, Item, Lit, Member};

/// A row of the table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) name: String,
    pub(super) api: String,
    pub(super) url: String,
    pub(super) keys: Vec<String>,
    pub(super) url_variable: Option<String>,
    pub(super) model: Option<String>,
    pub(super) is_chosen_by_key: bool,
}

/// Parses the elements of `KNOWN`: calls of `Known::chat` and `Known::here`, some with overridden fields.
pub(super) fn parse(file: &syn::File) -> Result<Vec<Known>, String> {
    let table = file.items.iter().find_map(|item| match item {
        Item::Const(constant) if constant.ident == "KNOWN" => Some(&*constant.expr),
        _ => None,
    });
    match table {
        Some(Expr::Reference(reference)) => match &*reference.expr {
            Expr::Array(array) => array.elems.iter().map(row).collect(),
            _ => Err("KNOWN is not an array".to_owned()),
        },
        _ => Err("known.rs has no KNOWN".to_owned()),
    }
}

fn row(element: &Expr) -> Result<Known, String> {
    match element {
        Expr::Call(call) => base(call),
        Expr::Struct(ExprStruct { fields, rest: Some(rest), .. }) => {
            let mut known = row(rest)?;
            for field in fields {
                let Member::Named(name) = &field.member else { continue };
                match name.to_string().as_str() {
                    "api" => known.api = path_end(&field.expr).to_lowercase(),
                    "url_variable" => known.url_variable = texts(&field.expr).pop(),
                    "chosen_by_key" => {
                        known.is_chosen_by_key = is_true(&field.expr);
                    }
                    other => return Err(format!("KNOWN sets `{other}`, which the reference does not show")),
                }
            }
            Ok(known)
        }
        _ => Err("an element of KNOWN is neither a call nor a struct".to_owned()),
    }
}

fn base(call: &ExprCall) -> Result<Known, String> {
    let arguments: Vec<Vec<String>> = call.args.iter().map(texts).collect();
    let text = |at: usize| arguments.get(at).and_then(|texts| texts.first()).cloned().unwrap_or_default();
    match path_end(&call.func).as_str() {
        "chat" => Ok(Known {
            name: text(0),
            api: "chat".to_owned(),
            url: text(1),
            keys: arguments.get(2).cloned().unwrap_or_default(),
            url_variable: None,
            model: Some(text(3)),
            is_chosen_by_key: true,
        }),
        "here" => {
            let api = call.args.iter().nth(1).map(path_end).unwrap_or_default().to_lowercase();
            Ok(Known { name: text(0), api, url: text(2), ..Known::default() })
        }
        other => Err(format!("KNOWN calls `{other}`, which the reference does not know")),
    }
}

fn is_true(expr: &Expr) -> bool {
    matches!(expr, Expr::Lit(literal) if matches!(&literal.lit, Lit::Bool(yes) if yes.value))
}

/// The last segment of a path.
fn path_end(expr: &Expr) -> String {
    match expr {
        Expr::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default(),
        _ => String::new(),
    }
}

/// The strings in an expression.
fn texts(expr: &Expr) -> Vec<String> {
    match expr {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => vec![text.value()],
            _ => Vec::new(),
        },
        Expr::Reference(reference) => texts(&reference.expr),
        Expr::Array(array) => array.elems.iter().flat_map(texts).collect(),
        Expr::Call(call) => call.args.iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_parsed_with_overridden_fields() {
        let source = r#"
            pub const KNOWN: &[Known] = &[
                Known { api: ApiName::Responses, url_variable: Some("A_URL"), ..Known::chat("a", "https://a", &["A_KEY", "B_KEY"], "m") },
                Known { chosen_by_key: false, ..Known::chat("g", "https://g", &["G"], "n") },
                Known::here("o", ApiName::Ollama, "http://127.0.0.1:1"),
            ];"#;
        let rows = parse(&syn::parse_file(source).unwrap()).unwrap();
        assert_eq!((rows[0].api.as_str(), rows[0].url_variable.as_deref()), ("responses", Some("A_URL")));
        assert_eq!(
            (&*rows[0].keys, rows[0].model.as_deref()),
            (&["A_KEY".to_owned(), "B_KEY".to_owned()][..], Some("m"))
        );
        assert!(rows[0].is_chosen_by_key && !rows[1].is_chosen_by_key);
        assert_eq!(
            (rows[2].name.as_str(), rows[2].api.as_str(), rows[2].url.as_str()),
            ("o", "ollama", "http://127.0.0.1:1")
        );
    }

    #[test]
    fn unknown_field_is_reported() {
        let source =
            r#"const KNOWN: &[Known] = &[Known { region: "eu", ..Known::here("o", ApiName::Chat, "u") }];"#;
        assert!(parse(&syn::parse_file(source).unwrap()).unwrap_err().contains("`region`"));
    }
}
