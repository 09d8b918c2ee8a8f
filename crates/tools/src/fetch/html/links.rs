//! The links of a page: numbers in its text, and their addresses at its end, as far as they fit.

use reqwest::Url;

/// Addresses may take one part in this many of a page.
const SHARE: usize = 12;
/// A short page may have this many bytes of addresses.
const MIN_BYTES: usize = 120;
/// Longer addresses are not listed: they are of trackers and data.
const MAX_ADDRESS: usize = 300;

/// Where a link ends in the text, and which address it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkMark {
    pub(super) at: usize,
    pub(super) link: usize,
}

/// The links of a page in the order of their first use.
#[derive(Debug, Default)]
pub(super) struct LinkList {
    pub(super) addresses: Vec<String>,
    /// In ascending order of position, except that trimming may have moved the text before one.
    pub(super) marks: Vec<LinkMark>,
}

impl LinkList {
    /// The text with the numbers of the links and the list of addresses. Addresses on the site of the page are written without it.
    pub(super) fn append_to(&self, text: &str, base: &Url) -> String {
        let origin = base.origin().ascii_serialization();
        let listed: Vec<&str> = self.addresses.iter().map(|address| relative(address, &origin)).collect();
        let mut budget = (text.len() / SHARE).max(MIN_BYTES);
        let mut numbers: Vec<Option<usize>> = Vec::with_capacity(listed.len());
        let mut next = 1;
        for address in &listed {
            let cost = address.len() + 8;
            let fits = cost <= budget && address.len() <= MAX_ADDRESS;
            numbers.push(fits.then_some(next));
            (next, budget) = if fits { (next + 1, budget - cost) } else { (next, budget) };
        }
        let mut out = String::with_capacity(text.len() * 5 / 4);
        let mut from = 0;
        for mark in &self.marks {
            let (Some(number), true) =
                (numbers[mark.link], mark.at >= from && text.is_char_boundary(mark.at))
            else {
                continue;
            };
            out.push_str(&text[from..mark.at]);
            out.extend(["[", &number.to_string(), "]"]);
            from = mark.at;
        }
        out.push_str(text.get(from..).unwrap_or_default());
        if next > 1 {
            out.extend(["\n\nLinks (", &origin, "):\n"]);
            let lines = listed
                .iter()
                .zip(&numbers)
                .filter_map(|(address, number)| Some(format!("[{}] {address}", (*number)?)));
            out.push_str(&lines.collect::<Vec<_>>().join("\n"));
        }
        let omitted = listed.len() + 1 - next;
        if omitted > 0 {
            out.extend([
                "

(",
                &omitted.to_string(),
                " more links are not listed; raw: true shows all)",
            ]);
        }
        out
    }
}

fn relative<'a>(address: &'a str, origin: &str) -> &'a str {
    address.strip_prefix(origin).filter(|path| path.starts_with('/')).unwrap_or(address)
}
