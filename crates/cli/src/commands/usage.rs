//! `lango usage`: the tokens and the cost of model calls.

use crate::{
    args::{Dimension, UsageArgs},
    config::Settings,
    screen::{self, json_pretty, one_line, width},
    wiring,
};
use adk::error::ServiceError;
use bridge::{
    Archive,
    store::{
        upkeep::Upkeep,
        usage_report::{PriceBook, TokenPrices, UsageGroup, UsageLine, UsageQuery, UsageReport},
    },
};
use std::{
    io::{self, Write},
    sync::Arc,
};

/// The widest bar of the chart, in cells.
const MAX_BAR: usize = 40;

/// The prices of the configured and the published models.
pub(crate) fn prices(settings: &Settings) -> PriceBook {
    let models = settings.models.clone();
    Arc::new(move |name: &str| {
        let (provider, model) = name.split_once('/').unwrap_or((name, ""));
        models.get(provider, model).prices.map(TokenPrices::from)
    })
}

pub(crate) async fn usage(settings: &Settings, args: UsageArgs) -> anyhow::Result<()> {
    let Some(store) = wiring::readable_store(settings).await? else {
        writeln!(io::stderr(), "there are no sessions yet; lango chat starts one")?;
        return Ok(());
    };
    // A file that cannot be written keeps what is not counted yet.
    if let Err(error) = Upkeep::new(Arc::clone(&store)).count().await {
        report_uncounted(&error);
    }
    let groups = args.by.iter().filter_map(|dimension| match dimension {
        Dimension::Group(group) => Some(*group),
        Dimension::Model => None,
    });
    let query = UsageQuery {
        groups: groups.collect(),
        app: args.app,
        user: args.user,
        session: args.session,
        agent: args.agent,
        model: args.model,
        from: args.from,
        to: args.to,
    };
    let by_model = args.by.contains(&Dimension::Model);
    let by_day = query.groups.contains(&UsageGroup::Day);
    let report = Archive::new(store).usage(query, by_model, &prices(settings)).await?;
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", json_pretty(&serde_json::to_value(&report)?)?)?;
        return Ok(());
    }
    if report.usage.is_empty() {
        writeln!(io::stderr(), "no model call has reported its usage")?;
        return Ok(());
    }
    for line in table(&report) {
        writeln!(out, "{line}")?;
    }
    if by_day {
        writeln!(out)?;
        for line in chart(&report) {
            writeln!(out, "{line}")?;
        }
    }
    if let Some(note) = unpriced_note(&report.total) {
        writeln!(out, "\n{note}")?;
    }
    Ok(())
}

fn report_uncounted(error: &ServiceError) {
    screen::note(&format!("(the usage of earlier versions is not counted completely: {error})"));
}

/// The models whose calls are not part of the cost.
pub(crate) fn unpriced_note(total: &UsageLine) -> Option<String> {
    let name = |model: &String| if model.is_empty() { "(unknown)".to_owned() } else { one_line(model, 80) };
    let models: Vec<String> = total.unpriced.iter().map(name).collect();
    let note =
        || format!("no price is known for {}; set [models.\"NAME\".prices] in lango.toml", models.join(", "));
    (!models.is_empty()).then(note)
}

pub(crate) fn cost(line: &UsageLine) -> String {
    let known = match line.cost {
        Some(cost) if cost >= 0.01 => format!("${cost:.2}"),
        Some(cost) if cost > 0.0 => format!("${cost:.6}"),
        Some(_) => "$0.00".to_owned(),
        None if line.calls == 0 => "$0.00".to_owned(),
        None => return "unknown".to_owned(),
    };
    // The cost of some calls is unknown.
    if line.unpriced.is_empty() { known } else { format!("{known}+") }
}

fn names(line: &UsageLine) -> Vec<String> {
    let named = |name: &Option<String>, empty: &str| {
        name.as_ref().map(|name| if name.is_empty() { empty.to_owned() } else { one_line(name, 48) })
    };
    let UsageLine { day, app, user, session, agent, model, .. } = line;
    let columns = [
        named(day, ""),
        named(app, "-"),
        named(user, "-"),
        named(session, "(deleted)"),
        named(agent, "-"),
        named(model, "(unknown)"),
    ];
    columns.into_iter().flatten().collect()
}

