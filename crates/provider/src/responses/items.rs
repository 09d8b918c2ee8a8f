//! The items of an answer as far as they have come. Servers differ in how their events name them.

use super::wire::ResponsesItem;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    Message,
    Reasoning,
    Call,
}

/// How an event names its item.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemKey<'a> {
    pub(super) kind: ItemKind,
    pub(super) id: &'a str,
    pub(super) call_id: &'a str,
    pub(super) index: Option<u64>,
}

impl<'a> ItemKey<'a> {
    /// `None` for an item that was not asked for.
    pub(super) fn of(item: &'a ResponsesItem, index: Option<u64>) -> Option<Self> {
        let (kind, id, call_id) = match item {
            ResponsesItem::Message { id, .. } => (ItemKind::Message, id, None),
            ResponsesItem::Reasoning { id, .. } => (ItemKind::Reasoning, id, None),
            ResponsesItem::FunctionCall { id, call_id, .. } => (ItemKind::Call, id, call_id.as_deref()),
            ResponsesItem::Other => return None,
        };
        let id = id.as_deref().unwrap_or_default();
        Some(Self { kind, id, call_id: call_id.unwrap_or_default(), index })
    }
}

#[derive(Debug)]
pub(super) struct PartialItem {
    pub(super) kind: ItemKind,
    pub(super) id: String,
    pub(super) call_id: String,
    index: Option<u64>,
    /// How many bytes of its text have been told.
    pub(super) told: usize,
    pub(super) done: bool,
    pub(super) name: String,
    pub(super) arguments: Value,
}

impl PartialItem {
    pub(super) fn new(key: ItemKey<'_>) -> Self {
        Self {
            kind: key.kind,
            id: key.id.to_owned(),
            call_id: key.call_id.to_owned(),
            index: key.index,
            told: 0,
            done: false,
            name: String::new(),
            arguments: Value::Null,
        }
    }

    pub(super) fn extend(&mut self, piece: &str) {
        match &mut self.arguments {
            Value::String(text) => text.push_str(piece),
            arguments => *arguments = piece.into(),
        }
    }

    /// Arguments that came whole take the place of their pieces.
    pub(super) fn settle(&mut self, arguments: Value) {
        if !arguments.is_null() && arguments != "" {
            self.arguments = arguments;
        }
    }

    fn has(&self, key: ItemKey<'_>) -> bool {
        let is_named = |id: &str| !id.is_empty() && (self.id == id || self.call_id == id);
        self.kind == key.kind && (is_named(key.id) || is_named(key.call_id))
    }
}

/// The item of this id or number.
pub(super) fn known(items: &[PartialItem], key: ItemKey<'_>) -> Option<usize> {
    let numbered =
        |item: &PartialItem| item.kind == key.kind && key.index.is_some() && item.index == key.index;
    items.iter().rposition(|item| item.has(key)).or_else(|| items.iter().rposition(numbered))
}

/// The item that is announced, if it is known: one that is over is not announced again, but its number may be used again.
pub(super) fn announced(items: &[PartialItem], key: ItemKey<'_>) -> Option<usize> {
    known(items, key).filter(|at| !items[*at].done || items[*at].has(key))
}

/// The newest item that is open and may be the one that is meant, since one of the two has no id.
pub(super) fn open(items: &[PartialItem], key: ItemKey<'_>) -> Option<usize> {
    let unsaid = key.id.is_empty() && key.call_id.is_empty();
    items.iter().rposition(|item| {
        let nameless = item.id.is_empty() && item.call_id.is_empty();
        item.kind == key.kind && !item.done && (unsaid || nameless)
    })
}

/// The item of this id, or else the one at this place among its kind.
pub(super) fn nth(items: &[PartialItem], key: ItemKey<'_>, place: usize) -> Option<usize> {
    let mut of_kind = items.iter().enumerate().filter(|(_, item)| item.kind == key.kind);
    items.iter().position(|item| item.has(key)).or_else(|| of_kind.nth(place).map(|(at, _)| at))
}
