//! A parsed Markdown file: headings with their anchors, links, code blocks and code spans, each with its line.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::ops::Range;

/// A page of the book, or a Markdown file at the root of the repository.
#[derive(Debug, Default)]
pub(crate) struct Page {
    /// Relative to the root of the repository.
    pub(crate) path: String,
    pub(crate) headings: Vec<Heading>,
    pub(crate) links: Vec<Located>,
    pub(crate) blocks: Vec<Block>,
    /// Inline code.
    pub(crate) spans: Vec<Located>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Heading {
    pub(crate) text: String,
    /// The fragment of links to it.
    pub(crate) anchor: String,
    pub(crate) line: usize,
}

/// A text with its line number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// A fenced code block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Block {
    /// The info string of the fence: the language, and instructions for the checks.
    pub(crate) info: String,
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl Page {
    pub(crate) fn parse(path: &str, text: &str) -> Self {
        let mut page = Self { path: path.to_owned(), ..Self::default() };
        let (mut heading, mut block) = (None::<String>, None::<Block>);
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            let line = line_of(text, &range);
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => page.add_heading(heading.take().unwrap_or_default(), line),
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    block = Some(Block { info: info.into_string(), text: String::new(), line });
                }
                Event::End(TagEnd::CodeBlock) => page.blocks.extend(block.take()),
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(Located { text: dest_url.into_string(), line });
                }
                Event::Text(content) => {
                    heading = heading.map(|heading| heading + &content);
                    if let Some(block) = &mut block {
                        block.text.push_str(&content);
                    }
                }
                Event::Code(content) => {
                    heading = heading.map(|heading| heading + &content);
                    page.spans.push(Located { text: content.into_string(), line });
                }
                _ => {}
            }
        }
        page
    }

    fn add_heading(&mut self, text: String, line: usize) {
        let base = anchor(&text);
        // A second heading with the same text gets a number.
        let earlier = self.headings.iter().filter(|heading| anchor(&heading.text) == base).count();
        let anchor = if earlier == 0 { base } else { format!("{base}-{earlier}") };
        self.headings.push(Heading { text, anchor, line });
    }

    pub(crate) fn place(&self, line: usize) -> String {
        format!("{}:{line}", self.path)
    }

    pub(crate) fn is_in_book(&self) -> bool {
        self.path.starts_with(super::SOURCE)
    }
}

/// The anchor that mdBook and GitHub generate for a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        '-' | '_' => Some(c),
        _ if c.is_alphanumeric() => Some(c),
        _ if c.is_whitespace() => Some('-'),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

fn line_of(text: &str, range: &Range<usize>) -> usize {
    text[..range.start].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_anchors_of_mdbook() {
        let text = "# One: two\n\n## `lango serve` — start\n\n## Same\n\n## Same\n\n## Same\n";
        let page = Page::parse("docs/src/a.md", text);
        let anchors: Vec<&str> = page.headings.iter().map(|heading| heading.anchor.as_str()).collect();
        assert_eq!(anchors, ["one-two", "lango-serve--start", "same", "same-1", "same-2"]);
    }

    #[test]
    fn blocks_links_and_spans_have_their_lines() {
        let text =
            "a [b](c.md#d) `e f`\n\n- item\n\n  ```toml,ignore why\n  x = 1\n  ```\n\n| `g` |\n|---|\n";
        let page = Page::parse("docs/src/a.md", text);
        assert_eq!(page.links, [Located { text: "c.md#d".to_owned(), line: 1 }]);
        let block = Block { info: "toml,ignore why".to_owned(), text: "x = 1\n".to_owned(), line: 5 };
        assert_eq!(page.blocks, [block]);
        let spans: Vec<&str> = page.spans.iter().map(|span| span.text.as_str()).collect();
        assert_eq!(spans, ["e f", "g"]);
    }

    #[test]
    fn text_in_a_code_block_has_no_links() {
        let page = Page::parse("a.md", "```text\n[b](c.md) `d`\n```\n");
        assert!(page.links.is_empty() && page.spans.is_empty());
    }
}
