//! Parts of a request that a server does not support and that are left out. The rest of the request stays valid.

mod apply;
mod fields;

pub(crate) use apply::{omit_from_body, omit_from_request};
pub(crate) use fields::{FieldRules, SentField, sent_fields};

use crate::{MessagePart, ModelRequest, ReasoningEffort, Role};
use std::{fmt, str::FromStr};

/// A part of a request that a server does not support.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Omission {
    /// Tool use: no tools are declared, and earlier calls and results become text.
    Tools,
    /// Files of one kind, which become a text with their name.
    Media(MediaKind),
    /// The system role: the instruction becomes the first user message.
    SystemRole,
    /// Reasoning.
    Reasoning,
    /// A schema that the server enforces: it becomes an instruction.
    AnswerSchema,
    /// A field of the body, as a path of names such as `generationConfig.topK`. Arrays have no part in the path.
    Field(String),
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MediaKind {
    Image,
    Audio,
    Video,
    /// Any other file.
    Document,
}

impl MediaKind {
    pub fn of_mime_type(mime_type: &str) -> Self {
        match mime_type.split('/').next().unwrap_or_default() {
            "image" => Self::Image,
            "audio" => Self::Audio,
            "video" => Self::Video,
            _ => Self::Document,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Image => "images",
            Self::Audio => "audio",
            Self::Video => "video",
            Self::Document => "documents",
        }
    }
}

impl Omission {
    /// Whether the omission changes what the agent can do, and not only how the model answers.
    pub fn is_capability(&self) -> bool {
        match self {
            Self::Tools | Self::Media(_) => true,
            Self::SystemRole | Self::Reasoning | Self::AnswerSchema | Self::Field(_) => false,
        }
    }

    /// Whether the request contains the part. Fields are not compared: only the encoded body has them.
    pub fn applies_to(&self, request: &ModelRequest) -> bool {
        match self {
            Self::Tools => !request.tools.is_empty(),
            Self::Media(kind) => media_kinds(request).any(|sent| sent == *kind),
            Self::Reasoning => request.options.reasoning.is_some_and(|effort| effort != ReasoningEffort::Off),
            Self::AnswerSchema => request.options.response_schema.is_some(),
            Self::SystemRole => request.messages.iter().any(|message| message.role == Role::System),
            Self::Field(_) => true,
        }
    }

    /// The stored form; [`FromStr`] reads it.
    pub fn key(&self) -> String {
        match self {
            Self::Tools => "tools".to_owned(),
            Self::Media(kind) => format!("media.{}", kind.name()),
            Self::SystemRole => "system".to_owned(),
            Self::Reasoning => "reasoning".to_owned(),
            Self::AnswerSchema => "schema".to_owned(),
            Self::Field(path) => format!("field.{path}"),
        }
    }
}

/// The kinds of the files in a request.
pub(crate) fn media_kinds(request: &ModelRequest) -> impl Iterator<Item = MediaKind> {
    request.conversation().flat_map(|message| &message.parts).filter_map(|part| match part {
        MessagePart::Media(media) => Some(MediaKind::of_mime_type(&media.mime_type)),
        MessagePart::Text { .. }
        | MessagePart::Thought { .. }
        | MessagePart::Call(_)
        | MessagePart::Result(_) => None,
    })
}

/// A noun for messages.
impl fmt::Display for Omission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tools => f.write_str("tool use"),
            Self::Media(kind) => f.write_str(kind.name()),
            Self::SystemRole => f.write_str("the system role"),
            Self::Reasoning => f.write_str("reasoning"),
            Self::AnswerSchema => f.write_str("schemas of answers"),
            Self::Field(path) => write!(f, "`{path}`"),
        }
    }
}

/// The text is not the key of an omission.
#[derive(Debug, thiserror::Error)]
#[error("not the key of an omission")]
pub struct UnknownOmission;

impl FromStr for Omission {
    type Err = UnknownOmission;

    fn from_str(key: &str) -> Result<Self, UnknownOmission> {
        let kinds = [MediaKind::Image, MediaKind::Audio, MediaKind::Video, MediaKind::Document];
        match key.split_once('.') {
            None if key == "tools" => Ok(Self::Tools),
            None if key == "system" => Ok(Self::SystemRole),
            None if key == "reasoning" => Ok(Self::Reasoning),
            None if key == "schema" => Ok(Self::AnswerSchema),
            Some(("media", name)) => {
                let kind = kinds.into_iter().find(|kind| kind.name() == name);
                kind.map(Self::Media).ok_or(UnknownOmission)
            }
            Some(("field", path)) if !path.is_empty() => Ok(Self::Field(path.to_owned())),
            None | Some(_) => Err(UnknownOmission),
        }
    }
}

#[cfg(test)]
mod tests;
