//! The token estimate of a text, in one pass and without a vocabulary.
//!
//! A BPE tokenizer splits a text into pieces by a fixed rule (a word with its leading space, three digits, a run of
//! punctuation, an indentation) and looks each piece up. This module splits as `o200k_base` does and replaces the
//! lookup by the average cost of a piece of that kind and length. The averages come from `tests/corpus/tune`,
//! smoothed with public code and documentation; `tests/tokens.rs` checks them against other texts.

mod memo;
mod script;

use script::{Script, wide_mark};

/// Stored with every count, so that counts of different estimators are not mixed.
pub const COUNTED_BY: &str = "estimate-1";

/// Estimated tokens of a text; 0 for the empty text only.
pub fn estimate(text: &str) -> u32 {
    memo::count_cached(text, count)
}

fn count(text: &str) -> u32 {
    let mut scanner = Scanner { text, at: 0, cents: 0, unbroken: 0 };
    while scanner.piece() {}
    let rounded = (scanner.cents + CENTS / 2) / CENTS;
    // No token is shorter than a byte.
    let bytes = text.len() as u64;
    u32::try_from(rounded.clamp(bytes.min(1), bytes)).unwrap_or(u32::MAX)
}

/// Costs are in hundredths of a token.
const CENTS: u64 = 100;
/// The longest run of one character that is one token.
const LONGEST_MARKS: usize = 64;
const LONGEST_BLANKS: usize = 120;
const LONGEST_BREAKS: usize = 16;

/// More parts than an identifier has: encoded data, which is not made of words.
const BLOB: u32 = 5;
const BLOB_EXTRA: u64 = 100;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Digit,
    Space,
    Newline,
    Mark,
    /// The first byte of a non-ASCII character.
    Wide,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Wide; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'a'..=b'z' => Class::Lower,
            b'A'..=b'Z' => Class::Upper,
            b'0'..=b'9' => Class::Digit,
            b'\n' | b'\r' => Class::Newline,
            b' ' | b'\t' | 0x0b | 0x0c => Class::Space,
            _ => Class::Mark,
        };
        byte += 1;
    }
    classes
};

/// The character before a word that belongs to the word's piece.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Space,
    Mark,
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    cents: u64,
    /// Words and numbers since the last blank or mark.
    unbroken: u32,
}

