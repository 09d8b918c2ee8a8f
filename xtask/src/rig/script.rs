//! The messages that are sent, and the answers that they must get: an answer repeats the token of its message, so that it can
//! be told from every other one.

use crate::rig::random::Random;

/// Replies of the scripted model. The first rule answers a run that continues after an answer that was cut off.
const SCRIPT: &str = "\
word_delay_ms: WORD
rules:
  - when: {starts_with: '[System: The previous answer was interrupted'}
    reply: [{text: 'and so on'}]
  - when: {first_word: chain, result_contains: 'first'}
    reply: [{text: 'next'}, {call: {name: look, args: {at: second}}}]
  - when: {tool: any}
    reply: [{text: 'found {user}'}]
  - when: {first_word: look}
    reply: [{text: 'looking for {user}'}, {call: {name: look, args: {at: once}}}]
  - when: {first_word: act}
    reply: [{call: {name: act, args: {at: once}}}]
  - when: {first_word: chain}
    reply: [{call: {name: look, args: {at: first}}}]
  - when: {first_word: both}
    reply: [{call: {name: look, args: {at: left}}}, {call: {name: act, args: {at: right}}}, {call: {name: look, args: {at: far}}}]
  - when: {first_word: long}
    reply: [{text: 'telling {user} LONG'}]
  - when: {first_word: slow}
    reply: [{delay_ms: 300}, {text: 'waited {user}'}]
  - reply: [{text: 'noted {user}'}]
";

/// One tool may be called again after a crash, the other may not.
pub(crate) const CONFIGURATION: &str = "\
model = \"scripted/script.yaml\"

[stubs.look]
delay_ms = 15
effect = \"idempotent\"
response = { at = \"{at}\" }
parameters = { type = \"object\", properties = { at = { type = \"string\" } } }

[stubs.act]
delay_ms = 25
response = { at = \"{at}\" }
parameters = { type = \"object\", properties = { at = { type = \"string\" } } }
";

const LONG_WORDS: usize = 700;
/// How the answer begins that continues after an interruption.
const CONTINUED: &str = "and so on";

/// How fast the model speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// The long answer takes about four seconds.
    Slow,
    /// It takes about a second and a half.
    Quick,
    AtOnce,
}

/// The script with its long text written out.
pub(crate) fn script(pace: Pace) -> String {
    let script = SCRIPT.replace("LONG", &long_words());
    match pace {
        Pace::Slow => script.replace("WORD", "4"),
        Pace::Quick => script.replace("WORD", "1"),
        Pace::AtOnce => script.replace("word_delay_ms: WORD\n", "").replace("{delay_ms: 300}, ", ""),
    }
}

fn long_words() -> String {
    let words: Vec<String> = (0..LONG_WORDS).map(|number| format!("w{number}")).collect();
    words.join(" ")
}

/// What a message makes the agent do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A few words.
    Note,
    /// Words for about three seconds.
    Long,
    /// A pause, then a few words.
    Slow,
    /// Words and a call that may be repeated.
    Look,
    /// A call that may not.
    Act,
    /// Two calls one after the other.
    Chain,
    /// Three calls at once.
    Both,
}

impl Kind {
    /// Of 1000 messages so many are of each kind: mostly short ones.
    const WEIGHTS: [(Self, u64); 7] = [
        (Self::Note, 350),
        (Self::Slow, 100),
        (Self::Look, 180),
        (Self::Act, 120),
        (Self::Chain, 100),
        (Self::Both, 100),
        (Self::Long, 50),
    ];

    fn first_word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Long => "long",
            Self::Slow => "slow",
            Self::Look => "look",
            Self::Act => "act",
            Self::Chain => "chain",
            Self::Both => "both",
        }
    }

    pub(crate) fn random(random: &mut Random) -> Self {
        let mut number = random.below(1000);
        for (kind, weight) in Self::WEIGHTS {
            match number.checked_sub(weight) {
                Some(rest) => number = rest,
                None => return kind,
            }
        }
        Self::Note
    }

    pub(crate) fn message(self, token: &str) -> String {
        format!("{} {token}", self.first_word())
    }

    /// The text that ends the answer to [`message`](Self::message), unless it was interrupted.
    pub(crate) fn answer(self, token: &str) -> String {
        let message = self.message(token);
        match self {
            Self::Note => format!("noted {message}"),
            Self::Slow => format!("waited {message}"),
            Self::Long => format!("telling {message} {}", long_words()),
            Self::Look | Self::Act | Self::Chain | Self::Both => format!("found {message}"),
        }
    }

    /// Whether a text may end the answer, given whether an event of the run was interrupted.
    pub(crate) fn is_answered_by(self, token: &str, text: &str, was_interrupted: bool) -> bool {
        text == self.answer(token) || (was_interrupted && text == CONTINUED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_repeats_the_token_of_its_message() {
        for (kind, _) in Kind::WEIGHTS {
            assert!(kind.message("t-1").ends_with(" t-1"));
            assert!(kind.is_answered_by("t-1", &kind.answer("t-1"), false), "{kind:?}");
            assert!(!kind.is_answered_by("t-2", &kind.answer("t-1"), true), "{kind:?}");
            assert!(!kind.is_answered_by("t-1", CONTINUED, false), "{kind:?}");
            assert!(kind.is_answered_by("t-1", CONTINUED, true), "{kind:?}");
        }
    }

    #[test]
    fn a_script_has_the_delays_of_its_pace() {
        assert!(script(Pace::Slow).starts_with("word_delay_ms: 4\n"));
        assert!(script(Pace::Quick).starts_with("word_delay_ms: 1\n"));
        assert!(!script(Pace::AtOnce).contains("delay_ms"));
    }

    #[test]
    fn every_kind_is_sent() {
        let mut random = Random::new(1);
        let sent: Vec<Kind> = (0..1000).map(|_| Kind::random(&mut random)).collect();
        assert!(Kind::WEIGHTS.iter().all(|(kind, _)| sent.contains(kind)));
        assert_eq!(Kind::WEIGHTS.iter().map(|(_, weight)| weight).sum::<u64>(), 1000);
    }
}
