//! Conversion of the content of a page to Markdown: headings, lists, tables, code, and links as numbers.

use std::collections::HashMap;

use reqwest::Url;

use super::{
    content::Content,
    dom::{Dom, NodeData, NodeId},
    links::{LinkList, LinkMark},
    names::is_inline,
};

/// Renders the content of a page.
pub(super) fn render(dom: &Dom, content: &Content, base: &Url) -> (String, LinkList) {
    let mut renderer = Renderer {
        dom,
        content,
        base,
        out: String::new(),
        links: LinkList::default(),
        known: HashMap::new(),
        lists: Vec::new(),
        quotes: 0,
        code: None,
        rows: Vec::new(),
        has_space: false,
    };
    renderer.walk(content.root);
    renderer.break_line(0);
    (renderer.out, renderer.links)
}

/// A step of the walk: recursion could overflow the stack.
enum Visit {
    Enter(NodeId),
    Leave(NodeId),
}

/// An open list and the number of its next item.
struct OpenList {
    next: Option<usize>,
}

struct Renderer<'a> {
    dom: &'a Dom,
    content: &'a Content,
    base: &'a Url,
    out: String,
    links: LinkList,
    /// Numbers of known addresses.
    known: HashMap<String, usize>,
    lists: Vec<OpenList>,
    quotes: usize,
    /// The open `pre`, and where its text begins.
    code: Option<(NodeId, usize)>,
    /// Per open table: the number of its current row, or `None` for a layout table.
    rows: Vec<Option<usize>>,
    /// Whether white space is pending before the next word.
    has_space: bool,
}

