//! Safety and effect class of a server's tool, by configuration and by the server's annotations.
//!
//! **Invariant.** Annotations of an untrusted server never lead to a less strict class.

use rmcp::model::ToolAnnotations;

use super::{McpServerConfig, McpTransport};
use crate::{Effect, Safety};

/// The classes of a tool: from the configuration, else from annotations, else the strictest.
pub(super) fn classify(
    config: &McpServerConfig,
    tool: &str,
    hints: Option<&ToolAnnotations>,
) -> (Safety, Effect) {
    let no_hints = ToolAnnotations::default();
    let hints = hints.unwrap_or(&no_hints);
    let is_remote = matches!(config.transport, McpTransport::Http { .. });
    let (safety, effect) = if config.trusted {
        (trusted_safety(hints, is_remote), trusted_effect(hints))
    } else {
        (untrusted_safety(hints, is_remote), Effect::Once)
    };
    let configured = config.tools.get(tool);
    let safety = configured.and_then(|tool| tool.safety).unwrap_or(safety);
    (safety, configured.and_then(|tool| tool.effect).unwrap_or(effect))
}

fn trusted_safety(hints: &ToolAnnotations, is_remote: bool) -> Safety {
    match hints {
        ToolAnnotations { open_world_hint: Some(true), .. } => Safety::Network,
        ToolAnnotations { read_only_hint: Some(true), .. } => Safety::Read,
        _ if is_remote => Safety::Network,
        ToolAnnotations { destructive_hint: Some(false), .. } => Safety::Write,
        ToolAnnotations { .. } => Safety::Execute,
    }
}

fn trusted_effect(hints: &ToolAnnotations) -> Effect {
    match hints {
        ToolAnnotations { read_only_hint: Some(true), .. } => Effect::ReadOnly,
        ToolAnnotations { idempotent_hint: Some(true), .. } => Effect::Idempotent,
        ToolAnnotations { .. } => Effect::Once,
    }
}

/// An untrusted program may do anything; its annotations can only make the class stricter.
fn untrusted_safety(hints: &ToolAnnotations, is_remote: bool) -> Safety {
    if is_remote || hints.open_world_hint == Some(true) { Safety::Network } else { Safety::Execute }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::mcp::McpToolConfig;

    fn classes(trusted: bool, url: Option<&str>, hints: Value) -> (Safety, Effect) {
        let transport = url.map_or_else(
            || McpTransport::Stdio {
                command: "x".to_owned(),
                args: Vec::new(),
                env: Vec::new(),
                cwd: ".".into(),
            },
            |url| McpTransport::Http { url: url.to_owned(), headers: Vec::new() },
        );
        let hints: ToolAnnotations = serde_json::from_value(hints).unwrap();
        classify(&McpServerConfig { trusted, ..McpServerConfig::new("s", transport) }, "t", Some(&hints))
    }

    #[test]
    fn annotations_of_an_untrusted_server_do_not_relax_the_class() {
        let read_only = json!({"readOnlyHint": true, "idempotentHint": true, "destructiveHint": false, "openWorldHint": false});
        assert_eq!(classes(false, None, read_only.clone()), (Safety::Execute, Effect::Once));
        assert_eq!(classes(false, Some("https://x"), read_only), (Safety::Network, Effect::Once));
        assert_eq!(classes(false, None, json!({"openWorldHint": true})), (Safety::Network, Effect::Once));
    }

    #[test]
    fn annotations_of_a_trusted_server_determine_the_class() {
        let rows = [
            (json!({}), (Safety::Execute, Effect::Once)),
            (json!({"readOnlyHint": true}), (Safety::Read, Effect::ReadOnly)),
            (json!({"readOnlyHint": true, "openWorldHint": true}), (Safety::Network, Effect::ReadOnly)),
            (json!({"idempotentHint": true}), (Safety::Execute, Effect::Idempotent)),
            (json!({"destructiveHint": false}), (Safety::Write, Effect::Once)),
            (json!({"destructiveHint": false, "openWorldHint": true}), (Safety::Network, Effect::Once)),
        ];
        for (hints, expected) in rows {
            assert_eq!(classes(true, None, hints.clone()), expected, "{hints}");
        }
        assert_eq!(classes(true, Some("https://x"), json!({})), (Safety::Network, Effect::Once));
        assert_eq!(classes(true, Some("https://x"), json!({"readOnlyHint": true})).0, Safety::Read);
    }

    #[test]
    fn configuration_overrides_annotations() {
        let transport = McpTransport::Stdio {
            command: "x".to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: ".".into(),
        };
        let mut config = McpServerConfig::new("s", transport);
        let tool = McpToolConfig { safety: Some(Safety::Read), effect: None, enabled: true };
        config.tools.insert("t".to_owned(), tool);
        assert_eq!(classify(&config, "t", None), (Safety::Read, Effect::Once));
        assert_eq!(classify(&config, "other", None), (Safety::Execute, Effect::Once));
    }
}
