//! Deserializers for fields that servers send in varying types. A value of an unexpected type counts as absent, so that
//! a field that the answer does not need never fails the answer. Fields that carry the answer have the deserializers in
//! [`needed`]: there only an empty value counts as absent, so that no part of an answer is lost without an error.

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

/// A flag: a boolean, the number 1 or the text of a boolean. Anything else is false.
pub(crate) fn flag<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(match Scalar::deserialize(deserializer)? {
        Scalar::Flag(flag) => flag,
        Scalar::Count(number) => number == 1,
        Scalar::Number(number) => number.total_cmp(&1.0).is_eq(),
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

/// Deserializers for fields that carry the answer. An empty value of any type is absent; any other value of an
/// unexpected type is an error.
pub(crate) mod needed {
    use super::{Deserialize, DeserializeOwned, Deserializer, Value, de};

    fn is_empty(value: &Value) -> bool {
        match value {
            Value::Null | Value::Bool(false) => true,
            Value::Bool(true) | Value::Number(_) => false,
            Value::String(text) => text.is_empty(),
            Value::Array(elements) => elements.is_empty(),
            Value::Object(fields) => fields.is_empty(),
        }
    }

    fn unexpected<E: de::Error>() -> E {
        E::custom("a part of the answer has an unexpected type")
    }

    pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(text) => Ok(Some(text)),
            Value::Number(number) => Ok(Some(number.to_string())),
            other if is_empty(&other) => Ok(None),
            _ => Err(unexpected()),
        }
    }

    pub(crate) fn object<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        D: Deserializer<'de>,
        T: DeserializeOwned,
    {
        match Value::deserialize(deserializer)? {
            value @ Value::Object(_) => serde_json::from_value(value).map(Some).map_err(de::Error::custom),
            other if is_empty(&other) => Ok(None),
            _ => Err(unexpected()),
        }
    }

    /// A list of objects. A single object counts as a list of one, and null elements are dropped.
    pub(crate) fn list<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
    where
        D: Deserializer<'de>,
        T: DeserializeOwned,
    {
        let elements = match Value::deserialize(deserializer)? {
            Value::Array(elements) => elements,
            object @ Value::Object(_) => vec![object],
            other if is_empty(&other) => return Ok(None),
            _ => return Err(unexpected()),
        };
        let element = |element: Value| match element {
            Value::Object(_) => Some(serde_json::from_value(element).map_err(de::Error::custom)),
            other if is_empty(&other) => None,
            _ => Some(Err(unexpected())),
        };
        elements.into_iter().filter_map(element).collect::<Result<_, _>>().map(Some)
    }

    /// Text, or a list of texts and of objects.
    pub(crate) fn text_or_parts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let is_part = |part: &Value| match part {
            Value::String(_) | Value::Number(_) | Value::Object(_) => true,
            Value::Null | Value::Bool(_) | Value::Array(_) => is_empty(part),
        };
        // A part without its list.
        if value.get("text").is_some_and(Value::is_string) {
            return Ok(Value::Array(vec![value]));
        }
        let is_expected = match &value {
            Value::String(_) | Value::Number(_) => true,
            Value::Array(parts) => parts.iter().all(is_part),
            Value::Null | Value::Bool(_) | Value::Object(_) => is_empty(&value),
        };
        if is_expected { Ok(value) } else { Err(unexpected()) }
    }
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

    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct NeededFields {
        #[serde(deserialize_with = "needed::text")]
        text: Option<String>,
        #[serde(deserialize_with = "needed::list")]
        list: Option<Vec<Fields>>,
        #[serde(deserialize_with = "needed::text_or_parts")]
        parts: Value,
    }

    #[test]
    fn needed_field_of_another_type_is_an_error_unless_it_is_empty() {
        let read = serde_json::from_value::<NeededFields>;
        for empty in [json!(null), json!(""), json!([]), json!({}), json!(false)] {
            let fields = read(json!({"text": empty, "list": empty, "parts": empty})).unwrap();
            assert_eq!(fields.text.unwrap_or_default(), "");
            assert!(fields.list.is_none_or(|list| list.len() < 2));
        }
        for other in [json!([1]), json!({"a": 1}), json!(true)] {
            assert!(read(json!({"text": other})).is_err(), "{other}");
            assert!(read(json!({"list": [other]})).is_err() || other.is_object(), "{other}");
            assert!(read(json!({"parts": [other]})).is_err() || other.is_object(), "{other}");
        }
        assert_eq!(read(json!({"list": [{"count": "many"}, null]})).unwrap().list.unwrap().len(), 1);
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
