//! The status while there is no answer. On a terminal, one line that is overwritten: a countdown, or the progress of a tool. In a
//! pipe, one line for each wait.

use super::{Style, one_line};
use adk::progress::CallProgress;
use bridge::model::{Notice, NoticeKind};
use std::io::{self, Write};

/// The status line of a turn.
#[derive(Debug, Default)]
pub(super) struct StatusLine {
    /// The length of the line on the screen.
    drawn: usize,
    /// The last wait that was printed: its model and attempt.
    printed: Option<(String, Option<u32>)>,
}

impl StatusLine {
    /// `width` is that of the terminal; `None` for a pipe, where each wait is printed once.
    pub(super) fn show(
        &mut self,
        out: &mut impl Write,
        notice: &Notice,
        style: Style,
        width: Option<usize>,
    ) -> io::Result<()> {
        let text = notice_text(notice);
        match width {
            Some(width) if notice.kind == NoticeKind::Retry => {
                self.draw(out, &text, style, width)?;
            }
            Some(_) | None => {
                self.clear(out)?;
                let wait = (notice.kind == NoticeKind::Retry).then(|| (notice.model.clone(), notice.attempt));
                if wait.is_none() || wait != self.printed {
                    writeln!(out, "{}", style.dim(one_line(&text, 400)))?;
                }
                self.printed = wait;
            }
        }
        out.flush()
    }

    /// Shows the last line of a tool's progress. A pipe gets none.
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

    fn draw(&mut self, out: &mut impl Write, text: &str, style: Style, width: usize) -> io::Result<()> {
        let line = one_line(text, width.saturating_sub(1));
        let length = line.chars().count();
        let rest = " ".repeat(self.drawn.saturating_sub(length));
        write!(out, "\r{}{rest}", style.dim(line))?;
        self.drawn = length + rest.len();
        Ok(())
    }

    /// Erases the line, if there is one.
    pub(super) fn clear(&mut self, out: &mut impl Write) -> io::Result<()> {
        match std::mem::take(&mut self.drawn) {
            0 => Ok(()),
            length => write!(out, "\r{}\r", " ".repeat(length)),
        }
    }
}

fn notice_text(notice: &Notice) -> String {
    match notice.seconds {
        Some(0) => format!("{}; trying again", notice.message),
        Some(seconds) => format!("{}; trying again in {seconds} s", notice.message),
        None => notice.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(width: Option<usize>) -> String {
        let notice = |kind, message: &str, seconds| Notice {
            kind,
            message: message.to_owned(),
            model: "p/m".to_owned(),
            seconds,
            attempt: seconds.map(|_| 1),
        };
        let (mut status_line, mut out) = (StatusLine::default(), Vec::new());
        let notices = [
            notice(NoticeKind::Retry, "rate limit at p reached", Some(10)),
            notice(NoticeKind::Retry, "rate limit at p reached", Some(9)),
            notice(NoticeKind::Fallback, "rate limit at p reached; asking q instead", None),
        ];
        for notice in notices {
            status_line.show(&mut out, &notice, Style::new(false), width).unwrap();
        }
        status_line.clear(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn terminal_countdown_overwrites_one_line_and_clears_it() {
        let blank = " ".repeat("rate limit at p reached; trying again in 10 s".len());
        let expected = format!(
            "\rrate limit at p reached; trying again in 10 s\rrate limit at p reached; trying again in 9 s \r{blank}\rrate limit at p reached; asking q instead\n"
        );
        assert_eq!(rendered(Some(80)), expected);
    }

    #[test]
    fn tool_progress_is_escaped_and_cleared() {
        let rendered = |width, texts: &[&str]| {
            let (mut status_line, mut out) = (StatusLine::default(), Vec::new());
            for text in texts {
                let progress =
                    CallProgress { call_id: "c".into(), tool: "exec".into(), text: (*text).to_owned() };
                status_line.show_progress(&mut out, &progress, Style::new(false), width).unwrap();
            }
            status_line.clear(&mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            rendered(Some(80), &["one\ntwo\n\n", "\u{1b}[2J"]),
            "\r… exec two\r… exec \u{fffd}[2J\r           \r"
        );
        assert_eq!(rendered(None, &["one\n"]), "");
    }

    #[test]
    fn pipe_gets_one_line_for_each_wait() {
        assert_eq!(
            rendered(None),
            "rate limit at p reached; trying again in 10 s\nrate limit at p reached; asking q instead\n"
        );
    }

    #[test]
    fn status_line_is_truncated_to_the_terminal_width() {
        let text = rendered(Some(20));
        assert!(text.starts_with("\rrate limit at p re…\r"), "{text:?}");
    }
}
