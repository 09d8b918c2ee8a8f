//! Conversion of HTML to text: scripts and styles are dropped, links, headings and lists become Markdown.
//!
//! It is a single pass without a DOM, and tolerates malformed pages.

mod entity;

use reqwest::Url;

/// Elements whose content is dropped.
const SKIPPED: [&str; 7] = ["script", "style", "noscript", "template", "svg", "iframe", "object"];
/// Block elements: they begin a new paragraph.
const BLOCKS: [&str; 26] = [
    "p",
    "div",
    "section",
    "article",
    "header",
    "footer",
    "nav",
    "main",
    "aside",
    "ul",
    "ol",
    "dl",
    "dt",
    "dd",
    "table",
    "tr",
    "form",
    "fieldset",
    "blockquote",
    "figure",
    "figcaption",
    "address",
    "details",
    "summary",
    "hr",
    "title",
];

/// Converts a page to text. Links are resolved against `base`.
pub(super) fn to_text(html: &str, base: &Url) -> String {
    let mut page = HtmlRenderer { out: String::new(), base, pre: 0, link: None, space: false };
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        page.push_text(&rest[..at]);
        rest = &rest[at..];
        rest = if let Some(after) = rest.strip_prefix("<!--") {
            after.split_once("-->").map_or("", |(_, after)| after)
        } else if rest[1..].starts_with(|c: char| c.is_ascii_alphabetic() || "/!?".contains(c)) {
            page.tag(rest)
        } else {
            page.push_text("<");
            &rest[1..]
        };
    }
    page.push_text(rest);
    page.out.trim().to_owned()
}

struct HtmlRenderer<'a> {
    out: String,
    base: &'a Url,
    /// Nesting depth of `pre`.
    pre: usize,
    /// Offset of the text of the open link, and its URL. Links do not nest.
    link: Option<(usize, String)>,
    /// Whether white space is pending before the next word.
    space: bool,
}

impl HtmlRenderer<'_> {
    fn push_text(&mut self, text: &str) {
        let text = entity::decode(text);
        if self.pre > 0 {
            self.out.push_str(&text);
            return;
        }
        for c in text.chars() {
            if c.is_whitespace() {
                self.space = true;
                continue;
            }
            if self.space && !self.out.is_empty() && !self.out.ends_with(['\n', ' ', '[']) {
                self.out.push(' ');
            }
            self.space = false;
            self.out.push(c);
        }
    }

    /// Parses one tag and returns the text after it.
    fn tag<'t>(&mut self, text: &'t str) -> &'t str {
        let end = tag_end(text);
        let tag = &text[1..end];
        let after = text.get(end + 1..).unwrap_or("");
        let (closes, tag) = tag.strip_prefix('/').map_or((false, tag), |tag| (true, tag));
        let name_end = tag.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(tag.len());
        let name = tag[..name_end].to_ascii_lowercase();
        if SKIPPED.contains(&name.as_str()) && !closes {
            return if tag.ends_with('/') { after } else { skip_element(after, &name) };
        }
        self.element(&name, closes, &tag[name_end..]);
        after
    }

    fn element(&mut self, name: &str, closes: bool, attributes: &str) {
        match (name, closes) {
            ("br", _) => self.out.push('\n'),
            ("pre", false) => {
                self.break_line(2);
                self.pre += 1;
            }
            ("pre", true) => {
                self.pre = self.pre.saturating_sub(1);
                self.break_line(2);
            }
            ("li", false) => {
                self.break_line(1);
                self.out.push_str("- ");
            }
            ("td" | "th", true) => self.out.push_str(" | "),
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", false) => {
                self.break_line(2);
                let level = usize::from(name.as_bytes()[1] - b'0');
                self.out.push_str(&"#".repeat(level));
                self.out.push(' ');
            }
            ("h1" | "h2" | "h3" | "h4" | "h5" | "h6", true) => self.break_line(2),
            ("a", false) => self.open_link(attributes),
            ("a", true) => self.close_link(),
            ("img", _) => {
                if let Some(alt) = attribute(attributes, "alt").filter(|alt| !alt.trim().is_empty()) {
                    self.push_text(&format!(" [image: {alt}] "));
                }
            }
            ("tr", _) => self.break_line(1),
            (name, _) if BLOCKS.contains(&name) => self.break_line(2),
            _ => {}
        }
    }

    /// Begins a new line with `breaks` line breaks, and at most one empty line before it.
    fn break_line(&mut self, breaks: usize) {
        let end = self.out.trim_end_matches([' ', '\n']).len();
        let present = self.out[end..].matches('\n').count();
        self.out.truncate(end);
        self.space = false;
        if end > 0 {
            self.out.push_str(&"\n".repeat(breaks.max(present.min(2))));
        }
    }

    fn open_link(&mut self, attributes: &str) {
        self.close_link();
        let address = attribute(attributes, "href").and_then(|href| self.base.join(href.trim()).ok());
        let address = address.filter(|url| ["http", "https"].contains(&url.scheme()));
        if self.space {
            self.space = false;
            if !self.out.is_empty() && !self.out.ends_with(['\n', ' ']) {
                self.out.push(' ');
            }
        }
        self.link = Some((self.out.len(), address.map(String::from).unwrap_or_default()));
    }

    fn close_link(&mut self) {
        let Some((start, address)) = self.link.take() else { return };
        // A block inside the link may have trimmed the text to before its start.
        let Some(text) = self.out.get(start..) else { return };
        let label = text.trim().replace('\n', " ");
        if address.is_empty() || label.is_empty() {
            return;
        }
        self.out.truncate(start);
        self.out.extend(["[", &label, "](", &address, ")"]);
    }
}

/// Limits the search for the end of a tag.
const MAX_TAG: usize = 64 * 1024;

/// Offset of the `>` that ends a tag. A `>` in quotes does not.
fn tag_end(text: &str) -> usize {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate().take(MAX_TAG).skip(1) {
        match (quote, byte) {
            (None, b'>') => return at,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    // Without a closing quote, the first `>` ends the tag.
    text.find('>').unwrap_or(text.len())
}

/// The text after the end tag of a skipped element.
fn skip_element<'t>(text: &'t str, name: &str) -> &'t str {
    let mut rest = text;
    while let Some(at) = rest.find("</") {
        rest = &rest[at + 2..];
        if rest.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name)) {
            return rest.split_once('>').map_or("", |(_, after)| after);
        }
    }
    ""
}

/// The value of an attribute.
fn attribute(attributes: &str, name: &str) -> Option<String> {
    let mut rest = attributes;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
        let end = rest.find(|c: char| c.is_whitespace() || c == '=' || c == '/').unwrap_or(rest.len());
        if end == 0 && !rest.starts_with('=') {
            return None;
        }
        let found = &rest[..end];
        rest = rest[end..].trim_start();
        let Some(value) = rest.strip_prefix('=') else { continue };
        let value = value.trim_start();
        let (value, after) = match value.chars().next() {
            Some(quote @ ('"' | '\'')) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
            Some(_) | None => value.split_at(value.find(char::is_whitespace).unwrap_or(value.len())),
        };
        if found.eq_ignore_ascii_case(name) {
            return Some(entity::decode(value).into_owned());
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests;
