//! `lango tools`: lists the tools of an agent with their origin and approval, and the resources and prompts of MCP servers.

use crate::{
    args::ToolsArgs,
    config::Settings,
    screen::{json, one_line},
    wiring::{self, Toolbox},
};
use serde_json::{Map, Value, json};
use std::{
    io::{self, Write},
    sync::Arc,
};
use tools::{
    AppUser, Effect, Safety, Tool,
    files::FileRoots,
    mcp::{McpOffer, OfferKind},
    policy::{
        CommandSandbox, Decision, PathScope, PolicyRequest, PolicyRule, RulePlace, SandboxCapability, Verdict,
    },
};

/// A row of the list.
struct ToolRow {
    tool: Arc<dyn Tool>,
    origin: String,
    verdict: Verdict,
}

/// The contents of the list.
struct ListedTools {
    rows: Vec<ToolRow>,
    roots: FileRoots,
    offers: Vec<McpOffer>,
    /// The problems of MCP servers, by server name.
    problems: Vec<(String, String)>,
}

pub(crate) async fn tools(settings: &Settings, args: &ToolsArgs) -> anyhow::Result<()> {
    let toolbox = Toolbox::quiet(settings)?;
    let wanted = wiring::tools_wanted(settings, args.app.as_deref())?;
    let stored = stored_rules(settings, args.app.as_deref())?;
    // No command is decided on, so the sandbox need not be probed.
    let sandbox = &CommandSandbox::new(SandboxCapability::complete());
    let roots = wiring::roots(settings)?;
    let scope = PathScope::on_disk(roots.paths(), "".as_ref());
    let own = toolbox.registry.with_origins().map(|(tool, origin)| (Arc::clone(tool), origin.to_owned()));
    let listed = toolbox.servers.tools().await;
    let of_servers = listed.into_iter().map(|listed| (listed.tool, format!("MCP server {}", listed.server)));
    let is_wanted = |tool: &Arc<dyn Tool>| {
        wanted.as_ref().is_none_or(|wanted| wiring::mcp::matches_any(wanted, &tool.spec().name))
    };
    let no_args = Map::new();
    let rows = own.chain(of_servers).filter(|(tool, _)| is_wanted(tool)).map(|(tool, origin)| {
        let request = PolicyRequest {
            mode: settings.tools.mode,
            stored: &stored,
            ..PolicyRequest::new(tool.spec(), &no_args, sandbox)
        };
        let verdict = verdict(&*tool, settings.tools.policy.decide(&request, &scope));
        ToolRow { tool, origin, verdict }
    });
    let (rows, offers) = (rows.collect(), toolbox.servers.offers().await);
    let listed = ListedTools { rows, offers, problems: toolbox.servers.problems(), roots };
    print(&listed, args.json)
}

/// The stored rules of the configured user that apply in this folder.
fn stored_rules(settings: &Settings, app: Option<&str>) -> anyhow::Result<Vec<PolicyRule>> {
    let owner = AppUser { app: wiring::app_name(settings, app)?, user: settings.user.clone() };
    let folder = wiring::roots(settings)?.paths().into_iter().next().unwrap_or_default();
    let place = RulePlace { workdir: folder.clone(), folder };
    let stored = wiring::rule_book(settings).rules_of(&owner)?.into_iter();
    Ok(stored.filter(|stored| stored.place.as_ref() == Some(&place)).map(|stored| stored.rule).collect())
}

/// The verdict on a call without arguments, with what the tool itself requires.
fn verdict(tool: &dyn Tool, verdict: Verdict) -> Verdict {
    let reason =
        tool.review_reason().or_else(|| tool.spec().confirm.then(|| "it is confirmed each time".to_owned()));
    match reason.filter(|_| verdict.decision == Decision::Allow) {
        Some(reason) => Verdict::new(Decision::Ask, reason),
        None => verdict,
    }
}

fn print(listed: &ListedTools, as_json: bool) -> anyhow::Result<()> {
    let ListedTools { rows, offers, roots, problems } = listed;
    let mut out = io::stdout().lock();
    let width = rows.iter().map(|row| row.tool.spec().name.len()).max().unwrap_or_default();
    for row in rows {
        let line = if as_json { json(&as_value(row))? } else { as_line(row, width) };
        writeln!(out, "{line}")?;
    }
    // The default, the writable working directory alone, is not printed.
    if roots.iter().any(|root| !root.is_writable()) || roots.iter().count() > 1 {
        for root in roots.iter() {
            let value = json!({"root": root.path(), "write": root.is_writable()});
            let line = if as_json { json(&value)? } else { one_line(&format!("files in {root}"), 1_000) };
            writeln!(out, "{line}")?;
        }
    }
    for offer in offers {
        let line = if as_json { json(&offer_value(offer))? } else { offer_line(offer) };
        writeln!(out, "{line}")?;
    }
    for (server, problem) in problems {
        if as_json {
            writeln!(out, "{}", json(&json!({"server": server, "problem": problem}))?)?;
        } else {
            writeln!(out, "{}", one_line(problem, 1_000))?;
        }
    }
    Ok(())
}

fn as_line(row: &ToolRow, width: usize) -> String {
    let spec = row.tool.spec();
    let asks = match row.verdict.decision {
        Decision::Allow => "runs unasked",
        Decision::Ask => "asks",
        Decision::Deny => "is denied",
    };
    let untrusted = if spec.untrusted { ", untrusted" } else { "" };
    let (safety, effect) = (safety(spec.safety), effect(spec.effect));
    let origin = one_line(&row.origin, 200);
    format!("{:width$}  {safety:7}  {effect:10}  {asks:12}  {origin}{untrusted}", spec.name)
}

fn as_value(row: &ToolRow) -> Value {
    let spec = row.tool.spec();
    json!({
        "name": spec.name,
        "origin": row.origin,
        "safety": spec.safety,
        "effect": spec.effect,
        "untrusted": spec.untrusted,
        "approval": row.verdict.decision,
        "reason": row.verdict.reason,
        "description": spec.description,
    })
}

fn offer_line(offer: &McpOffer) -> String {
    let McpOffer { server, kind, name, description, arguments } = offer;
    let argument = |(name, required): &(String, bool)| {
        if *required { format!(" {name}=…") } else { format!(" [{name}=…]") }
    };
    let arguments: String = arguments.iter().map(argument).collect();
    let description = if description.is_empty() { String::new() } else { format!(": {description}") };
    one_line(&format!("{} {name}{arguments} of MCP server {server}{description}", kind_word(*kind)), 300)
}

fn offer_value(offer: &McpOffer) -> Value {
    let McpOffer { server, kind, name, description, arguments } = offer;
    let mut value = json!({kind_word(*kind): name, "server": server, "description": description});
    if *kind == OfferKind::Prompt {
        let argument = |(name, required): &(String, bool)| json!({"name": name, "required": required});
        value["arguments"] = arguments.iter().map(argument).collect();
    }
    value
}

fn kind_word(kind: OfferKind) -> &'static str {
    match kind {
        OfferKind::Resource => "resource",
        OfferKind::Prompt => "prompt",
    }
}

fn safety(class: Safety) -> &'static str {
    match class {
        Safety::Read => "read",
        Safety::Write => "write",
        Safety::Execute => "execute",
        Safety::Network => "network",
    }
}

fn effect(class: Effect) -> &'static str {
    match class {
        Effect::ReadOnly => "read only",
        Effect::Idempotent => "idempotent",
        Effect::Once => "once",
    }
}
