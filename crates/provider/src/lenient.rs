//! Deserializers for fields that servers send in varying types. A value of an unexpected type counts as absent, so that
//! a field that the answer does not need never fails the answer.

use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeOwned, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;
use std::fmt;

/// The largest count: all integers up to it are exact as `f64`, and sums of counts do not overflow.
const MAX_COUNT: u64 = 1 << 53;

/// A scalar of any JSON type.
enum Scalar {
    Count(u64),
    Text(String),
    Flag(bool),
    /// A number that is no count.
    Number(f64),
    /// Null, an array or an object.
    Other,
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Scalar, E> {
        Ok(Scalar::Flag(flag))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Scalar, E> {
        Ok(Scalar::Count(number.min(MAX_COUNT)))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Scalar, E> {
        Ok(u64::try_from(number).map_or(Scalar::Text(number.to_string()), Scalar::Count))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Scalar, E> {
        Ok(Scalar::Number(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
        Ok(Scalar::Text(text.to_owned()))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Scalar, E> {
        Ok(Scalar::Text(text))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Scalar, E> {
        Ok(Scalar::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked, and a fraction of a token is dropped"
)]
fn count_of_float(number: f64) -> Option<u64> {
    (0.0..=9e15).contains(&number).then_some(number as u64)
}

/// A count: a number that is not negative, or the text of one.
pub(crate) fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Ok(match Scalar::deserialize(deserializer)? {
        Scalar::Count(number) => Some(number),
        Scalar::Number(number) => count_of_float(number),
        Scalar::Text(text) => text.trim().parse().ok().and_then(count_of_float),
        Scalar::Flag(_) | Scalar::Other => None,
    })
}

/// A text. A number becomes its digits, as some servers send numeric ids.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(match Scalar::deserialize(deserializer)? {
        Scalar::Text(text) => Some(text),
        Scalar::Count(number) => Some(number.to_string()),
        Scalar::Number(number) => Some(number.to_string()),
        Scalar::Flag(_) | Scalar::Other => None,
    })
}

/// A flag: a boolean, a number or the text of a boolean. Anything else is false.
pub(crate) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(match Scalar::deserialize(deserializer)? {
        Scalar::Flag(flag) => flag,
        Scalar::Count(number) => number > 0,
        Scalar::Number(number) => number > 0.0,
        Scalar::Text(text) => text.trim().eq_ignore_ascii_case("true"),
        Scalar::Other => false,
    })
}

/// An object; `None` if the value is not one.
pub(crate) fn object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let value = Value::deserialize(deserializer)?;
    Ok(value.is_object().then(|| serde_json::from_value(value).ok()).flatten())
}

/// A list, without the elements that do not parse. A single object counts as a list of one.
pub(crate) fn list<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let elements = match Value::deserialize(deserializer)? {
        Value::Array(elements) => elements,
        object @ Value::Object(_) => vec![object],
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return Ok(None),
    };
    Ok(Some(elements.into_iter().filter_map(|element| serde_json::from_value(element).ok()).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct Fields {
        #[serde(deserialize_with = "count")]
        count: Option<u64>,
        #[serde(deserialize_with = "text")]
        text: Option<String>,
        #[serde(deserialize_with = "flag")]
        flag: bool,
        #[serde(deserialize_with = "list")]
        list: Option<Vec<u8>>,
    }

    fn read(fields: Value) -> Fields {
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn count_is_read_from_any_number_or_numeric_text() {
        let counts = [
            (json!(7), Some(7)),
            (json!(7.9), Some(7)),
            (json!("7"), Some(7)),
            (json!("7.0"), Some(7)),
            (json!(-7), None),
            (json!("many"), None),
            (json!(1e300), None),
            (json!([7]), None),
            (json!({"n": 7}), None),
            (json!(null), None),
            (json!(u64::MAX), Some(MAX_COUNT)),
        ];
        for (value, expected) in counts {
            assert_eq!(read(json!({"count": value})).count, expected, "{value}");
        }
    }

    #[test]
    fn value_of_another_type_counts_as_absent() {
        assert_eq!(read(json!({"text": 5})).text.as_deref(), Some("5"));
        assert_eq!(read(json!({"text": {"a": [1, {}]}})).text, None);
        assert!(read(json!({"flag": "True"})).flag && !read(json!({"flag": []})).flag);
        assert_eq!(read(json!({"list": [1, "x", 2]})).list, Some(vec![1, 2]));
        assert_eq!(read(json!({"list": "x"})).list, None);
    }
}
