//! Snippets: the part of a text that has the most terms of a query.

use super::segment::{self, QueryTerm};

/// The size of a snippet in bytes.
const BYTES: usize = 240;
/// How much of it precedes the first term.
const BEFORE: usize = 40;

/// The part of `text` with the most different terms, on one line.
pub(crate) fn snippet(text: &str, terms: &[QueryTerm]) -> String {
    // Offset and index of each occurrence of a term.
    let mut occurrences: Vec<(usize, usize)> = Vec::new();
    segment::for_each_term(text, |term, offset| {
        let matches = |query: &QueryTerm| {
            if query.is_prefix { term.starts_with(&query.text) } else { term == query.text }
        };
        occurrences.extend(terms.iter().position(matches).map(|index| (offset, index)));
    });
    occurrences.sort_unstable();
    let start = best_start(&occurrences, terms.len()).saturating_sub(BEFORE);
    let start = text.ceil_char_boundary(start);
    // Begins with a whole word.
    let start = match text[..start].chars().next_back() {
        Some(before) if before.is_alphanumeric() => {
            let near = &text[start..text.floor_char_boundary((start + BEFORE / 2).min(text.len()))];
            start + near.find(char::is_whitespace).unwrap_or(0)
        }
        Some(_) | None => start,
    };
    let end = text.floor_char_boundary((start + BYTES).min(text.len()));
    let words: Vec<&str> = text[start..end].split_whitespace().collect();
    let (before, after) = (if start > 0 { "… " } else { "" }, if end < text.len() { " …" } else { "" });
    format!("{before}{}{after}", words.join(" "))
}

/// The offset from which a snippet has the most different terms.
fn best_start(occurrences: &[(usize, usize)], terms: usize) -> usize {
    let mut counts = vec![0_usize; terms];
    let (mut distinct, mut first) = (0_usize, 0_usize);
    let mut best = (0_usize, 0_usize);
    for &(offset, term) in occurrences {
        counts[term] += 1;
        distinct += usize::from(counts[term] == 1);
        while offset - occurrences[first].0 > BYTES - BEFORE - 20 {
            let left = occurrences[first].1;
            counts[left] -= 1;
            distinct -= usize::from(counts[left] == 0);
            first += 1;
        }
        if distinct > best.0 {
            best = (distinct, occurrences[first].0);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, query: &str) -> String {
        snippet(text, &segment::query_terms(query))
    }

    #[test]
    fn a_snippet_shows_the_terms_with_text_around_them() {
        let text = format!(
            "{}\nthe locker code\nis 4821, she said. {}",
            "filler words ".repeat(50),
            "more ".repeat(100)
        );
        let snippet = of(&text, "locker code");
        assert!(snippet.starts_with("… ") && snippet.ends_with(" …"), "{snippet}");
        assert!(snippet.contains("the locker code is 4821, she said."), "{snippet}");
    }

    #[test]
    fn a_short_text_is_shown_whole() {
        assert_eq!(of("我的猫 叫小白", "猫"), "我的猫 叫小白");
        assert_eq!(of("no match here", "absent"), "no match here");
        assert_eq!(of("", "absent"), "");
    }

    #[test]
    fn characters_are_never_cut() {
        let text = "日本語の文章がここに続きます。".repeat(60);
        assert!(of(&text, "文章").contains("文章"));
    }
}
