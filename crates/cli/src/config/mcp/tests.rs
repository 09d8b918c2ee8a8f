//! Resolution of MCP servers and commands.

use super::*;

fn sources<'a>(workdir: &'a Path, env: &'a Env) -> Sources<'a> {
    Sources { workdir, base: Path::new("etc"), env, origin: SettingsOrigin::Home }
}

fn read(toml: &str, env: &Env) -> (McpSettings, Vec<String>) {
    let written: BTreeMap<String, McpServerSection> = toml::from_str(toml).unwrap();
    McpSettings::new(written, None, sources(Path::new("/nowhere"), env))
}

#[test]
fn environment_secrets_are_substituted_and_masked() {
    let env = Env::of(&[("TOKEN", "tok-123456"), ("HOME", "/rooms/ann")]);
    let (mcp, secrets) = read(
        r#"
        [far]
        url = "https://mcp.example/mcp"
        headers = { Authorization = "Bearer ${TOKEN}" }
        [near]
        command = "serve"
        args = ["${HOME}/x"]
        cwd = "here"
        enabled = false
        "#,
        &env,
    );
    assert_eq!(secrets, ["tok-123456"]);
    let [far] = mcp.servers.as_slice() else { panic!("{:?}", mcp.servers) };
    let McpTransport::Http { headers, .. } = &far.transport else { panic!("{far:?}") };
    assert_eq!(headers[0].1, "Bearer tok-123456");
    assert!(!format!("{mcp:?}").contains("tok-123456"));
}

#[test]
fn unusable_mcp_server_reports_cause_and_fix() {
    let why = |toml: &str| match &read(toml, &Env::default()).0.servers[0].transport {
        McpTransport::Unavailable(why) => why.clone(),
        other => panic!("{other:?}"),
    };
    insta::assert_snapshot!(
        [
            why("[a]\ncommand = 'x'\nenv = { KEY = '${NOT_SET}' }"),
            why("[a]\ncommand = 'x'\nurl = 'https://x'"),
            why("[a]\ntrusted = true"),
        ].join("\n"), @"
    it needs the variable NOT_SET, which is not set: set it where lango is started
    it has both `command` and `url`; leave one of them out
    it has neither `command` nor `url`; write one of them
    ");
}

#[test]
fn programs_of_a_folder_are_confined_unless_its_settings_say_otherwise() {
    let env = Env::default();
    for (origin, by_default) in
        [(SettingsOrigin::Folder, true), (SettingsOrigin::Explicit, false), (SettingsOrigin::Home, false)]
    {
        let sources = Sources { origin, ..sources(Path::new("/nowhere"), &env) };
        for (line, expected) in
            [("", by_default), ("sandbox = 'off'", false), ("sandbox = 'workspace'", true)]
        {
            let server: McpServerSection = toml::from_str(&format!("command = 'x'\n{line}")).unwrap();
            let (config, _) = server.resolve("a", sources);
            assert_eq!(config.sandboxed, expected, "{origin:?} {line}");
            let command: CommandSection =
                toml::from_str(&format!("description = 'd'\ncommand = ['x']\n{line}")).unwrap();
            let resolved = command.resolve(("a".to_owned(), Path::new("f")), Duration::ZERO, sources);
            assert_eq!(resolved.unwrap().0.sandboxed, expected, "{origin:?} {line}");
        }
    }
}

#[test]
fn project_file_ignores_foreign_keys_and_its_servers_come_from_the_folder() {
    let env = Env::default();
    let read = |text: &str| {
        let project = ProjectSource::new(PathBuf::from(PROJECT_FILE), Ok(text.to_owned()));
        let own = toml::from_str("[own]\ncommand = 'mine'").unwrap();
        let has_servers = project.has_servers();
        let sources = sources(Path::new("/nowhere"), &env);
        (McpSettings::new(own, Some(project), sources).0, has_servers)
    };
    let text = r#"{"mcpServers": {"a": {"type": "stdio", "command": "x", "args": ["${ROOM:-here}"], "note": 1},
        "b": {"type": "sse", "url": "https://x"}, "own": {"command": "theirs"}}, "other": {}}"#;
    let (mcp, has_servers) = read(text);
    let names: Vec<_> = mcp.all().map(|server| (server.name.as_str(), server.sandboxed)).collect();
    assert_eq!(names, [("own", false), ("a", true), ("b", true)]);
    let McpTransport::Stdio { args, .. } = &mcp.project[0].transport else { panic!("{mcp:?}") };
    assert!(has_servers && args[0] == "here");
    assert!(
        matches!(&mcp.project[1].transport, McpTransport::Unavailable(why) if why.contains("has deprecated"))
    );
    let (broken, has_servers) = read("{");
    assert!(
        matches!(&broken.project[0].transport, McpTransport::Unavailable(why) if why.starts_with(".mcp.json cannot be parsed"))
    );
    assert!(!has_servers && !read(r#"{"mcpServers": {}}"#).1);
}

#[test]
fn command_defaults_to_execute_safety_and_effect_once() {
    let written: BTreeMap<String, CommandSection> =
        toml::from_str("[weather]\ndescription = 'Tells it.'\ncommand = ['weather', '--json']\ncwd = 'bin'")
            .unwrap();
    let (name, command) = written.into_iter().next().unwrap();
    let env = Env::default();
    let default_time = Duration::from_mins(1);
    let (config, _) = command
        .resolve((name, Path::new("lango.toml")), default_time, sources(Path::new("/here"), &env))
        .unwrap();
    assert_eq!((config.spec.safety, config.spec.effect), (Safety::Execute, Effect::Once));
    assert_eq!((config.cwd, config.time), (PathBuf::from("etc/bin"), default_time));
}
