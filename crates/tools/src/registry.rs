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
