//! Attacks on `lango serve`, checked by their effect.
//!
//! Each group is a table of requests of a client that knows the documentation. A group has one server. After each request, the
//! engine checks the status, that no canary is in the response, that the database is unchanged and that no tool ran; while the
//! request is open, another client must be served. `docs/src/security.md` lists the groups.

mod browsers;
mod credentials;
mod engine;
mod files;
mod information;
mod input;
mod jwts;
mod memory;
mod protocol;
mod request;
mod tenants;
mod world;

use engine::{Attack, GroupReport};
use std::thread;
use world::World;

/// A group: its name, further settings in `[server]`, and its rows.
type Group = (&'static str, &'static str, fn(&World) -> Vec<Attack>);

const GROUPS: &[Group] = &[
    ("credentials and tokens", "", credentials::rows),
    ("tenant isolation", "", tenants::rows),
    ("host, origin and CSRF", "allowedOrigins = [\"https://app.example\"]\n", browsers::rows),
    ("input", "", input::rows),
    ("HTTP protocol", protocol::SETTINGS, protocol::rows),
    ("files and artifacts", "", files::rows),
    ("information", "", information::rows),
    ("memory: artifacts", UNLIMITED, memory::artifacts),
    ("memory: metadata", UNLIMITED, memory::metadata),
    ("memory: events", UNLIMITED, memory::events),
    ("memory: state", UNLIMITED, memory::state),
    ("memory: cached sessions", UNLIMITED, memory::cached),
    ("memory: growing state", UNLIMITED, memory::growing),
    ("memory: lists", UNLIMITED, memory::lists),
    ("memory: traces", UNLIMITED, memory::traces),
    ("memory: bodies", UNLIMITED, memory::bodies),
    ("memory: complete bodies", UNLIMITED, memory::complete_bodies),
    ("memory: numbers", UNLIMITED, memory::numbers),
    ("memory: objects", UNLIMITED, memory::objects),
    ("memory: imported events", UNLIMITED, memory::imported),
    ("memory: parts", UNLIMITED, memory::parts),
    ("memory: image", UNLIMITED, memory::image),
    ("memory: page", PAGE, memory::page),
];

/// The other clients of these groups ask as often as they can.
const UNLIMITED: &str = "requestsPerMinute = 0\n";
/// All connections are of one address.
const PAGE: &str = "requestsPerMinute = 0\nconnectionsPerAddress = 0\n";
const MIN_ROWS: usize = 300;

#[test]
fn attacks_have_no_effect() {
    let reports: Vec<GroupReport> = thread::scope(|scope| {
        let threads = GROUPS.iter().map(|(name, settings, rows)| {
            scope.spawn(move || {
                let world = World::new(settings);
                let rows = rows(&world);
                engine::run(name, &world, &rows)
            })
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    println!("{:<24} {:>5} {:>7} {:>6} {:>7}", "group", "rows", "failed", "MB", "seconds");
    for report in &reports {
        println!("{report}");
    }
    let rows: usize = reports.iter().map(|report| report.rows).sum();
    println!("{:<24} {rows:>5}", "total");
    let faults: Vec<&str> = reports.iter().flat_map(|report| &report.faults).map(String::as_str).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    assert!(rows >= MIN_ROWS, "{rows} rows");
}
