//! Error messages of parsers in the words of a configuration file: no term of a library or of Rust reaches a person.

/// Rewrites an error message of a parser without Rust terms.
pub(super) fn plain_message(message: &str) -> String {
    if let Some(message) = unknown_key_message(message) {
        return message;
    }
    if let Some((written, known)) = unknown_variant(message) {
        return format!("{written} is not a valid value; expected {known}");
    }
    if let Some(key) = message.strip_prefix("missing field ") {
        return format!("the key {key} is missing");
    }
    let plain = wrong_kind(message).or_else(|| rewritten(message)).or_else(|| expected_parts(message));
    plain.unwrap_or_else(|| message.to_owned())
}

/// A syntax error with the signs and the parts of a file that are expected.
fn expected_parts(message: &str) -> Option<String> {
    let (problem, expected) = message.split_once(", expected ")?;
    let parts = expected.split(", ").map(|part| match part {
        "value" => "a value",
        "key" => "a key",
        other => other,
    });
    Some(format!("{problem}, expected {}", parts.collect::<Vec<_>>().join(", ")))
}

/// Messages of the parsers that name their own types and options.
fn rewritten(message: &str) -> Option<String> {
    let person = if message.contains("DuplicateKeyPolicy") || message.starts_with("duplicate ") {
        let key = message.split(['`', '\'', '"']).nth(1).map(|key| format!(" `{key}`")).unwrap_or_default();
        return Some(format!("the key{key} is written twice; remove one of them"));
    } else if message.contains("did not match any variant") {
        "the value has none of the forms that are allowed here"
    } else if message.contains("while scanning a plain scalar, found a tab") {
        "a tab follows; YAML is indented with spaces"
    } else {
        return None;
    };
    Some(person.to_owned())
}

/// serde's message for a value of a wrong type: what is written, and what is expected.
fn wrong_kind(message: &str) -> Option<String> {
    let kinds = ["invalid type: ", "invalid value: ", "invalid length "];
    let found = kinds.iter().find_map(|kind| message.split_once(kind)).map(|(_, rest)| rest);
    let (found, expected) = match found {
        Some(found) => found.split_once(", expected ")?,
        None => ("", unnamed_kind(message)?),
    };
    let expected = expected_kind(expected);
    Some(match found_kind(found) {
        Some(found) => format!("{found} is written here; expected {expected}"),
        None => format!("expected {expected}"),
    })
}

/// The expected type of a message that does not say what is written.
fn unnamed_kind(message: &str) -> Option<&str> {
    let is_number = |kind: &&str| kind.starts_with(['f', 'i', 'u']) && expected_kind(kind) != **kind;
    match message.strip_prefix("invalid ") {
        Some("floating point") => Some("f64"),
        Some(kind) => Some(kind).filter(is_number),
        None => message.strip_prefix("expected ").filter(|expected| is_type(expected)),
    }
}

/// Whether this is the name of a Rust type or one of serde's terms, rather than a sign of the syntax.
fn is_type(expected: &str) -> bool {
    let word = expected.split_whitespace().next().unwrap_or_default();
    word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn found_kind(found: &str) -> Option<String> {
    let (kind, value) = found.split_once(' ').unwrap_or((found, ""));
    match kind {
        "string" | "integer" | "boolean" | "character" if !value.is_empty() => Some(value.to_owned()),
        "floating" => Some(value.trim_start_matches("point ").to_owned()),
        "map" => Some("a table".to_owned()),
        "sequence" => Some("a list".to_owned()),
        "null" | "unit" | "Option" => Some("nothing".to_owned()),
        _ => None,
    }
}

/// A type in the words of a configuration file. Sentences of our own remain.
fn expected_kind(expected: &str) -> String {
    let first = expected.split_whitespace().next().unwrap_or_default();
    let kind = match first {
        "f32" | "f64" => "a number",
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => "a whole number",
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => "a whole number that is not negative",
        "struct" | "map" | "mapping" | "internally" | "adjacently" => "a table",
        "tuple" | "sequence" => "a list",
        "string" | "str" => "a string",
        "bool" | "boolean" => "true or false",
        "enum" | "variant" | "unit" | "option" | "newtype" | "any" => "another value",
        _ => match expected {
            "a map" => "a table",
            "a sequence" => "a list",
            "a boolean" => "true or false",
            nonzero if nonzero.starts_with("a nonzero") => "a whole number above 0",
            other => other,
        },
    };
    kind.to_owned()
}

/// The unknown variant of a message, and the expected ones.
fn unknown_variant(message: &str) -> Option<(String, String)> {
    let (written, expected) = message.strip_prefix("unknown variant ")?.split_once(", expected ")?;
    Some((written.to_owned(), expected.trim_start_matches("one of ").replace('`', "")))
}

/// The message for an unknown key, with the most similar key or else all keys.
fn unknown_key_message(message: &str) -> Option<String> {
    let (written, expected) = message.strip_prefix("unknown field `")?.split_once('`')?;
    let expected = expected.trim_start_matches(", expected ").trim_start_matches("one of ");
    let mut known: Vec<&str> =
        expected.split([',', ' ', '`']).filter(|word| !word.is_empty() && *word != "or").collect();
    // Of a key with a camelCase and a snake_case spelling, only the first is named.
    let lowercase: Vec<String> = known.iter().map(|key| key.to_lowercase()).collect();
    known.retain(|key| !key.contains('_') || !lowercase.contains(&key.replace('_', "")));
    let similarity = |key: &&str| strsim::jaro_winkler(written, key);
    let nearest = known.iter().copied().max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    Some(match nearest.filter(|nearest| similarity(nearest) > 0.7) {
        Some(nearest) => format!("there is no key `{written}`; did you mean `{nearest}`?"),
        None => format!("there is no key `{written}`; the keys are {}", known.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::plain_message;

    #[test]
    fn no_message_has_terms_of_a_library() {
        let messages = [
            "invalid type: string \"x\", expected f64",
            "invalid type: integer `3`, expected a boolean",
            "invalid type: map, expected a string",
            "invalid type: sequence, expected struct McpServerSection",
            "invalid type: floating point `1.5`, expected u32",
            "invalid value: integer `-1`, expected usize",
            "invalid length 3, expected tuple struct Pair with 2 elements",
            "invalid type: null, expected internally tagged enum Reply",
            "data did not match any variant of untagged enum ToolRef",
            "duplicate mapping key: `name`, set DuplicateKeyPolicy in Options if acceptable",
            "duplicate key",
            "expected string scalar",
            "expected f64",
            "expected mapping start",
            "invalid floating point",
            "invalid u64",
            "missing field `model`",
            "invalid string, expected `\"`",
            "extra assignment between key-value pairs, expected value",
            "missing comma between array elements, expected `,`, value",
        ];
        let plain: Vec<String> = messages.map(plain_message).into();
        insta::assert_snapshot!(plain.join("\n"), @r#"
        "x" is written here; expected a number
        `3` is written here; expected true or false
        a table is written here; expected a string
        a list is written here; expected a table
        `1.5` is written here; expected a whole number that is not negative
        `-1` is written here; expected a whole number that is not negative
        expected a list
        nothing is written here; expected a table
        the value has none of the forms that are allowed here
        the key `name` is written twice; remove one of them
        the key is written twice; remove one of them
        expected a string
        expected a number
        expected a table
        expected a number
        expected a whole number that is not negative
        the key `model` is missing
        invalid string, expected `"`
        extra assignment between key-value pairs, expected a value
        missing comma between array elements, expected `,`, a value
        "#);
    }
}
