//! Rules of Anthropic's Messages API.

use super::{WireRule, each, each_in, failing, in_range, is_name, repeated, text, unless};
use serde_json::Value;

pub(super) const RULES: &[WireRule] = &[
    WireRule {
        id: "anthropic/model",
        says: "model: Field required",
        broken: |body| unless(!text(body, "model").is_empty(), "model"),
    },
    WireRule {
        id: "anthropic/max-tokens",
        says: "max_tokens: Field required",
        broken: |body| unless(body["max_tokens"].as_u64().is_some_and(|limit| limit > 0), "max_tokens"),
    },
    WireRule {
        id: "anthropic/messages",
        says: "messages: at least one message is required",
        broken: |body| unless(!each(body, "messages").is_empty(), "messages"),
    },
    WireRule {
        id: "anthropic/role",
        says: "messages: Unexpected role \"system\". The Messages API accepts a top-level `system` parameter.",
        broken: |body| {
            failing(each(body, "messages"), |message| ["user", "assistant"].contains(&text(message, "role")))
        },
    },
    WireRule {
        id: "anthropic/first-user",
        says: "messages: first message must use the \"user\" role",
        broken: |body| {
            unless(
                each(body, "messages").first().is_none_or(|(_, first)| first["role"] == "user"),
                "messages[0]",
            )
        },
    },
    WireRule {
        id: "anthropic/alternate",
        says: "messages: roles must alternate between \"user\" and \"assistant\", but found multiple \"user\" roles in a row",
        broken: |body| {
            let messages = each(body, "messages");
            let pairs = messages.windows(2).filter(|pair| pair[0].1["role"] == pair[1].1["role"]);
            pairs.map(|pair| pair[1].0.clone()).collect()
        },
    },
    WireRule {
        id: "anthropic/last-user",
        says: "This model does not support assistant message prefill. The conversation must end with a user message.",
        broken: |body| {
            unless(each(body, "messages").last().is_none_or(|(_, last)| last["role"] == "user"), "messages")
        },
    },
    WireRule {
        id: "anthropic/content",
        says: "messages.1: all messages must have non-empty content except for the optional final assistant message",
        broken: |body| {
            failing(each(body, "messages"), |message| match &message["content"] {
                Value::String(text) => !text.is_empty(),
                Value::Array(blocks) => !blocks.is_empty(),
                _ => false,
            })
        },
    },
    WireRule {
        id: "anthropic/text-empty",
        says: "messages: text content blocks must be non-empty",
        broken: |body| failing(of_type(body, "text"), |block| !text(block, "text").is_empty()),
    },
    WireRule {
        id: "anthropic/text-whitespace",
        says: "messages: text content blocks must contain non-whitespace text",
        broken: |body| {
            failing(of_type(body, "text"), |block| {
                text(block, "text").is_empty() || !text(block, "text").trim().is_empty()
            })
        },
    },
    WireRule {
        id: "anthropic/trailing-whitespace",
        says: "messages: final assistant content cannot end with trailing whitespace",
        broken: |body| {
            let last = each(body, "messages").pop().filter(|(_, last)| last["role"] == "assistant");
            let block = last.and_then(|(_, message)| each(message, "content").pop());
            let trailing = block.is_some_and(|(_, block)| text(block, "text").ends_with(char::is_whitespace));
            unless(!trailing, "messages")
        },
    },
    WireRule {
        id: "anthropic/calls-answered",
        says: "`tool_use` ids were found without `tool_result` blocks immediately after. Each `tool_use` block must have a corresponding `tool_result` block in the next message.",
        broken: calls_without_result,
    },
    WireRule {
        id: "anthropic/answers-called",
        says: "unexpected `tool_use_id` found in `tool_result` blocks. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
        broken: results_without_call,
    },
    WireRule {
        id: "anthropic/answered-once",
        says: "each tool_use must have a single result. Found multiple `tool_result` blocks with id",
        broken: |body| {
            let results = of_type(body, "tool_result").into_iter();
            repeated(results.map(|(place, block)| (place, text(block, "tool_use_id"))))
        },
    },
    WireRule {
        id: "anthropic/results-first",
        says: "In the user message containing tool results, the tool_result blocks must come first in the content array. Any text must come after all tool results.",
        broken: |body| {
            failing(each(body, "messages"), |message| {
                let kinds: Vec<bool> = each(message, "content")
                    .iter()
                    .map(|(_, block)| block["type"] == "tool_result")
                    .collect();
                kinds.is_sorted_by(|a, b| a >= b)
            })
        },
    },
    WireRule {
        id: "anthropic/result-error",
        says: "tool_result: content cannot be empty if `is_error` is true",
        broken: |body| {
            failing(of_type(body, "tool_result"), |block| {
                block["is_error"] != true || !text(block, "content").is_empty()
            })
        },
    },
    WireRule {
        id: "anthropic/id-unique",
        says: "messages: `tool_use` ids must be unique",
        broken: |body| {
            repeated(of_type(body, "tool_use").into_iter().map(|(place, block)| (place, text(block, "id"))))
        },
    },
    WireRule {
        id: "anthropic/id-pattern",
        says: "messages.1.content.1.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        broken: |body| failing(of_type(body, "tool_use"), |block| is_name(text(block, "id"), usize::MAX)),
    },
    WireRule {
        id: "anthropic/input",
        says: "messages.1.content.0.tool_use.input: Input should be a valid dictionary",
        broken: |body| failing(of_type(body, "tool_use"), |block| block["input"].is_object()),
    },
    WireRule {
        id: "anthropic/thinking-last",
        says: "messages.1: The final block in an assistant message cannot be `thinking`.",
        broken: |body| {
            failing(each(body, "messages"), |message| {
                each(message, "content")
                    .last()
                    .is_none_or(|(_, block)| !text(block, "type").ends_with("thinking"))
            })
        },
    },
    WireRule {
        id: "anthropic/thinking-signature",
        says: "messages.1.content.0.thinking.signature: Field required",
        broken: |body| failing(of_type(body, "thinking"), |block| !text(block, "signature").is_empty()),
    },
    WireRule {
        id: "anthropic/thinking-role",
        says: "messages.0: `thinking` blocks are only allowed in `assistant` messages",
        broken: |body| {
            failing(each(body, "messages"), |message| {
                let thinks = |block: &Value| text(block, "type").ends_with("thinking");
                message["role"] == "assistant"
                    || !each(message, "content").iter().any(|(_, block)| thinks(block))
            })
        },
    },
    WireRule {
        id: "anthropic/thinking-budget",
        says: "`max_tokens` must be greater than `thinking.budget_tokens`; thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        broken: |body| {
            let limit = body["max_tokens"].as_u64().unwrap_or_default();
            let budget = body["thinking"]["budget_tokens"].as_u64();
            let fits = budget.is_some_and(|budget| budget >= 1024 && budget < limit);
            unless(body["thinking"]["type"] != "enabled" || fits, "thinking.budget_tokens")
        },
    },
    WireRule {
        id: "anthropic/thinking-temperature",
        says: "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.",
        broken: |body| {
            let cold = body["temperature"].as_f64().is_some_and(|temperature| temperature < 1.0);
            unless(!thinks(body) || !cold, "temperature")
        },
    },
    WireRule {
        id: "anthropic/thinking-tool-choice",
        says: "Thinking may not be enabled when tool_choice forces tool use.",
        broken: |body| {
            let forced = ["any", "tool"].contains(&text(&body["tool_choice"], "type"));
            unless(!thinks(body) || !forced, "tool_choice")
        },
    },
    WireRule {
        id: "anthropic/thinking-first",
        says: "Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks).",
        broken: |body| {
            let open = calls_without_thinking(body).filter(|_| body["thinking"]["type"] == "enabled");
            open.into_iter().collect()
        },
    },
    WireRule {
        id: "anthropic/cache-count",
        says: "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        broken: |body| unless(cache_breakpoints(body) <= 4, "cache_control"),
    },
    WireRule {
        id: "anthropic/cache-thinking",
        says: "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted",
        broken: |body| {
            let thoughts = of_type(body, "thinking").into_iter().chain(of_type(body, "redacted_thinking"));
            failing(thoughts, |block| block.get("cache_control").is_none())
        },
    },
    WireRule {
        id: "anthropic/tool-name",
        says: "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'",
        broken: |body| {
            let named = each(body, "tools").into_iter().chain(of_type(body, "tool_use"));
            failing(named, |item| is_name(text(item, "name"), 64))
        },
    },
    WireRule {
        id: "anthropic/tool-unique",
        says: "tools: Tool names must be unique.",
        broken: |body| {
            repeated(each(body, "tools").into_iter().map(|(place, tool)| (place, text(tool, "name"))))
        },
    },
    WireRule {
        id: "anthropic/tool-choice",
        says: "tool_choice may only be specified while providing tools; a tool that it names must be among them",
        broken: |body| {
            let names: Vec<&str> =
                each(body, "tools").into_iter().map(|(_, tool)| text(tool, "name")).collect();
            let choice = &body["tool_choice"];
            let known = choice["type"] != "tool" || names.contains(&text(choice, "name"));
            unless(choice.is_null() || (known && !names.is_empty()), "tool_choice")
        },
    },
    WireRule {
        id: "anthropic/schema-type",
        says: "tools.0.custom.input_schema.type: Field required",
        broken: |body| failing(each(body, "tools"), |tool| tool["input_schema"]["type"] == "object"),
    },
    WireRule {
        id: "anthropic/schema-top",
        says: "tools.9.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
        broken: |body| {
            failing(each(body, "tools"), |tool| {
                ["oneOf", "allOf", "anyOf"].iter().all(|key| tool["input_schema"].get(key).is_none())
            })
        },
    },
    WireRule {
        id: "anthropic/temperature",
        says: "temperature: range: 0..1",
        broken: |body| in_range(body, "temperature", 0.0, 1.0),
    },
    WireRule {
        id: "anthropic/temperature-and-top-p",
        says: "`temperature` and `top_p` cannot both be specified for this model. Please use only one.",
        broken: |body| unless(body.get("temperature").is_none() || body.get("top_p").is_none(), "top_p"),
    },
    WireRule {
        id: "anthropic/stop",
        says: "stop_sequences: each stop sequence must contain non-whitespace",
        broken: |body| {
            failing(each(body, "stop_sequences"), |stop| {
                stop.as_str().is_some_and(|stop| !stop.trim().is_empty())
            })
        },
    },
];

