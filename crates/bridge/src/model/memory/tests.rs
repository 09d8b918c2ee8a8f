//! Facts survive a restart and a week at most; a damaged file is ignored.

use super::*;
use std::{fs, thread};

fn at(model: &str) -> ModelAddress {
    ModelAddress { address: "http://a".to_owned(), api: "chat".to_owned(), model: model.to_owned() }
}

fn field(name: &str) -> KnownLimits {
    KnownLimits { omitted: vec![Omission::Field(name.to_owned())], ..KnownLimits::default() }
}

fn later(days: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_hours(24 * (20_000 + days))
}

#[test]
fn facts_are_merged_and_read_by_another_process() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("below/memory.json");
    let one = ModelMemory::in_file(path.clone());
    assert_eq!(one.learn(&at("m"), &field("seed")), None);
    one.learn(
        &at("m"),
        &KnownLimits { omitted: vec![Omission::Tools], context: Some(4_096), estimate: None },
    );
    one.learn(&at("m"), &field("seed"));
    let (known, warning) = ModelMemory::in_file(path).known(&at("m"));
    assert_eq!(known.omitted, [Omission::Tools, Omission::Field("seed".to_owned())]);
    assert_eq!((known.context, warning), (Some(4_096), None));
    assert_eq!(one.known(&at("other")).0, KnownLimits::default());
}

#[test]
fn estimate_is_the_middle_of_its_range_until_the_range_is_narrow() {
    let estimate = |accepted, rejected| ContextEstimate { accepted, rejected };
    assert_eq!(estimate(4_000, 8_000).limit(), Some(6_000));
    assert_eq!(estimate(7_000, 8_000).limit(), Some(7_000));
    assert_eq!(estimate(9_000, 8_000).limit(), None, "the server accepts more now");
    assert_eq!(estimate(4_000, 8_000).accept(6_000), Some(estimate(6_000, 8_000)));
    assert_eq!(estimate(4_000, 8_000).accept(4_100), None);
}

#[test]
fn stated_size_replaces_an_estimate() {
    let memory = ModelMemory::default();
    let estimate = ContextEstimate { accepted: 4_000, rejected: 8_000 };
    memory.learn(&at("m"), &KnownLimits { estimate: Some(estimate), ..KnownLimits::default() });
    assert_eq!(memory.known(&at("m")).0.size(), Some(6_000));
    memory.learn(&at("m"), &KnownLimits { context: Some(7_500), ..KnownLimits::default() });
    assert_eq!(memory.known(&at("m")).0, KnownLimits { context: Some(7_500), ..KnownLimits::default() });
}

#[test]
fn facts_expire_after_a_week() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("memory.json");
    let memory = |now: fn() -> SystemTime| ModelMemory { now, ..ModelMemory::in_file(path.clone()) };
    memory(|| later(0)).learn(&at("m"), &field("seed"));
    assert_eq!(memory(|| later(6)).known(&at("m")).0, field("seed"));
    assert_eq!(memory(|| later(8)).known(&at("m")).0, KnownLimits::default());
    // The clock was wrong when the fact was learned.
    memory(|| later(1000)).learn(&at("m"), &field("seed"));
    assert_eq!(memory(|| later(1)).known(&at("m")).0, KnownLimits::default());
}

#[test]
fn damaged_file_is_reported_and_replaced() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("memory.json");
    for content in ["", "{", "[]", "{\"version\":9,\"models\":[]}", &" ".repeat(2 << 20)] {
        fs::write(&path, content).unwrap();
        let memory = ModelMemory::in_file(path.clone());
        let (known, warning) = memory.known(&at("m"));
        assert_eq!(known, KnownLimits::default());
        assert!(warning.unwrap().contains("memory.json is damaged and ignored; `lango models --forget`"));
        memory.learn(&at("m"), &field("seed"));
        assert_eq!(memory.known(&at("m")), (field("seed"), None));
    }
}

#[test]
fn unwritable_file_is_reported_and_the_process_remembers() {
    let home = tempfile::tempdir().unwrap();
    let blocked = home.path().join("file");
    fs::write(&blocked, "").unwrap();
    let memory = ModelMemory::in_file(blocked.join("memory.json"));
    assert!(memory.learn(&at("m"), &field("seed")).unwrap().contains("cannot be remembered"));
    assert_eq!(memory.known(&at("m")).0, field("seed"));
}

#[test]
fn concurrent_writers_lose_nothing() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("memory.json");
    thread::scope(|scope| {
        for writer in 0..8 {
            let memory = ModelMemory::in_file(path.clone());
            scope.spawn(move || {
                for number in 0..8 {
                    memory.learn(&at(&format!("m{writer}")), &field(&format!("f{number}")));
                }
            });
        }
    });
    let (models, _) = ModelMemory::in_file(path).list();
    assert_eq!(models.iter().map(|model| model.limits.omitted.len()).collect::<Vec<_>>(), [8; 8]);
}

#[test]
fn size_is_bounded_and_models_are_forgotten() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("memory.json");
    let memory = ModelMemory::in_file(path.clone());
    let mut many = Vec::new();
    for number in 0..MAX_ENTRIES + 50 {
        merge(
            &mut many,
            &at(&format!("m{number}")),
            &field("seed"),
            memory.seconds() + 1_000 + number as u64,
        );
    }
    memory.change(|entries| *entries = many).unwrap();
    assert_eq!(memory.list().0.len(), MAX_ENTRIES);
    assert!(memory.known(&at("m0")).0.omitted.is_empty(), "the entry that expires first is dropped");
    assert_eq!(memory.forget(|at| at.model == "m249").unwrap(), 1);
    assert_eq!(memory.forget(|_| true).unwrap(), MAX_ENTRIES - 1);
    assert!(memory.list().0.is_empty());
    let files = fs::read_dir(home.path()).unwrap().count();
    assert_eq!(files, 2, "the file and its lock, no temporary file");
}
