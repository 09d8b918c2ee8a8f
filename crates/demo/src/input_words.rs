//! The message as words: quoted text is one word, contractions are expanded, typing errors are tolerated.

/// One word of the message.
#[derive(Clone, Debug)]
pub(crate) struct InputWord {
    /// As typed, without surrounding punctuation.
    pub(crate) text: String,
    /// In lower case, with contractions expanded, for comparison with keywords.
    pub(crate) key: String,
    /// As typed, with all punctuation, for arithmetic. Empty for the second half of a contraction.
    pub(crate) raw: String,
    pub(crate) quoted: bool,
    pub(crate) break_after: WordBreak,
}

/// The punctuation after a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordBreak {
    None,
    Comma,
    Sentence,
}

impl InputWord {
    /// Whether this is the keyword, allowing one typing error. Short keywords have too many similar words, so they
    /// allow only swapped letters.
    pub(crate) fn is(&self, keyword: &str) -> bool {
        !self.quoted && (self.key == keyword || is_typo_of(&self.key, keyword))
    }

    /// Keywords are separated by `|`, here and below.
    pub(crate) fn is_any(&self, keywords: &str) -> bool {
        keywords.split('|').any(|keyword| self.is(keyword))
    }
}

/// Whether the words contain the phrase.
pub(crate) fn has_phrase(words: &[InputWord], phrase: &str) -> bool {
    find_phrase(words, phrase).is_some()
}

/// The index after the first occurrence of a phrase.
pub(crate) fn find_phrase(words: &[InputWord], phrase: &str) -> Option<usize> {
    let keys: Vec<&str> = phrase.split(' ').collect();
    let at =
        words.windows(keys.len()).position(|some| some.iter().zip(&keys).all(|(word, key)| word.is(key)));
    at.map(|at| at + keys.len())
}

pub(crate) fn has_any_phrase(words: &[InputWord], phrases: &str) -> bool {
    phrases.split('|').any(|phrase| has_phrase(words, phrase))
}

/// Whether the words start with one of the phrases.
pub(crate) fn starts_with_any(words: &[InputWord], phrases: &str) -> bool {
    phrases.split('|').any(|phrase| find_phrase(words, phrase) == Some(phrase.split(' ').count()))
}

