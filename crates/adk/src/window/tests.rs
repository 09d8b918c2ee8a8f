//! The choice of a window, with events of known cost.

use super::*;
use crate::content::{Content, FunctionCall, FunctionResponse, Part};

/// A log of `u` (user), `a` (agent), `c` (a call) and `r` (its result), each of 10 tokens. The result of a call is the next `r`.
fn log(shape: &str) -> Vec<Arc<Event>> {
    let mut calls = 0;
    let event = |(index, kind): (usize, char)| {
        let id = |calls: usize| Some(format!("c{calls}"));
        let content = match kind {
            'u' => Content::user(format!("request {index}")),
            'a' => Content::new("model", vec![Part::text("answer")]),
            'c' => {
                calls += 1;
                let call = FunctionCall { id: id(calls), name: "f".to_owned(), ..FunctionCall::default() };
                Content::new("model", vec![call.into()])
            }
            _ => {
                let name = "f".to_owned();
                Content::new(
                    "user",
                    vec![FunctionResponse { id: id(calls), name, ..FunctionResponse::default() }.into()],
                )
            }
        };
        let author = if kind == 'u' { "user" } else { "root" };
        Arc::new(Event { content: Some(content), ..Event::new("i", author) })
    };
    shape.chars().enumerate().map(event).collect()
}

/// Rows with gaps in their numbers.
fn rows(events: &[Arc<Event>]) -> Vec<LogRow> {
    (1..).step_by(2).take(events.len()).map(|seq| LogRow { seq, tokens: 10 }).collect()
}

struct WindowCase<'a> {
    shape: &'a str,
    front: Option<u64>,
    is_cut: bool,
    /// The budget of the model in events.
    budget: usize,
}

impl WindowCase<'_> {
    fn window(&self) -> Window {
        let events = log(self.shape);
        let (rows, mut fronts) = (rows(&events), Fronts::new());
        let front = |first| Front { first, request: Some("stored".into()) };
        fronts.extend(self.front.map(|first| ("root".to_owned(), front(first))));
        let log =
            LoadedLog { rows: &rows, fronts: &fronts, is_cut: self.is_cut, ..LoadedLog::whole(&events) };
        choose(log, "root", |window, share| {
            let most = match share {
                WindowShare::Whole => self.budget,
                WindowShare::Retained => self.budget / 2,
            };
            events.len() - window.start <= most
        })
    }

    /// The first event, and the new front with the request before it.
    fn chosen(&self) -> (usize, Option<(u64, String)>) {
        let window = self.window();
        let front =
            |front: Front| (front.first, front.request.map(|text| text.to_string()).unwrap_or_default());
        (window.start, window.advanced.map(front))
    }
}

#[test]
fn window_within_the_budget_begins_at_the_front() {
    let case = WindowCase { shape: "uauaua", front: None, is_cut: false, budget: 6 };
    assert_eq!(case.chosen(), (0, None));
    assert_eq!(WindowCase { front: Some(5), ..case }.chosen(), (2, None));
    assert_eq!(WindowCase { front: Some(5), budget: 4, ..case }.chosen(), (2, None));
}

#[test]
fn exceeded_window_advances_to_half_of_the_budget() {
    let case = WindowCase { shape: "uauauauau", front: None, is_cut: false, budget: 8 };
    assert_eq!(case.chosen(), (5, Some((11, "request 4".to_owned()))));
    assert_eq!(WindowCase { budget: 9, ..case }.chosen(), (0, None));
}

#[test]
fn request_before_the_front_is_kept_with_it() {
    let case = WindowCase { shape: "acrcrcr", front: Some(1), is_cut: true, budget: 5 };
    assert_eq!(case.chosen(), (5, Some((11, "stored".to_owned()))));
    assert_eq!(WindowCase { budget: 9, ..case }.window().user_request, Some("stored".into()));
}

#[test]
fn boundary_never_separates_a_call_from_its_result() {
    let case = WindowCase { shape: "ucrcrcr", front: None, is_cut: false, budget: 6 };
    assert_eq!(case.chosen(), (5, Some((11, "request 0".to_owned()))));
    // The call and its late result are more than half of the budget: they stay, with what fits beside them.
    let open = WindowCase { shape: "uacuuur", front: None, is_cut: false, budget: 6 };
    assert_eq!(open.chosen().0, 1);
}

#[test]
fn front_that_is_not_loaded_advances() {
    let case = WindowCase { shape: "auaua", front: None, is_cut: true, budget: 100 };
    assert_eq!(case.chosen(), (0, Some((1, String::new()))));
    assert_eq!(WindowCase { budget: 6, ..case }.chosen(), (2, Some((5, "request 1".to_owned()))));
    // A front before the loaded part is lost.
    let events = log("uaua");
    let later: Vec<LogRow> = rows(&events).iter().map(|row| LogRow { seq: row.seq + 100, ..*row }).collect();
    let fronts = Fronts::from([("root".to_owned(), Front { first: 3, request: None })]);
    let log = LoadedLog { rows: &later, fronts: &fronts, is_cut: true, ..LoadedLog::whole(&events) };
    assert_eq!(choose(log, "root", |_, _| true).advanced.map(|front| front.first), Some(101));
}

#[test]
fn window_larger_than_what_is_loaded_advances() {
    let events = log("uauaua");
    let (rows, fronts) = (rows(&events), Fronts::new());
    let (budget, retained) = (LoadBudget { tokens: 50, rows: 100 }, LoadBudget { tokens: 25, rows: 100 });
    let log = LoadedLog { rows: &rows, fronts: &fronts, budget, retained, ..LoadedLog::whole(&events) };
    assert_eq!(choose(log, "root", |_, _| true).start, 4);
}

#[test]
fn newest_exchange_stays_whatever_its_size() {
    let case = WindowCase { shape: "uaucr", front: None, is_cut: false, budget: 1 };
    assert_eq!(case.chosen().0, 3);
    assert_eq!(WindowCase { shape: "u", ..case }.chosen(), (0, None));
}

#[test]
fn each_agent_has_its_own_front() {
    let case = WindowCase { shape: "uauaua", front: Some(5), is_cut: false, budget: 6 };
    assert_eq!(case.window().start, 2);
    let events = log(case.shape);
    let rows = rows(&events);
    let fronts = Fronts::from([("other".to_owned(), Front { first: 5, request: None })]);
    let log = LoadedLog { rows: &rows, fronts: &fronts, ..LoadedLog::whole(&events) };
    assert_eq!(choose(log, "root", |_, _| true).start, 0);
}
