//! Splits `<think>…</think>` at the beginning of an answer from its text. Servers of open models send reasoning that way.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A chunk of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Text(String),
    Thought(String),
}

/// Splits the chunks of one answer. A tag may be split over several chunks.
#[derive(Debug, Default)]
pub(super) struct ThinkTags {
    state: TagState,
    /// The end of the last chunk, which may be the beginning of a tag.
    held: String,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum TagState {
    /// Only white space came so far.
    #[default]
    Start,
    Thinking,
    Text,
}

impl ThinkTags {
    /// The segments that the next chunk completes.
    pub(super) fn push(&mut self, chunk: &str) -> Vec<Segment> {
        if self.state == TagState::Text {
            return vec![Segment::Text(chunk.to_owned())];
        }
        self.held.push_str(chunk);
        let mut segments = Vec::new();
        if self.state == TagState::Start {
            let answer = self.held.trim_start();
            if let Some(rest) = answer.strip_prefix(OPEN) {
                self.held = rest.to_owned();
                self.state = TagState::Thinking;
            } else if !OPEN.starts_with(answer) {
                self.state = TagState::Text;
                segments.push(Segment::Text(std::mem::take(&mut self.held)));
            }
        }
        if self.state == TagState::Thinking {
            segments.extend(self.thinking());
        }
        segments
    }

    fn thinking(&mut self) -> Vec<Segment> {
        if let Some((thought, text)) = self.held.split_once(CLOSE) {
            let segments =
                [Segment::Thought(thought.to_owned()), Segment::Text(text.trim_start().to_owned())];
            self.held.clear();
            self.state = TagState::Text;
            return segments.to_vec();
        }
        let is_tag_start = |at: &usize| CLOSE.starts_with(&self.held[*at..]);
        let end = self.held.char_indices().map(|(at, _)| at).find(is_tag_start).unwrap_or(self.held.len());
        let held = self.held.split_off(end);
        vec![Segment::Thought(std::mem::replace(&mut self.held, held))]
    }

    /// The rest of an answer that is complete.
    pub(super) fn finish(&mut self) -> Segment {
        let held = std::mem::take(&mut self.held);
        match self.state {
            TagState::Thinking => Segment::Thought(held),
            TagState::Start | TagState::Text => Segment::Text(held),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reasoning and the text of an answer in chunks of `size` characters.
    fn split(answer: &str, size: usize) -> (String, String) {
        let mut tags = ThinkTags::default();
        let letters: Vec<char> = answer.chars().collect();
        let mut segments: Vec<Segment> =
            letters.chunks(size).flat_map(|chunk| tags.push(&chunk.iter().collect::<String>())).collect();
        segments.push(tags.finish());
        segments.into_iter().fold(Default::default(), |(thought, text), segment| match segment {
            Segment::Thought(more) => (thought + &more, text),
            Segment::Text(more) => (thought, text + &more),
        })
    }

    #[test]
    fn reasoning_is_split_from_the_text_at_any_chunk_size() {
        let answers = [
            ("<think>a < b </thin </think>Yes <think>no</think>", "a < b </thin ", "Yes <think>no</think>"),
            ("\n<think>Grüße</think>Hi", "Grüße", "Hi"),
            ("<think></think>Hi", "", "Hi"),
            ("<think>never closed </thi", "never closed </thi", ""),
            ("<thinking> is a word", "", "<thinking> is a word"),
            ("  Plain <think>x</think>", "", "  Plain <think>x</think>"),
            ("<th", "", "<th"),
            ("", "", ""),
        ];
        for (answer, thought, text) in answers {
            for size in 1..9 {
                assert_eq!(
                    split(answer, size),
                    (thought.to_owned(), text.to_owned()),
                    "{answer:?} by {size}"
                );
            }
        }
    }
}