fn cells(line: &UsageLine) -> [String; 7] {
    [
        line.calls.to_string(),
        line.fresh.to_string(),
        line.cache_reads.to_string(),
        line.cache_writes.to_string(),
        line.output.to_string(),
        line.reasoning.to_string(),
        cost(line),
    ]
}

/// The names that a line is grouped by, and its figures.
type TableRow = (Vec<String>, [String; 7]);

/// The table with its header and a line for the sum.
fn table(report: &UsageReport) -> Vec<String> {
    let header = ["calls", "fresh", "cache reads", "cache writes", "output", "reasoning", "cost"];
    let mut rows: Vec<TableRow> = report.usage.iter().map(|line| (names(line), cells(line))).collect();
    let first = rows.first().map_or(0, |(names, _)| names.len());
    let mut total = vec![String::new(); first];
    if let Some(name) = total.first_mut() {
        "total".clone_into(name);
    }
    rows.insert(0, (vec![String::new(); first], header.map(str::to_owned)));
    rows.push((total, cells(&report.total)));
    let widest = |column: &dyn Fn(&TableRow) -> usize| rows.iter().map(column).max().unwrap_or(0);
    let left: Vec<usize> = (0..first).map(|at| widest(&|(names, _)| names[at].chars().count())).collect();
    let right: Vec<usize> = (0..7).map(|at| widest(&|(_, cells)| cells[at].chars().count())).collect();
    let line = |(names, cells): &TableRow| {
        let names = names.iter().zip(&left).map(|(name, width)| format!("{name:<width$}"));
        let cells = cells.iter().zip(&right).map(|(cell, width)| format!("{cell:>width$}"));
        names.chain(cells).collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// A bar for the tokens of each day. Days without calls between two others have an empty bar.
fn chart(report: &UsageReport) -> Vec<String> {
    let mut days: Vec<(String, u64)> = Vec::new();
    for line in &report.usage {
        let Some(day) = &line.day else { continue };
        let tokens = line.input() + line.output + line.reasoning;
        match days.last_mut().filter(|(last, _)| last == day) {
            Some((_, sum)) => *sum += tokens,
            None => days.push((day.clone(), tokens)),
        }
    }
    let most = days.iter().map(|(_, tokens)| *tokens).max().unwrap_or(0).max(1);
    let room = width().unwrap_or(80).saturating_sub(24).clamp(10, MAX_BAR);
    let bar = |(day, tokens): &(String, u64)| {
        let cells = (u128::from(*tokens) * room as u128).div_ceil(u128::from(most));
        format!("{day}  {} {tokens}", "█".repeat(usize::try_from(cells).unwrap_or(room)))
    };
    days.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(day: &str, model: &str, (calls, fresh): (u64, u64), cost: Option<f64>) -> UsageLine {
        let unpriced = if cost.is_none() { vec![model.to_owned()] } else { Vec::new() };
        UsageLine {
            day: Some(day.to_owned()),
            model: Some(model.to_owned()),
            calls,
            fresh,
            cost,
            unpriced,
            ..UsageLine::default()
        }
    }

    #[test]
    fn table_has_a_line_per_group_and_a_sum_that_says_what_is_missing() {
        let usage =
            vec![line("2026-11-18", "p/a", (2, 1_000), Some(0.5)), line("2026-11-19", "p/b", (1, 500), None)];
        let total =
            UsageLine { day: None, model: None, cost: Some(0.5), ..line("", "p/b", (3, 1_500), None) };
        let report = UsageReport { usage, total };
        assert_eq!(
            table(&report).join("\n"),
            "\x20                calls  fresh  cache reads  cache writes  output  reasoning     cost
2026-11-18  p/a      2   1000            0             0       0          0    $0.50
2026-11-19  p/b      1    500            0             0       0          0  unknown
total                3   1500            0             0       0          0   $0.50+"
        );
        assert!(unpriced_note(&report.total).unwrap().contains("p/b"));
    }

    #[test]
    fn chart_scales_bars_to_the_largest_day() {
        let usage = vec![
            line("2026-11-18", "p/a", (1, 100), None),
            line("2026-11-18", "p/b", (1, 100), None),
            line("2026-11-19", "p/a", (1, 1), None),
        ];
        let bars = chart(&UsageReport { usage, total: UsageLine::default() });
        assert_eq!(bars.len(), 2);
        assert!(bars[0].ends_with("█ 200") && bars[1].ends_with("  █ 1"), "{bars:?}");
    }
}
