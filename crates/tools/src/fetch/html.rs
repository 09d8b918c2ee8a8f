//! Conversion of HTML to text: the main content of a page as Markdown, without navigation and hidden text.
//!
//! | module | contents |
//! |---|---|
//! | `dom` | the tree that `html5ever` builds, with limits |
//! | `hidden` | text that is not shown |
//! | `content` | what is content, and what is navigation and the like |
//! | `names` | names of elements and classes |
//! | `render` | Markdown |
//! | `links` | numbered links |

mod content;
mod dom;
mod hidden;
mod links;
mod names;
mod render;

use dom::{DOCUMENT, Dom, NodeData};
use reqwest::Url;

/// Hidden text below this number of characters is not reported: most pages have labels for screen readers.
const MIN_HIDDEN: usize = 20;

/// The text of a page.
#[derive(Debug)]
pub struct PageText {
    pub text: String,
    /// Number of characters of hidden text that were left out.
    pub hidden: usize,
    /// Whether the page has more elements than were read.
    pub is_cut: bool,
}

/// Converts a page to text. Links are resolved against `url`, or the `base` of the page.
pub fn to_text(html: &str, url: &Url) -> PageText {
    let dom = Dom::parse(html);
    let content = content::select(&dom);
    let base = base(&dom, url);
    let (body, links) = render::render(&dom, &content, &base);
    let mut text = links.append_to(body.trim_end(), &base);
    if let Some(title) = title(&dom).filter(|title| !starts_with_title(&body, title)) {
        let gap = if text.is_empty() { "" } else { "\n\n" };
        text = format!("{title}{gap}{text}");
    }
    let hidden = if content.hidden < MIN_HIDDEN { 0 } else { content.hidden };
    PageText { text, hidden, is_cut: dom.is_cut }
}

/// Whether the first heading is the title already.
fn starts_with_title(body: &str, title: &str) -> bool {
    let first = body.lines().next().unwrap_or_default();
    let heading = first.trim_start_matches('#').trim();
    !heading.is_empty() && first.starts_with('#') && title.starts_with(heading)
}

fn base(dom: &Dom, url: &Url) -> Url {
    let base = (DOCUMENT..dom.nodes.len()).find(|&node| dom.name(node) == "base");
    let href = base.and_then(|base| dom.attribute(base, "href"));
    href.and_then(|href| url.join(href).ok()).unwrap_or_else(|| url.clone())
}

fn title(dom: &Dom) -> Option<String> {
    let mut titles = (DOCUMENT..dom.nodes.len()).filter(|&node| dom.name(node) == "title");
    let title =
        titles.find(|&node| dom.nodes[node].parent.is_some_and(|parent| dom.name(parent) == "head"))?;
    let texts = dom.nodes[title].children.iter().filter_map(|&child| match &dom.nodes[child].data {
        NodeData::Text(text) => Some(&**text),
        NodeData::Other | NodeData::Element { .. } => None,
    });
    let text = texts.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ");
    Some(text).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests;
