//! The messages of the tests and the answers that they must get. An answer repeats the token of its message, which is unique, so
//! that it cannot be mistaken for the answer to another message.

use crate::harness::random::Random;

/// Rules of the scripted model. The first one answers a run that continues after an interrupted answer.
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
  - when: {first_word: story}
    reply: [{text: 'telling {user} STORY'}]
  - when: {first_word: slow}
    reply: [{delay_ms: 300}, {text: 'waited {user}'}]
  - when: {first_word: silence}
    reply: [{delay_ms: 2000}, {text: 'waited {user}'}]
  - when: {first_word: heldlook}
    reply: [{call: {name: held_look}}]
  - when: {first_word: heldact}
    reply: [{call: {name: held_act}}]
  - reply: [{text: 'noted {user}'}]
";

/// `look` and `held_look` are idempotent and may run again after a crash; `act` and `held_act` may not. A held tool appends the
/// id of its call to [`HELD_CALLS`] and then waits until [`RELEASED`] exists.
pub(crate) const CONFIGURATION: &str = r#"
model = "scripted/script.yaml"

[stubs.look]
delay_ms = 15
effect = "idempotent"
response = { at = "{at}" }
parameters = { type = "object", properties = { at = { type = "string" } } }

[stubs.act]
delay_ms = 25
response = { at = "{at}" }
parameters = { type = "object", properties = { at = { type = "string" } } }

[approval]
execute = "allow"

[commands.held_look]
description = "Waits until it is released."
effect = "idempotent"
command = ["sh", "-c", "echo $LANGO_CALL_ID >> held.calls; until test -e held.released; do sleep 0.05; done; echo released"]

[commands.held_act]
description = "Waits until it is released."
effect = "once"
command = ["sh", "-c", "echo $LANGO_CALL_ID >> held.calls; until test -e held.released; do sleep 0.05; done; echo released"]
"#;

/// The file, in the working directory, with one line for each execution of a held tool: the id of the call.
pub(crate) const HELD_CALLS: &str = "held.calls";
/// The file whose existence lets the held tools return.
pub(crate) const RELEASED: &str = "held.released";
/// The held tool that is not idempotent.
pub(crate) const HELD_ACT: &str = "held_act";

const LONG_WORDS: usize = 700;
const STORY_WORDS: usize = 2_000;
/// The answer of a run that continues after an interruption.
const CONTINUED: &str = "and so on";
/// The pauses of the script.
const DELAYS: [&str; 2] = ["{delay_ms: 300}, ", "{delay_ms: 2000}, "];

/// How fast the model streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// [`Kind::Long`] takes about four seconds, [`Kind::Story`] about ten.
    Slow,
    /// [`Kind::Long`] takes about a second and a half.
    Quick,
    /// Without any pause.
    AtOnce,
}

/// The script with its long texts written out.
pub(crate) fn script(pace: Pace) -> String {
    let script = SCRIPT.replace("LONG", &words(LONG_WORDS)).replace("STORY", &words(STORY_WORDS));
    match pace {
        Pace::Slow => script.replace("WORD", "4"),
        Pace::Quick => script.replace("WORD", "1"),
        Pace::AtOnce => {
            let script = script.replace("word_delay_ms: WORD\n", "");
            DELAYS.iter().fold(script, |script, delay| script.replace(delay, ""))
        }
    }
}

fn words(number: usize) -> String {
    let words: Vec<String> = (0..number).map(|number| format!("w{number}")).collect();
    words.join(" ")
}

/// The behaviour that a message triggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A few words.
    Note,
    /// Words for about four seconds.
    Long,
    /// A pause of 0.3 s, then a few words.
    Slow,
    /// Words and an idempotent call.
    Look,
    /// A call that is not idempotent.
    Act,
    /// Two calls one after the other.
    Chain,
    /// Three calls in parallel.
    Both,
    /// Words for about ten seconds.
    Story,
    /// A pause of two seconds, then a few words.
    Silence,
    /// An idempotent call that does not return before it is released.
    HeldLook,
    /// A call that is not idempotent and does not return before it is released.
    HeldAct,
}

impl Kind {
    /// How many of 1000 random messages are of each kind: mostly short ones. The other kinds are sent on purpose only.
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
            Self::Story => "story",
            Self::Silence => "silence",
            Self::HeldLook => "heldlook",
            Self::HeldAct => "heldact",
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
            Self::Slow | Self::Silence => format!("waited {message}"),
            Self::Long => format!("telling {message} {}", words(LONG_WORDS)),
            Self::Story => format!("telling {message} {}", words(STORY_WORDS)),
            Self::Look | Self::Act | Self::Chain | Self::Both | Self::HeldLook | Self::HeldAct => {
                format!("found {message}")
            }
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

    const ON_PURPOSE: [Kind; 4] = [Kind::Story, Kind::Silence, Kind::HeldLook, Kind::HeldAct];

    fn all() -> impl Iterator<Item = Kind> {
        Kind::WEIGHTS.into_iter().map(|(kind, _)| kind).chain(ON_PURPOSE)
    }

    #[test]
    fn an_answer_repeats_the_token_of_its_message() {
        for kind in all() {
            assert!(kind.message("t-1").ends_with(" t-1"));
            assert!(kind.is_answered_by("t-1", &kind.answer("t-1"), false), "{kind:?}");
            assert!(!kind.is_answered_by("t-2", &kind.answer("t-1"), true), "{kind:?}");
            assert!(!kind.is_answered_by("t-1", CONTINUED, false), "{kind:?}");
            assert!(kind.is_answered_by("t-1", CONTINUED, true), "{kind:?}");
        }
    }

    #[test]
    fn every_kind_but_the_default_has_a_rule() {
        for kind in all().filter(|kind| *kind != Kind::Note) {
            assert!(SCRIPT.contains(&format!("{{first_word: {}", kind.first_word())), "{kind:?}");
        }
    }

    #[test]
    fn held_tools_use_the_files_that_the_tests_look_at() {
        for tool in ["held_look", HELD_ACT] {
            let (_, command) = CONFIGURATION.split_once(&format!("[commands.{tool}]")).unwrap();
            let (command, _) = command.split_once("]\n").unwrap();
            let uses = |file: &str| command.contains(file);
            assert!(uses(&format!(">> {HELD_CALLS};")) && uses(&format!("test -e {RELEASED};")), "{command}");
        }
    }

    #[test]
    fn a_script_has_the_delays_of_its_pace() {
        assert!(script(Pace::Slow).starts_with("word_delay_ms: 4\n"));
        assert!(script(Pace::Quick).starts_with("word_delay_ms: 1\n"));
        assert!(!script(Pace::AtOnce).contains("delay_ms"));
    }

    #[test]
    fn random_messages_are_of_all_kinds_with_a_weight() {
        let mut random = Random::new(1);
        let sent: Vec<Kind> = (0..1000).map(|_| Kind::random(&mut random)).collect();
        assert!(Kind::WEIGHTS.iter().all(|(kind, _)| sent.contains(kind)));
        assert_eq!(Kind::WEIGHTS.iter().map(|(_, weight)| weight).sum::<u64>(), 1000);
    }
}
