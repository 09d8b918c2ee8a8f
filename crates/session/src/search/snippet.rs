//! Where the terms of a query are in a text: how close to each other, and the snippet with most of them.

use super::segment::{self, QueryTerm};
use std::collections::HashSet;

/// The size of a snippet in bytes.
const BYTES: usize = 240;
/// How much of it precedes the first term.
const BEFORE: usize = 40;
/// The end of a sentence counts as this many words.
const SENTENCE_WORDS: usize = 10;

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
        // The offset of a whole identifier precedes those of its words.
        if offset > last {
            word += if ends_sentence(&text[last..offset]) { SENTENCE_WORDS } else { 1 };
            last = offset;
        }
        let matches = |query: &QueryTerm| {
            if query.is_prefix { term.starts_with(&query.text) } else { term == query.text }
        };
        found.extend(terms.iter().position(matches).map(|term| TermOccurrence { offset, word, term }));
    });
    found
}

/// Whether a sentence or a paragraph ends in a text. The point in `main.rs` ends none.
fn ends_sentence(text: &str) -> bool {
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        let ends = match char {
            '。' | '！' | '？' | '；' => true,
            '.' | '!' | '?' | ';' => chars.peek().is_some_and(|next| next.is_whitespace()),
            '\n' => chars.peek() == Some(&'\n'),
            _ => false,
        };
        if ends {
            return true;
        }
    }
    false
}

/// How close to each other the words of a query are in a text, from 0 to 1. It is 1 if the text has all of their terms with at most
/// three words between them, and 0 for one word: a text that is about the words has them in one sentence.
#[expect(clippy::cast_precision_loss, reason = "counts of words are far below 2^52")]
pub(crate) fn nearness(text: &str, terms: &[QueryTerm]) -> f64 {
    let occurrences = occurrences(text, terms);
    let words: HashSet<usize> = terms.iter().map(|term| term.word).collect();
    let present: HashSet<usize> = occurrences.iter().map(|occurrence| terms[occurrence.term].word).collect();
    if present.len() < 2 {
        return 0.0;
    }
    let shortest = shortest_window(&occurrences, terms, present.len());
    let near = ((present.len() + 3) as f64 / shortest as f64).min(1.0).powi(2);
    // A word with some of its terms is present in part.
    let found: HashSet<usize> = occurrences.iter().map(|occurrence| occurrence.term).collect();
    let part = |word: usize| {
        let of_word = || (0..terms.len()).filter(|term| terms[*term].word == word);
        of_word().filter(|term| found.contains(term)).count() as f64 / of_word().count() as f64
    };
    let covered: f64 = words.iter().map(|word| part(*word)).sum();
    near * ((covered - 1.0) / (words.len() - 1) as f64).max(0.0)
}

/// The length in words of the shortest part of the text with `distinct` different words of the query.
fn shortest_window(occurrences: &[TermOccurrence], terms: &[QueryTerm], distinct: usize) -> usize {
    let mut counts = vec![0_usize; terms.iter().map(|term| term.word + 1).max().unwrap_or(0)];
    let (mut within, mut first, mut shortest) = (0_usize, 0_usize, usize::MAX);
    for occurrence in occurrences {
        let word = terms[occurrence.term].word;
        counts[word] += 1;
        within += usize::from(counts[word] == 1);
        while within == distinct {
            shortest = shortest.min(occurrence.word - occurrences[first].word + 1);
            let left = terms[occurrences[first].term].word;
            counts[left] -= 1;
            within -= usize::from(counts[left] == 0);
            first += 1;
        }
    }
    shortest
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
        while offset.saturating_sub(occurrences[first].offset) > BYTES - BEFORE - 20 {
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
    fn the_end_of_a_sentence_separates() {
        let near = |text: &str, query: &str| nearness(text, &segment::query_terms(query));
        for (text, query) in [
            ("let port = 1; The gateway restarts", "gateway port"),
            ("Read the code. The garage is noisy", "garage code"),
            ("车库很吵。密码", "车库 密码"),
            ("garage\n\ncode", "garage code"),
        ] {
            assert!(near(text, query) < 0.3, "{text}");
        }
        for text in ["the port of gateway.rs", "const gatewayPort: u16 = 1", "the port\nof the gateway"] {
            assert!((near(text, "gateway port") - 1.0).abs() < 1e-9, "{text}");
        }
    }

    #[test]
    fn words_that_are_absent_lower_the_nearness() {
        let near = |text: &str| nearness(text, &segment::query_terms("車庫 暗証番号"));
        assert!((near("車庫の暗証番号") - 1.0).abs() < 1e-9);
        assert!(near("金庫の暗証番号").abs() < 1e-9, "one of two words");
        let repeated = nearness("locker code", &segment::query_terms("locker locker locker code"));
        assert!((repeated - 1.0).abs() < 1e-9);
        assert!(near("車庫の電話番号") > 0.1 && near("車庫の電話番号") < 0.5);
    }

    #[test]
    fn a_long_identifier_is_located_at_its_start() {
        let identifier = format!("user_{}_port", "x".repeat(300));
        assert!(of(&format!("before {identifier} after"), &identifier).contains("user_xxx"));
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