impl Renderer<'_> {
    fn walk(&mut self, root: NodeId) {
        let mut visits = vec![Visit::Enter(root)];
        while let Some(visit) = visits.pop() {
            match visit {
                Visit::Enter(node) if self.content.skipped[node] => {}
                Visit::Enter(node) => {
                    self.enter(node);
                    visits.push(Visit::Leave(node));
                    visits
                        .extend(self.dom.nodes[node].children.iter().rev().map(|&child| Visit::Enter(child)));
                }
                Visit::Leave(node) => self.leave(node),
            }
        }
    }

    fn enter(&mut self, node: NodeId) {
        if let NodeData::Text(text) = &self.dom.nodes[node].data {
            self.push_text(text);
            return;
        }
        let name = self.dom.name(node);
        match name {
            "pre" => self.open_code(node),
            _ if self.code.is_some() => {}
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                self.break_line(2);
                self.push_raw(&"######"[..usize::from(name.as_bytes()[1] - b'0')]);
                self.has_space = true;
            }
            "ul" | "ol" | "menu" => {
                self.break_line(if self.lists.is_empty() { 2 } else { 1 });
                let start = self.dom.attribute(node, "start").and_then(|start| start.parse().ok());
                self.lists.push(OpenList { next: (name == "ol").then(|| start.unwrap_or(1)) });
            }
            "li" => self.open_item(),
            "blockquote" => {
                self.break_line(2);
                self.quotes += 1;
            }
            "table" => {
                self.break_line(2);
                self.rows.push(self.is_data_table(node).then_some(0));
            }
            "td" | "th" if self.in_data_table() => self.open_cell(),
            "br" if self.in_data_table() => self.has_space = true,
            "tr" | "td" | "th" | "br" => self.break_line(1),
            "img" => self.push_image(node),
            "code" | "kbd" | "samp" | "tt" => self.push_raw("`"),
            name if is_block(name) && !self.in_data_table() => self.break_line(2),
            name if is_block(name) => self.has_space = true,
            _ => {}
        }
    }

    fn leave(&mut self, node: NodeId) {
        let name = self.dom.name(node);
        match name {
            "pre" => self.close_code(node),
            "a" => self.close_link(node),
            _ if self.code.is_some() => {}
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => self.break_line(2),
            "ul" | "ol" | "menu" => {
                self.lists.pop();
                self.break_line(if self.lists.is_empty() { 2 } else { 1 });
            }
            "li" => self.break_line(1),
            "blockquote" => {
                self.break_line(2);
                self.quotes = self.quotes.saturating_sub(1);
            }
            "table" => {
                self.rows.pop();
                self.break_line(2);
            }
            "tr" => self.close_row(node),
            "td" | "th" if self.in_data_table() => self.has_space = true,
            "code" | "kbd" | "samp" | "tt" if self.out.ends_with('`') && self.is_empty(node) => {
                self.out.pop();
            }
            "code" | "kbd" | "samp" | "tt" => self.out.push('`'),
            name if is_block(name) && !self.in_data_table() => self.break_line(2),
            name if is_block(name) => self.has_space = true,
            _ => {}
        }
    }

    fn in_data_table(&self) -> bool {
        self.rows.last().is_some_and(Option::is_some)
    }

    fn push_text(&mut self, text: &str) {
        if self.code.is_some() {
            self.out.push_str(text);
            return;
        }
        for c in text.chars() {
            if c.is_whitespace() {
                self.has_space = true;
                continue;
            }
            self.flush_space();
            // A pipe would end the cell.
            if c == '|' && self.in_data_table() {
                self.out.push('\\');
            }
            self.out.push(c);
        }
    }

    /// Writes the pending space, or the prefix of a new line.
    fn flush_space(&mut self) {
        if self.out.is_empty() || self.out.ends_with('\n') {
            for _ in 0..self.quotes {
                self.out.push_str("> ");
            }
        } else if self.has_space && !self.out.ends_with(' ') {
            self.out.push(' ');
        }
        self.has_space = false;
    }

    fn push_raw(&mut self, text: &str) {
        self.flush_space();
        self.out.push_str(text);
    }

    /// Begins a new line, after an empty one if `breaks` is 2.
    fn break_line(&mut self, breaks: usize) {
        self.has_space = false;
        let end = self.out.trim_end_matches([' ', '\n']).len();
        let present = self.out[end..].matches('\n').count();
        self.out.truncate(end);
        if end > 0 {
            self.out.push_str(&"\n\n"[..breaks.max(present.min(2))]);
        }
    }

    fn open_item(&mut self) {
        self.break_line(1);
        self.flush_space();
        let indent = "  ".repeat(self.lists.len().saturating_sub(1).min(20));
        let mark = match self.lists.last_mut().and_then(|list| list.next.as_mut()) {
            Some(next) => {
                *next += 1;
                format!("{indent}{}.", *next - 1)
            }
            None => format!("{indent}-"),
        };
        self.out.push_str(&mark);
        self.out.push(' ');
    }

    fn open_code(&mut self, node: NodeId) {
        if self.code.is_none() {
            self.break_line(2);
            self.out.push_str("```\n");
            self.code = Some((node, self.out.len()));
        }
    }

    fn close_code(&mut self, node: NodeId) {
        let Some((open, start)) = self.code.take() else { return };
        if open != node {
            self.code = Some((open, start));
            return;
        }
        let end = self.out.trim_end().len().max(start);
        self.out.truncate(end);
        // The fence is longer than any in the text.
        let fences = self.out[start..].split('\n').filter_map(|line| line.trim_start().strip_prefix("```"));
        let longest = fences.map(|rest| 3 + rest.len() - rest.trim_start_matches('`').len()).max();
        let more = longest.map_or(0, |longest| longest.min(20) - 2);
        self.out.insert_str(start - 1, &"`".repeat(more));
        self.out.extend([
            "
```",
            &"`".repeat(more),
            "
",
        ]);
        self.break_line(2);
    }

    fn is_empty(&self, node: NodeId) -> bool {
        self.dom.nodes[node].children.is_empty()
    }

    /// A table of data has at least two columns and no table or block structure inside.
    fn is_data_table(&self, table: NodeId) -> bool {
        let is_layout = matches!(self.dom.attribute(table, "role"), Some("presentation" | "none"));
        let (mut columns, mut rows, mut open) = (0, 0, vec![table]);
        while let Some(node) = open.pop() {
            let children = &self.dom.nodes[node].children;
            for &child in children {
                match self.dom.name(child) {
                    "table" | "h1" | "h2" | "article" | "section" | "ul" | "pre" => return false,
                    "tr" => rows += 1,
                    _ => {}
                }
            }
            let cells = children.iter().filter(|&&child| matches!(self.dom.name(child), "td" | "th")).count();
            columns = columns.max(cells);
            open.extend(children);
        }
        !is_layout && columns >= 2 && rows >= 2
    }

    fn open_cell(&mut self) {
        self.has_space = false;
        if !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push_str(if self.out.ends_with(' ') { "| " } else { " | " });
        } else {
            self.flush_space();
            self.out.push_str("| ");
        }
    }

    fn close_row(&mut self, row: NodeId) {
        self.has_space = false;
        let Some(Some(number)) = self.rows.last_mut() else {
            self.break_line(1);
            return;
        };
        let cells =
            self.dom.nodes[row].children.iter().filter(|&&cell| matches!(self.dom.name(cell), "td" | "th"));
        let columns = cells.count();
        if columns > 0 {
            *number += 1;
            let is_first = *number == 1;
            self.out.push_str(" |\n");
            if is_first {
                self.flush_space();
                self.out.push('|');
                self.out.push_str(&" --- |".repeat(columns.min(100)));
                self.out.push('\n');
            }
        }
    }

    fn push_image(&mut self, node: NodeId) {
        let alt = self.dom.attribute(node, "alt").map(str::trim).filter(|alt| !alt.is_empty());
        if let Some(alt) = alt {
            self.push_text(&format!(" [image: {alt}] "));
        }
    }

    fn close_link(&mut self, node: NodeId) {
        let href = self.dom.attribute(node, "href").map(str::trim).filter(|href| !href.starts_with('#'));
        let Some(url) = href.and_then(|href| self.base.join(href).ok()) else { return };
        let is_web = ["http", "https"].contains(&url.scheme());
        let is_here = url.fragment().is_some()
            && url.as_str().split('#').next() == self.base.as_str().split('#').next();
        if !is_web || is_here || self.out.is_empty() || self.out.ends_with('\n') {
            return;
        }
        let address = String::from(url);
        let next = self.links.addresses.len();
        let link = *self.known.entry(address.clone()).or_insert(next);
        if link == next {
            self.links.addresses.push(address);
        }
        let at = self.out.trim_end_matches(' ').len();
        // Two links to one address in a row are one.
        if self.links.marks.last() != Some(&LinkMark { at, link }) {
            self.links.marks.push(LinkMark { at, link });
        }
    }
}

fn is_block(name: &str) -> bool {
    !name.is_empty() && !is_inline(name) && !matches!(name, "img" | "br" | "tbody" | "thead" | "tfoot")
}
