//! Segmentation: cuts a text into the terms of the search index, for every backend in the same way.
//!
//! | text | terms |
//! |---|---|
//! | `Straße`, `CAFÉ` | `strasse`, `cafe`: case and diacritics are folded |
//! | `大阪城` | `大阪`, `阪城`, `城`: scripts without spaces, and Hangul, become overlapping bigrams |
//! | `parseHttpUrl` | `parse`, `http`, `url`, `parsehttpurl` |
//! | `http_port`, `http-port`, `http.port` | `http`, `port`, `httpport` |
//!
//! A document has the last character of a run as a term of its own, so that the prefix `城` finds a run that ends with it.

use icu_normalizer::{
    ComposingNormalizerBorrowed,
    properties::{CanonicalDecompositionBorrowed, Decomposed},
};
use std::borrow::Cow;

/// Changes with every change of the terms of a text. An index of another version is rebuilt.
pub const VERSION: u32 = 1;

/// Longer terms are cut, so that encoded data does not fill the index.
const MAX_TERM_BYTES: usize = 64;
/// A word with more parts is a hash or encoded data, and only whole words are terms.
const MAX_PARTS: usize = 8;

/// A term of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryTerm {
    pub text: String,
    /// A single character of a script without spaces: matches all terms that begin with it.
    pub is_prefix: bool,
    /// The number of the word that it comes from. The terms of a query without spaces count as words.
    pub word: usize,
}

/// Calls `found` with each term of a document and the byte offset of the word that it comes from. Terms repeat.
pub fn for_each_term(text: &str, mut found: impl FnMut(&str, usize)) {
    let mut segmenter =
        Segmenter { text, is_query: false, found: &mut |term, offset, _| found(term, offset) };
    segmenter.run();
}

/// The terms of a query in order, without repetitions.
pub fn query_terms(text: &str) -> Vec<QueryTerm> {
    let mut terms: Vec<QueryTerm> = Vec::new();
    let (mut word, mut last) = (0, 0);
    let mut add = |term: &str, offset: usize, is_prefix: bool| {
        // The offset of a whole identifier precedes those of its words.
        let between = text.get(last..offset).unwrap_or_default();
        word += usize::from(between.contains(|char| CharClass::of(char) == CharClass::Other));
        last = last.max(offset);
        if !terms.iter().any(|known| known.text == term) {
            terms.push(QueryTerm { text: term.to_owned(), is_prefix, word });
        }
    };
    Segmenter { text, is_query: true, found: &mut add }.run();
    if word == 0 {
        terms.iter_mut().enumerate().for_each(|(index, term)| term.word = index);
    }
    terms
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CharClass {
    /// Of a script that is written without spaces, or whose words take suffixes, such as Korean.
    Dense,
    Word,
    /// Joins the words of an identifier.
    Connector,
    Other,
}

impl CharClass {
    fn of(char: char) -> Self {
        match char {
            'a'..='z' | 'A'..='Z' | '0'..='9' => Self::Word,
            '_' | '-' | '.' => Self::Connector,
            '\0'..='\x7f' => Self::Other,
            _ if is_dense(char) => Self::Dense,
            _ if char.is_alphanumeric() || is_diacritic(char) => Self::Word,
            _ => Self::Other,
        }
    }
}

pub(crate) fn is_dense(char: char) -> bool {
    let is_letter = || char.is_alphanumeric() || matches!(char, '\u{3099}' | '\u{309a}' | '々' | 'ー');
    let has_script = matches!(u32::from(char),
        0x0e00..=0x0eff // Thai, Lao
        | 0x1000..=0x109f // Myanmar
        | 0x1100..=0x11ff | 0x3130..=0x318f | 0xa960..=0xa97f | 0xac00..=0xd7ff // Hangul
        | 0x1780..=0x17ff // Khmer
        | 0x2e80..=0x2fdf | 0x3005..=0x3007 // radicals, iteration mark
        | 0x3040..=0x312f | 0x31a0..=0x31ff // Kana, Bopomofo
        | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff // ideographs
        | 0xff66..=0xffdc // halfwidth Kana and Hangul
        | 0x1_b000..=0x1_b16f | 0x2_0000..=0x3_ffff);
    has_script
        && (is_letter() || matches!(u32::from(char), 0x0e00..=0x0eff | 0x1000..=0x109f | 0x1780..=0x17ff))
}

fn is_diacritic(char: char) -> bool {
    matches!(char, '\u{300}'..='\u{36f}')
}

struct Segmenter<'a> {
    text: &'a str,
    is_query: bool,
    /// Gets a term, its offset, and whether it is a prefix.
    found: &'a mut dyn FnMut(&str, usize, bool),
}

