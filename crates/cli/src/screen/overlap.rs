//! Words on the screen that the log lost: an answer is saved twice a second, so what its process showed last before it died is
//! not stored, and the continuation begins before it.

/// Compares a continuation with the words that are on the screen already.
#[derive(Debug, Default)]
pub(super) struct Overlap {
    /// What was shown of the answer that is being streamed.
    streamed: String,
    /// What was shown behind the stored part of an interrupted answer, and was not repeated yet.
    lost: String,
    /// What was repeated of it so far.
    repeated: String,
}

/// What of a piece of a continuation is to be shown.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OverlapPiece {
    /// The words that are new, if any.
    Goes(String),
    /// The continuation is another than the words on the screen: all of it.
    Differs(String),
}

impl Overlap {
    /// A piece of the answer with words, before it is shown.
    pub(super) fn take(&mut self, text: &str) -> OverlapPiece {
        self.streamed.push_str(text);
        if self.lost.is_empty() {
            return OverlapPiece::Goes(text.to_owned());
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
            return OverlapPiece::Goes(new);
        }
        self.lost.clear();
        OverlapPiece::Differs(std::mem::take(&mut self.repeated) + &rest[common..])
    }

    /// Another answer begins. If the one before was never stored, its process died before it was saved at all.
    pub(super) fn begin(&mut self) {
        if !self.streamed.is_empty() {
            self.stored(Some(""));
        }
    }

    /// The answer whose pieces were taken is stored. If it was interrupted, `stored` is what is left of it.
    pub(super) fn stored(&mut self, stored: Option<&str>) {
        let streamed = std::mem::take(&mut self.streamed);
        let lost = stored.and_then(|stored| streamed.strip_prefix(stored)).unwrap_or_default();
        if stored.is_some() {
            lost.clone_into(&mut self.lost);
        }
    }

    /// The turn is over.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

fn common_prefix(one: &str, other: &str) -> usize {
    let pairs = one.chars().zip(other.chars());
    pairs.take_while(|(one, other)| one == other).map(|(letter, _)| letter.len_utf8()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goes(text: &str) -> OverlapPiece {
        OverlapPiece::Goes(text.to_owned())
    }

    fn interrupted(shown: &[&str], stored: &str) -> Overlap {
        let mut overlap = Overlap::default();
        for text in shown {
            assert_eq!(overlap.take(text), goes(text));
        }
        overlap.stored(Some(stored));
        overlap
    }

    #[test]
    fn words_that_are_on_the_screen_are_not_shown_again() {
        for pieces in [&[" c d e f"][..], &[" c", " d", " e", " f"], &[" c d", " e f"], &["c d ", "e f"]] {
            let mut overlap = interrupted(&["a b", " c", " d"], "a b");
            let shown: Vec<OverlapPiece> = pieces.iter().map(|text| overlap.take(text)).collect();
            let text = |piece: &OverlapPiece| match piece {
                OverlapPiece::Goes(text) => text.clone(),
                OverlapPiece::Differs(_) => panic!("{pieces:?}: {shown:?}"),
            };
            assert_eq!(shown.iter().map(text).collect::<String>().trim_start(), "e f", "{pieces:?}");
            assert_eq!(overlap.take(" g"), goes(" g"));
        }
    }

    #[test]
    fn a_continuation_that_goes_another_way_is_shown_whole() {
        let mut overlap = interrupted(&["a b", " c", " d"], "a b");
        assert_eq!(overlap.take("c"), goes(""));
        assert_eq!(overlap.take(" x"), OverlapPiece::Differs("c x".to_owned()));
        assert_eq!(overlap.take(" d"), goes(" d"));
    }

    #[test]
    fn nothing_is_held_back_if_nothing_was_lost() {
        let mut overlap = interrupted(&["a ", "b"], "a b");
        assert_eq!(overlap.take(" c"), goes(" c"));
        let mut overlap = interrupted(&["a ", "b"], "something else");
        assert_eq!(overlap.take("b"), goes("b"));
        overlap.stored(None);
        assert_eq!(overlap.take("b"), goes("b"));
    }

    #[test]
    fn an_answer_that_was_never_saved_may_come_again() {
        let mut overlap = Overlap::default();
        overlap.take("a b");
        overlap.begin();
        assert_eq!(overlap.take("a"), goes(""));
        assert_eq!(overlap.take(" b c"), goes(" c"));
        overlap.stored(None);
        overlap.begin();
        assert_eq!(overlap.take("a"), goes("a"));
    }

    #[test]
    fn letters_of_several_bytes_are_compared_whole() {
        let mut overlap = interrupted(&["né", "e à"], "n");
        assert_eq!(overlap.take("ée"), goes(""));
        assert_eq!(overlap.take(" â"), OverlapPiece::Differs("ée â".to_owned()));
    }
}
