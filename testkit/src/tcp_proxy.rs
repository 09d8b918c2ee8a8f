//! A TCP proxy on the loopback interface that cuts and delays connections to a database.

use lock::LockExt;
use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// The end of an answer of PostgreSQL outside a transaction: ReadyForQuery, idle.
const READY: &[u8] = b"Z\0\0\0\x05I";

/// Whether the message that is cut off reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The server executes it, and its answer is lost.
    AnswerLost,
    MessageLost,
}

/// Forwards connections until it is dropped.
#[derive(Debug)]
pub struct TcpProxy {
    port: u16,
    control: Arc<ProxyControl>,
}

#[derive(Debug, Default)]
struct ProxyControl {
    state: Mutex<ProxyState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ProxyState {
    /// The next message of a client that contains these bytes is cut off.
    cut: Option<(Vec<u8>, Delivery)>,
    /// Messages of clients wait.
    is_held: bool,
    /// They wait from the next message on that contains these bytes.
    hold_at: Option<Vec<u8>>,
    /// New connections are closed at once.
    is_down: bool,
    is_closed: bool,
    connections: Vec<TcpStream>,
}

impl TcpProxy {
    /// Forwards to a port of this machine.
    pub fn start(target: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let control = Arc::new(ProxyControl::default());
        let shared = Arc::clone(&control);
        thread::spawn(move || {
            for client in listener.incoming() {
                if shared.state.locked().is_closed {
                    return;
                }
                let _ = client.and_then(|client| ProxyControl::accept(&shared, client, target));
            }
        });
        Ok(Self { port, control })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Cuts the connection at the next message of a client that contains `bytes`.
    pub fn cut_at(&self, bytes: &[u8], delivery: Delivery) {
        self.control.state.locked().cut = Some((bytes.to_vec(), delivery));
    }

    /// Whether the cut of [`cut_at`](Self::cut_at) has happened.
    pub fn has_cut(&self) -> bool {
        self.control.state.locked().cut.is_none()
    }

    /// Delays all messages of clients until [`release`](Self::release).
    pub fn hold(&self) {
        self.control.state.locked().is_held = true;
    }

    /// Delays all messages of clients from the next one that contains `bytes`.
    pub fn hold_at(&self, bytes: &[u8]) {
        self.control.state.locked().hold_at = Some(bytes.to_vec());
    }

    /// Blocks until the message of [`hold_at`](Self::hold_at) has come.
    pub fn wait_until_held(&self) {
        let mut state = self.control.state.locked();
        while !state.is_held && !state.is_closed {
            state = wait(&self.control.changed, state);
        }
    }

    pub fn release(&self) {
        self.control.state.locked().is_held = false;
        self.control.changed.notify_all();
    }

    /// Closes all connections.
    pub fn cut_all(&self) {
        for connection in self.control.state.locked().connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Closes all connections, and new ones until [`up`](Self::up).
    pub fn down(&self) {
        self.control.state.locked().is_down = true;
        self.cut_all();
    }

    pub fn up(&self) {
        self.control.state.locked().is_down = false;
    }
}

impl Drop for TcpProxy {
    fn drop(&mut self) {
        self.control.state.locked().is_closed = true;
        self.release();
        self.cut_all();
        // Wakes the thread that accepts connections.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl ProxyControl {
    fn accept(control: &Arc<Self>, client: TcpStream, target: u16) -> io::Result<()> {
        if control.state.locked().is_down {
            return client.shutdown(Shutdown::Both);
        }
        let server = TcpStream::connect((Ipv4Addr::LOCALHOST, target))?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        control.state.locked().connections.extend([client.try_clone()?, server.try_clone()?]);
        let is_cut = Arc::new(AtomicBool::new(false));
        let (from, to, flag) = (client.try_clone()?, server.try_clone()?, Arc::clone(&is_cut));
        let shared = Arc::clone(control);
        thread::spawn(move || {
            let _ = shared.forward_messages(&from, &to, &flag);
            let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
        });
        thread::spawn(move || {
            let _ = forward_answers(&server, &client, &is_cut);
            let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
        });
        Ok(())
    }

    fn forward_messages(
        &self,
        mut client: &TcpStream,
        mut server: &TcpStream,
        cut: &AtomicBool,
    ) -> io::Result<()> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = client.read(&mut buffer)?;
            if read == 0 {
                return Ok(());
            }
            match self.pass(&buffer[..read]) {
                Some(Delivery::MessageLost) => return Ok(()),
                Some(Delivery::AnswerLost) => cut.store(true, Ordering::SeqCst),
                None => {}
            }
            server.write_all(&buffer[..read])?;
        }
    }

    /// Waits while messages are held. Returns how to cut this one off, if it is the one.
    fn pass(&self, message: &[u8]) -> Option<Delivery> {
        let contains =
            |bytes: &[u8]| bytes.is_empty() || message.windows(bytes.len()).any(|window| window == bytes);
        let mut state = self.state.locked();
        if state.hold_at.take_if(|bytes| contains(bytes)).is_some() {
            state.is_held = true;
            self.changed.notify_all();
        }
        while state.is_held && !state.is_closed {
            state = wait(&self.changed, state);
        }
        state.cut.take_if(|(bytes, _)| contains(bytes)).map(|(_, delivery)| delivery)
    }
}

fn wait<'a>(changed: &Condvar, state: MutexGuard<'a, ProxyState>) -> MutexGuard<'a, ProxyState> {
    changed.wait(state).unwrap_or_else(PoisonError::into_inner)
}

/// Once the connection is to be cut, answers are dropped, and it is closed when the server is done.
fn forward_answers(mut server: &TcpStream, mut client: &TcpStream, cut: &AtomicBool) -> io::Result<()> {
    let (mut buffer, mut dropped) = (vec![0; 1 << 16], Vec::new());
    loop {
        let read = server.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        if !cut.load(Ordering::SeqCst) {
            client.write_all(&buffer[..read])?;
            continue;
        }
        dropped.extend_from_slice(&buffer[..read]);
        if dropped.windows(READY.len()).any(|window| window == READY) {
            return Ok(());
        }
    }
}
