//! Fields of a JSON value: all paths, removal, replacement.

use serde_json::Value;

/// The JSON pointers of all fields and elements, the root excluded.
pub(crate) fn paths(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(value, "", &mut found);
    found
}

fn collect(value: &Value, at: &str, found: &mut Vec<String>) {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    for (key, child) in children {
        let path = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        collect(child, &path, found);
        found.push(path);
    }
}

/// Removes the field or element at a path.
pub(crate) fn remove(value: &mut Value, path: &str) {
    let Some((parent, key)) = path.rsplit_once('/') else { return };
    match value.pointer_mut(parent) {
        Some(Value::Object(map)) => drop(map.shift_remove(key)),
        Some(Value::Array(items)) => {
            if let Some(at) = key.parse::<usize>().ok().filter(|at| *at < items.len()) {
                items.remove(at);
            }
        }
        _ => {}
    }
}

pub(crate) fn replace(value: &mut Value, path: &str, with: Value) {
    if let Some(field) = value.pointer_mut(path) {
        *field = with;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_field_is_found_removed_and_replaced() {
        let mut value = json!({"a": [{"b": 1}], "c": "x"});
        assert_eq!(paths(&value), ["/a/0/b", "/a/0", "/a", "/c"]);
        replace(&mut value, "/a/0/b", json!(null));
        remove(&mut value, "/c");
        assert_eq!(value, json!({"a": [{"b": null}]}));
        remove(&mut value, "/a/0");
        assert_eq!(value, json!({"a": []}));
    }
}
