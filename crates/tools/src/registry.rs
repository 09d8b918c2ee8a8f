//! The tools of one agent: each name once, in the order they were added.

use std::{collections::HashMap, fmt, sync::Arc};

use crate::{Error, Tool};

/// Tools by name. The order is the one they were added in, so that a model's request stays the same from call to call.
#[derive(Default, Clone)]
pub struct Registry {
    entries: Vec<Entry>,
    index: HashMap<String, usize>,
}

#[derive(Clone)]
struct Entry {
    tool: Arc<dyn Tool>,
    origin: String,
}

impl Registry {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool. `origin` says where it comes from ("built in", "lango.toml") and is told when names collide.
    pub fn add(&mut self, origin: &str, tool: Arc<dyn Tool>) -> Result<(), Error> {
        let spec = tool.spec();
        let (name, origin) = (spec.name.clone(), origin.to_owned());
        if !is_legal(&name) {
            return Err(Error::Name { name, origin });
        }
        if spec.parameters.get("type").and_then(|kind| kind.as_str()) != Some("object") {
            return Err(Error::Parameters { name, origin });
        }
        if let Some(&taken) = self.index.get(&name) {
            let first = self.entries[taken].origin.clone();
            return Err(Error::Duplicate { name, first, second: origin });
        }
        self.index.insert(name, self.entries.len());
        self.entries.push(Entry { tool, origin });
        Ok(())
    }

    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.index.get(name).map(|&at| &self.entries[at].tool)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Arc<dyn Tool>> {
        self.entries.iter().map(|entry| &entry.tool)
    }

    /// The same, each with where it comes from.
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

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.entries.iter().map(|entry| (&entry.tool.spec().name, &entry.origin)))
            .finish()
    }
}

/// The narrowest of the providers' rules, so that no encoder needs to rename a tool.
fn is_legal(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::stub::{Stub, StubConfig};

    fn stub(name: &str) -> Arc<dyn Tool> {
        let config: StubConfig = serde_json::from_value(json!({"name": name})).unwrap();
        Arc::new(Stub::from(config))
    }

    #[test]
    fn tools_are_found_by_name_and_kept_in_order() {
        let mut registry = Registry::new();
        for name in ["zeta", "alpha"] {
            registry.add("test", stub(name)).unwrap();
        }
        assert_eq!(registry.get("alpha").unwrap().spec().name, "alpha");
        assert!(registry.get("Alpha").is_none());
        let names: Vec<_> = registry.iter().map(|tool| tool.spec().name.clone()).collect();
        assert_eq!((names, registry.len()), (vec!["zeta".to_owned(), "alpha".to_owned()], 2));
    }

    #[test]
    fn a_second_tool_of_one_name_names_both_sources() {
        let mut registry = crate::built_in(std::path::Path::new(".")).unwrap();
        let error = registry.add("lango.toml", stub("now")).unwrap_err().to_string();
        assert_eq!(
            error,
            "two tools are called `now`: one from built in, one from lango.toml; rename or remove one of them"
        );
        assert_eq!(registry.len(), 5);
    }

    #[test]
    fn a_name_that_some_provider_refuses_is_refused_here() {
        let long = "x".repeat(65);
        for name in ["", "1st", "-x", "a b", "a.b", "größe", "a/b", &long] {
            let error = Registry::new().add("lango.toml", stub(name)).unwrap_err().to_string();
            assert!(error.contains("(from lango.toml) is no name for a tool"), "{name}: {error}");
        }
        Registry::new().add("test", stub("_server-1_tool")).unwrap();
    }

    #[test]
    fn parameters_are_an_object_schema() {
        let config: StubConfig =
            serde_json::from_value(json!({"name": "x", "parameters": {"type": "string"}})).unwrap();
        let error = Registry::new().add("lango.toml", Arc::new(Stub::from(config))).unwrap_err().to_string();
        assert_eq!(error, "the parameters of `x` (from lango.toml) are no JSON Schema of type `object`");
    }
}
