//! Two answers beside each other, leaf by leaf: what was recorded, and what came.

use super::{
    ids::{self, Ids},
    rules,
};
use serde_json::{Map, Value};
use std::fmt;

/// A place where the two are not the same; `None` where one of them has nothing.
#[derive(Debug)]
pub(super) struct Difference {
    /// A path into the answer: `/body/0/author`.
    pub(super) at: String,
    pub(super) recorded: Option<Value>,
    pub(super) came: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), Value::to_string);
        write!(f, "{}: recorded {}, came {}", self.at, shown(&self.recorded), shown(&self.came))
    }
}

/// Compares by the rules of the exchange. The ids that were learned on the way count only if all is the same.
pub(super) fn differences(number: &str, ids: &mut Ids, recorded: &Value, came: &Value) -> Vec<Difference> {
    let mut walk = Walk { number, ids: ids.clone(), differences: Vec::new() };
    walk.value(Place::Answer, recorded, came);
    if walk.differences.is_empty() {
        *ids = walk.ids;
    }
    walk.differences
}

struct Walk<'a> {
    number: &'a str,
    ids: Ids,
    differences: Vec<Difference>,
}

/// Where we are, as a chain up to the whole answer.
#[derive(Clone, Copy)]
enum Place<'a> {
    Answer,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl Place<'_> {
    /// The field that this is, or that this is an item of.
    fn key(&self) -> &str {
        match self {
            Self::Answer => "",
            Self::Field(_, key) => key,
            Self::Item(list, _) => list.key(),
        }
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer => Ok(()),
            Self::Field(parent, key) => write!(f, "{parent}/{key}"),
            Self::Item(parent, at) => write!(f, "{parent}/{at}"),
        }
    }
}

impl Walk<'_> {
    fn value(&mut self, place: Place<'_>, recorded: &Value, came: &Value) {
        match (recorded, came) {
            (Value::Object(recorded), Value::Object(came)) => self.fields(place, recorded, came),
            (Value::Array(recorded), Value::Array(came)) => self.items(place, recorded, came),
            _ if self.same(place, recorded, came) => {}
            _ => self.differ(place, Some(recorded), Some(came)),
        }
    }

    fn fields(&mut self, place: Place<'_>, recorded: &Map<String, Value>, came: &Map<String, Value>) {
        for (key, value) in recorded {
            match came.get(self.ids.live(key).unwrap_or(key)) {
                Some(other) => self.value(Place::Field(&place, key), value, other),
                None => self.differ(Place::Field(&place, key), Some(value), None),
            }
        }
        for (key, value) in came {
            if !recorded.contains_key(self.ids.recorded(key).unwrap_or(key)) {
                self.differ(Place::Field(&place, key), None, Some(value));
            }
        }
    }

    fn items(&mut self, place: Place<'_>, recorded: &[Value], came: &[Value]) {
        for at in 0..recorded.len().max(came.len()) {
            let place = Place::Item(&place, at);
            match (recorded.get(at), came.get(at)) {
                (Some(recorded), Some(came)) => self.value(place, recorded, came),
                (recorded, came) => self.differ(place, recorded, came),
            }
        }
    }

    fn same(&mut self, place: Place<'_>, recorded: &Value, came: &Value) -> bool {
        match (recorded, came) {
            (Value::String(recorded), Value::String(came)) if ids::is_made_up(recorded) => {
                self.ids.pair(recorded, came)
            }
            _ if recorded == came => true,
            _ => {
                let settled = |value| rules::settled(self.number, place.key(), value);
                settled(recorded) == settled(came)
            }
        }
    }

    fn differ(&mut self, place: Place<'_>, recorded: Option<&Value>, came: Option<&Value>) {
        let at = place.to_string();
        self.differences.push(Difference { at, recorded: recorded.cloned(), came: came.cloned() });
    }
}
