//! The tree of a page, in one vector: what `html5ever` builds, with limits on depth and size.
//!
//! **Invariant.** Time and memory are proportional to the length of the page, whatever is in it: elements below [`MAX_DEPTH`] are
//! flattened, the tree ends at [`MAX_NODES`], and a tag that does not end is ended.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
};

use html5ever::{
    Attribute, LocalName, Namespace, QualName, TokenizerResult,
    interface::{ElemName, ElementFlags, NodeOrText, QuirksMode, TreeSink},
    local_name, ns,
    tendril::StrTendril,
    tokenizer::{BufferQueue, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts},
    tree_builder::{TreeBuilder, TreeBuilderOpts},
};

/// Browsers nest elements 512 levels deep.
const MAX_DEPTH: u32 = 256;
const MAX_NODES: usize = 400_000;
/// The page is parsed in pieces of this many bytes.
const PIECE: usize = 8 * 1024;

/// The index of a node.
pub(super) type NodeId = usize;
/// The root of the tree.
pub(super) const DOCUMENT: NodeId = 0;

/// A node of the tree.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) parent: Option<NodeId>,
    pub(super) children: Vec<NodeId>,
    pub(super) data: NodeData,
    depth: u32,
}

/// The content of a node.
#[derive(Debug)]
pub(super) enum NodeData {
    /// The document, a comment or the content of a template.
    Other,
    Text(StrTendril),
    Element {
        name: QualName,
        attributes: Vec<Attribute>,
    },
}

/// A parsed page.
#[derive(Debug)]
pub(super) struct Dom {
    pub(super) nodes: Vec<Node>,
    /// Whether the page has more nodes than the tree.
    pub(super) is_cut: bool,
}

impl Dom {
    /// Parses a page. Every text is a page, however malformed.
    pub(super) fn parse(html: &str) -> Self {
        let sink = DomSink::default();
        sink.add(NodeData::Other);
        let options = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
        let limiter = Limiter { builder: TreeBuilder::new(sink, options), has_token: Cell::new(false) };
        let tokenizer = Tokenizer::new(limiter, TokenizerOpts::default());
        let is_cut = feed(&tokenizer, html);
        tokenizer.end();
        Self { nodes: tokenizer.sink.builder.sink.nodes.into_inner(), is_cut }
    }

    /// The local name of an HTML element, or an empty string for other nodes.
    pub(super) fn name(&self, node: NodeId) -> &str {
        match &self.nodes[node].data {
            NodeData::Element { name, .. } => &name.local,
            NodeData::Other | NodeData::Text(_) => "",
        }
    }

    pub(super) fn attribute(&self, node: NodeId, wanted: &str) -> Option<&str> {
        let NodeData::Element { attributes, .. } = &self.nodes[node].data else { return None };
        attributes
            .iter()
            .find(|attribute| &*attribute.name.local == wanted)
            .map(|attribute| &*attribute.value)
    }
}

/// Parses the page piece by piece. Returns whether it stopped at the maximum of nodes.
fn feed(tokenizer: &Tokenizer<Limiter>, html: &str) -> bool {
    let input = BufferQueue::default();
    let mut rest = html;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
        rest = after;
        tokenizer.sink.has_token.set(false);
        input.push_back(piece.into());
        // A result other than `Done` is a request to run a script.
        while !matches!(tokenizer.feed(&input), TokenizerResult::Done) {}
        // The tokenizer compares each attribute with all others of its tag. Within a quoted value, the sign is harmless.
        if !tokenizer.sink.has_token.get() {
            input.push_back(">".into());
        }
        if tokenizer.sink.builder.sink.nodes.borrow().len() >= MAX_NODES {
            return true;
        }
    }
    false
}

/// Stands between tokenizer and tree builder, and leaves out start tags that would nest too deeply: the tree builder searches
/// the stack of open elements for many tags.
struct Limiter {
    builder: TreeBuilder<NodeId, DomSink>,
    /// Whether a token came since this was cleared.
    has_token: Cell<bool>,
}

impl TokenSink for Limiter {
    type Handle = NodeId;

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<NodeId> {
        match &token {
            Token::ParseError(_) => return TokenSinkResult::Continue,
            Token::TagToken(tag) => {
                let sink = &self.builder.sink;
                let is_deep = sink.depth.get() > MAX_DEPTH || sink.nodes.borrow().len() >= MAX_NODES;
                if is_deep && tag.kind == TagKind::StartTag && !is_raw_text(&tag.name) {
                    self.has_token.set(true);
                    return TokenSinkResult::Continue;
                }
            }
            Token::DoctypeToken(_)
            | Token::CommentToken(_)
            | Token::CharacterTokens(_)
            | Token::NullCharacterToken
            | Token::EOFToken => {}
        }
        self.has_token.set(true);
        self.builder.process_token(token, line)
    }

    fn end(&self) {
        self.builder.end();
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        self.builder.adjusted_current_node_present_but_not_in_html_namespace()
    }
}

