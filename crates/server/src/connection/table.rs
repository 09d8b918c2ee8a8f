//! The open connections. A connection that waits for a request can be evicted, so that idle clients cannot exhaust the limit.

use super::address::AddressKey;
use crate::limits::ServerLimits;
use lock::LockExt;
use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Connections above a limit that are served at a time: they get `/health`, the response to a principal, or a 429.
pub(crate) const RESERVED_CONNECTIONS: usize = 64;

/// How long a connection may wait for its first request before the limit of its address applies to it.
pub(crate) const BURST_TIME: Duration = Duration::from_secs(1);

/// The connections of one server.
///
/// Waiting connections of an address above its limit are evicted, oldest first, after [`BURST_TIME`]: many clients of one address
/// may connect at once. At the limit of the server, a new connection evicts the oldest waiting one of the address with the most
/// connections above its limit, or else of all. If none waits, the new connection is
/// [above the limit](Connection::is_above_limit).
#[derive(Debug)]
pub(crate) struct ConnectionTable {
    total: usize,
    /// Zero for no limit.
    per_address: usize,
    entries: Mutex<TableEntries>,
}

#[derive(Debug, Default)]
struct TableEntries {
    last_id: u64,
    last_position: u64,
    by_id: HashMap<u64, TableEntry>,
    by_address: HashMap<AddressKey, AddressEntry>,
    /// Waiting connections by position and id, the oldest first.
    waiting: BTreeSet<(u64, u64)>,
    above_limit: usize,
    waiting_above_limit: BTreeSet<(u64, u64)>,
}

#[derive(Debug)]
struct TableEntry {
    /// `None` for a trusted proxy and above the limit: not counted by address.
    address: Option<AddressKey>,
    is_above_limit: bool,
    phase: ConnectionPhase,
    evicted: CancellationToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionPhase {
    /// The head of the next request is not complete. The position orders these connections by time.
    Waiting { position: u64, since: Instant },
    /// A request without a principal.
    Anonymous,
    /// A request of a principal. The connection does not count for its address.
    Authenticated,
}

/// The connections of an address without an authenticated request.
#[derive(Debug, Default)]
struct AddressEntry {
    count: usize,
    waiting: BTreeSet<(u64, u64)>,
}

impl AddressEntry {
    /// The requests without a principal.
    fn anonymous(&self) -> usize {
        self.count - self.waiting.len()
    }
}

impl ConnectionTable {
    pub(crate) fn new(limits: &ServerLimits) -> Arc<Self> {
        let (total, per_address) = (limits.connections, limits.connections_per_address);
        Arc::new(Self { total, per_address, entries: Mutex::default() })
    }

    /// Adds a connection; `None` if it cannot be served at all. `address` is `None` for a trusted proxy.
    pub(crate) fn admit(self: &Arc<Self>, address: Option<AddressKey>) -> Option<Arc<Connection>> {
        let mut entries = self.entries.locked();
        let is_above_limit =
            !(self.has_room_for_address(&mut entries, address) && self.has_room(&mut entries));
        if is_above_limit && entries.above_limit >= RESERVED_CONNECTIONS {
            let (_, oldest) = entries.waiting_above_limit.first().copied()?;
            entries.evict(oldest);
        }
        entries.last_id += 1;
        let (id, evicted) = (entries.last_id, CancellationToken::new());
        entries.above_limit += usize::from(is_above_limit);
        let address = address.filter(|_| !is_above_limit);
        let phase = ConnectionPhase::Anonymous;
        let entry = TableEntry { address, is_above_limit, phase, evicted: evicted.clone() };
        entries.by_id.insert(id, entry);
        entries.count_address(address, 1);
        entries.set_phase(id, PhaseChange::Wait);
        drop(entries);
        Some(Arc::new(Connection { table: Arc::clone(self), id, evicted }))
    }

    /// Evicts the oldest waiting connection, for example because no file descriptor is left.
    pub(crate) fn evict_oldest(&self) {
        let mut entries = self.entries.locked();
        if let Some((_, oldest)) = entries.waiting.first().copied() {
            entries.evict(oldest);
        }
    }

    fn has_room_for_address(&self, entries: &mut TableEntries, address: Option<AddressKey>) -> bool {
        let Some(address) = address else { return true };
        self.trim_entries(entries, address);
        let entry = entries.by_address.get(&address);
        self.per_address == 0 || entry.is_none_or(|entry| entry.anonymous() < self.per_address)
    }

