//! The matrix as a table: for each point and fault the number of cases that passed, of those in which the fault
//! occurred.

use crate::{
    case::{Fault, StoreKind, Trial},
    cases::trials,
    matrix::CaseResult,
};
use failpoint::Point;

/// Prints the table and the failures; returns the number of failures, unreached points included.
pub(crate) fn print(results: &[CaseResult]) -> usize {
    let columns: Vec<(StoreKind, Fault)> = StoreKind::ALL
        .into_iter()
        .flat_map(|store| store.faults().iter().map(move |fault| (store, *fault)))
        .collect();
    println!("cases that passed / cases in which the fault happened");
    let titles = columns.iter().map(|(store, fault)| format!("{:>17}", format!("{store:?} {fault:?}")));
    println!("{:<18}{}", "", titles.collect::<String>());
    for point in Point::ALL {
        let cells = columns.iter().map(|column| format!("{:>17}", cell(results, *point, *column)));
        println!("{point:<18}{}", cells.collect::<String>());
    }
    let is_plain = |result: &&CaseResult| result.case.trial.is_none();
    let plain = results.iter().filter(is_plain).count();
    let idle = results.iter().filter(|result| !is_plain(result) && !result.fired).count();
    println!("cases without a fault: {plain}; cases in which the fault did not happen: {idle}");
    let failed: Vec<&CaseResult> = results.iter().filter(|result| !result.passed()).collect();
    for result in &failed {
        println!("\nFAILED {}\n  --case '{}'", result.case, serde_json::to_string(&result.case).unwrap());
        for problem in &result.problems {
            println!("  {problem}");
        }
    }
    let unreached = unreached(results);
    for point in &unreached {
        println!("UNREACHED {point}");
    }
    failed.len() + unreached.len()
}

fn is_at(result: &CaseResult, point: Point, (store, fault): (StoreKind, Fault)) -> bool {
    let is_it = |trial: Trial| (trial.point, trial.fault) == (point, fault);
    result.fired && result.case.setting.store == store && result.case.trial.is_some_and(is_it)
}

fn cell(results: &[CaseResult], point: Point, column: (StoreKind, Fault)) -> String {
    let fired: Vec<&CaseResult> = results.iter().filter(|result| is_at(result, point, column)).collect();
    let good = fired.iter().filter(|result| result.passed()).count();
    if fired.is_empty() { "-".to_owned() } else { format!("{good}/{}", fired.len()) }
}

/// Points that no case has met with a fault that can occur there.
fn unreached(results: &[CaseResult]) -> Vec<String> {
    let all = StoreKind::ALL
        .into_iter()
        .flat_map(|store| trials(store).into_iter().map(move |trial| (store, trial)));
    let missed = all.filter(|(store, (fault, point))| {
        !results.iter().any(|result| is_at(result, *point, (*store, *fault)))
    });
    missed.map(|(store, (fault, point))| format!("{point} with {store:?} {fault:?}")).collect()
}
