//! Agent files as YAML: syntax errors and wrong values are reported in our own words, by kind. A kind without words of its own
//! has a general message, so that no text of a parser reaches a person.

use super::{ConfigError, parser_message::plain_message, yaml_letters::quote_letters};
use granit_parser::{ErrorKind, Parser};
use serde::de::DeserializeOwned;
use std::path::Path;

/// Line and column, both from 1.
type Position = (usize, usize);

/// Parses a file.
pub(super) fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, ConfigError> {
    if let Some(error) = syntax_error(path, text) {
        return Err(error);
    }
    serde_saphyr::from_str(&quote_letters(text)).map_err(|error| value_error(path, &error))
}

/// The first syntax error of a text.
pub(super) fn syntax_error(path: &Path, text: &str) -> Option<ConfigError> {
    let error = Parser::new_from_str(text).find_map(Result::err)?;
    let position = (error.marker().line(), error.marker().col() + 1);
    Some(config_error(path, Some(position), syntax_message(error.kind()).to_owned()))
}

fn value_error(path: &Path, error: &serde_saphyr::Error) -> ConfigError {
    let error = error.without_snippet();
    let number = |number: u64| usize::try_from(number).unwrap_or_default();
    let position = error.location().map(|at| (number(at.line()), number(at.column())));
    config_error(path, position, value_message(error))
}

fn config_error(path: &Path, position: Option<Position>, message: String) -> ConfigError {
    let path = path.to_path_buf();
    match position {
        Some((line, column)) => ConfigError::Syntax { path, line, column, message },
        None => ConfigError::Value { path, message },
    }
}

fn syntax_message(kind: &ErrorKind) -> &'static str {
    use ErrorKind as Kind;
    match kind {
        Kind::UnclosedFlowCollection { .. }
        | Kind::UnexpectedEofFlowSequence
        | Kind::UnexpectedEofFlowMapping
        | Kind::UnexpectedEofImplicitFlowMapping => "a bracket is not closed",
        Kind::MisplacedFlowCollectionEnd | Kind::MismatchedFlowCollectionEnd { .. } => {
            "this bracket closes none that is open"
        }
        Kind::ExpectedFlowMappingSeparator => "a comma or `}` is missing here",
        Kind::ExpectedFlowSequenceSeparator => "a comma or `]` is missing here",
        Kind::UnclosedQuotedScalar | Kind::DocumentIndicatorInQuotedScalar => "a quote is not closed",
        Kind::InvalidTrailingSingleQuotedScalar | Kind::InvalidTrailingDoubleQuotedScalar => {
            "there is text after the closing quote; quote the whole value"
        }
        Kind::UnknownQuotedScalarEscape
        | Kind::InvalidQuotedScalarHexEscape
        | Kind::InvalidLowSurrogateHexEscape
        | Kind::InvalidLowSurrogate
        | Kind::MissingLowSurrogate
        | Kind::UnpairedLowSurrogate
        | Kind::InvalidUnicodeEscape => "this escape after a backslash is not valid; single quotes need none",
        Kind::TabNotAllowed
        | Kind::TabInBlockIndentation
        | Kind::TabInIndentation
        | Kind::TabAtBlockScalarStart => "YAML is indented with spaces, and a tab is here",
        // The position is that of the value before the tab.
        Kind::TabInPlainScalar => "a tab follows; YAML is indented with spaces",
        Kind::SimpleKeyExpected | Kind::InvalidSimpleKey | Kind::ExpectedBlockMappingKey => {
            "a key with a colon, as in `name: value`, is expected here"
        }
        Kind::MappingValueNotAllowed
        | Kind::InvalidColonPlacement
        | Kind::FlowMappingValueAdjacentCollection
        | Kind::InvalidMappingValueWhitespace => {
            "this colon is out of place; a value that contains one needs quotes"
        }
        Kind::InvalidIndentation
        | Kind::MappingKeyNotAllowed
        | Kind::InvalidBlockScalarIndent
        | Kind::InvalidQuotedScalarIndent
        | Kind::InvalidFlowScalarIndent => "the indentation does not fit the lines above",
        Kind::ExpectedBlockSequenceEntry
        | Kind::BlockEntryInFlowCollection
        | Kind::BlockSequenceEntryNotAllowed
        | Kind::InvalidBlockEntryWhitespace
        | Kind::PlainScalarStartsWithDashFlowIndicator => {
            "this hyphen is out of place, or one is missing here"
        }
        Kind::UnexpectedCharacter { .. } => "this character cannot begin a value; put the value into quotes",
        Kind::UnknownAnchor => "there is no anchor of this name before",
        Kind::MultipleDocumentsUnsupported | Kind::ExpectedDocumentStart | Kind::InvalidDocumentEnd => {
            "the file has more than one document; remove the `---` or `...` inside"
        }
        Kind::RecursionLimitExceeded => "the values are nested too deeply",
        Kind::CommentNotSeparated | Kind::CommentInterceptedScalar => {
            "a comment is out of place; it needs a space before its `#`"
        }
        _ => "this is not valid YAML; a value with special characters needs quotes",
    }
}

fn value_message(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error;
    match error {
        // Messages of serde and of our own types.
        Error::Message { msg, .. } => plain_message(msg),
        Error::AliasError { error, .. } => value_message(error),
        Error::SerdeInvalidType { unexpected, expected, .. } => {
            plain_message(&format!("invalid type: {unexpected}, expected {expected}"))
        }
        Error::SerdeInvalidValue { unexpected, expected, .. } => {
            plain_message(&format!("invalid value: {unexpected}, expected {expected}"))
        }
        Error::SerdeInvalidLength { len, expected, .. } => {
            plain_message(&format!("invalid length {len}, expected {expected}"))
        }
        Error::SerdeUnknownField { field, expected, .. } => {
            plain_message(&format!("unknown field `{field}`, expected one of {}", quoted(expected)))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            plain_message(&format!("unknown variant `{variant}`, expected one of {}", quoted(expected)))
        }
        Error::SerdeMissingField { field, .. } => format!("the key `{field}` is missing"),
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_ref().map(|key| format!(" `{key}`")).unwrap_or_default();
            format!("the key{key} is written twice; remove one of them")
        }
        Error::InvalidScalar { ty, .. } => plain_message(&format!("invalid {ty}")),
        Error::InvalidBooleanStrict { .. } => "expected true or false".to_owned(),
        Error::NonFiniteFloat { .. } => "expected a finite number".to_owned(),
        Error::NullIntoString { .. } => "nothing is written here; expected a string".to_owned(),
        Error::Unexpected { expected, .. } => plain_message(&format!("expected {expected}")),
        Error::MultipleDocuments { .. } => "the file has more than one document; keep one of them".to_owned(),
        Error::UnknownAnchor { .. } => "there is no anchor of this name before".to_owned(),
        Error::Eof { .. } => "the value is missing".to_owned(),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            "the file is too large or nested too deeply".to_owned()
        }
        Error::UnsupportedIncludeForm { .. } | Error::ResolverError { .. } | Error::CyclicInclude { .. } => {
            "other files cannot be included".to_owned()
        }
        _ => "this value cannot be used here; see the documentation of agent files for its form".to_owned(),
    }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