    /// Evicts connections of an address above its limit that have waited for longer than [`BURST_TIME`].
    fn trim_entries(&self, entries: &mut TableEntries, address: AddressKey) {
        while let Some(entry) = entries.by_address.get(&address).filter(|entry| self.is_crowded(entry)) {
            let Some((_, id)) = entry.waiting.first().copied() else { return };
            let phase = entries.by_id.get(&id).map(|entry| entry.phase);
            match phase {
                Some(ConnectionPhase::Waiting { since, .. }) if since.elapsed() >= BURST_TIME => {
                    entries.evict(id);
                }
                Some(_) | None => return,
            }
        }
    }

    fn is_crowded(&self, entry: &AddressEntry) -> bool {
        self.per_address > 0 && entry.count > self.per_address
    }

    fn has_room(&self, entries: &mut TableEntries) -> bool {
        if entries.by_id.len() - entries.above_limit < self.total {
            return true;
        }
        let crowded = entries.by_address.values().filter(|entry| self.is_crowded(entry));
        let crowded = crowded.filter(|entry| !entry.waiting.is_empty()).max_by_key(|entry| entry.count);
        let waiting = crowded.map_or(&entries.waiting, |entry| &entry.waiting);
        let oldest = waiting.first().copied();
        oldest.map(|(_, id)| entries.evict(id)).is_some()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PhaseChange {
    Wait,
    Begin,
    Authenticate,
}

impl TableEntries {
    /// Changes the phase of a connection; `false` if it was evicted.
    fn set_phase(&mut self, id: u64, change: PhaseChange) -> bool {
        let Some(entry) = self.by_id.get_mut(&id) else { return false };
        let (previous, address, is_above_limit) = (entry.phase, entry.address, entry.is_above_limit);
        entry.phase = match change {
            PhaseChange::Wait => {
                self.last_position += 1;
                ConnectionPhase::Waiting { position: self.last_position, since: Instant::now() }
            }
            PhaseChange::Begin => ConnectionPhase::Anonymous,
            PhaseChange::Authenticate => ConnectionPhase::Authenticated,
        };
        let phase = entry.phase;
        if let ConnectionPhase::Waiting { position, .. } = previous {
            self.waiting_in(is_above_limit).remove(&(position, id));
            self.of_address(address, |entry| entry.waiting.remove(&(position, id)));
        }
        match (previous == ConnectionPhase::Authenticated, phase == ConnectionPhase::Authenticated) {
            (false, true) => self.count_address(address, -1),
            (true, false) => self.count_address(address, 1),
            (true, true) | (false, false) => {}
        }
        if let ConnectionPhase::Waiting { position, .. } = phase {
            self.waiting_in(is_above_limit).insert((position, id));
            self.of_address(address, |entry| entry.waiting.insert((position, id)));
        }
        true
    }

    fn waiting_in(&mut self, is_above_limit: bool) -> &mut BTreeSet<(u64, u64)> {
        if is_above_limit { &mut self.waiting_above_limit } else { &mut self.waiting }
    }

    fn of_address(&mut self, address: Option<AddressKey>, change: impl FnOnce(&mut AddressEntry) -> bool) {
        if let Some(entry) = address.and_then(|address| self.by_address.get_mut(&address)) {
            change(entry);
        }
    }

    fn count_address(&mut self, address: Option<AddressKey>, change: isize) {
        let Some(address) = address else { return };
        let entry = self.by_address.entry(address).or_default();
        entry.count = entry.count.saturating_add_signed(change);
        if entry.count == 0 {
            self.by_address.remove(&address);
        }
    }

    fn remove(&mut self, id: u64) -> Option<TableEntry> {
        // An authenticated connection is counted again before it is removed.
        self.set_phase(id, PhaseChange::Begin);
        let entry = self.by_id.remove(&id)?;
        self.count_address(entry.address, -1);
        self.above_limit -= usize::from(entry.is_above_limit);
        Some(entry)
    }

    fn evict(&mut self, id: u64) {
        if let Some(entry) = self.remove(id) {
            entry.evicted.cancel();
        }
    }
}

/// How many connections the address of a request has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressLoad {
    Normal,
    /// The connection is closed after its response.
    Close,
    /// Too many requests without a principal: the request is refused.
    Refuse,
}

/// An open connection. It leaves the table when it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    table: Arc<ConnectionTable>,
    id: u64,
    evicted: CancellationToken,
}

impl Connection {
    /// Whether only `/health` and a principal may be answered.
    pub(crate) fn is_above_limit(&self) -> bool {
        let entries = self.table.entries.locked();
        entries.by_id.get(&self.id).is_some_and(|entry| entry.is_above_limit)
    }

