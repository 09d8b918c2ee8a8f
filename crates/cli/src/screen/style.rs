//! Terminal colors.

use std::fmt;

/// Adds ANSI styles to text. Without color, the text is unchanged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    color: bool,
}

impl Style {
    pub(crate) fn new(color: bool) -> Self {
        Self { color }
    }

    pub(crate) fn dim(self, text: impl fmt::Display) -> String {
        self.paint("2", text)
    }

    pub(crate) fn bold(self, text: impl fmt::Display) -> String {
        self.paint("1", text)
    }

    pub(crate) fn red(self, text: impl fmt::Display) -> String {
        self.paint("31", text)
    }

    pub(crate) fn green(self, text: impl fmt::Display) -> String {
        self.paint("32", text)
    }

    fn paint(self, code: &str, text: impl fmt::Display) -> String {
        if self.color { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_string() }
    }
}
