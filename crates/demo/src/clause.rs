//! One message may ask several things: this cuts it where a new request begins.

use crate::words::{Stop, Word};

/// Words that begin a request.
const STARTERS: &str = "\
    what|which|when|where|who|whose|why|how|is|are|do|does|did|can|could|would|will|should|please|\
    tell|give|show|list|read|open|cat|print|display|view|find|search|grep|look|locate|calculate|\
    compute|evaluate|work|solve|add|subtract|multiply|divide|double|triple|half|count|check|get|fetch|\
    let|say|call|use|run|remember|my|i|also|see|now|summarize";

const LINKS: &str = "and|then|also|but|or|after";

pub(crate) fn split(words: &[Word]) -> Vec<&[Word]> {
    let mut clauses = Vec::new();
    let mut from = 0;
    for at in 1..=words.len() {
        if at == words.len() || begins(words, from, at) {
            clauses.push(trim(&words[from..at]));
            from = at;
        }
    }
    clauses.retain(|clause| !clause.is_empty());
    clauses
}

fn begins(words: &[Word], from: usize, at: usize) -> bool {
    let before = words[at - 1].stop;
    if before == Stop::Sentence {
        return true;
    }
    let linked = before == Stop::Comma || is_link(&words[at]);
    // The first word after the links decides.
    let next = words[at..].iter().position(|word| !is_link(word)).map(|skip| &words[at + skip..]);
    let after_links = next.is_some_and(|next| {
        next[0].is_any(STARTERS)
            || (next[0].is("the") && next.get(1).is_some_and(|word| word.is_any("time|date")))
    });
    linked && after_links && at > from && !(is_link(&words[at - 1]) && before == Stop::None)
}

fn is_link(word: &Word) -> bool {
    !word.quoted && LINKS.split('|').any(|link| link == word.key)
}

fn trim(words: &[Word]) -> &[Word] {
    let start = words.iter().position(|word| !is_link(word)).unwrap_or(words.len());
    &words[start..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;

    fn clauses(text: &str) -> Vec<String> {
        split(&words::split(text)).into_iter().map(words::joined).collect()
    }

    #[test]
    fn a_message_is_cut_where_a_new_request_begins() {
        assert_eq!(clauses("What time is it, and what is 2+2?"), ["What time is it", "what is 2+2"]);
        assert_eq!(
            clauses("Hi! Read a.txt and b.txt then list files"),
            ["Hi", "Read a.txt and b.txt", "list files"]
        );
        assert_eq!(clauses("add 3 and 4"), ["add 3 and 4"]);
        assert_eq!(clauses("search for salt and pepper"), ["search for salt and pepper"]);
        assert_eq!(
            clauses("sum of 3, 4 and 5. Also the date"),
            ["sum of 3, 4 and 5".replace(',', ""), "the date".to_owned()]
        );
    }
}
