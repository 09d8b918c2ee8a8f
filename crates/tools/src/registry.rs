//! The tools of one agent, with unique names, in insertion order.

use std::{collections::HashMap, fmt, sync::Arc};

use crate::{Tool, ToolsError};

/// Tools by name. Iteration follows insertion order, so that consecutive requests to a model list them identically.
#[derive(Default, Clone)]
pub struct ToolRegistry {
    entries: Vec<RegisteredTool>,
    index: HashMap<String, usize>,
}

#[derive(Clone)]
struct RegisteredTool {
    tool: Arc<dyn Tool>,
    origin: String,
}

impl ToolRegistry {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool. `origin` ("built in", "lango.toml") appears in errors about duplicate names.
    pub fn add(&mut self, origin: &str, tool: Arc<dyn Tool>) -> Result<(), ToolsError> {
        let spec = tool.spec();
        let (name, origin) = (spec.name.clone(), origin.to_owned());
        if !is_valid_name(&name) {
            return Err(ToolsError::Name { name, origin });
        }
        if spec.parameters.get("type").and_then(|kind| kind.as_str()) != Some("object") {
            return Err(ToolsError::Parameters { name, origin });
        }
        if let Some(&taken) = self.index.get(&name) {
            let first = self.entries[taken].origin.clone();
            return Err(ToolsError::Duplicate { name, first, second: origin });
        }
        self.index.insert(name, self.entries.len());
        self.entries.push(RegisteredTool { tool, origin });
        Ok(())
    }

    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.index.get(name).map(|&at| &self.entries[at].tool)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<dyn Tool>> {
        self.entries.iter().map(|entry| &entry.tool)
    }

    /// All tools, each with its origin.
    pub fn with_origins(&self) -> impl ExactSizeIterator<Item = (&Arc<dyn Tool>, &str)> {
        self.entries.iter().map(|entry| (&entry.tool, entry.origin.as_str()))
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl fmt::Debug for ToolRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.entries.iter().map(|entry| (&entry.tool.spec().name, &entry.origin)))
            .finish()
    }
}

/// The intersection of the providers' naming rules, so that no encoder has to rename a tool.
fn is_valid_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::stub::{StubConfig, StubTool};

    fn stub(name: &str) -> Arc<dyn Tool> {
        let config: StubConfig = serde_json::from_value(json!({"name": name})).unwrap();
        Arc::new(StubTool::from(config))
    }

    #[test]
    fn tools_are_found_by_exact_name_and_listed_in_insertion_order() {
        let mut registry = ToolRegistry::new();
        for name in ["zeta", "alpha"] {
            registry.add("test", stub(name)).unwrap();
        }
        assert_eq!(registry.get("alpha").unwrap().spec().name, "alpha");
        assert!(registry.get("Alpha").is_none());
        let names: Vec<_> = registry.iter().map(|tool| tool.spec().name.clone()).collect();
        assert_eq!((names, registry.len()), (vec!["zeta".to_owned(), "alpha".to_owned()], 2));
    }

    #[test]
    fn duplicate_name_error_names_both_origins() {
        let mut registry = crate::built_in(std::path::Path::new(".")).unwrap();
        let error = registry.add("lango.toml", stub("now")).unwrap_err().to_string();
        assert_eq!(
            error,
            "two tools are called `now`: one from built in, one from lango.toml; rename or remove one of them"
        );
        assert_eq!(registry.len(), 5);
    }

    #[test]
    fn names_that_any_provider_rejects_are_rejected() {
        let long = "x".repeat(65);
        for name in ["", "1st", "-x", "a b", "a.b", "größe", "a/b", &long] {
            let error = ToolRegistry::new().add("lango.toml", stub(name)).unwrap_err().to_string();
            assert!(error.contains("(from lango.toml) is not a valid tool name"), "{name}: {error}");
        }
        ToolRegistry::new().add("test", stub("_server-1_tool")).unwrap();
    }

    #[test]
    fn parameters_must_be_an_object_schema() {
        let config: StubConfig =
            serde_json::from_value(json!({"name": "x", "parameters": {"type": "string"}})).unwrap();
        let error =
            ToolRegistry::new().add("lango.toml", Arc::new(StubTool::from(config))).unwrap_err().to_string();
        assert_eq!(error, "the parameters of `x` (from lango.toml) are not a JSON Schema of type `object`");
    }
}
