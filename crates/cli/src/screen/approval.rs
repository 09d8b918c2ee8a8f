//! The layout of an approval question. It fits the screen, and the question is its last line.

use super::{Style, one_line, printable};
use bridge::ApprovalHint;

/// The size that is assumed if the terminal has none.
const DEFAULT_SIZE: (usize, usize) = (24, 80);
/// Rows of the reason and of the rule while they are folded.
const MAX_REASON: usize = 5;
const MAX_RULES: usize = 2;
/// The preview has at least this many rows, also on a very small screen.
const MIN_PREVIEW: usize = 3;

/// What an approval question shows.
pub(crate) struct ApprovalPrompt {
    pub(crate) tool: String,
    /// The path of the call, or its working directory.
    pub(crate) path: Option<String>,
    pub(crate) hint: ApprovalHint,
}

impl ApprovalPrompt {
    /// The keys that answer, with their meaning. `d` is offered if there is something to unfold.
    fn choices(&self, is_folded: bool) -> String {
        let offers = [
            (true, "y = yes"),
            (self.hint.session, "s = this session"),
            (self.hint.always, "a = always in this folder"),
            (is_folded, "d = show all"),
            (true, "n = no, or type why not"),
        ];
        let offers: Vec<&str> =
            offers.into_iter().filter(|(is_offered, _)| *is_offered).map(|(_, text)| text).collect();
        format!("[{}]", offers.join(", "))
    }

    /// The whole prompt, and whether a part of it is folded. Folded, it has fewer rows than the screen.
    pub(crate) fn render(
        &self,
        size: Option<(usize, usize)>,
        style: Style,
        is_expanded: bool,
    ) -> (String, bool) {
        let (rows, columns) = size.unwrap_or(DEFAULT_SIZE);
        let columns = columns.max(20);
        let wrapped = |text: &str| wrap(&printable(text), columns);
        let sentence = |text: &str| wrap(&break_words(&printable(text), columns), columns);
        let (reason, has_more_reason) = fold(sentence(&self.hint.question), MAX_REASON, is_expanded);
        let rules = self.hint.rules.as_deref().map(sentence).unwrap_or_default();
        let (rules, has_more_rules) = fold(rules, MAX_RULES, is_expanded);
        let preview = self.hint.preview.as_deref().map(wrapped).unwrap_or_default();
        // The header, the fold line, the empty line above and the choices, which may take two rows.
        let taken =
            reason.len() + rules.len() + (self.choices(true).chars().count() + 3).div_ceil(columns) + 3;
        let space = rows.saturating_sub(taken).max(MIN_PREVIEW);
        let hidden = if is_expanded { 0 } else { preview.len().saturating_sub(space) };
        let mut lines = vec![style.bold(self.header(columns))];
        let is_diff = self.hint.preview.as_deref().is_some_and(|preview| preview.starts_with("--- "));
        let shown = &preview[..preview.len() - hidden];
        lines.extend(shown.iter().map(|row| if is_diff { row.paint(style) } else { row.text.clone() }));
        if hidden > 0 {
            lines.push(style.dim(format!("… {hidden} more rows; d and Enter show all")));
        }
        lines.extend(rules.iter().map(|row| style.dim(&row.text)));
        lines.extend(reason.iter().map(|row| style.bold(&row.text)));
        let is_folded = hidden > 0 || has_more_reason || has_more_rules;
        (format!("{}\n{}", lines.join("\n"), style.bold(self.choices(is_folded))), is_folded)
    }

    /// The tool, its path, and the numbers of added and removed lines.
    fn header(&self, columns: usize) -> String {
        let preview = self.hint.preview.as_deref().unwrap_or_default();
        // The names of the files are the first two lines; a later line with the same beginning is content.
        let count = |sign: char| preview.lines().skip(2).filter(|line| line.starts_with(sign)).count();
        let counts = if preview.starts_with("--- ") {
            format!("  +{} −{}", count('+'), count('-'))
        } else {
            String::new()
        };
        let path = self.path.as_deref().map(|path| format!("  {path}")).unwrap_or_default();
        // The end of a path says more than its beginning.
        let space = columns.saturating_sub(self.tool.chars().count() + counts.chars().count() + 2);
        let path = printable(&path);
        let length = path.chars().count();
        let path = if length > space && space > 4 {
            format!("  …{}", path.chars().skip(length - space + 3).collect::<String>())
        } else {
            path
        };
        format!("{}{}{counts}", one_line(&self.tool, 64), path.replace('\n', " "))
    }
}

/// One row of wrapped text, with the first character of the line that it belongs to.
struct WrappedRow {
    text: String,
    sign: Option<char>,
}

impl WrappedRow {
    fn paint(&self, style: Style) -> String {
        match self.sign {
            Some('+') => style.green(&self.text),
            Some('-') => style.red(&self.text),
            Some('@') => style.dim(&self.text),
            Some(_) | None => self.text.clone(),
        }
    }
}

/// The first rows, and whether there are more.
fn fold(rows: Vec<WrappedRow>, max: usize, is_expanded: bool) -> (Vec<WrappedRow>, bool) {
    if is_expanded || rows.len() <= max {
        return (rows, false);
    }
    let mut rows: Vec<WrappedRow> = rows.into_iter().take(max).collect();
    if let Some(last) = rows.last_mut() {
        last.text.pop();
        last.text.push('…');
    }
    (rows, true)
}

