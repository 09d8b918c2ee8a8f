//! Compares a recorded response with a live one, leaf by leaf.

use super::{
    ids::{self, Ids},
    rules,
};
use serde_json::{Map, Value};
use std::fmt;

/// A difference at one path; a value is `None` if it is missing on that side.
#[derive(Debug)]
pub(super) struct Difference {
    /// A path into the response: `/body/0/author`.
    pub(super) at: String,
    pub(super) recorded: Option<Value>,
    pub(super) live: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let render = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), Value::to_string);
        write!(f, "{}: recorded {}, received {}", self.at, render(&self.recorded), render(&self.live))
    }
}

/// Compares with the rules of the exchange. Ids that are paired meanwhile are kept only if there is no difference.
pub(super) fn differences(number: &str, ids: &mut Ids, recorded: &Value, live: &Value) -> Vec<Difference> {
    let mut walk = Walk { number, ids: ids.clone(), differences: Vec::new() };
    walk.value(Place::Answer, recorded, live);
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

/// The current path, as a linked list up to the whole response.
#[derive(Clone, Copy)]
enum Place<'a> {
    Answer,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl Place<'_> {
    /// The key of this field, or of the array that contains this item.
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
    fn value(&mut self, place: Place<'_>, recorded: &Value, live: &Value) {
        match (recorded, live) {
            (Value::Object(recorded), Value::Object(live)) => self.fields(place, recorded, live),
            (Value::Array(recorded), Value::Array(live)) => self.items(place, recorded, live),
            _ if self.same(place, recorded, live) => {}
            _ => self.differ(place, Some(recorded), Some(live)),
        }
    }

    fn fields(&mut self, place: Place<'_>, recorded: &Map<String, Value>, live: &Map<String, Value>) {
        for (key, value) in recorded {
            match live.get(self.ids.live(key).unwrap_or(key)) {
                Some(other) => self.value(Place::Field(&place, key), value, other),
                None => self.differ(Place::Field(&place, key), Some(value), None),
            }
        }
        for (key, value) in live {
            if !recorded.contains_key(self.ids.recorded(key).unwrap_or(key)) {
                self.differ(Place::Field(&place, key), None, Some(value));
            }
        }
    }

    fn items(&mut self, place: Place<'_>, recorded: &[Value], live: &[Value]) {
        for at in 0..recorded.len().max(live.len()) {
            let place = Place::Item(&place, at);
            match (recorded.get(at), live.get(at)) {
                (Some(recorded), Some(live)) => self.value(place, recorded, live),
                (recorded, live) => self.differ(place, recorded, live),
            }
        }
    }

    fn same(&mut self, place: Place<'_>, recorded: &Value, live: &Value) -> bool {
        match (recorded, live) {
            (Value::String(recorded), Value::String(live)) if ids::is_generated(recorded) => {
                self.ids.pair(recorded, live)
            }
            _ if recorded == live => true,
            _ => {
                let normalized = |value| rules::normalized(self.number, place.key(), value);
                normalized(recorded) == normalized(live)
            }
        }
    }

    fn differ(&mut self, place: Place<'_>, recorded: Option<&Value>, live: Option<&Value>) {
        let at = place.to_string();
        self.differences.push(Difference { at, recorded: recorded.cloned(), live: live.cloned() });
    }
}