/// Elements whose content is not markup. They cannot nest.
fn is_raw_text(name: &LocalName) -> bool {
    let names = ["script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "plaintext"];
    names.contains(&&**name)
}

/// Collects the nodes that the tree builder creates.
#[derive(Default)]
struct DomSink {
    nodes: RefCell<Vec<Node>>,
    /// About the depth of the current node.
    depth: Cell<u32>,
}

/// The name of an element, as the tree builder asks for it.
#[derive(Debug)]
struct OwnedName(QualName);

impl ElemName for OwnedName {
    fn ns(&self) -> &Namespace {
        &self.0.ns
    }

    fn local_name(&self) -> &LocalName {
        &self.0.local
    }
}

impl DomSink {
    fn add(&self, data: NodeData) -> NodeId {
        let mut nodes = self.nodes.borrow_mut();
        nodes.push(Node { parent: None, children: Vec::new(), data, depth: 0 });
        nodes.len() - 1
    }

    fn detach(&self, child: NodeId) {
        let mut nodes = self.nodes.borrow_mut();
        if let Some(parent) = nodes[child].parent.take() {
            // The child is nearly always the last one.
            let at = nodes[parent].children.iter().rposition(|&node| node == child);
            at.map(|at| nodes[parent].children.remove(at));
        }
    }

    fn insert(&self, parent: NodeId, at: usize, child: NodeOrText<NodeId>) {
        let child = match child {
            NodeOrText::AppendNode(child) => child,
            NodeOrText::AppendText(text) => {
                if self.extends_text(parent, at, &text) {
                    return;
                }
                self.add(NodeData::Text(text))
            }
        };
        let mut nodes = self.nodes.borrow_mut();
        let depth = nodes[parent].depth + 1;
        (nodes[child].parent, nodes[child].depth) = (Some(parent), depth);
        nodes[parent].children.insert(at, child);
        let is_element = matches!(nodes[child].data, NodeData::Element { .. });
        self.depth.set(if is_element { depth } else { depth - 1 });
    }

    /// Appends to the text before the position, if there is one.
    fn extends_text(&self, parent: NodeId, at: usize, text: &StrTendril) -> bool {
        let mut nodes = self.nodes.borrow_mut();
        let Some(before) = at.checked_sub(1).map(|at| nodes[parent].children[at]) else { return false };
        let NodeData::Text(present) = &mut nodes[before].data else { return false };
        present.push_tendril(text);
        true
    }
}

impl TreeSink for DomSink {
    type Handle = NodeId;
    type Output = Self;
    type ElemName<'a> = OwnedName;

    fn finish(self) -> Self {
        self
    }

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> NodeId {
        DOCUMENT
    }

    fn elem_name<'a>(&'a self, target: &'a NodeId) -> OwnedName {
        match &self.nodes.borrow()[*target].data {
            NodeData::Element { name, .. } => OwnedName(name.clone()),
            NodeData::Other | NodeData::Text(_) => OwnedName(QualName::new(None, ns!(), local_name!(""))),
        }
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, _: ElementFlags) -> NodeId {
        self.add(NodeData::Element { name, attributes })
    }

    fn create_comment(&self, _: StrTendril) -> NodeId {
        self.add(NodeData::Other)
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> NodeId {
        self.add(NodeData::Other)
    }

    fn append(&self, parent: &NodeId, child: NodeOrText<NodeId>) {
        let at = self.nodes.borrow()[*parent].children.len();
        self.insert(*parent, at, child);
    }

    fn append_based_on_parent_node(&self, element: &NodeId, previous: &NodeId, child: NodeOrText<NodeId>) {
        let has_parent = self.nodes.borrow()[*element].parent.is_some();
        if has_parent {
            self.append_before_sibling(element, child);
        } else {
            self.append(previous, child);
        }
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    fn pop(&self, node: &NodeId) {
        self.depth.set(self.nodes.borrow()[*node].depth.saturating_sub(1));
    }

    /// Templates are not shown, so their content is a child like any other.
    fn get_template_contents(&self, target: &NodeId) -> NodeId {
        *target
    }

    fn same_node(&self, left: &NodeId, right: &NodeId) -> bool {
        left == right
    }

    fn set_quirks_mode(&self, _: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &NodeId, new: NodeOrText<NodeId>) {
        if let NodeOrText::AppendNode(node) = &new {
            self.detach(*node);
        }
        let parent = self.nodes.borrow()[*sibling].parent;
        let Some(parent) = parent else { return };
        // The sibling is a table under construction, so it is one of the last children.
        let at = self.nodes.borrow()[parent].children.iter().rposition(|node| node == sibling);
        self.insert(parent, at.unwrap_or(0), new);
    }

    fn add_attrs_if_missing(&self, target: &NodeId, added: Vec<Attribute>) {
        if let NodeData::Element { attributes, .. } = &mut self.nodes.borrow_mut()[*target].data {
            for attribute in added {
                if attributes.len() < 64 && !attributes.iter().any(|known| known.name == attribute.name) {
                    attributes.push(attribute);
                }
            }
        }
    }

    fn remove_from_parent(&self, target: &NodeId) {
        self.detach(*target);
    }

    fn reparent_children(&self, node: &NodeId, new_parent: &NodeId) {
        let mut nodes = self.nodes.borrow_mut();
        let children = std::mem::take(&mut nodes[*node].children);
        let depth = nodes[*new_parent].depth + 1;
        for &child in &children {
            (nodes[child].parent, nodes[child].depth) = (Some(*new_parent), depth);
        }
        nodes[*new_parent].children.extend(children);
    }
}