    /// The request of a connection above the limit has a principal: only the limit of the server counts. `false` if it is reached.
    pub(crate) fn promote(&self) -> bool {
        let mut entries = self.table.entries.locked();
        let is_above_limit = entries.by_id.get(&self.id).is_some_and(|entry| entry.is_above_limit);
        if !is_above_limit {
            return true;
        }
        if !self.table.has_room(&mut entries) {
            return false;
        }
        if let Some(entry) = entries.by_id.get_mut(&self.id) {
            entry.is_above_limit = false;
            entries.above_limit -= 1;
        }
        true
    }

    /// Resolves when the connection must be closed.
    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// The head of a request is complete. The request ends when the guard is dropped. `None` if the connection was evicted.
    pub(crate) fn begin_request(self: &Arc<Self>) -> Option<RequestGuard> {
        let has_begun = self.table.entries.locked().set_phase(self.id, PhaseChange::Begin);
        has_begun.then(|| RequestGuard(Arc::clone(self)))
    }

    /// The request has a principal: the connection does not count for its address until the request ends.
    pub(crate) fn authenticated(&self) {
        self.table.entries.locked().set_phase(self.id, PhaseChange::Authenticate);
    }

    /// Applies the limit to the address of the connection.
    pub(crate) fn trim_address(&self) {
        let mut entries = self.table.entries.locked();
        if let Some(address) = entries.by_id.get(&self.id).and_then(|entry| entry.address) {
            self.table.trim_entries(&mut entries, address);
        }
    }

