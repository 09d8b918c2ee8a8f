//! Pages of other sites, DNS rebinding and forged headers of proxies. The browser has the cookie of an administrator.

use super::{
    engine::{Attack, Expect},
    request::{ROUTES, Request, request},
    world::World,
};

const FORBIDDEN: Expect = Expect::Is(&[403]);
const SESSION: &str = "/apps/lango/users/ann/sessions/s";

pub(super) fn rows(world: &World) -> Vec<Attack> {
    let mut rows = Vec::new();
    for route in ROUTES.iter().filter(|route| route.changes()) {
        let request = || route.request("ann", &world.run).header("cookie", &world.cookie);
        let evil = request().header("sec-fetch-site", "cross-site").header("origin", "https://evil.example");
        rows.push(Attack::http(format!("cross-site: {}", route.id()), world, &evil, FORBIDDEN));
        for site in ["cross-site", "same-site", "same-origin, cross-site"] {
            let silent = request().header("sec-fetch-site", site);
            rows.push(Attack::http(format!("{site}, no Origin: {}", route.id()), world, &silent, FORBIDDEN));
        }
    }
    rows.extend(hosts(world));
    rows.extend(origins(world));
    rows.extend(forwarded(world));
    rows.extend(preflights(world));
    rows.extend(fetches(world));
    rows
}

fn read(world: &World) -> Request {
    request("GET", SESSION).header("cookie", &world.cookie)
}

fn hosts(world: &World) -> Vec<Attack> {
    let port = world.server.address.port();
    let hosts = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        format!("127.0.0.1.nip.io:{port}"),
        format!("127.0.0.1:{port}.evil.example"),
        format!("evil.example#127.0.0.1:{port}"),
        format!("evil.example@127.0.0.1:{port}"),
        format!("127.0.0.1:{port}@evil.example"),
        format!("127.0.0.1:{port}, evil.example"),
        format!("127.0.0.1:{port} evil.example"),
        format!("127.0.0.1:{port}/evil.example"),
        format!("localhost.:{port}.evil.example"),
        "127.0.0.1:1".to_owned(),
        "localhost".to_owned(),
        format!("0.0.0.0:{port}"),
        format!("[::]:{port}"),
        format!("10.0.0.1:{port}"),
        format!("2130706433:{port}"),
        format!("0x7f.1:{port}"),
        format!("loc\u{e1}lhost:{port}"),
        format!("127.0.0.1:{port}:80"),
        "127.0.0.1:99999".to_owned(),
        format!("127.0.0.1:-{port}"),
        String::new(),
        ":".to_owned(),
        format!(":{port}"),
        "null".to_owned(),
        "(none)".to_owned(),
    ];
    let row = |host: &String| {
        Attack::http(
            format!("Host: {host}"),
            world,
            &read(world).header("host", host),
            Expect::Is(&[400, 403]),
        )
    };
    let mut rows: Vec<Attack> = hosts.iter().map(row).collect();
    let own = world.address();
    let twice = read(world).header("host", &own).header("host", "evil.example");
    rows.push(Attack::http("two Hosts", world, &twice, Expect::Is(&[400, 403])));
    let same = read(world).header("host", &own).header("host", &own);
    rows.push(Attack::http("the same Host twice", world, &same, Expect::Is(&[400, 403])));
    let absolute = request("GET", &format!("http://evil.example{SESSION}")).header("cookie", &world.cookie);
    rows.push(Attack::http("absolute URI of another host", world, &absolute, Expect::Is(&[400, 403])));
    for path in ["/health", "/readyz", "/openapi.json", "/docs", "/", "/login?code=x"] {
        let request = request("GET", path).header("host", "evil.example");
        rows.push(Attack::http(format!("public route {path} of another host"), world, &request, FORBIDDEN));
    }
    rows
}

