//! The sources of an answer as a short numbered list.

use super::one_line;
use adk::event::Event;
use serde_json::Value;

/// The maximum number of listed sources.
const MAX_SOURCES: usize = 10;
/// The maximum length of a title, and of an address.
const MAX_TITLE: usize = 80;
const MAX_ADDRESS: usize = 200;

/// The sources of a turn, each once.
#[derive(Debug, Default)]
pub(crate) struct SourceList(Vec<String>);

impl SourceList {
    pub(crate) fn add(&mut self, event: &Event) {
        for source in sources_of(event).filter_map(describe) {
            if !self.0.contains(&source) {
                self.0.push(source);
            }
        }
    }

    /// The lines of the list; none if the answer cites nothing.
    pub(crate) fn take_lines(&mut self) -> Vec<String> {
        let sources = std::mem::take(&mut self.0);
        let omitted = sources.len().saturating_sub(MAX_SOURCES);
        let lines = (1_usize..).zip(sources.into_iter().take(MAX_SOURCES));
        let lines = lines.map(|(number, source)| format!("[{number}] {source}"));
        lines.chain((omitted > 0).then(|| format!("and {omitted} more sources"))).collect()
    }
}

/// The objects with `title` and `uri`: the chunks of the grounding first, then the citations.
fn sources_of(event: &Event) -> impl Iterator<Item = &Value> {
    let list = |field: &str, key: &str| {
        let list = event.extra.get(field).and_then(|metadata| metadata.get(key));
        list.and_then(Value::as_array).into_iter().flatten()
    };
    let kinds = ["web", "retrievedContext", "maps", "image"];
    let source = move |chunk: &'_ Value| kinds.iter().find(|kind| chunk.get(**kind).is_some()).copied();
    let chunks = list("groundingMetadata", "groundingChunks");
    let grounding = chunks.filter_map(move |chunk| chunk.get(source(chunk)?));
    grounding.chain(list("citationMetadata", "citations"))
}

fn describe(source: &Value) -> Option<String> {
    let field = |key: &str, max| {
        let text = one_line(source.get(key)?.as_str()?, max);
        (!text.is_empty()).then_some(text)
    };
    let address = field("uri", MAX_ADDRESS).or_else(|| field("sourceUri", MAX_ADDRESS));
    match (field("title", MAX_TITLE), address) {
        (Some(title), Some(address)) if title != address => Some(format!("{title}: {address}")),
        (_, Some(address)) => Some(address),
        (title, None) => title,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use serde_json::json;

    fn lines(extra: &Value) -> String {
        let extra = extra.as_object().unwrap().clone();
        let mut sources = SourceList::default();
        sources.add(&Event { extra, ..Event::default() });
        sources.take_lines().join("\n")
    }

    #[test]
    fn sources_are_numbered_escaped_and_listed_once() {
        let web = json!({"web": {"uri": "https://a.test/", "title": "A\u{1b}[31m\nred"}});
        let event = json!({
            "groundingMetadata": {"groundingChunks": [web, web, {"retrievedContext": {"title": "notes"}}, {"web": 7}]},
            "citationMetadata": {"citations": [{"uri": "https://b.test/", "startIndex": 0}, {"license": "MIT"}]},
        });
        assert_snapshot!(lines(&event), @r"
        [1] A�[31m red: https://a.test/
        [2] notes
        [3] https://b.test/
        ");
        assert_eq!(lines(&json!({})), "");
    }

    #[test]
    fn long_list_is_bounded() {
        let citation = |n: usize| json!({"uri": format!("https://a.test/{n}/{}", "x".repeat(500))});
        let citations: Vec<Value> = (0..25).map(citation).collect();
        let shown = lines(&json!({"citationMetadata": {"citations": citations}}));
        assert_eq!(shown.lines().count(), 11);
        assert!(shown.ends_with("and 15 more sources"), "{shown}");
        assert!(shown.lines().all(|line| line.chars().count() < 210), "{shown}");
    }
}
