//! Names of elements, roles and classes, and what they say about the text in them.

use super::dom::{Dom, NodeId};

/// Elements that are never text.
pub(super) const NOT_TEXT: [&str; 24] = [
    "script",
    "style",
    "noscript",
    "template",
    "svg",
    "iframe",
    "object",
    "embed",
    "canvas",
    "audio",
    "video",
    "head",
    "select",
    "option",
    "datalist",
    "button",
    "input",
    "textarea",
    "dialog",
    "annotation",
    "annotation-xml",
    "map",
    "area",
    "noembed",
];
pub(super) const CHROME_ROLES: [&str; 14] = [
    "navigation",
    "banner",
    "contentinfo",
    "complementary",
    "search",
    "dialog",
    "alertdialog",
    "menu",
    "menubar",
    "tablist",
    "toolbar",
    "directory",
    "form",
    "button",
];
/// Words of classes and ids that name page chrome.
pub(super) const CHROME_WORDS: [&str; 62] = [
    "nav",
    "navbar",
    "navigation",
    "menu",
    "menus",
    "submenu",
    "sidebar",
    "breadcrumb",
    "breadcrumbs",
    "footer",
    "cookie",
    "cookies",
    "consent",
    "gdpr",
    "banner",
    "share",
    "sharing",
    "sharebar",
    "sharedaddy",
    "social",
    "related",
    "recommended",
    "recommendations",
    "recirc",
    "newsletter",
    "subscribe",
    "subscription",
    "signup",
    "promo",
    "promotion",
    "ad",
    "ads",
    "advert",
    "advertisement",
    "adsense",
    "sponsor",
    "sponsored",
    "popup",
    "modal",
    "overlay",
    "skip",
    "skiplink",
    "pagination",
    "pager",
    "paging",
    "toolbar",
    "masthead",
    "login",
    "signin",
    "outbrain",
    "taboola",
    "disqus",
    "trending",
    "popular",
    "tags",
    "taglist",
    "rail",
    "paywall",
    "offscreen",
    "byline-share",
    "dropdown",
    "jumplinks",
];
/// Words that keep an element although it also has one of the above.
pub(super) const CONTENT_WORDS: [&str; 5] = ["article", "content", "main", "story", "post"];
pub(super) fn is_inline(name: &str) -> bool {
    matches!(
        name,
        "a" | "abbr"
            | "acronym"
            | "b"
            | "bdi"
            | "bdo"
            | "big"
            | "cite"
            | "code"
            | "data"
            | "del"
            | "dfn"
            | "em"
            | "font"
            | "i"
            | "ins"
            | "kbd"
            | "label"
            | "mark"
            | "q"
            | "rp"
            | "rt"
            | "ruby"
            | "s"
            | "samp"
            | "small"
            | "span"
            | "strike"
            | "strong"
            | "sub"
            | "sup"
            | "time"
            | "tt"
            | "u"
            | "var"
            | "wbr"
            | "math"
            | "mi"
            | "mo"
            | "mn"
            | "mrow"
            | "picture"
    )
}

/// The words of class and id, in lower case.
pub(super) fn class_words(dom: &Dom, node: NodeId) -> Vec<String> {
    let mut words = Vec::new();
    for attribute in ["class", "id"] {
        let text = dom.attribute(node, attribute).unwrap_or_default();
        let mut word = String::new();
        let mut was_lower = false;
        for c in text.chars().take(500).chain([' ']) {
            let ends = !c.is_alphanumeric() || (was_lower && c.is_uppercase());
            if ends && !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            word.extend(c.is_alphanumeric().then(|| c.to_ascii_lowercase()));
            was_lower = c.is_lowercase();
        }
    }
    words
}