fn origins(world: &World) -> Vec<Attack> {
    let own = world.address();
    let origins = [
        "null".to_owned(),
        "https://evil.example".to_owned(),
        format!("https://{own}"),
        format!("http://{own}.evil.example"),
        format!("http://evil.example/{own}"),
        format!("http://{own}@evil.example"),
        format!("http://{own}/"),
        format!("HTTP://{own}"),
        "http://127.0.0.1".to_owned(),
        format!("http://localhost:{}", world.server.address.port()),
        "http://app.example".to_owned(),
        "https://app.example:444".to_owned(),
        "https://app.example.evil.example".to_owned(),
        "https://APP.example.".to_owned(),
        "https://app.example, https://evil.example".to_owned(),
        "file://".to_owned(),
        "chrome-extension://abc".to_owned(),
        String::new(),
        "*".to_owned(),
        own.clone(),
    ];
    let row = |origin: &String| {
        let request = read(world).header("origin", origin);
        Attack::http(format!("Origin: {origin}"), world, &request, FORBIDDEN)
    };
    let mut rows: Vec<Attack> = origins.iter().map(row).collect();
    let both =
        read(world).header("origin", &format!("http://{own}")).header("origin", "https://evil.example");
    rows.push(Attack::http("two Origins", world, &both, FORBIDDEN));
    // A listed origin is another site: it needs a token, the cookie does not count.
    let listed = read(world).header("origin", "https://app.example");
    rows.push(Attack::http("cookie of a listed origin", world, &listed, Expect::Is(&[401, 403])));
    let listed = listed.header("sec-fetch-site", "cross-site");
    rows.push(Attack::http("cookie of a listed origin, cross-site", world, &listed, Expect::Is(&[401, 403])));
    rows
}

/// The peer is not a trusted proxy, so these headers have no effect.
fn forwarded(world: &World) -> Vec<Attack> {
    let own = world.address();
    let evil = || read(world).header("host", "evil.example");
    let rows = [
        ("X-Forwarded-Host names this host", evil().header("x-forwarded-host", &own)),
        ("Forwarded names this host", evil().header("forwarded", &format!("host=\"{own}\";proto=http"))),
        ("X-Original-Host", evil().header("x-original-host", &own)),
        ("X-Host", evil().header("x-host", &own)),
        (
            "X-Forwarded-Proto changes the origin",
            read(world).header("x-forwarded-proto", "https").header("origin", &format!("https://{own}")),
        ),
        (
            "X-Forwarded-Host changes the origin",
            read(world).header("x-forwarded-host", "evil.example").header("origin", "http://evil.example"),
        ),
        ("X-Forwarded-For of loopback", evil().header("x-forwarded-for", "127.0.0.1")),
        ("X-HTTP-Method-Override", evil().header("x-http-method-override", "DELETE")),
    ];
    rows.map(|(id, request)| Attack::http(id, world, &request, FORBIDDEN)).into()
}

fn preflights(world: &World) -> Vec<Attack> {
    let preflight = |path: &str, method: &str| {
        let request = request("OPTIONS", path).header("origin", "https://evil.example");
        request.header("access-control-request-method", method)
    };
    let mut rows = Vec::new();
    for (method, path) in [
        ("POST", "/run"),
        ("POST", "/run_sse"),
        ("DELETE", SESSION),
        ("PATCH", SESSION),
        ("GET", "/list-apps"),
        ("PUT", "/health"),
    ] {
        let request = preflight(path, method).header("access-control-request-headers", "authorization");
        rows.push(Attack::http(format!("preflight {method} {path}"), world, &request, FORBIDDEN));
    }
    let private = preflight("/run", "POST").header("access-control-request-private-network", "true");
    rows.push(Attack::http("preflight of a private network", world, &private, FORBIDDEN));
    rows
}

/// Requests of other sites without `Origin`.
fn fetches(world: &World) -> Vec<Attack> {
    let fetch = |mode: &str, dest: &str| {
        let request = read(world).header("sec-fetch-site", "cross-site");
        request.header("sec-fetch-mode", mode).header("sec-fetch-dest", dest)
    };
    let image = ("image", fetch("no-cors", "image"), Expect::Is(&[401, 403]));
    let script = ("script", fetch("no-cors", "script"), Expect::Is(&[401, 403]));
    let frame = ("frame", fetch("navigate", "iframe"), Expect::Is(&[401, 403]));
    // The cookie is SameSite=Strict: a browser does not send it here, and the server does not accept it.
    let link = ("link", fetch("navigate", "document"), Expect::Is(&[401, 403]));
    let case = ("CROSS-SITE", read(world).header("sec-fetch-site", "CROSS-SITE"), Expect::Is(&[401, 403]));
    let form = request("POST", "/run")
        .header("cookie", &world.cookie)
        .header("sec-fetch-site", "cross-site")
        .header("content-type", "text/plain")
        .body(r#"{"appName":"lango","userId":"ann","sessionId":"s","newMessage":{"parts":[{"text":"x"}]}}"#);
    let form = ("form", form, FORBIDDEN);
    let rows = [image, script, frame, link, case, form];
    rows.map(|(id, request, expect)| Attack::http(format!("cross-site {id}"), world, &request, expect)).into()
}
