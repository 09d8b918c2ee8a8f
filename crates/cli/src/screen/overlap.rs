//! Text that was shown but not stored: drafts are saved twice a second, so the text that a process showed last before it died is
//! not in the log, and the continuation begins before it.

/// Removes the text that is already on the screen from a continuation.
#[derive(Debug, Default)]
pub(super) struct Overlap {
    /// The text shown of the streamed answer.
    streamed: String,
    /// The text shown after the stored part of an interrupted answer that the continuation has not repeated yet.
    lost: String,
    /// The part of the lost text that the continuation has repeated.
    repeated: String,
}

/// The part of a chunk that is to be shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OverlapPiece {
    /// The new text, which may be empty.
    New(String),
    /// The continuation differs from the lost text: all of it, including what was held back.
    Differs(String),
}

impl Overlap {
    /// Takes the next chunk of the answer before it is shown.
    pub(super) fn take(&mut self, text: &str) -> OverlapPiece {
        self.streamed.push_str(text);
        if self.lost.is_empty() {
            return OverlapPiece::New(text.to_owned());
        }
        let mut rest = text;
        // Models differ in whether a continuation begins with a space.
        if self.repeated.is_empty() {
            rest = rest.trim_start();
            self.lost.drain(..self.lost.len() - self.lost.trim_start().len());
        }
        let common = common_prefix(&self.lost, rest);
        self.repeated.push_str(&rest[..common]);
        self.lost.drain(..common);
        if self.lost.is_empty() || common == rest.len() {
            let new = rest[common..].to_owned();
            if self.lost.is_empty() {
                self.repeated.clear();
            }
            return OverlapPiece::New(new);
        }
        self.lost.clear();
        OverlapPiece::Differs(std::mem::take(&mut self.repeated) + &rest[common..])
    }

    /// Starts another answer. If the previous one was never stored, its process died before the first save.
    pub(super) fn begin(&mut self) {
        if !self.streamed.is_empty() {
            self.stored(Some(""));
        }
    }

    /// Ends the streamed answer. If it was interrupted, `stored` is its stored part.
    pub(super) fn stored(&mut self, stored: Option<&str>) {
        let streamed = std::mem::take(&mut self.streamed);
        let lost = stored.and_then(|stored| streamed.strip_prefix(stored)).unwrap_or_default();
        if stored.is_some() {
            lost.clone_into(&mut self.lost);
        }
    }

    /// Ends the turn.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

fn common_prefix(one: &str, other: &str) -> usize {
    let pairs = one.chars().zip(other.chars());
    pairs.take_while(|(one, other)| one == other).map(|(character, _)| character.len_utf8()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_piece(text: &str) -> OverlapPiece {
        OverlapPiece::New(text.to_owned())
    }

    fn interrupted(shown: &[&str], stored: &str) -> Overlap {
        let mut overlap = Overlap::default();
        for text in shown {
            assert_eq!(overlap.take(text), new_piece(text));
        }
        overlap.stored(Some(stored));
        overlap
    }

    #[test]
    fn continuation_omits_text_that_is_already_on_the_screen() {
        for pieces in [&[" c d e f"][..], &[" c", " d", " e", " f"], &[" c d", " e f"], &["c d ", "e f"]] {
            let mut overlap = interrupted(&["a b", " c", " d"], "a b");
            let shown: Vec<OverlapPiece> = pieces.iter().map(|text| overlap.take(text)).collect();
            let text = |piece: &OverlapPiece| match piece {
                OverlapPiece::New(text) => text.clone(),
                OverlapPiece::Differs(_) => panic!("{pieces:?}: {shown:?}"),
            };
            assert_eq!(shown.iter().map(text).collect::<String>().trim_start(), "e f", "{pieces:?}");
            assert_eq!(overlap.take(" g"), new_piece(" g"));
        }
    }

    #[test]
    fn diverging_continuation_is_shown_whole() {
        let mut overlap = interrupted(&["a b", " c", " d"], "a b");
        assert_eq!(overlap.take("c"), new_piece(""));
        assert_eq!(overlap.take(" x"), OverlapPiece::Differs("c x".to_owned()));
        assert_eq!(overlap.take(" d"), new_piece(" d"));
    }

    #[test]
    fn continuation_is_unchanged_if_all_text_was_stored() {
        let mut overlap = interrupted(&["a ", "b"], "a b");
        assert_eq!(overlap.take(" c"), new_piece(" c"));
        let mut overlap = interrupted(&["a ", "b"], "something else");
        assert_eq!(overlap.take("b"), new_piece("b"));
        overlap.stored(None);
        assert_eq!(overlap.take("b"), new_piece("b"));
    }

    #[test]
    fn repeated_prefix_of_an_unsaved_answer_is_omitted() {
        let mut overlap = Overlap::default();
        overlap.take("a b");
        overlap.begin();
        assert_eq!(overlap.take("a"), new_piece(""));
        assert_eq!(overlap.take(" b c"), new_piece(" c"));
        overlap.stored(None);
        overlap.begin();
        assert_eq!(overlap.take("a"), new_piece("a"));
    }

    #[test]
    fn overlap_compares_whole_utf8_characters() {
        let mut overlap = interrupted(&["né", "e à"], "n");
        assert_eq!(overlap.take("ée"), new_piece(""));
        assert_eq!(overlap.take(" â"), OverlapPiece::Differs("ée â".to_owned()));
    }
}