/// Breaks a sentence between words.
fn break_words(text: &str, columns: usize) -> String {
    let mut broken = String::with_capacity(text.len());
    let mut width = 0;
    for word in text.split_inclusive([' ', '\n']) {
        let length = word.trim_end().chars().count();
        if width + length > columns && width > 0 {
            // A space after the last column would become a row of its own.
            broken.truncate(broken.trim_end_matches(' ').len());
            broken.push('\n');
            width = 0;
        }
        broken.push_str(word);
        width = if word.ends_with('\n') { 0 } else { width + word.chars().count() };
    }
    broken
}

/// Breaks text into rows. A character that is not ASCII may take two columns, a tab takes four.
fn wrap(text: &str, columns: usize) -> Vec<WrappedRow> {
    let mut rows = Vec::new();
    for line in text.lines() {
        let sign = line.chars().next();
        let (mut row, mut width) = (String::new(), 0);
        for c in line.chars() {
            let taken = match c {
                '\t' => 4,
                c if c.is_ascii() => 1,
                _ => 2,
            };
            if width + taken > columns {
                rows.push(WrappedRow { text: std::mem::take(&mut row), sign });
                width = 0;
            }
            if c == '\t' {
                row.push_str("    ");
            } else {
                row.push(c);
            }
            width += taken;
        }
        rows.push(WrappedRow { text: row, sign });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(preview: &str) -> ApprovalPrompt {
        let hint = ApprovalHint {
            question: "May write_file run? It asks because `write_file` writes files.".to_owned(),
            preview: Some(preview.to_owned()),
            rules: Some(
                "For this session or folder, the rule would be: allow write_file on `src/**`.".to_owned(),
            ),
            session: true,
            always: true,
        };
        ApprovalPrompt { tool: "write_file".to_owned(), path: Some("src/a.rs".to_owned()), hint }
    }

    fn diff(lines: usize) -> String {
        let added = (0..lines).map(|line| format!("+line {line}\n")).collect::<Vec<_>>().concat();
        format!("--- a/src/a.rs\n+++ b/src/a.rs\n@@ -1 +1 @@\n-old\n{added}")
    }

    #[test]
    fn short_diff_is_shown_whole_with_the_question_last() {
        let text = prompt(&diff(2)).render(Some((24, 80)), Style::new(false), false).0;
        insta::assert_snapshot!(text, @"
        write_file  src/a.rs  +2 −1
        --- a/src/a.rs
        +++ b/src/a.rs
        @@ -1 +1 @@
        -old
        +line 0
        +line 1
        For this session or folder, the rule would be: allow write_file on `src/**`.
        May write_file run? It asks because `write_file` writes files.
        [y = yes, s = this session, a = always in this folder, n = no, or type why not]
        ");
    }

    #[test]
    fn folded_prompt_fits_every_screen_and_ends_with_the_question() {
        let long = "x".repeat(20_000);
        for preview in
            [diff(500), long.clone(), format!("--- {long}\n+{long}"), "wide \u{6f22}\n".repeat(400)]
        {
            for (rows, columns) in [(24, 80), (24, 40), (50, 200), (16, 80)] {
                let text = prompt(&preview).render(Some((rows, columns)), Style::new(false), false).0;
                let taken: usize =
                    text.lines().map(|line| line.chars().count().div_ceil(columns).max(1)).sum();
                assert!(taken < rows, "{taken} rows of {rows}:\n{text}");
                assert!(text.ends_with("n = no, or type why not]"), "{text}");
                assert!(text.contains("more rows; d and Enter show all"), "{text}");
            }
        }
    }

    #[test]
    fn sentence_that_fills_a_row_has_no_empty_row() {
        let mut prompt = prompt("");
        prompt.hint.question = format!("{} second row", "x".repeat(80));
        let text = prompt.render(Some((24, 80)), Style::new(false), false).0;
        assert!(text.contains("x\nsecond row\n["), "{text}");
    }

    #[test]
    fn expanded_prompt_has_every_line_and_ends_with_the_question() {
        let text = prompt(&diff(500)).render(Some((24, 80)), Style::new(false), true).0;
        assert!(text.contains("+line 499") && !text.contains("more rows"), "{text}");
        assert!(text.ends_with("n = no, or type why not]"), "{text}");
    }

    #[test]
    fn diff_is_coloured_and_hidden_characters_are_visible() {
        let text =
            prompt("--- a\n+++ b\n-old\n+n\u{202e}ew\u{1b}[2J").render(None, Style::new(true), false).0;
        assert!(text.contains("\u{1b}[31m-old\u{1b}[0m"), "{text:?}");
        assert!(text.contains("\u{1b}[32m+n<U+202E>ew\u{fffd}[2J\u{1b}[0m"), "{text:?}");
    }

    /// A reason can name more paths than fit: all of them can be seen before the answer.
    #[test]
    fn folded_reason_offers_to_show_all() {
        let mut prompt = prompt("ls");
        let names: Vec<String> = (0..60).map(|number| format!("`.git/hooks/{number}`")).collect();
        prompt.hint.question = format!("May exec run? It must write {}.", names.join(", "));
        let (text, is_folded) = prompt.render(Some((24, 80)), Style::new(false), false);
        assert!(is_folded && text.contains("d = show all") && !text.contains("hooks/59"), "{text}");
        let (text, is_folded) = prompt.render(Some((24, 80)), Style::new(false), true);
        assert!(!is_folded && text.contains("hooks/59"), "{text}");
    }

    #[test]
    fn added_lines_that_look_like_a_header_are_counted() {
        let diff = "--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n--- old\n+++ new\n+two\n";
        let text = prompt(diff).render(Some((24, 80)), Style::new(false), false).0;
        assert!(text.starts_with("write_file  src/a.rs  +2 −1\n"), "{text}");
    }
}
