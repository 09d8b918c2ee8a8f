//! Messages between this program and the two stages of the helper: lines of JSON over a Unix socket, the first with files.

use std::{
    io::{self, BufRead, BufReader, IoSlice, IoSliceMut, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::{Serialize, de::DeserializeOwned};

/// Received files are closed in programs that are executed.
#[cfg(target_os = "linux")]
const FLAGS: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const FLAGS: RecvFlags = RecvFlags::empty();

/// The most files that a message carries.
const MAX_FILES: usize = 2;

/// Sends a message with files.
pub(crate) fn send(
    socket: &UnixStream,
    message: &impl Serialize,
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    let sent = rustix::net::sendmsg(socket, &[IoSlice::new(&line)], &mut control, SendFlags::NOSIGNAL)?;
    let mut rest = socket;
    rest.write_all(&line[sent..])
}

/// Receives a message with its files, or `None` at the end of the stream.
pub(crate) fn receive<T: DeserializeOwned>(socket: &UnixStream) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut first = [0];
    let received =
        rustix::net::recvmsg(socket.as_fd(), &mut [IoSliceMut::new(&mut first)], &mut control, FLAGS)?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            files.extend(received);
        }
    }
    let mut line = first.to_vec();
    BufReader::new(socket).read_until(b'\n', &mut line)?;
    Ok(Some((serde_json::from_slice(&line)?, files)))
}
