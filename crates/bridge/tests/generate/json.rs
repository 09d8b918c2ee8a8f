//! Generates arbitrary JSON: any text, any number, any order of keys.

use proptest::{collection::vec, prelude::*};
use serde_json::{Map, Value};

/// Texts at the edges: empty, blank, with NUL, quotes, multi-byte characters, or JSON inside.
pub(crate) fn text() -> impl Strategy<Value = String> {
    let known = prop::sample::select(vec![
        "",
        " ",
        "\n",
        "\0",
        "a\0b",
        "\"quoted\"\\",
        "漢字かな",
        "한국어",
        "😀👩‍👩‍👧",
        "e\u{301}",
        "null",
        "{}",
        "{\"a\":1}",
        "[1]",
        "\u{feff}bom",
        "line\r\nline",
        "\u{2028}",
    ]);
    prop_oneof![2 => known.prop_map(str::to_owned), 2 => "[a-z ]{1,24}", 1 => any::<String>()]
}

pub(crate) fn value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        prop::sample::select(vec![0.1, 1.0, -0.0, 1e300, 5e-324, 1.1, 9_007_199_254_740_993.0])
            .prop_map(Value::from),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number,
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::Array),
            vec((text(), inner), 0..3).prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

pub(crate) fn map() -> impl Strategy<Value = Map<String, Value>> {
    vec((text(), value()), 0..3).prop_map(|entries| entries.into_iter().collect())
}

/// Unknown fields; mostly none.
pub(crate) fn extra() -> impl Strategy<Value = Map<String, Value>> {
    let unknown = ("x[A-Z]{0,2}", value()).prop_map(|(key, value)| (format!("{key}?"), value));
    prop_oneof![4 => Just(Map::new()), 1 => vec(unknown, 1..3).prop_map(|entries| entries.into_iter().collect())]
}
