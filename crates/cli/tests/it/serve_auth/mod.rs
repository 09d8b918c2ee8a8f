//! Who is let in, by the real server, and what strangers are told.

mod guests;
mod jwt;
mod limits;
mod own_keys;
mod tenants;
mod tls;

use crate::common::{Place, Running};
use insta::assert_snapshot;
use std::{fs, os::unix::fs::MetadataExt, path::Path};

const SESSIONS: &str = "/apps/canned/users/ann/sessions";

/// The token of the machine, as a header.
fn local(place: &Place) -> String {
    format!("Bearer {}", fs::read_to_string(place.home().join("server-token")).unwrap().trim())
}

/// A token that `lango token add` has made, as a header.
pub(crate) fn added(place: &Place, args: &[&str]) -> String {
    let said = place.lango(&[&["token", "add"], args].concat()).well();
    format!("Bearer {}", said.out.trim())
}

/// Every path of the route table, with something in its places.
fn routes() -> Vec<String> {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/src/routes.rs");
    let text = fs::read_to_string(table).unwrap();
    let paths = text.split('"').skip(1).step_by(2).filter(|text| text.starts_with('/'));
    let filled = |path: &str| {
        let pieces = path.split('/').map(|piece| match piece {
            "{app}" => "canned",
            "{user}" => "ann",
            piece if piece.starts_with('{') => "x",
            piece => piece,
        });
        pieces.collect::<Vec<_>>().join("/")
    };
    let all: Vec<String> = paths.map(filled).collect();
    assert!(all.len() > 20, "{all:?}");
    all
}

