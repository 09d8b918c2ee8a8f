//! Which parts of a page are its content: navigation, footers, banners and hidden text are left out, and the element that holds
//! most of the remaining text is the root.

use super::{
    dom::{DOCUMENT, Dom, NodeData, NodeId},
    hidden::{HidingRules, background, is_hidden},
    names::{CHROME_ROLES, CHROME_WORDS, CONTENT_WORDS, NOT_TEXT, class_words, is_inline},
};

/// Elements that a search for the root does not enter.
const LEAVES: [&str; 14] =
    ["p", "ul", "ol", "dl", "pre", "blockquote", "h1", "h2", "h3", "tr", "figure", "a", "span", "li"];

/// Figures about the text below a node.
#[derive(Debug, Clone, Copy, Default)]
struct TextStats {
    /// Characters without white space.
    length: usize,
    /// Those inside links.
    linked: usize,
    links: usize,
    /// Characters of running text: of elements with text of their own that is not mostly links.
    prose: usize,
}

/// The content of a page.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) root: NodeId,
    /// Per node: it and everything below it is left out.
    pub(super) skipped: Vec<bool>,
    /// Characters of hidden text that were left out.
    pub(super) hidden: usize,
}

/// Selects the content of a page.
pub(super) fn select(dom: &Dom) -> Content {
    let order = document_order(dom);
    let mut selection = Selection {
        dom,
        order,
        content: Content { root: DOCUMENT, skipped: vec![false; dom.nodes.len()], hidden: 0 },
        stats: Vec::new(),
    };
    selection.skip_hidden();
    selection.measure();
    let visible = selection.stats[DOCUMENT];
    let hidden_alone = selection.content.skipped.clone();
    selection.skip_chrome(visible);
    selection.measure();
    selection.content.root = selection.find_root();
    selection.skip_link_lists();
    selection.measure();
    if selection.stats[selection.content.root].length == 0 {
        // A page that is nothing but navigation: its links are its content.
        (selection.content.skipped, selection.content.root) = (hidden_alone, DOCUMENT);
    }
    selection.content
}

/// All nodes, parents before children.
fn document_order(dom: &Dom) -> Vec<NodeId> {
    let (mut order, mut open) = (Vec::with_capacity(dom.nodes.len()), vec![DOCUMENT]);
    while let Some(node) = open.pop() {
        order.push(node);
        open.extend(dom.nodes[node].children.iter().rev());
    }
    order
}

struct Selection<'a> {
    dom: &'a Dom,
    order: Vec<NodeId>,
    content: Content,
    stats: Vec<TextStats>,
}