impl Segmenter<'_> {
    fn run(&mut self) {
        let mut at = 0;
        while let Some(char) = self.text[at..].chars().next() {
            at = match CharClass::of(char) {
                CharClass::Word => self.identifier(at),
                CharClass::Dense => self.dense_run(at),
                CharClass::Connector | CharClass::Other => at + char.len_utf8(),
            };
        }
    }

    /// The end of the run of one class.
    fn end_of(&self, start: usize, class: CharClass) -> usize {
        let rest = &self.text[start..];
        rest.char_indices()
            .find(|(_, char)| CharClass::of(*char) != class && !is_diacritic(*char))
            .map_or(self.text.len(), |(at, _)| start + at)
    }

    /// Words joined by single connectors. Returns the end.
    fn identifier(&mut self, start: usize) -> usize {
        let mut end = self.end_of(start, CharClass::Word);
        let mut words = vec![(start, end)];
        while let Some(connector) = self.text[end..].chars().next()
            && CharClass::of(connector) == CharClass::Connector
            && self.text[end + 1..].starts_with(|next| CharClass::of(next) == CharClass::Word)
        {
            let next = end + 1;
            end = self.end_of(next, CharClass::Word);
            words.push((next, end));
        }
        let mut whole = String::new();
        for &(from, to) in &words {
            let word = self.word(from, to);
            if whole.len() <= MAX_TERM_BYTES {
                whole.push_str(&word);
            }
        }
        if (2..=MAX_PARTS).contains(&words.len()) {
            self.add(&whole, start);
        }
        end
    }

    /// A word and, if it has several, its parts. Returns the folded word.
    fn word(&mut self, start: usize, end: usize) -> String {
        let source = &self.text[start..end];
        let normal = normalized(source);
        let word = folded(&normal);
        let parts = parts(&normal);
        if (2..=MAX_PARTS).contains(&parts.len()) {
            for part in &parts {
                self.add(&folded(part), start);
            }
        }
        self.add(&word, start);
        word
    }

    fn add(&mut self, term: &str, offset: usize) {
        let term = &term[..term.floor_char_boundary(MAX_TERM_BYTES)];
        if !term.is_empty() {
            (self.found)(term, offset, false);
        }
    }

    /// Overlapping bigrams. Returns the end.
    fn dense_run(&mut self, start: usize) -> usize {
        let end = self.end_of(start, CharClass::Dense);
        let source = &self.text[start..end];
        let normal = normalized(source);
        let chars: Vec<char> = normal.chars().collect();
        // Composition changes the number of characters; then a term is located at the start of its run.
        let offsets: Vec<usize> = source.char_indices().map(|(at, _)| at).collect();
        let offset = |index: usize| if offsets.len() == chars.len() { start + offsets[index] } else { start };
        for (index, pair) in chars.windows(2).enumerate() {
            (self.found)(&String::from_iter(pair), offset(index), false);
        }
        if let Some(last) = chars.last().filter(|_| !self.is_query || chars.len() == 1) {
            (self.found)(&last.to_string(), offset(chars.len() - 1), self.is_query);
        }
        end
    }
}

/// Compatibility composition (NFKC): fullwidth and composed forms become the usual ones.
fn normalized(word: &str) -> Cow<'_, str> {
    if word.is_ascii() {
        Cow::Borrowed(word)
    } else {
        ComposingNormalizerBorrowed::new_nfkc().normalize(word)
    }
}

/// Folds case and diacritics.
fn folded(word: &str) -> String {
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    let mut folded = String::with_capacity(word.len());
    for char in word.chars().flat_map(char::to_lowercase) {
        match char {
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'œ' => folded.push_str("oe"),
            'ø' => folded.push('o'),
            'ł' => folded.push('l'),
            'đ' | 'ð' => folded.push('d'),
            'ı' => folded.push('i'),
            'ς' => folded.push('σ'),
            char if is_diacritic(char) => {}
            char => folded.push(base(char)),
        }
    }
    folded
}

/// The character without its diacritics.
fn base(mut char: char) -> char {
    while !char.is_ascii() {
        match CanonicalDecompositionBorrowed::new().decompose(char) {
            Decomposed::Expansion(base, mark) if is_diacritic(mark) => char = base,
            Decomposed::Singleton(other) => char = other,
            Decomposed::Default | Decomposed::Expansion(..) => break,
        }
    }
    char
}

