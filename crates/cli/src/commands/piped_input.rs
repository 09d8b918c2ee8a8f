//! Standard input beside a message of the command line: `cat notes | lango run "summarise this"`.

use super::run::utf8;
use anyhow::{Context, bail};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FileType, fstat},
};
use std::io::{self, Read, Write};

/// The size limit of providers, as for attached files.
const MAX_BYTES: usize = 20 << 20;
/// A pipe that stays silent for this long is named, because its writer may never close it.
const QUIET_SECONDS: i64 = 3;

/// The text of standard input unless it is empty, closed, a terminal or another device.
pub(super) fn read() -> anyhow::Result<Option<String>> {
    let Ok(stat) = fstat(io::stdin()) else { return Ok(None) };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Fifo | FileType::Socket => report_if_quiet(),
        _ => return Ok(None),
    }
    let mut bytes = Vec::new();
    let limit = MAX_BYTES as u64 + 1;
    io::stdin().take(limit).read_to_end(&mut bytes).context("standard input cannot be read")?;
    text(bytes)
}

fn text(bytes: Vec<u8>) -> anyhow::Result<Option<String>> {
    if bytes.len() > MAX_BYTES {
        bail!("standard input has more than {} MB; the message was not sent", MAX_BYTES >> 20);
    }
    if bytes.contains(&0) {
        bail!(
            "standard input is not text; attach images, PDF and audio with --file; the message was not sent"
        );
    }
    let text = utf8(bytes).context("standard input cannot be part of the message")?;
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

fn report_if_quiet() {
    let stdin = io::stdin();
    let timeout = Timespec { tv_sec: QUIET_SECONDS, tv_nsec: 0 };
    if poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&timeout)) == Ok(0) {
        let _ =
            writeln!(io::stderr(), "(waiting for the end of standard input; without input, use < /dev/null)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_input_is_nothing_and_input_that_cannot_be_sent_is_an_error() {
        assert_eq!(text(b" \n".to_vec()).unwrap(), None);
        assert_eq!(text("grüße\n".into()).unwrap().as_deref(), Some("grüße\n"));
        let error = |bytes: Vec<u8>| format!("{:#}", text(bytes).unwrap_err());
        assert!(error(b"\x89PNG\0".to_vec()).contains("is not text; attach"));
        assert!(error(b"abc\xff".to_vec()).contains("not valid UTF-8 after 3 bytes"));
        assert!(error(vec![b'a'; MAX_BYTES + 1]).contains("more than 20 MB"));
    }
}