/// The blocks of one type in the messages and the system prompt.
fn of_type<'a>(body: &'a Value, kind: &str) -> Vec<(String, &'a Value)> {
    let blocks = each(body, "system").into_iter().chain(each_in(&each(body, "messages"), "content"));
    blocks.filter(|(_, block)| block["type"] == kind).collect()
}

fn ids<'a>(message: &'a Value, kind: &str, key: &str) -> Vec<&'a str> {
    let blocks = each(message, "content").into_iter().filter(|(_, block)| block["type"] == kind);
    blocks.map(|(_, block)| text(block, key)).collect()
}

fn calls_without_result(body: &Value) -> Vec<String> {
    let messages = each(body, "messages");
    let open = messages.iter().enumerate().filter(|(at, (_, message))| {
        let next =
            messages.get(at + 1).map(|(_, next)| ids(next, "tool_result", "tool_use_id")).unwrap_or_default();
        ids(message, "tool_use", "id").iter().any(|id| !next.contains(id))
    });
    open.map(|(_, (place, _))| place.clone()).collect()
}

fn results_without_call(body: &Value) -> Vec<String> {
    let messages = each(body, "messages");
    let stray = messages.iter().enumerate().filter(|(at, (_, message))| {
        let before = at.checked_sub(1).and_then(|at| messages.get(at));
        let called = before.map(|(_, before)| ids(before, "tool_use", "id")).unwrap_or_default();
        ids(message, "tool_result", "tool_use_id").iter().any(|id| !called.contains(id))
    });
    stray.map(|(_, (place, _))| place.clone()).collect()
}

fn thinks(body: &Value) -> bool {
    ["enabled", "adaptive"].contains(&text(&body["thinking"], "type"))
}

/// The first assistant message of the tool calls at the end of the request, if it does not start with thinking.
fn calls_without_thinking(body: &Value) -> Option<String> {
    let messages = each(body, "messages");
    let answered = |pair: &&[(String, &Value)]| !ids(pair[1].1, "tool_result", "tool_use_id").is_empty();
    let (place, first) = &messages.rchunks_exact(2).take_while(answered).last()?[0];
    let blocks = each(first, "content");
    let thinks = blocks.first().is_some_and(|(_, block)| text(block, "type").ends_with("thinking"));
    (!thinks).then(|| place.clone())
}

fn cache_breakpoints(body: &Value) -> usize {
    let blocks = each(body, "system").into_iter().chain(each(body, "tools"));
    let all = blocks.chain(each_in(&each(body, "messages"), "content"));
    all.filter(|(_, block)| block.get("cache_control").is_some()).count()
}
