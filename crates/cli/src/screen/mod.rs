//! What a person sees. Nothing that a model or a tool says can steer the terminal.

mod style;
mod view;

pub(crate) use style::Style;
pub(crate) use view::{Mode, View};

use std::{
    io::{self, Write},
    process::ExitCode,
};

/// Says what went wrong, in one sentence, with its causes.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if is_broken_pipe(error) {
        // Whoever read our output has had enough.
        return ExitCode::SUCCESS;
    }
    let _ = writeln!(io::stderr(), "lango: {}", sentence(error));
    ExitCode::FAILURE
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kinds = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    kinds.into_iter().any(|kind| kind == io::ErrorKind::BrokenPipe)
}

/// The error and its causes, each said once.
pub(crate) fn sentence(error: &anyhow::Error) -> String {
    let mut said: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if !said.iter().any(|earlier| earlier.contains(&cause)) {
            said.push(cause);
        }
    }
    printable(&said.join(": "))
}

/// Text without what could steer a terminal.
pub(crate) fn printable(text: &str) -> String {
    let harmless = |letter: char| !letter.is_control() || matches!(letter, '\n' | '\t');
    text.chars().map(|letter| if harmless(letter) { letter } else { '\u{fffd}' }).collect()
}

/// One line of at most so many letters.
pub(crate) fn one_line(text: &str, most: usize) -> String {
    let line = printable(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    let head: String = line.chars().take(most.saturating_sub(1)).collect();
    format!("{head}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_do_not_reach_the_terminal() {
        assert_eq!(
            printable("a\u{1b}]0;title\u{7}b\tc\nd\u{9b}31m"),
            "a\u{fffd}]0;title\u{fffd}b\tc\nd\u{fffd}31m"
        );
    }

    #[test]
    fn a_cause_that_repeats_its_effect_is_said_once() {
        let error = anyhow::anyhow!("no space left").context("the file cannot be written: no space left");
        assert_eq!(sentence(&error), "the file cannot be written: no space left");
    }

    #[test]
    fn a_long_text_is_cut_to_one_line() {
        assert_eq!(one_line("one\ntwo  three", 100), "one two three");
        assert_eq!(one_line("abcdef", 4), "abc…");
    }
}
