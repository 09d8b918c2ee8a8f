//! The items of a response while they arrive. Servers differ in how their events identify an item.

use super::wire::ResponsesItem;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    Message,
    Reasoning,
    Call,
}

/// How an event identifies its item.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemKey<'a> {
    pub(super) kind: ItemKind,
    pub(super) id: &'a str,
    pub(super) call_id: &'a str,
    pub(super) index: Option<u64>,
}

impl<'a> ItemKey<'a> {
    /// Returns `None` for items of other kinds.
    pub(super) fn from_item(item: &'a ResponsesItem, index: Option<u64>) -> Option<Self> {
        let (kind, id, call_id) = match item {
            ResponsesItem::Message { id, .. } => (ItemKind::Message, id, None),
            ResponsesItem::Reasoning { id, .. } => (ItemKind::Reasoning, id, None),
            ResponsesItem::FunctionCall { id, call_id, .. }
            | ResponsesItem::CustomToolCall { id, call_id, .. } => (ItemKind::Call, id, call_id.as_deref()),
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
    /// The text that was emitted.
    pub(super) emitted: String,
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
            emitted: String::new(),
            done: false,
            name: String::new(),
            arguments: Value::Null,
        }
    }

    pub(super) fn append_arguments(&mut self, delta: &str) {
        match &mut self.arguments {
            Value::String(text) => text.push_str(delta),
            arguments => *arguments = delta.into(),
        }
    }

    /// Complete arguments replace their deltas.
    pub(super) fn set_arguments(&mut self, arguments: Value) {
        if !arguments.is_null() && arguments != "" {
            self.arguments = arguments;
        }
    }

    /// Sets the arguments from the input of a custom tool: its JSON object, or an object with the text.
    pub(super) fn set_input(&mut self, input: Option<String>) {
        let Some(input) = input else { return };
        let is_object = serde_json::from_str::<serde_json::Map<String, Value>>(&input).is_ok();
        self.arguments = if is_object { input.into() } else { serde_json::json!({"input": input}) };
    }

    fn matches(&self, key: ItemKey<'_>) -> bool {
        let is_named = |id: &str| !id.is_empty() && (self.id == id || self.call_id == id);
        self.kind == key.kind && (is_named(key.id) || is_named(key.call_id))
    }
}

/// Finds an item by id or index.
pub(super) fn find_known(items: &[PartialItem], key: ItemKey<'_>) -> Option<usize> {
    let numbered =
        |item: &PartialItem| item.kind == key.kind && key.index.is_some() && item.index == key.index;
    items.iter().rposition(|item| item.matches(key)).or_else(|| items.iter().rposition(numbered))
}

/// Finds the item that is announced. A completed item is not announced again, but its index may be reused.
pub(super) fn find_announced(items: &[PartialItem], key: ItemKey<'_>) -> Option<usize> {
    find_known(items, key).filter(|at| !items[*at].done || items[*at].matches(key))
}

/// Finds the newest open item that may be the one, because either the event or the item has no id.
pub(super) fn find_open(items: &[PartialItem], key: ItemKey<'_>) -> Option<usize> {
    let event_has_no_id = key.id.is_empty() && key.call_id.is_empty();
    items.iter().rposition(|item| {
        let item_has_no_id = item.id.is_empty() && item.call_id.is_empty();
        item.kind == key.kind && !item.done && (event_has_no_id || item_has_no_id)
    })
}

/// Finds an item by id, or by its position among items of its kind.
pub(super) fn find_by_position(items: &[PartialItem], key: ItemKey<'_>, position: usize) -> Option<usize> {
    let mut of_kind = items.iter().enumerate().filter(|(_, item)| item.kind == key.kind);
    items.iter().position(|item| item.matches(key)).or_else(|| of_kind.nth(position).map(|(at, _)| at))
}
