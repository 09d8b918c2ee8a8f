//! A temporary PostgreSQL server for tests, run by an account that is not root, on a free port of the loopback interface.
//!
//! Tests share one server, each with a schema of its own. The test process that needs it first starts it. A script stops it and
//! removes its files when no test process has used it for some seconds. Tests that stop or damage a server start their own.

use std::{
    env,
    error::Error,
    fs::{self, File, OpenOptions},
    io,
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::unix::fs::{DirBuilderExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{
        Mutex, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The name of the superuser and of its password in all test servers.
const USER: &str = "lango";
const PASSWORD: &str = "s3cr3t-of-tests";

/// Commits need not survive a power cut, so tests do not wait for the disk.
const SETTINGS: &str = "listen_addresses = '127.0.0.1'
fsync = off
full_page_writes = off
shared_buffers = 32MB
max_connections = 300
log_min_messages = warning
";

/// Stops the shared server when nobody holds a lock on `users`.
const REAPER: &str = r#"cd "$1" || exit
while sleep 5; do
    flock -n -x users true || continue
    sleep 10
    flock -n -x users sh -c 'echo stop >stopping; shift; "$@" -D data -m immediate stop; rm -rf data port; rm -f stopping' reaper "$@" && exit
done"#;

/// The installed programs of PostgreSQL.
#[derive(Clone, Debug)]
pub struct Programs {
    directory: PathBuf,
    /// Runs a program as another user, if this process is root: the server refuses to run as root.
    account: Option<(u32, u32)>,
}

impl Programs {
    /// The newest installed version. `None` if there is none; with `CI=true` that is an error.
    pub fn find() -> Result<Option<Self>> {
        let Some(directory) = directory() else {
            let is_required = env::var("CI").is_ok_and(|value| value == "true");
            let missing = "PostgreSQL is not installed (Debian package postgresql)";
            return if is_required { Err(missing.into()) } else { Ok(None) };
        };
        let is_root =
            fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        Ok(Some(Self { directory, account: is_root.then(account) }))
    }

    pub fn command(&self, program: &str) -> Command {
        let program = self.directory.join(program);
        let mut command = match self.account {
            Some((user, group)) => {
                let mut command = Command::new("setpriv");
                command.args([format!("--reuid={user}"), format!("--regid={group}")]);
                command.args(["--clear-groups", "--"]).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.env_clear().env("PATH", env::var_os("PATH").unwrap_or_default()).env("LC_ALL", "C");
        command.current_dir("/").stdin(Stdio::null());
        command
    }
}

fn directory() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((version, entry.path().join("bin")))
    });
    let newest = newest.filter(|(_, directory)| directory.join("initdb").exists()).max();
    let path = env::var_os("PATH").unwrap_or_default();
    let in_path = || env::split_paths(&path).find(|directory| directory.join("initdb").exists());
    newest.map(|(_, directory)| directory).or_else(in_path)
}

/// The account that the Debian package creates, or `nobody`.
fn account() -> (u32, u32) {
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let ids = accounts.lines().find_map(|line| {
        let mut fields = line.strip_prefix("postgres:")?.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    ids.unwrap_or((65534, 65534))
}

fn run(command: &mut Command) -> Result<Output> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// A server. Dropping a [`PostgresServer`] that was started for one test stops it.
#[derive(Debug)]
pub struct PostgresServer {
    programs: Programs,
    directory: PathBuf,
    port: u16,
    /// The directory is removed with this value.
    is_own: bool,
}

impl PostgresServer {
    /// Starts a server for one test, with further lines of configuration. `None` if PostgreSQL is not installed.
    pub fn start(settings: &str) -> Result<Option<Self>> {
        let Some(programs) = Programs::find()? else { return Ok(None) };
        let directory = env::temp_dir().join(format!("lango-postgres-{}", unique()));
        let server = Self::create(programs, directory, &format!("{SETTINGS}{settings}\n"), true)?;
        Ok(Some(server))
    }

    fn create(programs: Programs, directory: PathBuf, settings: &str, is_own: bool) -> Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(&directory)?;
        let data = directory.join("data");
        fs::DirBuilder::new().mode(0o700).create(&data)?;
        let password = directory.join("password");
        fs::write(&password, PASSWORD)?;
        if let Some((user, group)) = programs.account {
            chown(&data, Some(user), Some(group))?;
            chown(&password, Some(user), Some(group))?;
        }
        let port = free_port()?;
        let mut server = Self { programs, directory, port, is_own };
        let mut initdb = server.programs.command("initdb");
        initdb.arg("-D").arg(&data).args(["-U", USER, "-A", "scram-sha-256", "-E", "UTF8", "--locale=C"]);
        run(initdb.arg("--no-sync").arg("--pwfile").arg(&password))?;
        let settings = format!("{settings}unix_socket_directories = '{}'\n", data.display());
        let file = data.join("postgresql.auto.conf");
        let mut text = fs::read_to_string(&file).unwrap_or_default();
        text.push_str(&settings);
        fs::write(&file, text)?;
        // Another program may take the port meanwhile.
        for _ in 0..5 {
            if server.resume().is_ok() {
                return Ok(server);
            }
            server.port = free_port()?;
        }
        server.resume()?;
        Ok(server)
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Starts a server that was stopped, on the same port.
    pub fn resume(&self) -> Result<()> {
        let mut start = self.programs.command("pg_ctl");
        start.arg("-D").arg(self.data()).arg("-l").arg(self.data().join("log"));
        start.arg("-o").arg(format!("-p {}", self.port)).args(["-w", "-t", "60", "start"]);
        // The server inherits the streams, and a pipe would never end.
        let status = start.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        if status.success() {
            return Ok(());
        }
        let log = fs::read_to_string(self.data().join("log")).unwrap_or_default();
        Err(format!("the PostgreSQL server did not start: {log}").into())
    }

    /// Stops the server: `smart`, `fast` or `immediate`, which is like SIGKILL.
    pub fn stop(&self, mode: &str) -> Result<()> {
        run(self.programs.command("pg_ctl").arg("-D").arg(self.data()).args(["-m", mode, "-w", "stop"]))
            .map(drop)
    }

    /// Restarts the server with TLS.
    pub fn use_certificate(&self, certificate: &Path, key: &Path) -> Result<()> {
        for (file, name) in [(certificate, "server.crt"), (key, "server.key")] {
            let copy = self.data().join(name);
            fs::copy(file, &copy)?;
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o600))?;
            if let Some((user, group)) = self.programs.account {
                chown(&copy, Some(user), Some(group))?;
            }
        }
        self.execute("ALTER SYSTEM SET ssl = on")?;
        self.stop("fast")?;
        self.resume()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of the database, or of a proxy in front of it.
    pub fn url_at(&self, port: u16, parameters: &str) -> String {
        format!("postgres://{USER}:{PASSWORD}@127.0.0.1:{port}/postgres?sslmode=disable{parameters}")
    }

    /// Executes statements as superuser and returns the rows as text.
    pub fn execute(&self, sql: &str) -> Result<String> {
        let mut psql = self.programs.command("psql");
        psql.env("PGPASSWORD", PASSWORD).args([
            "-X",
            "-q",
            "-A",
            "-t",
            "-v",
            "ON_ERROR_STOP=1",
            "-h",
            "127.0.0.1",
        ]);
        psql.args(["-p", &self.port.to_string(), "-U", USER, "-d", "postgres", "-c", sql]);
        Ok(String::from_utf8_lossy(&run(&mut psql)?.stdout).trim().to_owned())
    }

    /// The URL of a new, empty schema.
    pub fn schema(&self) -> Result<TestSchema> {
        let name = format!("test_{}", unique());
        self.execute(&format!("CREATE SCHEMA {name}"))?;
        let url = self.url_at(self.port, &format!("&options=-csearch_path%3D{name}"));
        Ok(TestSchema { name, url })
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        if self.is_own {
            let _ = self.stop("immediate");
            let _ = fs::remove_dir_all(&self.directory);
        }
    }
}

/// A schema of the shared server.
#[derive(Clone, Debug)]
pub struct TestSchema {
    pub name: String,
    pub url: String,
}

/// The shared server; `None` if PostgreSQL is not installed, which is said once.
pub fn shared() -> Result<Option<&'static PostgresServer>> {
    static SHARED: Mutex<Option<&'static (File, PostgresServer)>> = Mutex::new(None);
    static SKIPPED: OnceLock<()> = OnceLock::new();
    let mut shared = lock::LockExt::locked(&SHARED);
    if shared.is_none() {
        let Some(programs) = Programs::find()? else {
            SKIPPED.get_or_init(|| {
                let _ = io::Write::write_all(&mut io::stderr(), b"skipped: PostgreSQL is not installed\n");
            });
            return Ok(None);
        };
        *shared = Some(Box::leak(Box::new(join(programs)?)));
    }
    Ok(shared.as_ref().map(|(_, server)| server))
}

/// Joins the users of the shared server, which is started if it does not run. The lock ends with the process.
fn join(programs: Programs) -> Result<(File, PostgresServer)> {
    let user = programs.account.map_or_else(|| "own".to_owned(), |(user, _)| user.to_string());
    let place = env::var("USER").unwrap_or_default();
    let directory = env::temp_dir().join(format!("lango-postgres-shared-{place}{user}"));
    fs::DirBuilder::new().recursive(true).mode(0o755).create(&directory)?;
    let open =
        |name: &str| OpenOptions::new().create(true).truncate(false).write(true).open(directory.join(name));
    let users = open("users")?;
    users.lock_shared()?;
    let starting = open("starting")?;
    starting.lock()?;
    if let Some(port) = running_port(&directory) {
        return Ok((users, PostgresServer { programs, directory, port, is_own: false }));
    }
    let _ = fs::remove_dir_all(directory.join("data"));
    let server = PostgresServer::create(programs, directory.clone(), SETTINGS, false)?;
    fs::write(directory.join("port"), server.port.to_string())?;
    let stop = server.programs.command("pg_ctl");
    Command::new("setsid")
        .args(["sh", "-c", REAPER, "reaper"])
        .arg(&directory)
        .arg(stop.get_program())
        .args(stop.get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((users, server))
}

fn running_port(directory: &Path) -> Option<u16> {
    let port = fs::read_to_string(directory.join("port")).ok()?.parse().ok()?;
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    Some(port)
}

/// A port that no program uses at this moment.
pub fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A name that no other test process uses.
fn unique() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
    format!("{}_{now}_{next}", std::process::id())
}
