//! What a tool of a server can do, by what the server says of it and what a person has said.
//!
//! **Invariant.** Hints of a server that is not trusted make nothing looser.

use rmcp::model::ToolAnnotations;

use super::{Link, ServerConfig};
use crate::{Effect, Safety};

/// The classes of a tool: a person's word first, then the hints, then the worst.
pub(super) fn classes(
    config: &ServerConfig,
    tool: &str,
    hints: Option<&ToolAnnotations>,
) -> (Safety, Effect) {
    let usual = ToolAnnotations::default();
    let hints = hints.unwrap_or(&usual);
    let is_remote = matches!(config.link, Link::Http { .. });
    let (safety, effect) = if config.trusted {
        (believed(hints, is_remote), repeated(hints))
    } else {
        (feared(hints, is_remote), Effect::Once)
    };
    let said = config.tools.get(tool);
    let safety = said.and_then(|said| said.safety).unwrap_or(safety);
    (safety, said.and_then(|said| said.effect).unwrap_or(effect))
}

fn believed(hints: &ToolAnnotations, is_remote: bool) -> Safety {
    match hints {
        ToolAnnotations { open_world_hint: Some(true), .. } => Safety::Network,
        ToolAnnotations { read_only_hint: Some(true), .. } => Safety::Read,
        _ if is_remote => Safety::Network,
        ToolAnnotations { destructive_hint: Some(false), .. } => Safety::Write,
        ToolAnnotations { .. } => Safety::Execute,
    }
}

fn repeated(hints: &ToolAnnotations) -> Effect {
    match hints {
        ToolAnnotations { read_only_hint: Some(true), .. } => Effect::ReadOnly,
        ToolAnnotations { idempotent_hint: Some(true), .. } => Effect::Idempotent,
        ToolAnnotations { .. } => Effect::Once,
    }
}

/// A stranger's program may do anything, and says so at best.
fn feared(hints: &ToolAnnotations, is_remote: bool) -> Safety {
    if is_remote || hints.open_world_hint == Some(true) { Safety::Network } else { Safety::Execute }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::mcp::ToolConfig;

    fn of(trusted: bool, url: Option<&str>, hints: Value) -> (Safety, Effect) {
        let link = url.map_or_else(
            || Link::Stdio { command: "x".to_owned(), args: Vec::new(), env: Vec::new(), cwd: ".".into() },
            |url| Link::Http { url: url.to_owned(), headers: Vec::new() },
        );
        let hints: ToolAnnotations = serde_json::from_value(hints).unwrap();
        classes(&ServerConfig { trusted, ..ServerConfig::new("s", link) }, "t", Some(&hints))
    }

    #[test]
    fn a_stranger_loosens_nothing_by_what_it_says_of_itself() {
        let tame = json!({"readOnlyHint": true, "idempotentHint": true, "destructiveHint": false, "openWorldHint": false});
        assert_eq!(of(false, None, tame.clone()), (Safety::Execute, Effect::Once));
        assert_eq!(of(false, Some("https://x"), tame), (Safety::Network, Effect::Once));
        assert_eq!(of(false, None, json!({"openWorldHint": true})), (Safety::Network, Effect::Once));
    }

    #[test]
    fn a_trusted_server_is_taken_at_its_word() {
        let rows = [
            (json!({}), (Safety::Execute, Effect::Once)),
            (json!({"readOnlyHint": true}), (Safety::Read, Effect::ReadOnly)),
            (json!({"readOnlyHint": true, "openWorldHint": true}), (Safety::Network, Effect::ReadOnly)),
            (json!({"idempotentHint": true}), (Safety::Execute, Effect::Idempotent)),
            (json!({"destructiveHint": false}), (Safety::Write, Effect::Once)),
            (json!({"destructiveHint": false, "openWorldHint": true}), (Safety::Network, Effect::Once)),
        ];
        for (hints, classes) in rows {
            assert_eq!(of(true, None, hints.clone()), classes, "{hints}");
        }
        assert_eq!(of(true, Some("https://x"), json!({})), (Safety::Network, Effect::Once));
        assert_eq!(of(true, Some("https://x"), json!({"readOnlyHint": true})).0, Safety::Read);
    }

    #[test]
    fn a_persons_word_is_the_last() {
        let link =
            Link::Stdio { command: "x".to_owned(), args: Vec::new(), env: Vec::new(), cwd: ".".into() };
        let mut config = ServerConfig::new("s", link);
        let said = ToolConfig { safety: Some(Safety::Read), effect: None, enabled: true };
        config.tools.insert("t".to_owned(), said);
        assert_eq!(classes(&config, "t", None), (Safety::Read, Effect::Once));
        assert_eq!(classes(&config, "other", None), (Safety::Execute, Effect::Once));
    }
}