pub(crate) fn join_text(words: &[InputWord]) -> String {
    words
        .iter()
        .filter(|word| !word.raw.is_empty())
        .map(|word| word.text.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

/// The maximum number of words; later requests in a message are ignored.
const MAX_WORDS: usize = 400;

pub(crate) fn split_input(text: &str) -> Vec<InputWord> {
    // A message that is one quotation is read without its quotes.
    let inner = text.trim().strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let text = inner.filter(|inner| inner.contains(' ') && !inner.contains('"')).unwrap_or(text);
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() && words.len() < MAX_WORDS {
        let (raw, quote, after) = next_quoted_or_word(rest);
        match quote {
            Some(inner) => words.push(InputWord {
                text: inner.to_owned(),
                key: inner.to_lowercase(),
                raw: raw.to_owned(),
                quoted: true,
                break_after: break_after(&raw[raw.rfind(inner).map_or(0, |at| at + inner.len())..]),
            }),
            None => push_expanded(raw, &mut words),
        }
        rest = after.trim_start();
    }
    words
}

/// The next word, or a quotation with adjacent punctuation, and the remaining text.
fn next_quoted_or_word(text: &str) -> (&str, Option<&str>, &str) {
    const QUOTES: [(char, char); 6] =
        [('"', '"'), ('“', '”'), ('„', '“'), ('`', '`'), ('\'', '\''), ('‘', '’')];
    let first = text.chars().next().unwrap_or(' ');
    let quoted = QUOTES.iter().filter(|(open, _)| *open == first).find_map(|(_, close)| {
        let inner = &text[first.len_utf8()..];
        let ends = |at: &usize| !inner[at + close.len_utf8()..].starts_with(char::is_alphanumeric);
        inner
            .match_indices(*close)
            .map(|(at, _)| at)
            .find(ends)
            .filter(|end| *end > 0)
            .map(|end| (&inner[..end], first.len_utf8() + end + close.len_utf8()))
    });
    let from = quoted.map_or(0, |(_, end)| end);
    let end = text[from..].find(char::is_whitespace).map_or(text.len(), |at| from + at);
    (&text[..end], quoted.map(|(inner, _)| inner), &text[end..])
}

fn push_expanded(raw: &str, words: &mut Vec<InputWord>) {
    let line_of_dots = raw.chars().all(|c| c == '.');
    let text = if line_of_dots && raw.len() < 3 {
        raw
    } else {
        raw.trim_start_matches(['(', '[', '<', '*', '¿', '"', '\'']).trim_end_matches(PUNCTUATION)
    };
    let lower = text.to_lowercase().replace('’', "'");
    let ending = break_after(&raw[raw.find(text).map_or(0, |at| at + text.len())..]);
    let keys = expand_contraction(&lower);
    let last = keys.len() - 1;
    for (at, key) in keys.into_iter().enumerate() {
        words.push(InputWord {
            text: if at == 0 { text.to_owned() } else { key.clone() },
            key,
            raw: if at == 0 { raw.to_owned() } else { String::new() },
            quoted: false,
            break_after: if at == last { ending } else { WordBreak::None },
        });
    }
}

const PUNCTUATION: [char; 14] = ['.', ',', ';', ':', '!', '?', ')', ']', '>', '*', '…', '"', '\'', '”'];

fn break_after(tail: &str) -> WordBreak {
    if tail.contains(['.', '!', '?', ';', '…']) {
        WordBreak::Sentence
    } else if tail.contains([',', ':']) {
        WordBreak::Comma
    } else {
        WordBreak::None
    }
}

fn expand_contraction(lower: &str) -> Vec<String> {
    const SHORT: [(&str, &str); 29] = [
        ("tme", "time"),
        ("todays", "today is"),
        ("whats", "what is"),
        ("wats", "what is"),
        ("wuts", "what is"),
        ("wat", "what"),
        ("wut", "what"),
        ("wht", "what"),
        ("whos", "who is"),
        ("wheres", "where is"),
        ("hows", "how is"),
        ("im", "i am"),
        ("ive", "i have"),
        ("u", "you"),
        ("r", "are"),
        ("ur", "your"),
        ("pls", "please"),
        ("plz", "please"),
        ("thx", "thanks"),
        ("ty", "thanks"),
        ("teh", "the"),
        ("adn", "and"),
        ("tht", "that"),
        ("gimme", "give me"),
        ("lemme", "let me"),
        ("wanna", "want to"),
        ("tmrw", "tomorrow"),
        ("let's", "let us"),
        ("can't", "can not"),
    ];
    if let Some((_, long)) = SHORT.iter().find(|(short, _)| *short == lower) {
        return long.split(' ').map(str::to_owned).collect();
    }
    const TAILS: [(&str, &str); 7] = [
        ("n't", "not"),
        ("'s", "is"),
        ("'re", "are"),
        ("'m", "am"),
        ("'ve", "have"),
        ("'ll", "will"),
        ("'d", "would"),
    ];
    for (tail, word) in TAILS {
        // A possessive is expanded to «is», which no rule depends on.
        if let Some(head) = lower.strip_suffix(tail).filter(|head| !head.is_empty()) {
            return vec![head.to_owned(), word.to_owned()];
        }
    }
    vec![lower.to_owned()]
}

/// Real words that differ from a keyword by one letter.
const NOT_TYPOS: &str = "\
    than|think|thing|there|these|thesis|years|hours|filed|filled|founds|sound|opens|shown|reads";

fn is_typo_of(word: &str, keyword: &str) -> bool {
    // Fast path for nearly every pair of words: no allocation.
    let near = word.len().abs_diff(keyword.len()) <= 2 && word.chars().next() == keyword.chars().next();
    if keyword.len() < 4 || word.len() < 3 || !near || NOT_TYPOS.split('|').any(|other| other == word) {
        return false;
    }
    let (a, b): (Vec<char>, Vec<char>) = (word.chars().collect(), keyword.chars().collect());
    if b.len() < 4 || a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let same = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[same..], &b[same..]);
    let swapped = a.len() == b.len() && a.len() > 1 && a[0] == b[1] && a[1] == b[0] && a[2..] == b[2..];
    // A plural is not a typing error.
    let plural = (a.is_empty() && b == ['s']) || (b.is_empty() && a == ['s']);
    let one_off = keyword.chars().count() > 4
        && !plural
        && match a.len().cmp(&b.len()) {
            std::cmp::Ordering::Equal => a.len() > 1 && a[1..] == b[1..],
            std::cmp::Ordering::Greater => a[1..] == *b,
            std::cmp::Ordering::Less => *a == b[1..],
        };
    swapped || one_off
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotations_stay_intact_and_contractions_are_expanded() {
        let keys: Vec<String> = split_input("What's in 'my file.txt', and (README.md)? don't")
            .into_iter()
            .map(|word| format!("{}{}", if word.quoted { "“" } else { "" }, word.key))
            .collect();
        assert_eq!(keys, ["what", "is", "in", "“my file.txt", "and", "readme.md", "do", "not"]);
    }

    #[test]
    fn typos_match_keywords_and_real_words_do_not() {
        let pairs = [("serach", "search"), ("tiem", "time"), ("lsit", "list"), ("calulate", "calculate")];
        assert!(pairs.iter().all(|(typo, word)| is_typo_of(typo, word)));
        let others =
            [("data", "date"), ("last", "list"), ("times", "time"), ("real", "read"), ("there", "where")];
        assert!(!others.iter().any(|(other, word)| is_typo_of(other, word)));
    }
}
