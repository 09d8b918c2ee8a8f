//! Standard input without line editing and echo, in bracketed paste mode.

use rustix::{
    io::Errno,
    termios::{
        LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcdrain, tcflush, tcgetattr,
        tcsetattr,
    },
};
use std::io::{self, Write};

/// Input that follows Enter within this time was pasted, in tenths of a second (`VTIME`).
const BURST_TENTHS: u8 = 1;
const PASTE_MODE_ON: &str = "\u{1b}[?2004h";
const PASTE_MODE_OFF: &str = "\u{1b}[?2004l";

/// Dropping it restores the terminal settings.
pub(super) struct RawKeyboard {
    saved: Termios,
    raw: Termios,
}

impl RawKeyboard {
    pub(super) fn open() -> io::Result<Self> {
        let saved = tcgetattr(io::stdin())?;
        let mut raw = saved.clone();
        raw.local_modes -= LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG;
        let keyboard = Self { saved, raw };
        keyboard.set_timeout(1, 0, OptionalActions::Flush)?;
        // If the terminal does not know the mode, bursts of input are recognized by their timing.
        let _ = io::stderr().write_all(PASTE_MODE_ON.as_bytes());
        Ok(keyboard)
    }

    fn set_timeout(&self, min: u8, tenths: u8, actions: OptionalActions) -> io::Result<()> {
        let mut raw = self.raw.clone();
        raw.special_codes[SpecialCodeIndex::VMIN] = min;
        raw.special_codes[SpecialCodeIndex::VTIME] = tenths;
        Ok(tcsetattr(io::stdin(), actions, &raw)?)
    }

    /// Discards type-ahead: what was typed before the question was visible does not answer it.
    pub(super) fn discard_input() -> io::Result<()> {
        // Fails if standard output is no terminal; then there is nothing to wait for.
        let _ = tcdrain(io::stdin());
        Ok(tcflush(io::stdin(), QueueSelector::IFlush)?)
    }

    /// Waits for input. Empty at its end.
    pub(super) fn read() -> io::Result<Vec<u8>> {
        let mut buffer = [0; 1024];
        loop {
            match rustix::io::read(io::stdin(), &mut buffer) {
                Ok(count) => return Ok(buffer[..count].to_vec()),
                // A resized window.
                Err(Errno::INTR) => {}
                // The terminal is gone.
                Err(Errno::IO) => return Ok(Vec::new()),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Discards input that follows at once. Returns whether there was any.
    pub(super) fn discard_burst(&self) -> io::Result<bool> {
        self.set_timeout(0, BURST_TENTHS, OptionalActions::Now)?;
        let mut is_burst = false;
        while !Self::read()?.is_empty() {
            is_burst = true;
        }
        self.set_timeout(1, 0, OptionalActions::Now)?;
        Ok(is_burst)
    }
}

impl Drop for RawKeyboard {
    fn drop(&mut self) {
        // Fails only if the terminal is gone.
        let _ = io::stderr().write_all(PASTE_MODE_OFF.as_bytes());
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.saved);
    }
}
