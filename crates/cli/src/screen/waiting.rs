//! What goes on while there is no answer: on a terminal one line that is written over, a countdown or the last words of a
//! tool; in a pipe a line for each wait.

use super::{Style, one_line};
use adk::progress::CallProgress;
use bridge::model::{Notice, NoticeKind};
use std::io::{self, Write};

/// What is on the screen of a wait.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// How long the line is that will be written over.
    drawn: usize,
    /// The wait that was told last, by its model and attempt.
    told: Option<(String, Option<u32>)>,
}

impl Waiting {
    /// `width` is that of the terminal; `None` for a pipe, where a wait is told once.
    pub(super) fn show(
        &mut self,
        out: &mut impl Write,
        notice: &Notice,
        style: Style,
        width: Option<usize>,
    ) -> io::Result<()> {
        let told = sentence(notice);
        match width {
            Some(width) if notice.kind == NoticeKind::Retry => {
                self.draw(out, &told, style, width)?;
            }
            Some(_) | None => {
                self.clear(out)?;
                let wait = (notice.kind == NoticeKind::Retry).then(|| (notice.model.clone(), notice.attempt));
                if wait.is_none() || wait != self.told {
                    writeln!(out, "{}", style.dim(one_line(&told, 400)))?;
                }
                self.told = wait;
            }
        }
        out.flush()
    }

    /// The last line of what a tool has said. In a pipe nobody watches.
    pub(super) fn show_progress(
        &mut self,
        out: &mut impl Write,
        progress: &CallProgress,
        style: Style,
        width: Option<usize>,
    ) -> io::Result<()> {
        let last = progress.text.lines().rfind(|line| !line.trim().is_empty());
        let (Some(last), Some(width)) = (last, width) else { return Ok(()) };
        self.draw(out, &format!("… {} {last}", progress.tool), style, width)?;
        out.flush()
    }

    fn draw(&mut self, out: &mut impl Write, told: &str, style: Style, width: usize) -> io::Result<()> {
        let line = one_line(told, width.saturating_sub(1));
        let length = line.chars().count();
        let rest = " ".repeat(self.drawn.saturating_sub(length));
        write!(out, "\r{}{rest}", style.dim(line))?;
        self.drawn = length + rest.len();
        Ok(())
    }

    /// Takes the line that is written over away, if there is one.
    pub(super) fn clear(&mut self, out: &mut impl Write) -> io::Result<()> {
        match std::mem::take(&mut self.drawn) {
            0 => Ok(()),
            length => write!(out, "\r{}\r", " ".repeat(length)),
        }
    }
}

fn sentence(notice: &Notice) -> String {
    match notice.seconds {
        Some(0) => format!("{}; trying again", notice.message),
        Some(seconds) => format!("{}; trying again in {seconds} s", notice.message),
        None => notice.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(width: Option<usize>) -> String {
        let notice = |kind, message: &str, seconds| Notice {
            kind,
            message: message.to_owned(),
            model: "p/m".to_owned(),
            seconds,
            attempt: seconds.map(|_| 1),
        };
        let (mut waiting, mut out) = (Waiting::default(), Vec::new());
        let notices = [
            notice(NoticeKind::Retry, "rate limit at p reached", Some(10)),
            notice(NoticeKind::Retry, "rate limit at p reached", Some(9)),
            notice(NoticeKind::Fallback, "rate limit at p reached; asking q instead", None),
        ];
        for notice in notices {
            waiting.show(&mut out, &notice, Style::new(false), width).unwrap();
        }
        waiting.clear(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_terminal_counts_down_in_one_line_that_goes_away() {
        let blank = " ".repeat("rate limit at p reached; trying again in 10 s".len());
        let expected = format!(
            "\rrate limit at p reached; trying again in 10 s\rrate limit at p reached; trying again in 9 s \r{blank}\rrate limit at p reached; asking q instead\n"
        );
        assert_eq!(shown(Some(80)), expected);
    }

    #[test]
    fn the_last_words_of_a_tool_are_harmless_and_go_away() {
        let shown = |width, texts: &[&str]| {
            let (mut waiting, mut out) = (Waiting::default(), Vec::new());
            for text in texts {
                let progress =
                    CallProgress { call_id: "c".into(), tool: "exec".into(), text: (*text).to_owned() };
                waiting.show_progress(&mut out, &progress, Style::new(false), width).unwrap();
            }
            waiting.clear(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            shown(Some(80), &["one\ntwo\n\n", "\u{1b}[2J"]),
            "\r… exec two\r… exec \u{fffd}[2J\r           \r"
        );
        assert_eq!(shown(None, &["one\n"]), "");
    }

    #[test]
    fn a_pipe_is_told_of_each_wait_once() {
        assert_eq!(
            shown(None),
            "rate limit at p reached; trying again in 10 s\nrate limit at p reached; asking q instead\n"
        );
    }

    #[test]
    fn a_line_never_grows_wider_than_the_terminal() {
        let shown = shown(Some(20));
        assert!(shown.starts_with("\rrate limit at p re…\r"), "{shown:?}");
    }
}
