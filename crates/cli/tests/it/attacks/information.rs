//! Information about the machine in responses to unauthenticated and non-administrator clients.

use super::{
    engine::{Attack, Expect},
    request::{Request, request},
    world::{World, message},
};
use serde_json::json;

pub(super) fn rows(world: &World) -> Vec<Attack> {
    // An agent that cannot be loaded: its reason names a path and a setting.
    world
        .env
        .file("agents/broken/root_agent.yaml", "name: broken\nmodel: team/none\ninstruction: 1\ntools: [1\n");
    world
        .env
        .file("agents/keyless/root_agent.yaml", "name: keyless\nmodel: anthropic/none\ninstruction: hi\n");
    let guest = |request: Request| request.token(&world.bob);
    let get = |path: &str| request("GET", path);
    let run = |app: &str| {
        let mut body = message("bob", &json!([{"text": "hello"}]));
        body["appName"] = json!(app);
        guest(request("POST", "/run").body(body.to_string()))
    };
    let sessions =
        |app: &str| guest(request("POST", &format!("/apps/{app}/users/bob/sessions/i")).body("{}"));
    let mut rows = Vec::new();
    for path in ["/health", "/readyz", "/openapi.json", "/docs", "/", "/dev-ui/", "/dev-ui/config", "/login"]
    {
        rows.push(quiet(format!("stranger {path}"), world, &get(path), OPEN));
        rows.push(quiet(format!("guest {path}"), world, &guest(get(path)), OPEN));
    }
    for path in ["/version", "/whoami", "/list-apps", "/apps/lango/app-info", "/dev/apps/lango/build_graph"] {
        rows.push(quiet(format!("guest {path}"), world, &guest(get(path)), Expect::Is(&[200])));
    }
    for path in ["/dev/apps/lango/deploy/defaults", "/run_live", "/dev/apps/lango/builder"] {
        rows.push(quiet(format!("guest {path}"), world, &guest(get(path)), Expect::Is(&[200, 404, 501])));
    }
    let broken = Expect::Is(&[404, 500]);
    for app in ["broken", "keyless", "none", "..%2fhere"] {
        rows.push(
            quiet(format!("session of app {app}"), world, &sessions(app), Expect::Is(&[200, 404, 500]))
                .may_store(),
        );
        rows.push(quiet(
            format!("info of app {app}"),
            world,
            &guest(get(&format!("/apps/{app}/app-info"))),
            broken,
        ));
    }
    for app in ["broken", "none"] {
        rows.push(quiet(format!("run of app {app}"), world, &run(app), broken));
    }
    rows.extend(errors(world));
    rows
}

fn errors(world: &World) -> Vec<Attack> {
    let guest = |request: Request| request.token(&world.bob);
    let get = |path: &str| request("GET", path);
    let cases = [
        ("invalid JSON", guest(request("POST", "/run").body("{"))),
        ("invalid type", guest(request("POST", "/run").body("[]"))),
        ("unknown route", guest(get("/no/such/route"))),
        ("wrong method", guest(request("PUT", "/run"))),
        ("wrong token", get("/whoami").token("Bearer guess")),
        ("wrong JWT", get("/whoami").token("Bearer e30.e30.e30")),
        ("metrics", guest(get("/metrics"))),
        ("metrics of a stranger", get("/metrics")),
        ("invalid query", guest(get("/apps/lango/users/bob/sessions?limit=x&after=y"))),
        ("invalid path", guest(get("/apps/lango/users/%ff/sessions"))),
        ("another host", get("/health").header("host", "evil.example")),
        ("trace header", guest(get("/no-such-route").header("traceparent", "00-x-y-z"))),
    ];
    let row =
        |(id, request): &(&str, Request)| quiet(format!("error: {id}"), world, request, Expect::Harmless);
    cases.iter().map(row).collect()
}

/// `/readyz` is 503 if the machine is busy.
const OPEN: Expect = Expect::Is(&[200, 303, 307, 308, 401, 503]);

/// A row whose response must contain no name of a file, a program, a provider or a library either.
fn quiet(id: String, world: &World, request: &Request, expect: Expect) -> Attack {
    Attack::http(id, world, request, expect).without(&[
        "lango.db",
        "jwks.json",
        "issuer.example",
        "lango.toml:",
        "root_agent.yaml",
        "TEAM_KEY",
        "127.0.0.1:9/",
        ".rs:",
        "panicked",
        "sqlite",
        "hyper",
        "axum",
        "serde",
    ])
}
