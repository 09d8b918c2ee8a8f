//! Where the terms of a query are in a text: how close to each other, and the snippet with most of them.

use super::segment::{self, QueryTerm};
use std::collections::HashSet;

/// The size of a snippet in bytes.
const BYTES: usize = 240;
/// How much of it precedes the first term.
const BEFORE: usize = 40;

/// An occurrence of a term of the query.
#[derive(Clone, Copy, Debug)]
struct TermOccurrence {
    offset: usize,
    /// The number of words before it.
    word: usize,
    /// The index of the term.
    term: usize,
}

fn occurrences(text: &str, terms: &[QueryTerm]) -> Vec<TermOccurrence> {
    let mut found = Vec::new();
    let (mut word, mut last) = (0, 0);
    segment::for_each_term(text, |term, offset| {
        word += usize::from(offset != last);
        last = offset;
        let matches = |query: &QueryTerm| {
            if query.is_prefix { term.starts_with(&query.text) } else { term == query.text }
        };
        found.extend(terms.iter().position(matches).map(|term| TermOccurrence { offset, word, term }));
    });
    found
}

/// How close to each other the terms are that a text has, from 0 to 1. It is 1 if at most three words are between them, and 0 for one
/// term: a text that is about the terms has them in one sentence.
#[expect(clippy::cast_precision_loss, reason = "counts of words are far below 2^52")]
pub(crate) fn nearness(text: &str, terms: &[QueryTerm]) -> f64 {
    let occurrences = occurrences(text, terms);
    let distinct = occurrences.iter().map(|occurrence| occurrence.term).collect::<HashSet<_>>().len();
    if distinct < 2 {
        return 0.0;
    }
    let mut counts = vec![0_usize; terms.len()];
    let (mut within, mut first, mut shortest) = (0_usize, 0_usize, usize::MAX);
    for occurrence in &occurrences {
        counts[occurrence.term] += 1;
        within += usize::from(counts[occurrence.term] == 1);
        while within == distinct {
            shortest = shortest.min(occurrence.word - occurrences[first].word + 1);
            let left = occurrences[first].term;
            counts[left] -= 1;
            within -= usize::from(counts[left] == 0);
            first += 1;
        }
    }
    ((distinct + 3) as f64 / shortest as f64).min(1.0).powi(2)
}

/// The part of `text` with the most different terms, on one line.
pub(crate) fn snippet(text: &str, terms: &[QueryTerm]) -> String {
    let occurrences = occurrences(text, terms);
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
fn best_start(occurrences: &[TermOccurrence], terms: usize) -> usize {
    let mut counts = vec![0_usize; terms];
    let (mut distinct, mut first) = (0_usize, 0_usize);
    let mut best = (0_usize, 0_usize);
    for &TermOccurrence { offset, term, .. } in occurrences {
        counts[term] += 1;
        distinct += usize::from(counts[term] == 1);
        while offset - occurrences[first].offset > BYTES - BEFORE - 20 {
            let left = occurrences[first].term;
            counts[left] -= 1;
            distinct -= usize::from(counts[left] == 0);
            first += 1;
        }
        if distinct > best.0 {
            best = (distinct, occurrences[first].offset);
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
    fn terms_in_one_sentence_are_near() {
        let near = |text: &str, query: &str| nearness(text, &segment::query_terms(query));
        for text in ["the locker code is 1", "the code of the locker is 1", "locker, he said, code"] {
            assert!((near(text, "locker code") - 1.0).abs() < 1e-9, "{text}");
        }
        let far = format!("locker {} code", "other ".repeat(20));
        assert!(near(&far, "locker code") < 0.3);
        assert!(near("a locker", "locker code").abs() < 1e-9);
        assert!((near("我的储物柜密码是", "储物柜密码") - 1.0).abs() < 1e-9);
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
