//! Authentication and host checks of the server.

mod guests;
pub(crate) mod jwt;
mod limits;
mod own_keys;
mod tenants;
mod tls;

use crate::common::{AuthServer, TestEnv};
use insta::assert_snapshot;
use std::{fs, os::unix::fs::MetadataExt, path::Path};

const SESSIONS: &str = "/apps/canned/users/ann/sessions";

/// The local token, as an `Authorization` header.
pub(crate) fn local(env: &TestEnv) -> String {
    format!("Bearer {}", fs::read_to_string(env.home().join("server-token")).unwrap().trim())
}

/// A token of `lango token add`, as an `Authorization` header.
pub(crate) fn added(env: &TestEnv, args: &[&str]) -> String {
    let output = env.lango(&[&["token", "add"], args].concat()).success();
    format!("Bearer {}", output.out.trim())
}

/// Every path of the route table, with values for its parameters.
fn routes() -> Vec<String> {
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/src/routes.rs");
    let text = fs::read_to_string(table).unwrap();
    let paths = text.split('"').skip(1).step_by(2).filter(|text| text.starts_with('/'));
    let filled = |path: &str| {
        let segments = path.split('/').map(|segment| match segment {
            "{app}" => "canned",
            "{user}" => "ann",
            segment if segment.starts_with('{') => "x",
            segment => segment,
        });
        segments.collect::<Vec<_>>().join("/")
    };
    let all: Vec<String> = paths.map(filled).collect();
    assert!(all.len() > 20, "{all:?}");
    all
}

#[test]
fn only_public_routes_are_served_without_a_token() {
    let env = TestEnv::canned();
    let server = AuthServer::start(&env, &[]);
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
            let status = server.request(method, &path, &[], b"{}").status;
            if !is_open {
                assert_eq!(status, 401, "{method} {path}");
            }
        }
    }
    assert_eq!(server.get("/health", &[]).status, 200);
    assert_eq!(server.get("/no-such-route", &[]).status, 401);
}

#[test]
fn local_token_is_created_with_owner_only_permissions() {
    let env = TestEnv::canned();
    let server = AuthServer::start(&env, &[]);
    let file = fs::metadata(env.home().join("server-token")).unwrap();
    assert_eq!(file.mode() & 0o777, 0o600);
    let token = local(&env);
    assert_eq!(server.get("/list-apps", &[("authorization", &token)]).status, 200);
    drop(server);
    let again = AuthServer::start(&env, &[]);
    assert_eq!(again.get("/list-apps", &[("authorization", &token)]).status, 200);
}

#[test]
fn login_link_works_once_and_its_cookie_survives_a_restart() {
    let env = TestEnv::canned();
    let server = AuthServer::start(&env, &[]);
    assert_eq!(server.get("/login?code=guess", &[]).status, 401);
    let entered = server.get(&server.link, &[]);
    assert_eq!((entered.status, entered.header("location")), (303, Some("/")));
    let cookie = entered.header("set-cookie").unwrap().to_owned();
    let (pair, rest) = cookie.split_once(';').unwrap();
    assert_eq!(rest, " Path=/; Max-Age=2592000; HttpOnly; SameSite=Strict");
    assert_eq!(server.get("/list-apps", &[("cookie", pair)]).status, 200);
    assert_eq!(server.get(&server.link, &[]).status, 401, "a link works once");
    assert_eq!(server.get("/list-apps", &[("cookie", &format!("{pair}x"))]).status, 401);
    let text = fs::read_to_string(env.home().join("logins.json")).unwrap();
    assert!(!text.contains(pair.split_once('=').unwrap().1), "{text}");
    let port = server.address.port().to_string();
    drop(server);
    let again = AuthServer::start(&env, &["--port", &port]);
    assert_eq!(again.get("/list-apps", &[("cookie", pair)]).status, 200);
}

#[test]
fn only_administrators_can_request_a_login_link() {
    let env = TestEnv::canned();
    let server = AuthServer::start(&env, &[]);
    assert_eq!(server.request("POST", "/login", &[], b"").status, 401);
    let link =
        server.request("POST", "/login", &[("authorization", &local(&env))], b"").json()["path"].clone();
    assert_eq!(server.get(link.as_str().unwrap(), &[]).status, 303);
    let ann = added(&env, &["laptop", "--user", "ann"]);
    assert_eq!(server.request("POST", "/login", &[("authorization", &ann)], b"").status, 403);
}

