//! A pseudoterminal that tests type into and whose output they wait for.

use super::{LANGO, TestEnv};
use pty_process::{Size, blocking::Pty};
use std::{
    io::{Read, Write},
    process::Child,
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::{Duration, Instant},
};

/// Timeout, long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The end of an approval question. What is typed before it appears is discarded.
pub(crate) const QUESTION: &str = "or type why not] › ";
pub(crate) const CTRL_C: &str = "\u{3}";

pub(crate) struct Terminal {
    keyboard: Arc<Pty>,
    child: Child,
    output: Receiver<Vec<u8>>,
    /// All output bytes.
    raw: Vec<u8>,
    /// The output without escape sequences.
    seen: String,
    /// The position in `seen` after the last text that was waited for.
    mark: usize,
}

impl Terminal {
    /// `lango` with these arguments, on a terminal of 24 rows and 80 columns. The working directory is trusted.
    pub(crate) fn open(env: &TestEnv, args: &[&str]) -> Self {
        Self::with(env, args, &[("TERM", "xterm")])
    }

    pub(crate) fn with(env: &TestEnv, args: &[&str], variables: &[(&str, &str)]) -> Self {
        Self::without_trust(env, &[&["--trust"], args].concat(), variables)
    }

    /// Like [`with`](Self::with), without trust in the working directory.
    pub(crate) fn without_trust(env: &TestEnv, args: &[&str], variables: &[(&str, &str)]) -> Self {
        let (keyboard, screen) = pty_process::blocking::open().unwrap();
        keyboard.resize(Size::new(24, 80)).unwrap();
        let command = pty_process::blocking::Command::new(LANGO)
            .args(args)
            .current_dir(env.workdir())
            .env_clear()
            .envs(env.variables())
            .envs(variables.iter().copied());
        let child = command.spawn(screen).unwrap();
        let keyboard = Arc::new(keyboard);
        let (send, output) = mpsc::channel();
        let reading = Arc::clone(&keyboard);
        thread::spawn(move || read_all(&reading, &send));
        Self { keyboard, child, output, raw: Vec::new(), seen: String::new(), mark: 0 }
    }

    /// Types a line.
    pub(crate) fn type_line(&mut self, line: &str) {
        self.type_keys(&format!("{line}\r"));
    }

    pub(crate) fn type_keys(&mut self, keys: &str) {
        (&*self.keyboard).write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        self.keyboard.resize(Size::new(rows, columns)).unwrap();
    }

    /// Waits until `text` appears after the text that was waited for before.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let unseen = &self.seen[self.mark..];
            if let Some(at) = unseen.find(text) {
                self.mark += at + text.len();
                return;
            }
            match self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Timeout) => panic!("{text:?} did not come; this did:\n{}", self.seen),
                Err(RecvTimeoutError::Disconnected) => panic!("it ended before {text:?}:\n{}", self.seen),
            }
        }
    }

    /// Presses Ctrl-D at the next prompt, and returns all output.
    #[track_caller]
    pub(crate) fn quit(mut self) -> String {
        self.wait_for("› ");
        self.type_keys("\u{4}");
        let (code, screen) = self.wait_exit();
        assert_eq!(code, Some(0), "{screen}");
        screen
    }

    /// Waits for the exit, and returns the exit code and all output.
    #[track_caller]
    pub(crate) fn wait_exit(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.take(&bytes),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end:\n{}", self.seen),
            }
        }
        let raw = String::from_utf8_lossy(&self.raw).into_owned();
        (self.child.wait().unwrap().code(), raw)
    }

    fn take(&mut self, bytes: &[u8]) {
        self.raw.extend(bytes);
        self.seen = without_escapes(&String::from_utf8_lossy(&self.raw));
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reading fails when the last process on the terminal has exited.
fn read_all(mut reading: &Pty, send: &mpsc::Sender<Vec<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = reading.read(&mut buffer) {
        if send.send(buffer[..count].to_vec()).is_err() {
            return;
        }
    }
}

/// Removes CSI escape sequences and carriage returns.
pub(crate) fn without_escapes(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        words += before;
        let end = after.find(|letter: char| letter.is_ascii_alphabetic()).map_or(after.len(), |at| at + 1);
        rest = &after[end..];
    }
    words += rest;
    words.replace('\r', "")
}