    /// Whether the address of the connection has as many as it may have.
    pub(crate) fn address_load(&self) -> AddressLoad {
        let limit = self.table.per_address;
        let entries = self.table.entries.locked();
        let Some(own) = entries.by_id.get(&self.id).filter(|_| limit > 0) else { return AddressLoad::Normal };
        let Some(entry) = own.address.and_then(|address| entries.by_address.get(&address)) else {
            return AddressLoad::Normal;
        };
        if own.phase == ConnectionPhase::Anonymous && entry.anonymous() > limit {
            AddressLoad::Refuse
        } else if entry.count >= limit {
            AddressLoad::Close
        } else {
            AddressLoad::Normal
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.table.entries.locked().remove(self.id);
    }
}

/// A request in progress.
#[derive(Debug)]
pub(crate) struct RequestGuard(Arc<Connection>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.table.entries.locked().set_phase(self.0.id, PhaseChange::Wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    fn table(total: usize, per_address: usize) -> Arc<ConnectionTable> {
        let limits =
            ServerLimits { connections: total, connections_per_address: per_address, ..Default::default() };
        ConnectionTable::new(&limits)
    }

    fn address(number: u8) -> AddressKey {
        AddressKey::new([127, 0, 0, number].into())
    }

    fn is_evicted(connection: &Connection) -> bool {
        connection.evicted.is_cancelled()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_above_its_limit_loses_its_oldest_waiting_connections() {
        let table = table(100, 2);
        let [first, second, other] = [1, 1, 2].map(|number| table.admit(Some(address(number))).unwrap());
        let third = table.admit(Some(address(1))).unwrap();
        assert!(!is_evicted(&first), "many connections may be opened at once");
        advance(BURST_TIME).await;
        drop(second.begin_request());
        third.trim_address();
        assert!(is_evicted(&first) && ![&second, &third, &other].into_iter().any(|one| is_evicted(one)));
        assert!(first.begin_request().is_none(), "it was evicted before its request");
        let fourth = table.admit(Some(address(1))).unwrap();
        advance(BURST_TIME).await;
        fourth.trim_address();
        assert!(is_evicted(&third) && !is_evicted(&second), "a used connection is younger than a silent one");
    }

    #[test]
    fn anonymous_requests_count_for_their_address_and_authenticated_ones_do_not() {
        let table = table(100, 1);
        let [first, second] = [1, 1].map(|number| table.admit(Some(address(number))).unwrap());
        let request = first.begin_request().unwrap();
        assert!(table.admit(Some(address(1))).unwrap().is_above_limit(), "an active request is not evicted");
        let other = second.begin_request().unwrap();
        assert_eq!(second.address_load(), AddressLoad::Refuse);
        first.authenticated();
        assert_eq!((first.address_load(), second.address_load()), (AddressLoad::Close, AddressLoad::Close));
        drop(other);
        assert!(!table.admit(Some(address(1))).unwrap().is_above_limit());
        drop(second);
        assert_eq!(first.address_load(), AddressLoad::Normal);
        drop(request);
        assert_eq!(first.address_load(), AddressLoad::Close, "the connection itself counts again");
    }

    #[test]
    fn the_limit_of_the_server_evicts_connections_of_crowded_addresses_first() {
        let table = table(5, 2);
        let quiet = table.admit(Some(address(1))).unwrap();
        let crowd: Vec<_> = (0..4).map(|_| table.admit(Some(address(2))).unwrap()).collect();
        let _new = table.admit(Some(address(3))).unwrap();
        assert!(!is_evicted(&quiet) && is_evicted(&crowd[0]) && !is_evicted(&crowd[1]));
    }

    #[test]
    fn the_limit_of_the_server_evicts_the_oldest_waiting_connection_of_all() {
        let table = table(2, 0);
        let [first, second] = [1, 2].map(|number| table.admit(Some(address(number))).unwrap());
        let request = first.begin_request().unwrap();
        let third = table.admit(Some(address(3))).unwrap();
        assert!(is_evicted(&second) && !is_evicted(&first) && !third.is_above_limit());
        let _other = third.begin_request().unwrap();
        assert!(table.admit(Some(address(4))).unwrap().is_above_limit());
        drop(request);
        assert!(!table.admit(Some(address(4))).unwrap().is_above_limit() && is_evicted(&first));
    }

    #[test]
    fn connections_above_the_limit_replace_each_other() {
        let table = table(1, 0);
        let busy = table.admit(Some(address(1))).unwrap();
        let _request = busy.begin_request().unwrap();
        let above: Vec<_> =
            (0..RESERVED_CONNECTIONS).map(|_| table.admit(Some(address(1))).unwrap()).collect();
        let newest = table.admit(Some(address(2))).unwrap();
        assert!(newest.is_above_limit() && is_evicted(&above[0]) && !is_evicted(&above[1]));
        let requests: Vec<_> = above.iter().filter_map(Connection::begin_request).collect();
        let _last = newest.begin_request().unwrap();
        assert_eq!(requests.len(), RESERVED_CONNECTIONS - 1);
        assert!(table.admit(Some(address(2))).is_none(), "all of them are answering");
        drop((requests, above));
        assert!(table.admit(Some(address(2))).is_some());
    }

    #[test]
    fn a_principal_is_served_above_the_limit_of_its_address_but_not_of_the_server() {
        let table = table(2, 1);
        let [anonymous, principal] = [1, 1].map(|number| table.admit(Some(address(number))).unwrap());
        let _request = anonymous.begin_request().unwrap();
        let other = principal.begin_request().unwrap();
        assert!(!principal.is_above_limit(), "many connections may be opened at once");
        let above = table.admit(Some(address(1))).unwrap();
        let request = above.begin_request().unwrap();
        assert!(above.is_above_limit() && !above.promote() && above.is_above_limit(), "the server is full");
        drop((other, principal));
        assert!(above.promote() && !above.is_above_limit());
        above.authenticated();
        assert_eq!(above.address_load(), AddressLoad::Normal);
        drop((request, above));
        let entries = table.entries.locked();
        assert_eq!((entries.by_id.len(), entries.above_limit, entries.waiting_above_limit.len()), (1, 0, 0));
    }

    #[test]
    fn a_proxy_is_limited_by_the_server_only_and_nothing_is_left_when_all_close() {
        let table = table(8, 1);
        let mut open: Vec<_> = (0..8).map(|_| table.admit(None).unwrap()).collect();
        assert!(open.iter().all(|connection| !is_evicted(connection) && !connection.is_above_limit()));
        open.push(table.admit(Some(address(1))).unwrap());
        open[3].begin_request().unwrap();
        open[8].authenticated();
        open.clear();
        let entries = table.entries.locked();
        assert!(entries.by_id.is_empty() && entries.by_address.is_empty() && entries.waiting.is_empty());
    }
}