impl Scanner<'_> {
    /// Consumes one piece; `false` at the end.
    fn piece(&mut self) -> bool {
        let Some(class) = self.class(self.at) else { return false };
        match class {
            Class::Lower | Class::Upper => self.word(Before::Nothing),
            Class::Digit => self.digits(),
            Class::Space if self.is_before_word() => {
                self.at += 1;
                self.word(Before::Space);
            }
            Class::Space | Class::Newline => self.space(),
            Class::Mark => self.mark(1),
            Class::Wide => self.wide(),
        }
        true
    }

    /// Fast path for the most frequent case: one blank, then a letter.
    fn is_before_word(&self) -> bool {
        self.text.as_bytes()[self.at] == b' '
            && matches!(self.class(self.at + 1), Some(Class::Lower | Class::Upper))
    }

    fn class(&self, at: usize) -> Option<Class> {
        self.text.as_bytes().get(at).map(|&byte| CLASSES[usize::from(byte)])
    }

    fn char(&self) -> Option<char> {
        self.text.get(self.at..).and_then(|rest| rest.chars().next())
    }

    fn letter_at(&self, at: usize) -> bool {
        match self.class(at) {
            Some(Class::Lower | Class::Upper) => true,
            Some(Class::Wide) => {
                let next = self.text.get(at..).and_then(|rest| rest.chars().next());
                next.is_some_and(|c| Script::from_char(c) != Script::Mark)
            }
            Some(Class::Digit | Class::Space | Class::Newline | Class::Mark) | None => false,
        }
    }

    /// One token per three digits.
    fn digits(&mut self) {
        let start = self.at;
        while self.class(self.at) == Some(Class::Digit) {
            self.at += 1;
        }
        self.unbroken += 1;
        self.cents += ((self.at - start).div_ceil(3) as u64) * CENTS;
    }

    /// Whitespace is one token up to its last line break and one for the indentation after it. The last blank belongs
    /// to the word or mark that follows.
    fn space(&mut self) {
        self.unbroken = 0;
        let start = self.at;
        let mut indent = start;
        while let Some(class @ (Class::Space | Class::Newline)) = self.class(self.at) {
            self.at += 1;
            indent = if class == Class::Newline { self.at } else { indent };
        }
        self.cents += run(indent - start, LONGEST_BREAKS);
        let (blanks, end) = (self.at - indent, self.at);
        let Some(next) = self.class(end) else {
            self.cents += run(blanks, LONGEST_BLANKS);
            return;
        };
        if blanks == 0 {
            return;
        }
        self.cents += run(blanks - 1, LONGEST_BLANKS);
        let is_blank = self.text.as_bytes()[end - 1] == b' ';
        if self.letter_at(end) {
            self.word(if is_blank { Before::Space } else { Before::Mark });
        } else if next == Class::Digit || !is_blank {
            self.cents += CENTS;
        } else {
            self.marks();
        }
    }

    /// A mark belongs to the word after it, or starts a run of marks.
    fn mark(&mut self, length: usize) {
        if self.letter_at(self.at + length) {
            self.at += length;
            self.word(Before::Mark);
        } else {
            self.marks();
        }
    }

    fn wide(&mut self) {
        let Some(c) = self.char() else {
            // Pieces end at character boundaries. Should one not, skip a byte rather than loop forever.
            self.at += 1;
            return;
        };
        if Script::from_char(c) == Script::Mark {
            self.mark(c.len_utf8());
        } else {
            self.word(Before::Nothing);
        }
    }

    /// A run of marks, with the line breaks that follow it.
    fn marks(&mut self) {
        self.unbroken = 0;
        let (start, mut same, mut wide) = (self.at, true, 0);
        let first = self.text.as_bytes()[start];
        loop {
            match self.class(self.at) {
                Some(Class::Mark) => {
                    same &= self.text.as_bytes()[self.at] == first;
                    self.at += 1;
                }
                Some(Class::Wide) => {
                    let Some(c) = self.char().filter(|&c| Script::from_char(c) == Script::Mark) else {
                        break;
                    };
                    same = false;
                    wide += wide_mark(c);
                    self.at += c.len_utf8();
                }
                Some(Class::Lower | Class::Upper | Class::Digit | Class::Space | Class::Newline) | None => {
                    break;
                }
            }
        }
        let length = self.at - start;
        self.cents += match (wide, length) {
            (1.., _) => wide.max(CENTS),
            (0, _) if same => run(length, LONGEST_MARKS),
            (0, 1 | 2) => 101,
            (0, 3) => 118,
            (0, 4) => 165,
            (0, _) => 165 + 40 * (length as u64 - 4),
        };
        while self.class(self.at) == Some(Class::Newline) {
            self.at += 1;
        }
    }

    /// A word: upper-case letters, then lower-case letters; an upper-case letter after a lower-case one starts the
    /// next word.
    fn word(&mut self, before: Before) {
        let upper = self.letters(Class::Upper);
        let lower = self.letters(Class::Lower);
        self.unbroken = if before == Before::Nothing { self.unbroken + 1 } else { 1 };
        self.cents += match self.class(self.at) {
            Some(Class::Wide) => self.wide_word(WordCost { upper, lower, ..WordCost::default() }, before),
            Some(Class::Mark) => latin(upper, lower, before) + self.contraction(),
            Some(Class::Lower | Class::Upper | Class::Digit | Class::Space | Class::Newline) | None => {
                latin(upper, lower, before)
            }
        };
        if self.unbroken > BLOB && upper > 0 {
            self.cents += BLOB_EXTRA;
        }
    }

    fn letters(&mut self, class: Class) -> usize {
        let start = self.at;
        while self.class(self.at) == Some(class) {
            self.at += 1;
        }
        self.at - start
    }

    /// A word with non-ASCII letters.
    fn wide_word(&mut self, mut word: WordCost, before: Before) -> u64 {
        loop {
            match self.class(self.at) {
                Some(Class::Lower) => word.lower += 1,
                Some(Class::Upper) if word.lower == 0 => word.upper += 1,
                Some(Class::Wide) => {
                    let Some(c) = self.char() else { break };
                    let script = Script::from_char(c);
                    if script == Script::Mark {
                        break;
                    }
                    word.add(script);
                    self.at += c.len_utf8() - 1;
                }
                Some(Class::Upper | Class::Digit | Class::Space | Class::Newline | Class::Mark) | None => {
                    break;
                }
            }
            self.at += 1;
        }
        word.cents(before)
    }

    /// Contractions such as `'s`, `'t` and `'re` belong to their word and rarely cost a separate token.
    fn contraction(&mut self) -> u64 {
        let rest = &self.text.as_bytes()[self.at..];
        let length = match rest {
            [b'\'', b's' | b't' | b'm' | b'd', ..] => 2,
            [b'\'', b'r' | b'v', b'e', ..] | [b'\'', b'l', b'l', ..] => 3,
            _ => return 0,
        };
        if self.letter_at(self.at + length) {
            return 0;
        }
        self.at += length;
        20
    }
}

