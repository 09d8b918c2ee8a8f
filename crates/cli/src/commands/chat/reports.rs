//! The answers of `/context`, `/cost` and `/compact`. None of them is part of the session.

use super::peer::Peer;
use crate::{
    commands::usage::{cost, prices, unpriced_note},
    config::Settings,
    screen::one_line,
};
use bridge::{
    Archive,
    agent::context::{Compaction, ContextReport},
    store::usage_report::{SessionUsage, UsageLine},
};
use std::sync::Arc;

/// The width of the bar of shares, in cells.
const BAR: u64 = 40;
const NO_MESSAGES: &str = "the session has no messages yet";

impl Peer {
    pub(super) async fn context(&self) -> anyhow::Result<String> {
        let report = match self {
            Self::Local(local) if local.row().await?.is_none() => None,
            Self::Local(local) => Some(local.app.agent.context(&local.key).await?),
            Self::Remote(remote) => remote.context().await?,
        };
        Ok(report.map_or_else(|| NO_MESSAGES.to_owned(), |report| describe_context(&report)))
    }

    pub(super) async fn cost(&self, settings: &Settings) -> anyhow::Result<String> {
        let usage = match self {
            Self::Local(local) if local.row().await?.is_none() => None,
            Self::Local(local) => {
                let archive = Archive::new(Arc::clone(&local.store));
                Some(archive.session_usage(&local.key, &prices(settings)).await?)
            }
            Self::Remote(remote) => remote.usage().await?,
        };
        Ok(usage.map_or_else(|| NO_MESSAGES.to_owned(), |usage| describe_usage(&usage)))
    }

    pub(super) async fn compact(&self) -> anyhow::Result<String> {
        let compaction = match self {
            Self::Local(local) if local.row().await?.is_none() => None,
            Self::Local(local) => Some(local.app.agent.compact(&local.key).await?),
            Self::Remote(remote) => remote.compact().await?,
        };
        Ok(compaction.map_or_else(|| NO_MESSAGES.to_owned(), |compaction| describe_compaction(&compaction)))
    }
}

fn describe_context(report: &ContextReport) -> String {
    let ContextReport { context, budget, system, tools, history, notes, front, events, advances, .. } =
        report;
    let conversation = history + notes;
    let total = u64::from(system + tools + conversation);
    let window = match context {
        Some(context) => format!("a context of {context} tokens"),
        None => "a context of unknown size".to_owned(),
    };
    let mut lines = vec![
        format!(
            "agent {} · {} · {window}; the conversation may use {budget}",
            one_line(&report.agent, 60),
            one_line(&report.model, 60)
        ),
        format!("the next request has about {total} tokens besides the next message:"),
    ];
    for (name, tokens) in [("system", *system), ("tools", *tools), ("history", *history), ("notes", *notes)] {
        let tokens = u64::from(tokens);
        let share = (tokens * 100).checked_div(total).unwrap_or(0);
        let bar = "█".repeat(usize::try_from((tokens * BAR).checked_div(total).unwrap_or(0)).unwrap_or(0));
        lines.push(format!("  {name:<8}{tokens:>9}  {share:>3} %  {bar}").trim_end().to_owned());
    }
    let begins = match front {
        Some(front) if *front > 1 => format!("it shows {events} events, from number {front} on"),
        Some(_) | None => format!("it shows all {events} events"),
    };
    let advances = if *advances { "; the window advances with it" } else { "" };
    lines.push(format!("{begins}{advances}"));
    lines.join("\n")
}

fn describe_usage(usage: &SessionUsage) -> String {
    let line = |name: &str, line: &UsageLine| {
        let UsageLine { calls, fresh, cache_reads, cache_writes, output, reasoning, .. } = line;
        let cached = match (cache_reads, cache_writes) {
            (0, 0) => String::new(),
            (reads, 0) => format!(" + {reads} cached"),
            (reads, writes) => format!(" + {reads} cached + {writes} written to the cache"),
        };
        let reasoning = if *reasoning > 0 { format!(" + {reasoning} reasoning") } else { String::new() };
        let plural = if *calls == 1 { "call" } else { "calls" };
        format!(
            "{name:<8} {calls} {plural}: {fresh}{cached} tokens in, {output}{reasoning} out, {}",
            cost(line)
        )
    };
    let mut lines =
        vec![line("turn", &usage.turn), line("session", &usage.session), line("today", &usage.today)];
    lines.extend(unpriced_note(&usage.today).or_else(|| unpriced_note(&usage.session)));
    lines.join("\n")
}

fn describe_compaction(compaction: &Compaction) -> String {
    let Compaction { left_out_events, left_out_tokens, shown_events, shown_tokens, .. } = compaction;
    if *left_out_events == 0 {
        return "there is nothing to leave out: requests show one exchange".to_owned();
    }
    format!(
        "requests leave out {left_out_events} earlier events ({left_out_tokens} tokens) and show {shown_events} \
         ({shown_tokens} tokens); the session keeps all of them"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_shows_the_share_of_each_part() {
        let report = ContextReport {
            agent: "root".to_owned(),
            model: "p/m".to_owned(),
            context: Some(8_000),
            budget: 4_000,
            system: 100,
            tools: 100,
            history: 600,
            notes: 0,
            front: Some(7),
            events: 4,
            advances: false,
        };
        assert_eq!(
            describe_context(&report),
            "\
agent root · p/m · a context of 8000 tokens; the conversation may use 4000
the next request has about 800 tokens besides the next message:
  system        100   12 %  █████
  tools         100   12 %  █████
  history       600   75 %  ██████████████████████████████
  notes           0    0 %
it shows 4 events, from number 7 on"
        );
    }

    #[test]
    fn unknown_price_is_said() {
        let line = UsageLine {
            calls: 1,
            fresh: 5,
            output: 2,
            unpriced: vec!["p/m".to_owned()],
            ..UsageLine::default()
        };
        let usage = SessionUsage { turn: line.clone(), session: line.clone(), today: line };
        let text = describe_usage(&usage);
        assert!(text.starts_with("turn     1 call: 5 tokens in, 2 out, unknown"), "{text}");
        assert!(
            text.ends_with("no price is known for p/m; set [models.\"NAME\".prices] in lango.toml"),
            "{text}"
        );
    }
}
