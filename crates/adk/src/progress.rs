//! How far calls are, for whoever looks on: told while they run, never waited for and never stored.

use crate::event::Event;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{
    convert::Infallible,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// Where an event carries it, in its `customMetadata`.
pub const PROGRESS: &str = "lango:progress";

/// How many bytes of what a call has said are told at a time.
const MOST: usize = 400;
/// Those who look on are told no more often than this.
const PACE: Duration = Duration::from_millis(100);

/// What a call has said by now. Each tells all that the one before did, so that any of them may be missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallProgress {
    pub call_id: String,
    pub tool: String,
    /// Its end, if it is long.
    pub text: String,
}

impl CallProgress {
    /// The progress that an event carries.
    pub fn of(event: &Event) -> Option<Self> {
        let progress = event.custom_metadata.as_ref().filter(|_| event.is_partial())?.get(PROGRESS)?;
        Self::deserialize(progress).ok()
    }

    pub(crate) fn metadata(&self) -> Option<Map<String, Value>> {
        Some(Map::from_iter([(PROGRESS.to_owned(), serde_json::to_value(self).ok()?)]))
    }
}

/// What the calls of one step have said.
#[derive(Debug, Default)]
pub(crate) struct ProgressBoard {
    lines: Mutex<Vec<CallLine>>,
    news: Notify,
}

#[derive(Debug)]
struct CallLine {
    progress: CallProgress,
    told: bool,
}

impl ProgressBoard {
    fn lines(&self) -> MutexGuard<'_, Vec<CallLine>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn say(&self, call_id: &str, tool: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        let mut lines = self.lines();
        if let Some(line) = lines.iter_mut().find(|line| line.progress.call_id == call_id) {
            let said = &mut line.progress.text;
            said.push_str(tail(text));
            said.drain(..said.len() - tail(said).len());
            line.told = false;
        } else {
            let (call_id, tool, text) = (call_id.to_owned(), tool.to_owned(), tail(text).to_owned());
            lines.push(CallLine { progress: CallProgress { call_id, tool, text }, told: false });
        }
        drop(lines);
        self.news.notify_one();
    }

    /// Tells what is new as it comes, for as long as it is polled.
    pub(crate) async fn tell(&self, show: impl Fn(&CallProgress)) -> Infallible {
        loop {
            self.news.notified().await;
            for progress in self.take_new() {
                show(&progress);
            }
            tokio::time::sleep(PACE).await;
        }
    }

    fn take_new(&self) -> Vec<CallProgress> {
        let mut lines = self.lines();
        let is_new = |line: &mut CallLine| !std::mem::replace(&mut line.told, true);
        lines.iter_mut().filter_map(|line| is_new(line).then(|| line.progress.clone())).collect()
    }
}

fn tail(text: &str) -> &str {
    let from = text.len().saturating_sub(MOST);
    let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_text_the_end_is_told_and_no_letter_is_cut() {
        let board = ProgressBoard::default();
        board.say("c1", "exec", "begin ");
        board.say("c1", "exec", &"ä".repeat(300));
        board.say("c1", "exec", " end");
        let told = board.take_new();
        assert_eq!(told.len(), 1);
        assert!(
            told[0].text.len() <= MOST && told[0].text.starts_with('ä') && told[0].text.ends_with("ä end")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_says_much_is_told_at_its_pace_and_the_last_word_is_not_lost() {
        let board = ProgressBoard::default();
        let (told, began) = (Mutex::new(Vec::new()), tokio::time::Instant::now());
        let talking = async {
            for at in 0..1_000 {
                board.say("c1", "exec", &format!("{at}\n"));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(PACE).await;
        };
        tokio::select! {
            () = talking => {}
            never = board.tell(|progress| told.lock().unwrap().push(progress.text.clone())) => match never {},
        }
        let told = told.into_inner().unwrap();
        assert!(told.len() <= 12, "{} in {:?}", told.len(), began.elapsed());
        assert_eq!(told[0], "0\n");
        assert!(told.last().unwrap().ends_with("998\n999\n"));
    }
}
