//! Inputs with faults, chosen by a seed: text, bytes and JSON. The tests that use them run a fixed sample; two variables
//! set another number of cases and another seed.
//!
//! | module | contents |
//! |---|---|
//! | `json_field` | fields of a JSON value: all paths, removal, replacement |

pub(crate) mod json_field;

use crate::random::SplitMix64;
use serde_json::{Value, json};
use std::env;

/// The cases of a test.
#[derive(Clone, Copy, Debug)]
pub struct MutationCases {
    pub seed: u64,
    pub count: u64,
}

impl MutationCases {
    /// The cases that `LANGO_MUTATION_CASES` and `LANGO_MUTATION_SEED` set, else `count` cases of a fixed seed.
    pub fn from_env(count: u64) -> Self {
        let number = |name: &str| env::var(name).ok().and_then(|value| value.parse().ok());
        Self {
            seed: number("LANGO_MUTATION_SEED").unwrap_or(61),
            count: number("LANGO_MUTATION_CASES").unwrap_or(count),
        }
    }

    /// The random numbers of a case. The same seed and number give the same ones.
    pub fn random(self, number: u64) -> SplitMix64 {
        SplitMix64::new(self.seed.wrapping_add(number.wrapping_mul(0x9E37_79B9)))
    }
}

/// Phrases of parsers, databases and of Rust, which no message to a person contains.
pub const LIBRARY_WORDING: [&str; 34] = [
    "serde",
    "expected value",
    "EOF",
    "invalid type",
    "missing field",
    "unknown field",
    "unknown variant",
    "trailing characters",
    "untagged",
    "DuplicateKeyPolicy",
    "while parsing",
    "while scanning",
    "scalar",
    "simple key",
    "f64",
    "u64",
    "i64",
    "u32",
    "usize",
    "struct ",
    "enum ",
    "tuple",
    "variant",
    "Option",
    "Some(",
    "unwrap",
    "panicked",
    "rusqlite",
    "SQLITE_",
    "no such column",
    "datatype mismatch",
    "jsonrpc",
    "rmcp",
    "deserialize",
];

/// The first phrase of a library in a text.
pub fn library_wording(text: &str) -> Option<&'static str> {
    LIBRARY_WORDING.into_iter().find(|phrase| text.contains(phrase))
}

/// A number below `bound`; 0 if there is none.
pub fn below(random: &mut SplitMix64, bound: usize) -> usize {
    usize::try_from(random.below(bound.max(1) as u64)).unwrap_or_default()
}

/// A value whose type differs from that of `value`.
pub fn other_type(random: &mut SplitMix64, value: &Value) -> Value {
    let others = [
        json!(null),
        json!(true),
        json!(7),
        json!(-1),
        json!(1e300),
        json!("x"),
        json!(""),
        json!([]),
        json!([true, {"a": "b"}]),
        json!({}),
        json!({"a": ["b", {"c": 1}]}),
    ];
    let differs = |other: &&Value| std::mem::discriminant(*other) != std::mem::discriminant(value);
    let others: Vec<&Value> = others.iter().filter(differs).collect();
    random.choose(&others).map(|other| (*other).clone()).unwrap_or_default()
}

/// Changes one field of a JSON value: removes it, changes its type, renames it, or makes it extreme. Returns what was changed.
pub fn mutate_json(random: &mut SplitMix64, value: &mut Value) -> String {
    let paths = json_field::paths(value);
    let Some(path) = random.choose(&paths).cloned() else {
        *value = other_type(random, value);
        return format!("all = {value}");
    };
    let extreme = [
        json!("\u{0}\u{1b}[31m\u{202e}\u{e0041}"),
        json!("x".repeat(10_000)),
        json!(i64::MIN),
        json!(u64::MAX),
        json!(1e308),
        json!(-0.0),
        (0..100).fold(json!(0), |inner, _| json!([inner])),
        json!("../../etc/passwd"),
        json!("%00"),
    ];
    match random.below(4) {
        0 => {
            json_field::remove(value, &path);
            format!("without {path}")
        }
        1 => {
            let with = other_type(random, value.pointer(&path).unwrap_or(&Value::Null));
            let fault = format!("{path} = {with}");
            json_field::replace(value, &path, with);
            fault
        }
        2 => {
            let with = random.choose(&extreme).cloned().unwrap_or_default();
            let fault = format!("{path} = {:.80}", with.to_string());
            json_field::replace(value, &path, with);
            fault
        }
        _ => {
            let (parent, key) = path.rsplit_once('/').unwrap_or(("", ""));
            let moved = value.pointer(&path).cloned().unwrap_or_default();
            json_field::remove(value, &path);
            if let Some(Value::Object(map)) = value.pointer_mut(parent) {
                map.insert(format!("{key}_"), moved);
            }
            format!("{path} renamed")
        }
    }
}