#[test]
fn without_a_token_only_what_is_nobodys_is_answered() {
    let place = Place::canned();
    let server = Running::start(&place, &[]);
    let refused = server.get("/list-apps", &[]);
    assert_snapshot!(format!("{} {}\n{}", refused.status, refused.header("www-authenticate").unwrap(), refused.body), @r#"
    401 Bearer realm="lango"
    {"detail":"authentication required: send a token as `Authorization: Bearer TOKEN`, or open the link that `lango serve` prints"}
    "#);
    let bad = server.get("/list-apps", &[("authorization", "Bearer guess")]);
    assert_snapshot!(format!("{} {}\n{}", bad.status, bad.header("www-authenticate").unwrap(), bad.body), @r#"
    401 Bearer realm="lango", error="invalid_token"
    {"detail":"the token is unknown, expired or revoked"}
    "#);
    for path in routes() {
        let is_open =
            matches!(path.as_str(), "/" | "/health" | "/readyz" | "/login" | "/openapi.json" | "/docs")
                || path.starts_with("/dev-ui");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"] {
            let status = server.ask(method, &path, &[], b"{}").status;
            if !is_open {
                assert_eq!(status, 401, "{method} {path}");
            }
        }
    }
    assert_eq!(server.get("/health", &[]).status, 200);
    assert_eq!(server.get("/no-such-route", &[]).status, 401);
}

#[test]
fn the_machines_token_is_made_at_the_first_start_for_its_owner_alone() {
    let place = Place::canned();
    let server = Running::start(&place, &[]);
    let file = fs::metadata(place.home().join("server-token")).unwrap();
    assert_eq!(file.mode() & 0o777, 0o600);
    let token = local(&place);
    assert_eq!(server.get("/list-apps", &[("authorization", &token)]).status, 200);
    drop(server);
    let again = Running::start(&place, &[]);
    assert_eq!(again.get("/list-apps", &[("authorization", &token)]).status, 200);
}

#[test]
fn the_link_lets_one_browser_in_once_and_its_cookie_outlives_the_server() {
    let place = Place::canned();
    let server = Running::start(&place, &[]);
    assert_eq!(server.get("/login?code=guess", &[]).status, 401);
    let entered = server.get(&server.link, &[]);
    assert_eq!((entered.status, entered.header("location")), (303, Some("/")));
    let cookie = entered.header("set-cookie").unwrap().to_owned();
    let (pair, rest) = cookie.split_once(';').unwrap();
    assert_eq!(rest, " Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict");
    assert_eq!(server.get("/list-apps", &[("cookie", pair)]).status, 200);
    assert_eq!(server.get(&server.link, &[]).status, 401, "a link is good once");
    assert_eq!(server.get("/list-apps", &[("cookie", &format!("{pair}x"))]).status, 401);
    let text = fs::read_to_string(place.home().join("logins.json")).unwrap();
    assert!(!text.contains(pair.split_once('=').unwrap().1), "{text}");
    let port = server.address.port().to_string();
    drop(server);
    let again = Running::start(&place, &["--port", &port]);
    assert_eq!(again.get("/list-apps", &[("cookie", pair)]).status, 200);
}

#[test]
fn an_administrators_program_can_ask_for_another_link() {
    let place = Place::canned();
    let server = Running::start(&place, &[]);
    assert_eq!(server.ask("POST", "/login", &[], b"").status, 401);
    let link = server.ask("POST", "/login", &[("authorization", &local(&place))], b"").json()["path"].clone();
    assert_eq!(server.get(link.as_str().unwrap(), &[]).status, 303);
    let ann = added(&place, &["laptop", "--user", "ann"]);
    assert_eq!(server.ask("POST", "/login", &[("authorization", &ann)], b"").status, 403);
}

#[test]
fn a_foreign_host_or_origin_is_refused_on_every_route_before_anything_else() {
    let place = Place::canned();
    let server = Running::start(&place, &[]);
    let token = local(&place);
    let token = ("authorization", token.as_str());
    for path in routes().into_iter().chain(["/no-such-route".to_owned()]) {
        for method in ["GET", "POST", "OPTIONS"] {
            let host = server.ask(method, &path, &[token, ("host", "evil.example")], b"");
            assert_eq!((host.status, host.body.as_str()), (403, "Forbidden: host not allowed"), "{path}");
            assert_eq!(host.header("content-type"), Some("text/plain"));
            let origin = server.ask(method, &path, &[token, ("origin", "http://evil.example")], b"");
            assert_eq!(
                (origin.status, origin.body.as_str()),
                (403, "Forbidden: origin not allowed"),
                "{path}"
            );
            assert_eq!(origin.header("access-control-allow-origin"), None);
        }
    }
    let rebound = format!("evil.example:{}", server.address.port());
    assert_eq!(server.get("/health", &[("host", &rebound)]).status, 403);
    let own = format!("http://{}", server.address);
    assert_eq!(server.get("/list-apps", &[token, ("origin", &own)]).status, 200);
}

#[test]
fn without_auth_the_guard_still_stands() {
    let place = Place::canned();
    let server = Running::start(&place, &["--no-auth"]);
    assert_eq!(server.get("/list-apps", &[]).status, 200);
    assert_eq!(server.get("/list-apps", &[("host", "evil.example")]).status, 403);
    assert_eq!(server.get("/list-apps", &[("origin", "null")]).status, 403);
}

#[test]
fn only_configured_pages_and_names_are_let_through() {
    let place = Place::canned();
    let written = fs::read_to_string(place.here().join("lango.toml")).unwrap();
    let server =
        "\n[server]\nallowedHosts = [\"agents.example\"]\nallowedOrigins = [\"https://app.example\"]\n";
    place.file("lango.toml", written + server);
    let server = Running::start(&place, &["--allow-host", "inner.example:80"]);
    let token = local(&place);
    let token = ("authorization", token.as_str());
    for (host, status) in [("agents.example", 200), ("inner.example:80", 200), ("inner.example:81", 403)] {
        assert_eq!(server.get("/list-apps", &[token, ("host", host)]).status, status, "{host}");
    }
    let origin = ("origin", "https://app.example");
    let asked = server.get("/list-apps", &[token, origin]);
    assert_eq!(asked.header("access-control-allow-origin"), Some("https://app.example"));
    let refused = server.get("/list-apps", &[origin]);
    assert_eq!(
        (refused.status, refused.header("access-control-allow-origin")),
        (401, Some("https://app.example"))
    );
    let preflight = [origin, ("access-control-request-method", "POST")];
    assert_eq!(server.ask("OPTIONS", "/run_sse", &preflight, b"").status, 204);
}

#[test]
fn an_address_that_others_reach_needs_auth() {
    let place = Place::canned();
    let refused = place.lango(&["serve", "--host", "0.0.0.0", "--port", "0", "--no-auth"]).badly();
    assert_snapshot!(refused.picture(), @"
    lango: 0.0.0.0 can be reached by others: leave out --no-auth and give them tokens with lango token add, or listen on 127.0.0.1
    [exit 1]
    ");
    assert!(!place.home().exists());
}

#[test]
fn tokens_are_made_shown_and_taken_back() {
    let place = Place::new();
    assert_snapshot!(place.lango(&["token", "list"]).picture(), @"
    there are no tokens; lango token add NAME --user USER makes one
    [exit 0]
    ");
    let ann = added(&place, &["laptop", "--user", "ann"]);
    added(&place, &["metrics", "--admin"]);
    added(&place, &["old", "--user", "bob", "--expires", "36500d"]);
    assert_snapshot!(place.lango(&["token", "list"]).picture().replace(|c: char| c.is_ascii_digit(), "0"), @"
    laptop   ann  never expires
    metrics  administrator of all users  never expires
    old      bob  expires 0000-00-00 00:00
    [exit 0]
    ");
    assert_snapshot!(place.lango(&["token", "add", "laptop", "--user", "ann"]).badly().picture(), @r#"
    lango: the token "laptop" exists already; revoke it first, or choose another name
    [exit 1]
    "#);
    assert_snapshot!(place.lango(&["token", "revoke", "phone"]).badly().picture(), @r#"
    lango: no token is named "phone"; lango token list shows them
    [exit 1]
    "#);
    assert_snapshot!(place.lango(&["token", "add", "x", "--user", "u", "--expires", "soon"]).badly().picture(), @r#"
    lango: --expires "soon" is not a time like 90d, 12h or 30m
    [exit 1]
    "#);
    place.lango(&["token", "revoke", "laptop"]).well();
    let text = fs::read_to_string(place.home().join("tokens.json")).unwrap();
    assert!(!text.contains("laptop") && text.contains("metrics"));
    assert!(!text.contains(ann.trim_start_matches("Bearer ")));
}

#[test]
fn a_revoked_or_expired_token_is_worthless_at_once() {
    let place = Place::canned();
    let server = Running::start(&place, &[]);
    let laptop = added(&place, &["laptop", "--user", "ann"]);
    let asked = |token: &str| server.get(SESSIONS, &[("authorization", token)]).status;
    assert_eq!(asked(&laptop), 200);
    let phone = added(&place, &["phone", "--user", "ann", "--expires", "1h"]);
    assert_eq!(asked(&phone), 200);
    let file = place.home().join("tokens.json");
    let mut tokens: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    tokens["tokens"][1]["expiresAt"] = 1.into();
    fs::write(&file, tokens.to_string()).unwrap();
    assert_eq!((asked(&laptop), asked(&phone)), (200, 401));
    place.lango(&["token", "revoke", "laptop"]).well();
    assert_eq!(asked(&laptop), 401);
}

#[test]
fn no_token_is_ever_repeated() {
    let place = Place::canned();
    let server = Running::start(&place, &["--log"]);
    let canary = "canary-canary-canary-canary-canary";
    let shown = format!("Bearer {canary}");
    let cookie = format!("lango-{}={canary}", server.address.port());
    for path in ["/list-apps", "/no-such-route", "/login?code=x", SESSIONS, "/health"] {
        for headers in [[("authorization", shown.as_str())], [("cookie", cookie.as_str())]] {
            let answer = server.ask("POST", path, &headers, b"{");
            assert!(!format!("{answer:?}").contains(canary), "{answer:?}");
        }
    }
    let token = local(&place);
    server.get("/list-apps", &[("authorization", &token)]);
    let said = server.said();
    assert!(!said.contains(canary) && !said.contains(token.trim_start_matches("Bearer ")), "{said}");
}
