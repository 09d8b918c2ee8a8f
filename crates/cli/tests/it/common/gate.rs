//! A proxy in front of a fake provider that stops an answer in the middle of its stream until the test continues it.

use std::{
    collections::VecDeque,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};
use testkit::fakeprov::FakeProvider;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    runtime::{self, Runtime},
    sync::mpsc::{self, UnboundedReceiver, UnboundedSender},
};

/// The action for a stopped answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Continue,
    Cut,
}

/// Each stop is a text. The first answer that contains it is forwarded up to the end of the HTTP chunk with that text, and no
/// further until the test continues it. After the last stop everything is forwarded.
pub(crate) struct Gate {
    address: SocketAddr,
    orders: UnboundedSender<Order>,
    /// Dropping it ends the tasks.
    _runtime: Runtime,
}

impl Gate {
    pub(crate) fn before(fake: &FakeProvider, stops: &[&str]) -> Self {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let (orders, received) = mpsc::unbounded_channel();
        let stops = Arc::new(Stops {
            left: Mutex::new(stops.iter().map(|text| (*text).to_owned()).collect()),
            orders: tokio::sync::Mutex::new(received),
        });
        let provider = SocketAddr::from((Ipv4Addr::LOCALHOST, fake.port()));
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(relay(client, provider, Arc::clone(&stops)));
            }
        });
        Self { address, orders, _runtime: runtime }
    }

    /// The base URL under which the fake's scenario is served through the gate.
    pub(crate) fn url(&self, scenario: &str) -> String {
        format!("http://{}/s/{scenario}", self.address)
    }

    /// Lets the stopped answer continue to the next stop, or to its end.
    pub(crate) fn open(&self) {
        self.orders.send(Order::Continue).unwrap();
    }

    /// Closes the connection of the stopped answer in the middle of its body.
    pub(crate) fn cut(&self) {
        self.orders.send(Order::Cut).unwrap();
    }
}

struct Stops {
    left: Mutex<VecDeque<String>>,
    orders: tokio::sync::Mutex<UnboundedReceiver<Order>>,
}

impl Stops {
    /// Takes the next stop if its text is in the answer after `from`, and returns the end of the chunk with that text.
    fn take(&self, answer: &[u8], from: usize) -> Option<usize> {
        let mut left = self.left.lock().unwrap();
        let text = find(answer, left.front()?.as_bytes(), from)?;
        let end = find(answer, b"\r\n", text)? + 2;
        left.pop_front();
        Some(end)
    }

    async fn order(&self) -> Order {
        self.orders.lock().await.recv().await.unwrap_or(Order::Cut)
    }
}

fn find(bytes: &[u8], text: &[u8], from: usize) -> Option<usize> {
    bytes[from..].windows(text.len()).position(|window| window == text).map(|at| from + at)
}

/// Forwards until the client or the provider closes its connection, or the test cuts it; then both are closed.
async fn relay(client: TcpStream, provider: SocketAddr, stops: Arc<Stops>) {
    let Ok(provider) = TcpStream::connect(provider).await else { return };
    let (mut from_client, to_client) = client.into_split();
    let (from_provider, mut to_provider) = provider.into_split();
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut to_provider) => {}
        _ = forward(from_provider, to_client, &stops) => {}
    }
}

async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, stops: &Stops) -> io::Result<()> {
    let (mut answer, mut sent, mut stopped) = (Vec::new(), 0, 0);
    while from.read_buf(&mut answer).await? > 0 {
        while let Some(end) = stops.take(&answer, stopped) {
            to.write_all(&answer[sent..end]).await?;
            (sent, stopped) = (end, end);
            if stops.order().await == Order::Cut {
                return Ok(());
            }
        }
        to.write_all(&answer[sent..]).await?;
        sent = answer.len();
    }
    Ok(())
}
