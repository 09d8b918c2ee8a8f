//! Splits a message with several requests into clauses.

use crate::input_words::{InputWord, WordBreak};

/// Words that start a request.
const STARTERS: &str = "\
    what|which|when|where|who|whose|why|how|is|are|do|does|did|can|could|would|will|should|please|\
    tell|give|show|list|read|open|cat|print|display|view|find|search|grep|look|locate|calculate|\
    compute|evaluate|work|solve|add|subtract|multiply|divide|double|triple|half|count|check|get|fetch|\
    let|say|call|use|run|remember|my|i|also|see|now|summarize";

const CONJUNCTIONS: &str = "and|then|also|but|or|after";

pub(crate) fn split_clauses(words: &[InputWord]) -> Vec<&[InputWord]> {
    let mut clauses = Vec::new();
    let mut from = 0;
    for at in 1..=words.len() {
        if at == words.len() || starts_clause(words, from, at) {
            clauses.push(trim_conjunctions(&words[from..at]));
            from = at;
        }
    }
    clauses.retain(|clause| !clause.is_empty());
    clauses
}

fn starts_clause(words: &[InputWord], from: usize, at: usize) -> bool {
    let before = words[at - 1].break_after;
    if before == WordBreak::Sentence {
        return true;
    }
    let separated = before == WordBreak::Comma || is_conjunction(&words[at]);
    // The first word after the conjunctions decides.
    let next = words[at..].iter().position(|word| !is_conjunction(word)).map(|skip| &words[at + skip..]);
    let starts_request = next.is_some_and(|next| {
        next[0].is_any(STARTERS)
            || (next[0].is("the") && next.get(1).is_some_and(|word| word.is_any("time|date")))
    });
    separated && starts_request && at > from && !(is_conjunction(&words[at - 1]) && before == WordBreak::None)
}

fn is_conjunction(word: &InputWord) -> bool {
    !word.quoted && CONJUNCTIONS.split('|').any(|link| link == word.key)
}

fn trim_conjunctions(words: &[InputWord]) -> &[InputWord] {
    let start = words.iter().position(|word| !is_conjunction(word)).unwrap_or(words.len());
    &words[start..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input_words;

    fn clauses(text: &str) -> Vec<String> {
        split_clauses(&input_words::split_input(text)).into_iter().map(input_words::join_text).collect()
    }

    #[test]
    fn message_is_split_where_a_new_request_starts() {
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