/// The parts of a word in camel case, and its letters and digits.
fn parts(word: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = word.char_indices().collect();
    let mut parts = Vec::new();
    let mut start = 0;
    for (index, pair) in chars.windows(2).enumerate() {
        let ((_, before), (at, char)) = (pair[0], pair[1]);
        let next_is_lower = || chars.get(index + 2).is_some_and(|(_, next)| next.is_lowercase());
        let is_boundary = (before.is_lowercase() && char.is_uppercase())
            || (before.is_uppercase() && char.is_uppercase() && next_is_lower())
            || (before.is_numeric() != char.is_numeric() && !is_diacritic(char));
        if is_boundary {
            parts.push(&word[start..at]);
            start = at;
        }
    }
    parts.push(&word[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str) -> String {
        let mut terms = Vec::new();
        for_each_term(text, |term, _| terms.push(term.to_owned()));
        terms.join(" ")
    }

    fn query(text: &str) -> String {
        let shown = |term: &QueryTerm| format!("{}{}", term.text, if term.is_prefix { "*" } else { "" });
        query_terms(text).iter().map(shown).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn case_and_diacritics_are_folded() {
        assert_eq!(terms("Straße CAFÉ Ångström İstanbul Łódź"), "strasse cafe angstrom istanbul lodz");
        assert_eq!(terms("Δρόμος ΔΡΌΜΟΣ Ёлка"), "δρομοσ δρομοσ елка");
        assert_eq!(terms("e\u{301}te\u{301} ｆｕｌｌ ﬁn"), "ete full fin", "NFD, fullwidth, ligature");
    }

    #[test]
    fn identifiers_are_split_and_kept_whole() {
        assert_eq!(terms("parseHttpUrl"), "parse http url parsehttpurl");
        assert_eq!(terms("HTTPServer2"), "http server 2 httpserver2");
        assert_eq!(terms("http_port http-port http.port"), ["http port httpport"; 3].join(" "));
        assert_eq!(terms("std::fs::read_dir(\"a/b.rs\")"), "std fs read dir readdir a b rs brs");
        assert_eq!(terms("End. Next"), "end next");
        assert_eq!(terms("don't"), "don t");
    }

    #[test]
    fn encoded_data_is_cut_and_not_split() {
        let data = "a1".repeat(100);
        assert_eq!(terms(&data), data[..MAX_TERM_BYTES]);
        assert_eq!(terms("0xdeadBEEF01a2b3c4"), "0xdeadbeef01a2b3c4");
    }

    #[test]
    fn runs_of_dense_scripts_become_bigrams() {
        assert_eq!(terms("大阪城"), "大阪 阪城 城");
        assert_eq!(terms("서울에서"), "서울 울에 에서 서");
        assert_eq!(terms("東京タワー、ﾀﾜｰ"), "東京 京タ タワ ワー ー タワ ワー ー");
        assert_eq!(terms("使用tokio运行"), "使用 用 tokio 运行 行");
        assert_eq!(terms("猫"), "猫");
        assert_eq!(terms("\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8}"), "한국 국", "decomposed Hangul");
    }

    #[test]
    fn a_query_has_each_term_once_and_no_last_characters() {
        assert_eq!(query("大阪城 大阪"), "大阪 阪城");
        assert_eq!(query("城"), "城*");
        assert_eq!(query("userName user"), "user name username");
        assert_eq!(query(" ?! "), "");
    }

    #[test]
    fn terms_of_a_query_know_their_word() {
        let words = |text: &str| query_terms(text).iter().map(|term| term.word).collect::<Vec<_>>();
        assert_eq!(words("車庫 暗証番号"), [0, 1, 1, 1]);
        assert_eq!(words("userName port"), [0, 0, 0, 1]);
        assert_eq!(words("http_port is"), [0, 0, 0, 1]);
        assert_eq!(words("储物柜密码"), [0, 1, 2, 3], "one word");
    }

    #[test]
    fn offsets_point_at_the_words() {
        let text = "Grüße an 大阪城 fooBar";
        for_each_term(text, |term, offset| {
            let at = &text[offset..];
            let is_there = match term {
                "grusse" => at.starts_with("Grüße"),
                "an" => at.starts_with("an"),
                "大阪" | "阪城" | "城" => at.starts_with(term),
                _ => at.starts_with("fooBar"),
            };
            assert!(is_there, "{term} at {offset}");
        });
    }
}