/// A run of one character: one token per `longest` characters.
fn run(length: usize, longest: usize) -> u64 {
    length.div_ceil(longest) as u64 * CENTS
}

#[derive(Default)]
struct WordCost {
    upper: usize,
    lower: usize,
    /// Extra cost of accents.
    accents: u64,
    last: Option<Script>,
    /// Cost of the non-Latin letters, without `start`.
    wide: u64,
    /// Cost of the first non-Latin letter.
    start: u64,
}

impl WordCost {
    fn add(&mut self, script: Script) {
        let rate = script.rate();
        if matches!(script, Script::Latin | Script::LatinExtended) {
            self.lower += 1;
            self.accents += rate.each;
            return;
        }
        match self.last {
            None => self.start = rate.start,
            Some(last) if last != script => self.wide += 30,
            Some(_) => {}
        }
        self.wide += rate.each;
        self.last = Some(script);
    }

    fn cents(&self, before: Before) -> u64 {
        let letters = self.upper + self.lower;
        let mut cents = latin(self.upper, self.lower, before) + self.accents;
        if let Some(script) = self.last {
            let extra = if letters > 0 { 0 } else { script.rate().before(before) };
            cents += (self.start + self.wide).max(CENTS) + extra;
        }
        cents
    }
}

fn latin(upper: usize, lower: usize, before: Before) -> u64 {
    let letters = upper + lower;
    if lower == 0 && letters > 2 {
        return 100 + 25 * (letters as u64 - 2) + if before == Before::Mark { 15 } else { 0 };
    }
    let table = match before {
        Before::Space => &AFTER_SPACE,
        Before::Nothing => &BARE,
        Before::Mark => &AFTER_MARK,
    };
    let beyond = letters.saturating_sub(table.len() - 1) as u64;
    u64::from(table[letters.min(table.len() - 1)]) + 25 * beyond
}

/// Cents by length. A word after a space is nearly always one token, a word inside an identifier less often, and a
/// leading mark is often a separate token.
const AFTER_SPACE: [u8; 13] = [0, 100, 100, 100, 101, 102, 103, 104, 107, 110, 114, 119, 132];
const BARE: [u8; 13] = [0, 100, 100, 103, 105, 110, 111, 114, 130, 138, 146, 155, 175];
const AFTER_MARK: [u8; 13] = [0, 101, 107, 110, 113, 128, 124, 135, 152, 180, 190, 215, 240];
