//! Requests without a valid credential.

use super::{
    engine::{Attack, Expect},
    jwts,
    request::{ROUTES, Request, request},
    world::{World, message},
};
use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};
use std::fs;

const SESSION: &str = "/apps/lango/users/ann/sessions/s";
const UNAUTHORIZED: Expect = Expect::Is(&[401]);

pub(super) fn rows(world: &World) -> Vec<Attack> {
    let mut rows = Vec::new();
    for route in ROUTES {
        let request = route.request("ann", &world.run);
        rows.push(Attack::http(format!("no token: {}", route.id()), world, &request, UNAUTHORIZED));
    }
    for (name, value) in headers(world) {
        for (target, request) in targets() {
            let request = request.header(name, &value);
            rows.push(Attack::http(format!("{name}: {value}: {target}"), world, &request, UNAUTHORIZED));
        }
    }
    for (id, token) in jwts::invalid(&world.issuer) {
        let request = request("GET", SESSION).token(&token);
        rows.push(Attack::http(format!("JWT: {id}"), world, &request, UNAUTHORIZED));
    }
    let valid = request("GET", "/whoami").token(&jwts::valid(&world.issuer));
    rows.push(Attack::http("control: a valid JWT", world, &valid, Expect::Says("\"user\":\"ann\"")));
    rows.extend(urls(world));
    rows.extend(logins(world));
    rows
}

/// A request that reads and one with side effects.
fn targets() -> [(&'static str, Request); 2] {
    let body = message("ann", &json!([{"text": "hello"}])).to_string();
    [("read", request("GET", SESSION)), ("run", request("POST", "/run").body(body))]
}

fn bare(token: &str) -> &str {
    token.trim_start_matches("Bearer ")
}

fn headers(world: &World) -> Vec<(&'static str, String)> {
    let token = bare(&world.ann);
    let digests: Value =
        serde_json::from_str(&fs::read_to_string(world.env.home().join("tokens.json")).unwrap()).unwrap();
    let digest = digests["tokens"][1]["sha256"].as_str().unwrap();
    let (cookie, value) = world.cookie.split_once('=').unwrap();
    let authorization = [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        token.to_owned(),
        format!("Basic {}", BASE64.encode(format!("ann:{token}"))),
        format!("Token {token}"),
        format!("Bearer{token}"),
        format!("Bearer Bearer {token}"),
        format!("Bearer {}", &token[..token.len() - 1]),
        format!("Bearer {token}A"),
        format!("Bearer {token},"),
        format!("Bearer {token} {token}"),
        format!("Bearer \"{token}\""),
        format!("Bearer {}", token.to_lowercase()),
        format!("Bearer {digest}"),
        format!("Bearer {value}"),
        format!("Digest username=\"ann\", response=\"{token}\""),
        format!("Bearer {token}\u{e9}"),
        "Bearer null".to_owned(),
        "Bearer ann".to_owned(),
        format!("Bearer {}", "A".repeat(20_000)),
        world.expired.clone(),
        world.revoked.clone(),
    ];
    let mut headers: Vec<(&str, String)> =
        authorization.into_iter().map(|value| ("authorization", value)).collect();
    headers.extend([
        ("cookie", format!("{cookie}={token}")),
        ("cookie", format!("{cookie}={}", &value[..value.len() - 1])),
        ("cookie", format!("{cookie}={value}x")),
        ("cookie", format!("{}={value}", cookie.to_uppercase())),
        ("cookie", format!("authorization=Bearer {token}")),
        ("cookie", format!("{cookie}=; {cookie}")),
        ("cookie", format!("x{cookie}={value}")),
        ("x-api-key", token.to_owned()),
        ("x-goog-api-key", token.to_owned()),
        ("proxy-authorization", world.ann.clone()),
        ("x-forwarded-user", "ann".to_owned()),
        ("x-user-id", "ann".to_owned()),
        ("x-forwarded-for", "127.0.0.1".to_owned()),
    ]);
    headers
}

/// Tokens in URLs are not accepted.
fn urls(world: &World) -> Vec<Attack> {
    let token = bare(&world.ann);
    let address = world.address();
    let urls = [
        format!("{SESSION}?token={token}"),
        format!("{SESSION}?access_token={token}"),
        format!("{SESSION}?key={token}"),
        format!("{SESSION}?api_key={token}"),
        format!("{SESSION}?authorization=Bearer%20{token}"),
        format!("{SESSION}?user_id=ann&userId=ann"),
        format!("{SESSION};token={token}"),
        format!("{SESSION}?code=x"),
        format!("/metrics?token={token}"),
    ];
    let row = |url: &String| Attack::http(format!("url: {url}"), world, &request("GET", url), UNAUTHORIZED);
    let mut rows: Vec<Attack> = urls.iter().map(row).collect();
    let request = request("GET", &format!("http://ann:{token}@{address}{SESSION}"));
    rows.push(Attack::http("url: user information", world, &request, Expect::Refused));
    rows
}

fn logins(world: &World) -> Vec<Attack> {
    let used = world.server.link.clone();
    let code = used.split('=').nth(1).unwrap().to_owned();
    let get = |path: &str| request("GET", path);
    let link = request("POST", "/login").token(&world.bob);
    vec![
        Attack::http("login: no code", world, &get("/login"), Expect::Refused),
        Attack::http("login: empty code", world, &get("/login?code="), Expect::Refused),
        Attack::http("login: guess", world, &get("/login?code=guess"), Expect::Refused),
        Attack::http("login: used code", world, &get(&used), Expect::Refused),
        Attack::http("login: two codes", world, &get(&format!("/login?code=x&code={code}")), Expect::Refused),
        Attack::http(
            "login: long code",
            world,
            &get(&format!("/login?code={}", "A".repeat(30_000))),
            Expect::Refused,
        ),
        Attack::http(
            "login: token as code",
            world,
            &get(&format!("/login?code={}", bare(&world.bob))),
            Expect::Refused,
        ),
        Attack::http("login: link of a user", world, &link, Expect::Is(&[403])),
        Attack::http("metrics of a user", world, &get("/metrics").token(&world.bob), Expect::Is(&[403])),
    ]
}
