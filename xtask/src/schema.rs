//! Our server against its OpenAPI description: schemathesis generates requests for every operation, and every response must conform
//! to `/openapi.json` and be no server error. Requests are sent as two users; the second must not see data of the first.

use crate::{
    Result, Workspace,
    conformance::{
        server::{self, Server},
        transcript::{Header, Request},
    },
    peers,
};
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const SCHEMATHESIS: &str = "schemathesis==4.32.5";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
     response_headers_conformance,response_schema_conformance";
/// A fixed seed, so that the requests are reproducible.
const SEED: &str = "20261116";
/// A value in Ann's session that no response to Ben may contain.
const CANARY: &str = "canary-of-ann-7d1f";
const NO_LIMITS: &str = "\n[server]\nrequests_per_minute = 1000000\n";

/// Parameters of both rounds: the resources of Ann.
const ANN: &str =
    "[parameters]\n\"path.app\" = \"canned\"\n\"path.user\" = \"ann\"\n\"path.session\" = \"s1\"\n";
const ANSWERS: &str = "answers.ndjson";

/// The requests of one user.
struct Round<'a> {
    token: &'a str,
    phases: &'a str,
    examples: &'a str,
}

pub(crate) fn check(workspace: &Workspace) -> Result<bool> {
    let Some(tool) = installed(workspace)? else { return Ok(true) };
    let home = server::home(workspace, "schema")?;
    let config = home.join("lango.toml");
    let canned = workspace.root.join("fixtures/canned");
    fs::write(&config, fs::read_to_string(canned.join("lango.toml"))? + NO_LIMITS)?;
    std::os::unix::fs::symlink(canned.join("agents"), home.join("agents"))?;
    fs::write(home.join("schemathesis.toml"), ANN)?;
    let server = Server::start_in(workspace, home, &config, &[])?;
    let [ann, ben] = ["ann", "ben"].map(|user| token(workspace, &server, user));
    let (ann, ben) = (ann?, ben?);
    create_session(&server, &ann)?;
    let own = Round { token: &ann, phases: "coverage,fuzzing", examples: "4" };
    let foreign = Round { token: &ben, phases: "fuzzing", examples: "4" };
    if !own.is_good(&tool, &server)? || !foreign.is_good(&tool, &server)? {
        return Ok(false);
    }
    let seen = fs::read_to_string(server.home.join(ANSWERS))?;
    if seen.contains(CANARY) {
        println!("a response contains data of another user: {CANARY}");
    }
    Ok(!seen.contains(CANARY))
}

fn token(workspace: &Workspace, server: &Server, user: &str) -> Result<String> {
    let output =
        server::lango(workspace, &server.home).args(["token", "add", user, "--user", user]).output()?;
    let token = String::from_utf8(output.stdout)?.trim().to_owned();
    if token.is_empty() { Err("`lango token add` printed no token".into()) } else { Ok(token) }
}

/// Creates a session of Ann that contains the canary.
fn create_session(server: &Server, token: &str) -> Result<()> {
    let headers =
        [("Content-Type", "application/json".to_owned()), ("Authorization", format!("Bearer {token}"))];
    let headers = headers.into_iter().map(|(name, value)| Header { name: name.to_owned(), value });
    let request = Request {
        method: "POST".to_owned(),
        path: "/apps/canned/users/ann/sessions/s1".to_owned(),
        headers: headers.collect(),
        body: Some(format!("{{\"secret\":\"{CANARY}\"}}")),
    };
    match server.base.send(&request)?.status {
        200 => Ok(()),
        other => Err(format!("the session could not be created: {other}").into()),
    }
}

impl Round<'_> {
    fn is_good(&self, tool: &Path, server: &Server) -> Result<bool> {
        let mut command = Command::new(tool);
        command
            .args(["--config-file", "schemathesis.toml", "run"])
            .arg(format!("{}/openapi.json", server.url));
        command.args(["--header", &format!("Authorization: Bearer {}", self.token)]);
        command.args([
            "--phases",
            self.phases,
            "--max-examples",
            self.examples,
            "--seed",
            SEED,
            "--checks",
            CHECKS,
        ]);
        // Unsupported operations answer 501 by design; the files of the web page belong to ADK.
        command.args([
            "--exclude-path",
            "/run_live",
            "--exclude-tag",
            "unsupported",
            "--exclude-path-regex",
            "^/dev-ui",
            "--warnings",
            "off",
            "--no-color",
            "--no-shrink",
        ]);
        command.args(["--generation-database", "none", "--request-timeout", "20"]);
        command.args(["--report", "ndjson", "--report-ndjson-path", ANSWERS]);
        let output = command.current_dir(&server.home).stdin(Stdio::null()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        if output.status.success() {
            println!(
                "schema: {}",
                text.lines().rfind(|line| !line.is_empty()).unwrap_or_default().trim_matches(['=', ' '])
            );
        } else {
            println!("{text}{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(output.status.success())
    }
}

fn installed(workspace: &Workspace) -> Result<Option<PathBuf>> {
    let place = workspace.target.join("peers").join(SCHEMATHESIS.replace("==", "-"));
    let tool = place.join("venv/bin/schemathesis");
    if place.join("ready").exists() {
        return Ok(Some(tool));
    }
    println!("installing {SCHEMATHESIS} (about 15 s)");
    match install(&place) {
        Ok(()) => Ok(Some(tool)),
        Err(error) if env::var_os("CI").is_some() => Err(error),
        Err(error) => {
            println!("skipped: the check of the OpenAPI description, because {error}");
            Ok(None)
        }
    }
}

fn install(place: &Path) -> Result<()> {
    // Removes an incomplete installation.
    let _ = fs::remove_dir_all(place);
    fs::create_dir_all(place)?;
    peers::run(Command::new("python3").args(["-m", "venv"]).arg(place.join("venv")))?;
    let mut pip = Command::new(place.join("venv/bin/python"));
    pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install", SCHEMATHESIS]);
    peers::run(&mut pip)?;
    fs::write(place.join("ready"), [])?;
    Ok(())
}
