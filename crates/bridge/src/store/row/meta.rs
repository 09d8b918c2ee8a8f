//! The `meta` column: the fields of an event that have no column.

use adk::{
    content::{Origin, Part},
    event::{Event, EventActions, NodeInfo, UsageMetadata},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The `meta` column. Absent keys have their default value: most rows are read far more often than written.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Meta {
    /// The content's wire role; absent if there was no content or no role.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<String>,
    /// How the columns make up the parts; absent if the rules for rows without `meta` give the same parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) layout: Option<Vec<Slot>>,
    /// The event had no content.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) bare: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<Origin>,
    #[serde(rename = "event")]
    pub(super) frame: Frame,
}

/// An event without its content, id, author and time.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Frame {
    #[serde(skip_serializing_if = "String::is_empty")]
    invocation_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    actions: Option<EventActions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_info: Option<NodeInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn_complete: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interrupted: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    custom_metadata: Option<Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage_metadata: Option<UsageMetadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    long_running_tool_ids: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<String>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    extra: Map<String, Value>,
}

impl Frame {
    pub(super) fn from_event(event: &Event) -> Self {
        Self {
            invocation_id: event.invocation_id.clone(),
            actions: (event.actions != EventActions::default()).then(|| event.actions.clone()),
            node_info: (event.node_info != NodeInfo::default()).then(|| event.node_info.clone()),
            model_version: event.model_version.clone(),
            partial: event.partial,
            turn_complete: event.turn_complete,
            finish_reason: event.finish_reason.clone(),
            error_code: event.error_code.clone(),
            error_message: event.error_message.clone(),
            interrupted: event.interrupted,
            custom_metadata: event.custom_metadata.clone(),
            usage_metadata: event.usage_metadata.clone(),
            long_running_tool_ids: event.long_running_tool_ids.clone(),
            branch: event.branch.clone(),
            extra: event.extra.clone(),
        }
    }

    /// Converts the frame to an event. The caller fills in content, id, author and time.
    pub(super) fn into_event(self) -> Event {
        Event {
            invocation_id: self.invocation_id,
            actions: self.actions.unwrap_or_default(),
            node_info: self.node_info.unwrap_or_default(),
            model_version: self.model_version,
            partial: self.partial,
            turn_complete: self.turn_complete,
            finish_reason: self.finish_reason,
            error_code: self.error_code,
            error_message: self.error_message,
            interrupted: self.interrupted,
            custom_metadata: self.custom_metadata,
            usage_metadata: self.usage_metadata,
            long_running_tool_ids: self.long_running_tool_ids,
            branch: self.branch,
            extra: self.extra,
            ..Event::default()
        }
    }
}

/// The location of a part and its attributes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Slot {
    #[serde(flatten)]
    pub(super) location: PartLocation,
    #[serde(rename = "th", default, skip_serializing_if = "Option::is_none")]
    pub(super) thought: Option<bool>,
    #[serde(rename = "sig", default, skip_serializing_if = "Option::is_none")]
    pub(super) signature: Option<String>,
    /// Unknown fields of the part.
    #[serde(rename = "x", default, skip_serializing_if = "Map::is_empty")]
    pub(super) extra: Map<String, Value>,
    /// Unknown fields of the call or of the response.
    #[serde(rename = "fx", default, skip_serializing_if = "Map::is_empty")]
    pub(super) function_extra: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum PartLocation {
    /// The next bytes of `content`, by length.
    #[serde(rename = "t")]
    Text(usize),
    /// An entry of `tool_calls`, by index.
    #[serde(rename = "c")]
    Call(usize),
    /// An entry of `tool_calls`, by index, and the length of its copy in `content`.
    #[serde(rename = "r")]
    Response(usize, usize),
    /// The part itself, because no column holds it.
    #[serde(rename = "p")]
    Part(Box<Part>),
}