impl Selection<'_> {
    /// Marks elements that are not text or not shown, and counts the hidden text.
    fn skip_hidden(&mut self) {
        let rules = HidingRules::of(self.dom);
        let mut hidden = vec![false; self.dom.nodes.len()];
        let mut backgrounds: Vec<Option<String>> = vec![None; self.dom.nodes.len()];
        for &node in &self.order {
            let parent = self.dom.nodes[node].parent.unwrap_or(DOCUMENT);
            if self.content.skipped[parent] {
                (self.content.skipped[node], hidden[node]) = (true, hidden[parent]);
            }
            let name = self.dom.name(node);
            if let NodeData::Text(text) = &self.dom.nodes[node].data
                && hidden[parent]
            {
                self.content.hidden += length(text);
            }
            if name.is_empty() || self.content.skipped[node] && !hidden[node] {
                continue;
            }
            if NOT_TEXT.contains(&name) {
                (self.content.skipped[node], hidden[node]) = (true, false);
                continue;
            }
            let inherited = backgrounds[parent].clone();
            if !matches!(name, "html" | "body") && is_hidden(self.dom, node, &rules, inherited.as_deref()) {
                (self.content.skipped[node], hidden[node]) = (true, true);
            }
            backgrounds[node] = background(self.dom, node).or(inherited);
        }
    }

    /// Computes the figures of all nodes that are not skipped.
    fn measure(&mut self) {
        let dom = self.dom;
        let mut stats = vec![TextStats::default(); dom.nodes.len()];
        let mut own_text = vec![0_usize; dom.nodes.len()];
        for &node in self.order.iter().rev() {
            if self.content.skipped[node] {
                continue;
            }
            let parent = dom.nodes[node].parent.unwrap_or(DOCUMENT);
            let name = dom.name(node);
            if let NodeData::Text(text) = &dom.nodes[node].data {
                stats[node].length = length(text);
                own_text[parent] += stats[node].length;
            }
            let mut here = stats[node];
            if name == "a" {
                (here.linked, here.links) = (here.length, here.links + 1);
            } else if is_inline(name) {
                own_text[parent] += own_text[node];
            } else if own_text[node] >= 20 && here.linked * 2 < here.length {
                // Nested prose was counted by the children.
                here.prose += own_text[node];
            }
            stats[node] = here;
            if node != DOCUMENT {
                let above = &mut stats[parent];
                above.length += here.length;
                above.linked += here.linked;
                above.links += here.links;
                above.prose += here.prose;
            }
        }
        self.stats = stats;
    }

    fn skip_chrome(&mut self, visible: TextStats) {
        for at in 0..self.order.len() {
            let node = self.order[at];
            let parent = self.dom.nodes[node].parent.unwrap_or(DOCUMENT);
            let is_skipped = self.content.skipped[parent] || self.content.skipped[node];
            self.content.skipped[node] = is_skipped || self.is_chrome(node, visible);
        }
    }

    fn is_chrome(&self, node: NodeId, visible: TextStats) -> bool {
        let name = self.dom.name(node);
        // The names of classes are hints only: what holds a third of the prose is content.
        let here = self.stats[node];
        let is_large = here.prose * 3 > visible.prose && here.prose > 200;
        if name.is_empty()
            || matches!(name, "html" | "body" | "main" | "article" | "pre" | "code")
            || is_large
        {
            return false;
        }
        let is_linked = here.linked * 3 > here.length;
        match name {
            "nav" | "menu" => return true,
            "footer" | "header" => {
                return !self.has_ancestor(node, |above| self.dom.name(above) == "blockquote")
                    && (is_linked || !self.is_in_content(node));
            }
            "aside" => return !self.is_in_content(node) || is_linked,
            _ => {}
        }
        if self.dom.attribute(node, "role").is_some_and(|role| CHROME_ROLES.contains(&role)) {
            return true;
        }
        let words = class_words(self.dom, node);
        let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
        let is_content = has(&CONTENT_WORDS) && !is_linked && here.prose > 100;
        has(&CHROME_WORDS) && !is_content
    }

    fn has_ancestor(&self, node: NodeId, matches: impl Fn(NodeId) -> bool) -> bool {
        let mut above = self.dom.nodes[node].parent;
        while let Some(node) = above {
            if matches(node) {
                return true;
            }
            above = self.dom.nodes[node].parent;
        }
        false
    }

    fn is_in_content(&self, node: NodeId) -> bool {
        self.has_ancestor(node, |above| {
            matches!(self.dom.name(above), "article" | "main")
                || self.dom.attribute(above, "role") == Some("main")
        })
    }

    /// The smallest element that holds nearly all prose.
    fn find_root(&self) -> NodeId {
        let mut root = DOCUMENT;
        // What the root of the search holds: the page, or its `main` or `article`.
        let mut whole = self.stats[DOCUMENT].prose;
        if whole < 140 {
            return root;
        }
        loop {
            let children = self.dom.nodes[root].children.iter().copied();
            let children = children
                .filter(|&node| !self.content.skipped[node] && !LEAVES.contains(&self.dom.name(node)));
            let Some(best) = children.max_by_key(|&node| self.stats[node].prose) else { return root };
            let is_main = self.dom.name(best) == "main" || self.dom.attribute(best, "role") == Some("main");
            let needed = match self.dom.name(best) {
                "html" | "body" => 0,
                _ if is_main => 40,
                "article" => 60,
                "table" | "tbody" | "td" => 90,
                _ => 80,
            };
            if self.stats[best].prose * 100 < whole * needed {
                return root;
            }
            root = best;
            if is_main || self.dom.name(best) == "article" {
                whole = self.stats[best].prose;
            }
        }
    }

    /// Marks lists and blocks of links, unless the page is one.
    fn skip_link_lists(&mut self) {
        let root = self.stats[self.content.root];
        if root.prose < 300 || root.prose * 4 < root.length {
            return;
        }
        for at in 0..self.order.len() {
            let node = self.order[at];
            let here = self.stats[node];
            let is_list = matches!(
                self.dom.name(node),
                "ul" | "ol" | "div" | "section" | "dl" | "table" | "p" | "form"
            );
            if is_list
                && node != self.content.root
                && here.links >= 3
                && here.linked * 100 > here.length * 65
                && here.prose < 140
            {
                self.content.skipped[node] = true;
            }
        }
    }
}

/// Number of characters without white space.
fn length(text: &str) -> usize {
    text.chars().filter(|c| !c.is_whitespace()).count()
}