#[test]
fn foreign_host_or_origin_is_refused_on_every_route() {
    let env = TestEnv::canned();
    let server = AuthServer::start(&env, &[]);
    let token = local(&env);
    let token = ("authorization", token.as_str());
    for path in routes().into_iter().chain(["/no-such-route".to_owned()]) {
        for method in ["GET", "POST", "OPTIONS"] {
            let host = server.request(method, &path, &[token, ("host", "evil.example")], b"");
            assert_eq!((host.status, host.body.as_str()), (403, "Forbidden: host not allowed"), "{path}");
            assert_eq!(host.header("content-type"), Some("text/plain"));
            let origin = server.request(method, &path, &[token, ("origin", "http://evil.example")], b"");
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
fn host_and_origin_checks_apply_without_auth() {
    let env = TestEnv::canned();
    let server = AuthServer::start(&env, &["--no-auth"]);
    assert_eq!(server.get("/list-apps", &[]).status, 200);
    assert_eq!(server.get("/list-apps", &[("host", "evil.example")]).status, 403);
    assert_eq!(server.get("/list-apps", &[("origin", "null")]).status, 403);
}

#[test]
fn only_configured_hosts_and_origins_are_accepted() {
    let env = TestEnv::canned();
    let written = fs::read_to_string(env.workdir().join("lango.toml")).unwrap();
    let server =
        "\n[server]\nallowedHosts = [\"agents.example\"]\nallowedOrigins = [\"https://app.example\"]\n";
    env.file("lango.toml", written + server);
    let server = AuthServer::start(&env, &["--allow-host", "inner.example:80"]);
    let token = local(&env);
    let token = ("authorization", token.as_str());
    for (host, status) in [("agents.example", 200), ("inner.example:80", 200), ("inner.example:81", 403)] {
        assert_eq!(server.get("/list-apps", &[token, ("host", host)]).status, status, "{host}");
    }
    let origin = ("origin", "https://app.example");
    let allowed = server.get("/list-apps", &[token, origin]);
    assert_eq!(allowed.header("access-control-allow-origin"), Some("https://app.example"));
    let refused = server.get("/list-apps", &[origin]);
    assert_eq!(
        (refused.status, refused.header("access-control-allow-origin")),
        (401, Some("https://app.example"))
    );
    let preflight = [origin, ("access-control-request-method", "POST")];
    assert_eq!(server.request("OPTIONS", "/run_sse", &preflight, b"").status, 204);
}

#[test]
fn no_auth_is_refused_on_a_non_loopback_address() {
    let env = TestEnv::canned();
    let refused = env.lango(&["serve", "--host", "0.0.0.0", "--port", "0", "--no-auth"]).failure();
    assert_snapshot!(refused.snapshot(), @"
    lango: other machines can reach 0.0.0.0: omit --no-auth and create tokens with lango token add, or listen on 127.0.0.1
    [exit 1]
    ");
    assert!(!env.home().exists());
}

#[test]
fn tokens_are_added_listed_and_revoked() {
    let env = TestEnv::new();
    assert_snapshot!(env.lango(&["token", "list"]).snapshot(), @"
    there are no tokens; lango token add NAME --user USER creates one
    [exit 0]
    ");
    let ann = added(&env, &["laptop", "--user", "ann"]);
    added(&env, &["metrics", "--admin"]);
    added(&env, &["old", "--user", "bob", "--expires", "36500d"]);
    assert_snapshot!(env.lango(&["token", "list"]).snapshot().replace(|c: char| c.is_ascii_digit(), "0"), @"
    laptop   ann  never expires
    metrics  administrator of all users  never expires
    old      bob  expires 0000-00-00 00:00
    [exit 0]
    ");
    assert_snapshot!(env.lango(&["token", "add", "laptop", "--user", "ann"]).failure().snapshot(), @r#"
    lango: the token "laptop" exists already; revoke it first, or choose another name
    [exit 1]
    "#);
    assert_snapshot!(env.lango(&["token", "revoke", "phone"]).failure().snapshot(), @r#"
    lango: no token is named "phone"; lango token list shows them
    [exit 1]
    "#);
    assert_snapshot!(env.lango(&["token", "add", "x", "--user", "u", "--expires", "soon"]).failure().snapshot(), @r#"
    lango: --expires "soon" is not a time like 90d, 12h or 30m
    [exit 1]
    "#);
    env.lango(&["token", "revoke", "laptop"]).success();
    let text = fs::read_to_string(env.home().join("tokens.json")).unwrap();
    assert!(!text.contains("laptop") && text.contains("metrics"));
    assert!(!text.contains(ann.trim_start_matches("Bearer ")));
}

#[test]
fn revoked_or_expired_token_is_rejected_at_once() {
    let env = TestEnv::canned();
    let server = AuthServer::start(&env, &[]);
    let laptop = added(&env, &["laptop", "--user", "ann"]);
    let status = |token: &str| server.get(SESSIONS, &[("authorization", token)]).status;
    assert_eq!(status(&laptop), 200);
    let phone = added(&env, &["phone", "--user", "ann", "--expires", "1h"]);
    assert_eq!(status(&phone), 200);
    let file = env.home().join("tokens.json");
    let mut tokens: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    tokens["tokens"][1]["expiresAt"] = 1.into();
    fs::write(&file, tokens.to_string()).unwrap();
    assert_eq!((status(&laptop), status(&phone)), (200, 401));
    env.lango(&["token", "revoke", "laptop"]).success();
    assert_eq!(status(&laptop), 401);
}

#[test]
fn tokens_appear_in_no_response_and_no_log() {
    let env = TestEnv::canned();
    let server = AuthServer::start(&env, &["--log"]);
    let canary = "canary-canary-canary-canary-canary";
    let shown = format!("Bearer {canary}");
    let cookie = format!("lango-{}={canary}", server.address.port());
    for path in ["/list-apps", "/no-such-route", "/login?code=x", SESSIONS, "/health"] {
        for headers in [[("authorization", shown.as_str())], [("cookie", cookie.as_str())]] {
            let answer = server.request("POST", path, &headers, b"{");
            assert!(!format!("{answer:?}").contains(canary), "{answer:?}");
        }
    }
    let token = local(&env);
    server.get("/list-apps", &[("authorization", &token)]);
    let log = server.log();
    assert!(!log.contains(canary) && !log.contains(token.trim_start_matches("Bearer ")), "{log}");
}
