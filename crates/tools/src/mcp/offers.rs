//! Resources and prompts of a server: their lists, with limits.

use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{PaginatedRequestParams, Prompt, Resource},
};

use crate::outputs::to_plain_text;

/// Limits for a server whose list never ends.
const MAX_PAGES: usize = 100;
const MAX_ITEMS: usize = 2_000;
/// Longer texts are cut.
const MAX_CHARS: usize = 500;

/// A resource or a prompt of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpOffer {
    pub server: String,
    pub kind: OfferKind,
    /// The URI of a resource, or the name of a prompt.
    pub name: String,
    pub description: String,
    /// The arguments of a prompt, each with whether it is required.
    pub arguments: Vec<(String, bool)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferKind {
    Resource,
    Prompt,
}

/// Lists what the server declares in its capabilities.
pub(super) async fn list_offers(
    peer: &Peer<RoleClient>,
    server: &str,
) -> Result<Vec<McpOffer>, ServiceError> {
    let capabilities = peer.peer_info().map(|info| info.capabilities.clone()).unwrap_or_default();
    let mut offers = Vec::new();
    if capabilities.resources.is_some() {
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let page = peer.list_resources(Some(page_at(cursor))).await?;
            offers.extend(page.resources.into_iter().map(|resource| of_resource(server, resource)));
            cursor = page.next_cursor;
            if cursor.is_none() || offers.len() >= MAX_ITEMS {
                break;
            }
        }
        offers.truncate(MAX_ITEMS);
    }
    if capabilities.prompts.is_some() {
        let prompts = list_prompts(peer).await?;
        offers.extend(prompts.into_iter().map(|prompt| of_prompt(server, prompt)));
    }
    Ok(offers)
}

pub(super) async fn list_prompts(peer: &Peer<RoleClient>) -> Result<Vec<Prompt>, ServiceError> {
    let (mut prompts, mut cursor) = (Vec::new(), None);
    for _ in 0..MAX_PAGES {
        let page = peer.list_prompts(Some(page_at(cursor))).await?;
        prompts.extend(page.prompts);
        cursor = page.next_cursor;
        if cursor.is_none() || prompts.len() >= MAX_ITEMS {
            break;
        }
    }
    prompts.truncate(MAX_ITEMS);
    Ok(prompts)
}

fn page_at(cursor: Option<String>) -> PaginatedRequestParams {
    let mut params = PaginatedRequestParams::default();
    params.cursor = cursor;
    params
}

fn of_resource(server: &str, resource: Resource) -> McpOffer {
    let description = resource.description.or(resource.title).unwrap_or(resource.name);
    offer(server, OfferKind::Resource, (&resource.uri, &description))
}

fn of_prompt(server: &str, prompt: Prompt) -> McpOffer {
    let description = prompt.description.or(prompt.title).unwrap_or_default();
    let arguments = prompt.arguments.unwrap_or_default().into_iter();
    let arguments = arguments.map(|argument| (plain(&argument.name), argument.required == Some(true)));
    McpOffer {
        arguments: arguments.collect(),
        ..offer(server, OfferKind::Prompt, (&prompt.name, &description))
    }
}

fn offer(server: &str, kind: OfferKind, (name, description): (&str, &str)) -> McpOffer {
    let (name, description) = (plain(name), plain(description));
    McpOffer { server: server.to_owned(), kind, name, description, arguments: Vec::new() }
}

fn plain(text: &str) -> String {
    to_plain_text(text.as_bytes()).chars().take(MAX_CHARS).collect()
}