/// Pieces that are inserted into texts.
const PIECES: [&str; 24] = [
    "\t", "\n", " ", ":", "- ", "{", "}", "[", "]", "\"", "'", "#", "&a ", "*a", "!!x ", "|\n", ">", "=",
    ",", "\\", "---\n", "\u{feff}", "\u{0}", "ä",
];

/// Changes a text: cuts it, removes, doubles, moves or exchanges a line, changes the indentation, or inserts a piece.
pub fn mutate_text(random: &mut SplitMix64, text: &str) -> (String, String) {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = below(random, lines.len());
    let fault = match random.below(8) {
        0 => {
            let mut end = below(random, text.len());
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            return (text[..end].to_owned(), format!("cut at byte {end}"));
        }
        1 => {
            let line = lines.remove(at);
            format!("without line {at}: {line}")
        }
        2 => {
            lines.insert(at, lines[at].clone());
            format!("line {at} twice")
        }
        3 => {
            let other = below(random, lines.len());
            lines.swap(at, other);
            format!("lines {at} and {other} exchanged")
        }
        4 => {
            lines[at].insert_str(0, "  ");
            format!("line {at} indented")
        }
        5 => {
            let indentation = lines[at].len() - lines[at].trim_start().len();
            lines[at].drain(..indentation);
            format!("line {at} without indentation")
        }
        6 => {
            let value =
                random.choose(&["7", "-1", "1.5", "true", "null", "[]", "{}", "\"x\"", "1e999"]).copied();
            let line = &mut lines[at];
            let end = line.find([':', '=']).map_or(0, |colon| colon + 1);
            line.truncate(end);
            line.push(' ');
            line.push_str(value.unwrap_or_default());
            format!("line {at} is {line}")
        }
        _ => {
            let line = &mut lines[at];
            let mut column = below(random, line.len() + 1);
            while !line.is_char_boundary(column) {
                column -= 1;
            }
            let piece = random.choose(&PIECES).copied().unwrap_or_default();
            line.insert_str(column, piece);
            format!("{piece:?} in line {at}, column {column}")
        }
    };
    (lines.join("\n") + "\n", fault)
}

/// Changes bytes: cuts them, flips bits, overwrites or removes a piece.
pub fn mutate_bytes(random: &mut SplitMix64, bytes: &mut Vec<u8>) -> String {
    let at = below(random, bytes.len());
    match random.below(4) {
        0 => {
            bytes.truncate(at);
            format!("cut at byte {at}")
        }
        1 => {
            let bit = random.below(8);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
            }
            format!("bit {bit} of byte {at} flipped")
        }
        2 => {
            let end = (at + below(random, 64) + 1).min(bytes.len());
            let byte = u8::try_from(random.below(256)).unwrap_or_default();
            bytes[at..end].fill(byte);
            format!("bytes {at} to {end} are {byte}")
        }
        _ => {
            let end = (at + below(random, 64) + 1).min(bytes.len());
            bytes.drain(at..end);
            format!("without bytes {at} to {end}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_reproducible_and_differ() {
        let cases = MutationCases { seed: 1, count: 2 };
        let text = |number| mutate_text(&mut cases.random(number), "a: 1\nb: [2, 3]\nc:\n  d: x\n");
        assert_eq!(text(0), text(0));
        let all: std::collections::BTreeSet<String> = (0..50).map(|number| text(number).0).collect();
        assert!(all.len() > 30, "{}", all.len());
        let json = |number| {
            let mut value = json!({"a": [{"b": 1}], "c": "x"});
            (mutate_json(&mut cases.random(number), &mut value), value)
        };
        assert_eq!(json(3), json(3));
        assert!((0..50).all(|number| json(number).1 != json!({"a": [{"b": 1}], "c": "x"})));
    }
}
