//! Token costs of non-ASCII letters and marks, by script.

use super::Before;

/// Groups of letters with the same cost.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    /// Letters with accents of western Europe or Vietnam; plain letters are ASCII.
    Latin,
    LatinExtended,
    Cyrillic,
    /// Greek and Hebrew.
    Levant,
    Arabic,
    Indic,
    Thai,
    Han,
    Kana,
    Hangul,
    /// Scripts that the vocabulary covers with short pieces only.
    Rare,
    /// Not a letter.
    Mark,
}

/// Cost of a word: `start`, `each` letter, and `bare` if no space precedes it.
pub(super) struct Rate {
    pub(super) start: u64,
    pub(super) each: u64,
    bare: u64,
}

impl Rate {
    pub(super) fn before(&self, before: Before) -> u64 {
        match before {
            Before::Space => 0,
            Before::Nothing => self.bare,
            Before::Mark => 85,
        }
    }
}

impl Script {
    pub(super) fn from_char(c: char) -> Self {
        match u32::from(c) {
            0xaa
            | 0xb5
            | 0xba
            | 0xc0..=0xd6
            | 0xd8..=0xf6
            | 0xf8..=0xff
            | 0x300..=0x36f
            | 0x1e00..=0x1eff => Self::Latin,
            0x100..=0x24f => Self::LatinExtended,
            0x400..=0x52f => Self::Cyrillic,
            0x370..=0x373 | 0x376..=0x37d | 0x386 | 0x388..=0x3ff | 0x591..=0x5c7 | 0x5d0..=0x5ea => {
                Self::Levant
            }
            0x610..=0x61a | 0x620..=0x65f | 0x66e..=0x6d3 | 0x6d5..=0x6dc | 0x6e1..=0x6ef | 0x6fa..=0x6ff => {
                Self::Arabic
            }
            0x900..=0x963 | 0x970..=0xdff => Self::Indic,
            0xe01..=0xe3a | 0xe40..=0xe4e | 0xe80..=0xece => Self::Thai,
            0x3400..=0x4dbf | 0x4e00..=0x9fff | 0x3005..=0x3007 | 0xf900..=0xfaff => Self::Han,
            0x3041..=0x3096 | 0x309d..=0x309f | 0x30a1..=0x30fa | 0x30fc..=0x30ff => Self::Kana,
            0xac00..=0xd7a3 => Self::Hangul,
            _ if c.is_alphabetic() => Self::Rare,
            _ => Self::Mark,
        }
    }

    pub(super) const fn rate(self) -> Rate {
        let (start, each, bare) = match self {
            Self::Mark => (0, 0, 0),
            Self::Latin => (0, 35, 0),
            Self::LatinExtended => (0, 110, 0),
            Self::Cyrillic => (50, 17, 60),
            Self::Arabic => (56, 22, 55),
            Self::Levant => (40, 35, 40),
            Self::Indic => (50, 25, 40),
            Self::Thai => (40, 38, 0),
            Self::Han => (40, 74, 0),
            Self::Kana => (40, 58, 0),
            Self::Hangul => (50, 58, 15),
            Self::Rare => (40, 60, 0),
        };
        Rate { start, each, bare }
    }
}

/// Cost of a non-ASCII mark by its UTF-8 length: typographic and CJK punctuation is in the vocabulary, emoji are
/// spelt out in bytes.
pub(super) fn wide_mark(c: char) -> u64 {
    match c.len_utf8() {
        2 => 90,
        3 => 85,
        _ => 190,
    }
}
