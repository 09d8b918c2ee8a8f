//! Text that a page does not show to a person: by attribute, by inline style, or by a simple rule of its style sheets.

use std::collections::HashSet;

use super::dom::{DOCUMENT, Dom, NodeData, NodeId};

/// Classes and ids that the style sheets of a page hide, as `.class` and `#id`, or of one element as `p.class` and `p#id`.
#[derive(Debug, Default)]
pub(super) struct HidingRules(HashSet<String>);

impl HidingRules {
    /// Reads the `style` elements of a page. Only rules outside of `@` blocks count whose selector is a single class or id, with or
    /// without the name of an element.
    pub(super) fn of(dom: &Dom) -> Self {
        let mut rules = Self::default();
        let styles = (DOCUMENT..dom.nodes.len()).filter(|&node| dom.name(node) == "style");
        for text in styles.flat_map(|style| &dom.nodes[style].children) {
            if let NodeData::Text(sheet) = &dom.nodes[*text].data {
                rules.read_sheet(&without_comments(sheet));
            }
        }
        rules
    }

    fn read_sheet(&mut self, sheet: &str) {
        let mut rest = sheet;
        while let Some((selector, after)) = rest.split_once('{') {
            if selector.trim_start().starts_with('@') {
                rest = after_block(after);
                continue;
            }
            let (declarations, after) = after.split_once('}').unwrap_or((after, ""));
            if hides(declarations) {
                let selectors = selector.split(',').map(str::trim).filter(|selector| is_simple(selector));
                self.0.extend(selectors.map(str::to_owned));
            }
            rest = after;
        }
    }

    fn hide(&self, dom: &Dom, node: NodeId) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let tag = dom.name(node);
        let has =
            |selector: String| self.0.contains(&selector) || self.0.contains(&format!("{tag}{selector}"));
        let mut classes = dom.attribute(node, "class").unwrap_or_default().split_ascii_whitespace();
        classes.any(|class| has(format!(".{class}")))
            || dom.attribute(node, "id").is_some_and(|id| has(format!("#{id}")))
    }
}

fn without_comments(sheet: &str) -> String {
    let (mut kept, mut rest) = (String::with_capacity(sheet.len()), sheet);
    while let Some((before, comment)) = rest.split_once("/*") {
        kept.push_str(before);
        rest = comment.split_once("*/").map_or("", |(_, after)| after);
    }
    kept + rest
}

/// The text after the block whose `{` was read.
fn after_block(text: &str) -> &str {
    let mut depth = 1;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[at + 1..];
        }
    }
    ""
}

fn is_simple(selector: &str) -> bool {
    let (tag, name) = selector.split_once(['.', '#']).unwrap_or_default();
    tag.chars().all(|c| c.is_ascii_alphanumeric())
        && !name.is_empty()
        && name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
}

/// Whether an element hides its text. `background` is the nearest background colour that a style names.
pub(super) fn is_hidden(dom: &Dom, node: NodeId, rules: &HidingRules, background: Option<&str>) -> bool {
    let attribute = |name| dom.attribute(node, name);
    if attribute("hidden").is_some() || attribute("aria-hidden").is_some_and(|value| value == "true") {
        return true;
    }
    let style = attribute("style").unwrap_or_default();
    if hides(style) || rules.hide(dom, node) {
        return true;
    }
    let color = property(style, "color").or_else(|| attribute("color").map(normalize));
    let background = self::background(dom, node).or_else(|| background.map(str::to_owned));
    color.is_some_and(|color| {
        is_transparent(&color) || to_rgb(&color) == to_rgb(background.as_deref().unwrap_or("#fff"))
    })
}

/// The background colour that an element names.
pub(super) fn background(dom: &Dom, node: NodeId) -> Option<String> {
    let style = dom.attribute(node, "style").unwrap_or_default();
    let named = property(style, "background-color").or_else(|| property(style, "background"));
    named.or_else(|| dom.attribute(node, "bgcolor").map(normalize))
}

/// Whether declarations make text invisible.
fn hides(style: &str) -> bool {
    if style.is_empty() {
        return false;
    }
    let value = |name| property(style, name).unwrap_or_default();
    let length = |name| property(style, name).and_then(|value| to_pixels(&value));
    let is_tiny = |name| length(name).is_some_and(|length| (0.0..=1.0).contains(&length));
    let is_off_screen = |name| length(name).is_some_and(|length| length <= -400.0);
    let is_clipped = value("clip").starts_with("rect(0") || value("clip").starts_with("rect(1px");
    let clip_path = value("clip-path");
    value("display") == "none"
        || matches!(value("visibility").as_str(), "hidden" | "collapse")
        || length("opacity").is_some_and(|opacity| opacity <= 0.05)
        || is_tiny("font-size")
        || ["text-indent", "left", "top", "right", "bottom", "margin-left", "margin-top"]
            .into_iter()
            .any(is_off_screen)
        || ((is_tiny("width") || is_tiny("height") || is_tiny("max-height")) && value("overflow") == "hidden")
        || is_clipped
        || clip_path.starts_with("inset(50%")
        || clip_path.starts_with("inset(100%")
        || clip_path.starts_with("circle(0")
        || value("transform").contains("scale(0)")
}

/// The value of a property, in lower case and without white space.
fn property(style: &str, name: &str) -> Option<String> {
    let mut declarations = style.rsplit(';').filter_map(|declaration| declaration.split_once(':'));
    let found = declarations.find(|(key, _)| key.trim().eq_ignore_ascii_case(name));
    found.map(|(_, value)| normalize(value).trim_end_matches("!important").to_owned())
}

fn normalize(value: &str) -> String {
    value.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase()
}

/// A length, roughly in pixels.
fn to_pixels(value: &str) -> Option<f64> {
    let end = value.find(|c: char| !c.is_ascii_digit() && !"+-.".contains(c)).unwrap_or(value.len());
    let number: f64 = value[..end].parse().ok()?;
    let scale = match &value[end..] {
        "em" | "rem" => 16.0,
        "%" | "vw" | "vh" => 10.0,
        _ => 1.0,
    };
    Some(number * scale)
}

fn is_transparent(color: &str) -> bool {
    color == "transparent" || (color.starts_with("rgba(") && color.trim_end_matches(')').ends_with(",0"))
}

/// Red, green and blue of a colour. `None` never equals a colour, so an unknown one hides nothing.
fn to_rgb(color: &str) -> Option<[u8; 3]> {
    let named = match color {
        "white" => "#ffffff",
        "black" => "#000000",
        other => other,
    };
    if let Some(hex) = named.strip_prefix('#') {
        let digits: Vec<u8> =
            hex.chars().filter_map(|c| c.to_digit(16)).filter_map(|d| u8::try_from(d).ok()).collect();
        return match *digits.as_slice() {
            [red, green, blue] => Some([red * 17, green * 17, blue * 17]),
            [r0, r1, g0, g1, b0, b1] => Some([r0 * 16 + r1, g0 * 16 + g1, b0 * 16 + b1]),
            _ => None,
        };
    }
    let inner = named.strip_prefix("rgb(")?.strip_suffix(')')?;
    let mut parts = inner.split(',').map(str::parse::<u8>);
    Some([parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?])
}
