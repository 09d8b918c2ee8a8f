//! What a person typed, as words: quoted pieces whole, contractions opened, typing errors forgiven.

/// One word of the text.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    /// As typed, without the punctuation around it.
    pub(crate) text: String,
    /// Lower case, contractions opened: what rules compare with.
    pub(crate) key: String,
    /// As typed, with all its punctuation; arithmetic needs it. Empty for the tail of a contraction.
    pub(crate) raw: String,
    pub(crate) quoted: bool,
    pub(crate) stop: Stop,
}

/// How strongly a word ends what it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    None,
    Comma,
    Sentence,
}

impl Word {
    /// Whether this is the keyword, or nearly so. Short words have too many real neighbours: for them only swapped letters count.
    pub(crate) fn is(&self, keyword: &str) -> bool {
        !self.quoted && (self.key == keyword || is_slip_of(&self.key, keyword))
    }

    /// Keywords are separated by bars, here and below: a vocabulary reads better as text than as a list.
    pub(crate) fn is_any(&self, keywords: &str) -> bool {
        keywords.split('|').any(|keyword| self.is(keyword))
    }
}

/// Whether the keywords stand one after the other somewhere in the words.
pub(crate) fn has(words: &[Word], phrase: &str) -> bool {
    find(words, phrase).is_some()
}

/// Where a phrase ends, counted in words.
pub(crate) fn find(words: &[Word], phrase: &str) -> Option<usize> {
    let keys: Vec<&str> = phrase.split(' ').collect();
    let at =
        words.windows(keys.len()).position(|some| some.iter().zip(&keys).all(|(word, key)| word.is(key)));
    at.map(|at| at + keys.len())
}

pub(crate) fn has_any(words: &[Word], phrases: &str) -> bool {
    phrases.split('|').any(|phrase| has(words, phrase))
}

/// The first word and the phrase agree.
pub(crate) fn starts(words: &[Word], phrases: &str) -> bool {
    phrases.split('|').any(|phrase| find(words, phrase) == Some(phrase.split(' ').count()))
}

pub(crate) fn joined(words: &[Word]) -> String {
    words
        .iter()
        .filter(|word| !word.raw.is_empty())
        .map(|word| word.text.as_str())
        .collect::<Vec<_>>()
        .join(" ")
}

/// How many words are looked at; a request that comes after so many is not found by rules.
const LONGEST: usize = 400;

pub(crate) fn split(text: &str) -> Vec<Word> {
    // A message that is one quotation is meant as if it were none.
    let inner = text.trim().strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let text = inner.filter(|inner| inner.contains(' ') && !inner.contains('"')).unwrap_or(text);
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() && words.len() < LONGEST {
        let (raw, quote, after) = next_piece(rest);
        match quote {
            Some(inner) => words.push(Word {
                text: inner.to_owned(),
                key: inner.to_lowercase(),
                raw: raw.to_owned(),
                quoted: true,
                stop: stop_of(&raw[raw.rfind(inner).map_or(0, |at| at + inner.len())..]),
            }),
            None => open(raw, &mut words),
        }
        rest = after.trim_start();
    }
    words
}

/// The next chunk up to a space, or a quoted piece with what clings to it, and the text after it.
fn next_piece(text: &str) -> (&str, Option<&str>, &str) {
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

fn open(raw: &str, words: &mut Vec<Word>) {
    let line_of_dots = raw.chars().all(|c| c == '.');
    let text = if line_of_dots && raw.len() < 3 {
        raw
    } else {
        raw.trim_start_matches(['(', '[', '<', '*', '¿', '"', '\'']).trim_end_matches(PUNCTUATION)
    };
    let lower = text.to_lowercase().replace('’', "'");
    let stop = stop_of(&raw[raw.find(text).map_or(0, |at| at + text.len())..]);
    let keys = contraction(&lower);
    let last = keys.len() - 1;
    for (at, key) in keys.into_iter().enumerate() {
        words.push(Word {
            text: if at == 0 { text.to_owned() } else { key.clone() },
            key,
            raw: if at == 0 { raw.to_owned() } else { String::new() },
            quoted: false,
            stop: if at == last { stop } else { Stop::None },
        });
    }
}

const PUNCTUATION: [char; 14] = ['.', ',', ';', ':', '!', '?', ')', ']', '>', '*', '…', '"', '\'', '”'];

fn stop_of(tail: &str) -> Stop {
    if tail.contains(['.', '!', '?', ';', '…']) {
        Stop::Sentence
    } else if tail.contains([',', ':']) {
        Stop::Comma
    } else {
        Stop::None
    }
}

fn contraction(lower: &str) -> Vec<String> {
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
        // A possessive reads as «is», which no rule minds.
        if let Some(head) = lower.strip_suffix(tail).filter(|head| !head.is_empty()) {
            return vec![head.to_owned(), word.to_owned()];
        }
    }
    vec![lower.to_owned()]
}

/// Real words that lie one letter from a keyword.
const NOT_SLIPS: &str = "\
    than|think|thing|there|these|thesis|years|hours|filed|filled|founds|sound|opens|shown|reads";

fn is_slip_of(word: &str, keyword: &str) -> bool {
    // Nearly every pair of words ends here, before anything is allocated.
    let near = word.len().abs_diff(keyword.len()) <= 2 && word.chars().next() == keyword.chars().next();
    if keyword.len() < 4 || word.len() < 3 || !near || NOT_SLIPS.split('|').any(|other| other == word) {
        return false;
    }
    let (a, b): (Vec<char>, Vec<char>) = (word.chars().collect(), keyword.chars().collect());
    if b.len() < 4 || a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let same = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[same..], &b[same..]);
    let swapped = a.len() == b.len() && a.len() > 1 && a[0] == b[1] && a[1] == b[0] && a[2..] == b[2..];
    // A plural is another word, not a slip.
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
    fn words_keep_quotes_whole_and_open_contractions() {
        let shown: Vec<String> = split("What's in 'my file.txt', and (README.md)? don't")
            .into_iter()
            .map(|word| format!("{}{}", if word.quoted { "“" } else { "" }, word.key))
            .collect();
        assert_eq!(shown, ["what", "is", "in", "“my file.txt", "and", "readme.md", "do", "not"]);
    }

    #[test]
    fn slips_are_forgiven_but_real_words_stay_themselves() {
        let pairs = [("serach", "search"), ("tiem", "time"), ("lsit", "list"), ("calulate", "calculate")];
        assert!(pairs.iter().all(|(slip, word)| is_slip_of(slip, word)));
        let others =
            [("data", "date"), ("last", "list"), ("times", "time"), ("real", "read"), ("there", "where")];
        assert!(!others.iter().any(|(other, word)| is_slip_of(other, word)));
    }
}
