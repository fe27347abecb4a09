//! What both kinds of servers can do: each test runs for both.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process, kill_process_group};
use tenure_testkit::{
    Certificate, ClientCertificate, Durability, Error, Kind, MariaDb, Postgres, Proxy, SqlServer,
};

use crate::session::Session;
use crate::{children, is_alive};

/// Generates a test for each kind of server.
macro_rules! for_each_kind {
    ($($(#[$attribute:meta])* $test:ident)+) => {
        mod mariadb { $(#[test] $(#[$attribute])* fn $test() { super::$test::<super::MariaDb>(); })+ }
        mod postgres { $(#[test] $(#[$attribute])* fn $test() { super::$test::<super::Postgres>(); })+ }
    };
}

for_each_kind! {
    a_server_answers_and_is_gone_with_its_value
    a_killed_server_is_gone_and_starts_again_with_its_data
    a_confirmed_transaction_survives_a_kill
    a_server_shuts_down_though_a_client_is_connected
    a_frozen_server_says_nothing_until_it_is_thawed
    a_frozen_server_is_gone_with_its_value
    a_server_is_gone_when_its_starter_is_killed
    a_server_is_gone_when_its_starters_group_is_killed
    a_missing_program_is_an_error_that_says_what_to_install
    a_template_is_made_once
    a_server_starts_for_a_user_who_is_not_root
    an_error_of_the_server_is_returned
    the_user_of_the_url_owns_the_database_and_nothing_else
    users_have_their_grants
    a_transactions_isolation_can_be_chosen
    connections_are_limited
    settings_reach_the_server
    a_server_that_cannot_start_shows_its_log
    a_port_that_a_stranger_has_is_not_taken_for_ours
    tls_is_as_good_as_its_certificate
    a_clients_certificate_can_be_required
    a_clock_is_moved_ahead_and_back
    a_reply_is_lost_by_a_proxy
    #[ignore = "not a test: a process for the tests above to kill"]
    helper_that_starts_servers_and_hangs
    #[ignore = "not a test: a process with a folder for temporary files of its own"]
    helper_that_starts_two_servers_at_once
}

fn a_server_answers_and_is_gone_with_its_value<K: Kind>() {
    let server = SqlServer::<K>::start().unwrap();
    let (pid, folder) = (server.pid(), server.folder().to_owned());
    let (scheme, port) = (K::SCHEME, server.port());
    assert_eq!(
        server.url(),
        format!("{scheme}://tenure:secret@127.0.0.1:{port}/test")
    );
    assert_eq!(
        server.url_as("ann", "p@ss/"),
        format!("{scheme}://ann:p%40ss%2F@127.0.0.1:{port}/test")
    );
    server.sql("CREATE TABLE a (b INT, c VARCHAR(9)); INSERT INTO a VALUES (1, 'x'), (2, NULL)");
    assert_eq!(server.sql("SELECT b, c FROM a ORDER BY b"), "1\tx\n2\tNULL");
    let session = &mut Session::open::<K>(port);
    assert_eq!(session.ask("SELECT 1"), "1");
    let all = [vec![pid], children(pid)].concat();
    drop(server);
    assert_eq!(alive(&all), [0; 0]);
    assert!(!folder.exists());
}

fn a_killed_server_is_gone_and_starts_again_with_its_data<K: Kind>() {
    let mut server = SqlServer::<K>::start().unwrap();
    server.sql("CREATE TABLE a (b INT); INSERT INTO a VALUES (1)");
    let (pid, port) = (server.pid(), server.port());
    let mut session = Session::open::<K>(port);
    assert_eq!(session.ask("SELECT 1"), "1");
    let all = [vec![pid], children(pid)].concat();
    server.kill().unwrap();
    assert_eq!(alive(&all), [0; 0]);
    assert!(!server.is_running());
    assert!(server.query("SELECT 1").is_err());
    server.start_again().unwrap();
    assert_eq!(server.port(), port);
    assert_ne!(server.pid(), pid);
    assert_eq!(server.sql("SELECT b FROM a"), "1");
}

fn a_confirmed_transaction_survives_a_kill<K: Kind>() {
    let question = match K::NAME == MariaDb::NAME {
        true => "SELECT @@innodb_flush_log_at_trx_commit",
        false => "SELECT current_setting('fsync'), current_setting('synchronous_commit')",
    };
    for (durability, mariadb, postgres) in [
        (Durability::Flushed, "1", "on\ton"),
        (Durability::Written, "2", "off\ton"),
        (Durability::Delayed, "0", "off\toff"),
    ] {
        let builder = SqlServer::<K>::builder().persistence(durability);
        let mut server = builder.start().unwrap();
        let found = server.sql(question);
        assert!([mariadb, postgres].contains(&found.as_str()), "{found}");
        if durability == Durability::Delayed {
            continue;
        }
        server.sql("CREATE TABLE a (b INT)");
        server.sql("INSERT INTO a VALUES (1)");
        server.kill().unwrap();
        server.start_again().unwrap();
        assert_eq!(server.sql("SELECT b FROM a"), "1");
    }
}

fn a_server_shuts_down_though_a_client_is_connected<K: Kind>() {
    let mut server = SqlServer::<K>::start().unwrap();
    let mut session = Session::open::<K>(server.port());
    assert_eq!(session.ask("SELECT 1"), "1");
    let pid = server.pid();
    server.shutdown().unwrap();
    assert!(!is_alive(pid));
    let log = server.log();
    let last = ["Shutdown complete", "database system is shut down"];
    assert!(last.iter().any(|words| log.contains(words)), "{log}");
    assert!(server.shutdown().is_err());
    assert!(server.freeze().is_err());
}

fn a_frozen_server_says_nothing_until_it_is_thawed<K: Kind>() {
    let server = SqlServer::<K>::start().unwrap();
    let mut session = Session::open::<K>(server.port());
    assert_eq!(session.ask("SELECT 1"), "1");
    server.freeze().unwrap();
    assert!(server.is_running());
    session.send("SELECT 2");
    session.assert_silent();
    let mut late = Session::open::<K>(server.port());
    late.send("SELECT 3");
    late.assert_silent();
    server.thaw().unwrap();
    assert_eq!(session.receive(), "2");
    assert_eq!(late.receive(), "3");
}

fn a_frozen_server_is_gone_with_its_value<K: Kind>() {
    let server = SqlServer::<K>::start().unwrap();
    server.freeze().unwrap();
    let all = [vec![server.pid()], children(server.pid())].concat();
    drop(server);
    assert_eq!(alive(&all), [0; 0]);
}

fn a_server_is_gone_when_its_starter_is_killed<K: Kind>() {
    assert_gone_after::<K>(|starter| kill_process(starter, Signal::KILL));
}

fn a_server_is_gone_when_its_starters_group_is_killed<K: Kind>() {
    // As a test runner does with a test that hangs.
    assert_gone_after::<K>(|starter| {
        kill_process_group(starter, Signal::TERM)?;
        kill_process_group(starter, Signal::KILL)
    });
}

/// Runs a helper as a process that has no chance to clean up, and ends it.
fn assert_gone_after<K: Kind>(end: impl FnOnce(Pid) -> rustix::io::Result<()>) {
    let mut starter = again::<K>("helper_that_starts_servers_and_hangs")
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(starter.stdout.take().unwrap()).lines();
    let found = |line: &str| Some(line.split_once("left: ")?.1.to_owned());
    let left = lines.find_map(|line| found(&line.unwrap())).unwrap();
    let (pids, folders): (Vec<_>, Vec<_>) = left.split(' ').partition(|word| !word.contains('/'));
    let pids: Vec<u32> = pids.iter().map(|pid| pid.parse().unwrap()).collect();
    let folders: Vec<_> = folders.iter().map(PathBuf::from).collect();
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    assert!(folders.iter().all(|folder| folder.exists()));
    end(Pid::from_child(&starter)).unwrap();
    starter.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !alive(&pids).is_empty() || folders.iter().any(|folder| folder.exists()) {
        let alive = alive(&pids);
        assert!(Instant::now() < deadline, "{alive:?} or {folders:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn helper_that_starts_servers_and_hangs<K: Kind>() {
    let start = || SqlServer::<K>::start().unwrap();
    let (one, frozen) = (start(), start());
    frozen.freeze().unwrap();
    let trace = |server: &SqlServer<K>| {
        // Only of the frozen server, because children of a running one may end.
        let pids: Vec<_> = match server.folder() == frozen.folder() {
            true => children(server.pid()),
            false => vec![],
        };
        let pids: String = pids.iter().map(|pid| format!("{pid} ")).collect();
        format!("{pids}{} {}", server.pid(), server.folder().display())
    };
    println!("left: {} {}", trace(&one), trace(&frozen));
    std::thread::sleep(Duration::from_secs(60));
}

fn a_missing_program_is_an_error_that_says_what_to_install<K: Kind>() {
    // In a separate process, because the `PATH` belongs to the whole process.
    let output = again::<K>("a_server_answers_and_is_gone_with_its_value")
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let wanted = [
        "mariadbd is not installed; install it with: apt-get install mariadb-server",
        "postgres is not installed; install it with: apt-get install postgresql",
    ];
    let text = text(&output);
    assert!(wanted.iter().any(|words| text.contains(words)), "{text}");
}

fn a_template_is_made_once<K: Kind>() {
    let folder = tempfile::tempdir().unwrap();
    // The user that runs the server needs access to it.
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), everybody).unwrap();
    let output = again::<K>("helper_that_starts_two_servers_at_once")
        .env("TMPDIR", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let entries = |path: &std::path::Path| -> Vec<PathBuf> {
        let entries = path.read_dir().unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    let [templates] = &entries(folder.path())[..] else {
        panic!("{:?}", entries(folder.path()));
    };
    let files = entries(templates);
    let is_template = |file: &&PathBuf| file.extension().is_some_and(|end| end == "tar");
    assert_eq!(files.iter().filter(is_template).count(), 1, "{files:?}");
    assert!(
        files
            .iter()
            .all(|file| file.extension().unwrap() != "draft")
    );
}

fn helper_that_starts_two_servers_at_once<K: Kind>() {
    let start = || std::thread::spawn(|| SqlServer::<K>::start().unwrap());
    let starting = [start(), start()];
    for server in starting.map(|thread| thread.join().unwrap()) {
        assert_eq!(server.sql("SELECT 1"), "1");
    }
}

fn a_server_starts_for_a_user_who_is_not_root<K: Kind>() {
    if !geteuid().is_root() {
        // Then all other tests show it.
        return;
    }
    let mut again = again::<K>("a_killed_server_is_gone_and_starts_again_with_its_data");
    let output = again.uid(65534).gid(65534).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("1 passed"), "{}", text(&output));
}

fn an_error_of_the_server_is_returned<K: Kind>() {
    let server = SqlServer::<K>::start().unwrap();
    let error = server.query("SELECT nonsense").unwrap_err();
    assert!(
        matches!(&error, Error::Answer { text, .. } if text.contains("nonsense")),
        "{error}"
    );
    let error = server.query("SELECT nonsense; CREATE TABLE a (b INT)");
    assert!(error.is_err());
    assert!(server.query("SELECT b FROM a").is_err(), "it went on");
}

fn the_user_of_the_url_owns_the_database_and_nothing_else<K: Kind>() {
    let server = SqlServer::<K>::start().unwrap();
    let (user, password) = (SqlServer::<K>::USER, SqlServer::<K>::PASSWORD);
    let ask = |statements| server.query_as(user, password, statements);
    assert_eq!(ask("CREATE TABLE a (b INT); SELECT 1").unwrap(), "1");
    assert!(ask("CREATE DATABASE other").is_err());
    assert!(server.query_as(user, "wrong", "SELECT 1").is_err());
    let admin = server.query_as(K::ADMIN, SqlServer::<K>::ADMIN_PASSWORD, "SELECT 1");
    assert_eq!(admin.unwrap(), "1");
}

fn users_have_their_grants<K: Kind>() {
    let grants = match K::NAME == MariaDb::NAME {
        true => ["SELECT ON test.*", "CREATE ON test.*"],
        false => ["USAGE ON SCHEMA public", "CREATE ON SCHEMA public"],
    };
    let password = r#"p@ss '"\ ä/"#;
    let server = SqlServer::<K>::builder()
        .user("ann", password, &grants)
        .user("bob", "secret", &[])
        .start()
        .unwrap();
    let create = "CREATE TABLE a (b INT); SELECT 1";
    assert!(server.query_as("bob", "secret", create).is_err());
    assert_eq!(server.query_as("ann", password, create).unwrap(), "1");
}

fn a_transactions_isolation_can_be_chosen<K: Kind>() {
    let question = match K::NAME == MariaDb::NAME {
        true => "SELECT @@tx_isolation",
        false => "SHOW transaction_isolation",
    };
    let isolation = |server: SqlServer<K>| server.sql(question).to_uppercase().replace(' ', "-");
    for (spelling, level) in [
        ("REPEATABLE-READ", "REPEATABLE-READ"),
        ("read committed", "READ-COMMITTED"),
    ] {
        let builder = SqlServer::<K>::builder().isolation(spelling);
        assert_eq!(isolation(builder.start().unwrap()), level);
    }
}

fn connections_are_limited<K: Kind>() {
    let server = SqlServer::<K>::builder().max_connections(10);
    let server = server.start().unwrap();
    let (user, password) = (SqlServer::<K>::USER, SqlServer::<K>::PASSWORD);
    let mut sessions: Vec<Session> = vec![];
    let refused = loop {
        if let Err(error) = server.query_as(user, password, "SELECT 1") {
            break error;
        }
        let mut session = Session::open::<K>(server.port());
        assert_eq!(session.ask("SELECT 1"), "1");
        sessions.push(session);
        assert!(sessions.len() <= 10);
    };
    assert!(refused.to_string().contains("onnection"), "{refused}");
    assert_eq!(server.sql("SELECT 1"), "1", "the admin still gets in");
}

fn settings_reach_the_server<K: Kind>() {
    let (name, value, question) = match K::NAME == MariaDb::NAME {
        true => ("init-connect", "SET @a='b'", "SELECT @@init_connect"),
        false => ("cluster_name", "it's \\here", "SHOW cluster_name"),
    };
    let builder = SqlServer::<K>::builder().setting(name, value);
    assert_eq!(builder.start().unwrap().sql(question), value);
}

fn a_server_that_cannot_start_shows_its_log<K: Kind>() {
    let builder = SqlServer::<K>::builder().setting("no_such_setting", "1");
    let error = builder.start().unwrap_err();
    assert!(matches!(error, Error::Program { .. }));
    let text = format!("{error:?}");
    assert!(text.contains("no_such_setting"), "{text}");
}

fn a_port_that_a_stranger_has_is_not_taken_for_ours<K: Kind>() {
    let mut server = SqlServer::<K>::start().unwrap();
    server.kill().unwrap();
    let _stranger = TcpListener::bind(("127.0.0.1", server.port())).unwrap();
    let error = server.start_again().unwrap_err().to_string();
    assert!(error.contains("Address already in use"), "{error}");
}

fn tls_is_as_good_as_its_certificate<K: Kind>() {
    let verified = |certificate| {
        let server = SqlServer::<K>::builder()
            .tls(certificate, ClientCertificate::NotAsked)
            .start()
            .unwrap();
        assert_eq!(server.sql("SELECT 1"), "1");
        let question = match K::NAME == MariaDb::NAME {
            true => {
                "SELECT VARIABLE_VALUE <> '' FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME = 'Ssl_cipher'"
            }
            false => "SELECT ssl::int FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
        };
        let (user, password) = (SqlServer::<K>::USER, SqlServer::<K>::PASSWORD);
        let plain = without_tls(&server);
        assert!(!plain.status.success(), "{}", text(&plain));
        server.query_as(user, password, question)
    };
    assert_eq!(verified(Certificate::Valid).unwrap(), "1");
    let expired = verified(Certificate::Expired).unwrap_err().to_string();
    let reason = ["expired", "certificate verify failed"];
    assert!(
        reason.iter().any(|words| expired.contains(words)),
        "{expired}"
    );
    let other = verified(Certificate::OtherHost).unwrap_err().to_string();
    let reason = ["does not match", "Validation of SSL server certificate"];
    assert!(reason.iter().any(|words| other.contains(words)), "{other}");
}

fn a_clients_certificate_can_be_required<K: Kind>() {
    let server = SqlServer::<K>::builder()
        .tls(Certificate::Valid, ClientCertificate::Required)
        .user("ann", "secret", &[])
        .start()
        .unwrap();
    for user in [SqlServer::<K>::USER, "ann"] {
        // MariaDB does not let users into a database in which they have no permissions.
        if user == "ann" && K::NAME == MariaDb::NAME {
            server.sql("GRANT SELECT ON test.* TO ann");
        }
        assert_eq!(server.query_as(user, "secret", "SELECT 1").unwrap(), "1");
        let refused = without_certificate(&server, user);
        assert!(!refused.status.success(), "{}", text(&refused));
    }
}

fn a_clock_is_moved_ahead_and_back<K: Kind>() {
    let builder = SqlServer::<K>::builder().movable_clock();
    let mut server = builder.start().unwrap();
    server.move_clock(0).unwrap();
    let now = match K::NAME == MariaDb::NAME {
        true => "SELECT UNIX_TIMESTAMP()",
        false => "SELECT extract(epoch FROM now())::bigint",
    };
    let seconds = |server: &SqlServer<K>| server.sql(now).parse::<i64>().unwrap();
    let begin = seconds(&server);
    server.move_clock(3_600_000).unwrap();
    assert!(seconds(&server) >= begin + 3600);
    server.move_clock(-3_600_000).unwrap();
    assert!(seconds(&server) < begin);
    server.kill().unwrap();
    server.leave_clock(7_200_000).unwrap();
    server.start_again().unwrap();
    assert!(seconds(&server) >= begin + 7200);
    server.move_clock(0).unwrap();
    let fixed = SqlServer::<K>::start().unwrap();
    let error = fixed.move_clock(1).unwrap_err();
    assert!(format!("{error:?}").contains("movable_clock()"), "{error}");
}

fn a_reply_is_lost_by_a_proxy<K: Kind>() {
    let server = SqlServer::<K>::start().unwrap();
    let (user, password) = (SqlServer::<K>::USER, SqlServer::<K>::PASSWORD);
    let table = "CREATE TABLE a (b INT)";
    server.query_as(user, password, table).unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let mut session = Session::open::<K>(proxy.port());
    assert_eq!(session.ask("SELECT 1"), "1");
    proxy.lose_reply_then_cut(b"INSERT");
    session.send("INSERT INTO a VALUES (1)");
    proxy.wait_for_swallowed(1).unwrap();
    assert_eq!(server.sql("SELECT b FROM a"), "1");
    assert_eq!(proxy.connections_cut(), 1);
}

/// Returns the same program, which runs one of its tests.
fn again<K: Kind>(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("both::{}::{test}", K::NAME)])
        .args(["--include-ignored", "--nocapture"]);
    command
}

/// Connects as a client without TLS.
fn without_tls<K: Kind>(server: &SqlServer<K>) -> Output {
    let port = server.port().to_string();
    match K::NAME == MariaDb::NAME {
        true => mariadb_client::<K>(&port, SqlServer::<K>::USER, &["--skip-ssl"]),
        false => psql::<K>(&port, SqlServer::<K>::USER, "disable"),
    }
}

/// Connects as a client with TLS and without a certificate.
fn without_certificate<K: Kind>(server: &SqlServer<K>, user: &str) -> Output {
    let port = server.port().to_string();
    match K::NAME == MariaDb::NAME {
        true => mariadb_client::<K>(&port, user, &["--ssl"]),
        false => psql::<K>(&port, user, "require"),
    }
}

fn mariadb_client<K: Kind>(port: &str, user: &str, more: &[&str]) -> Output {
    Command::new("mariadb")
        .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1"])
        .args(["--port", port, "--user", user, "--execute=SELECT 1"])
        .args(more)
        .env("MYSQL_PWD", SqlServer::<K>::PASSWORD)
        .output()
        .unwrap()
}

fn psql<K: Kind>(port: &str, user: &str, mode: &str) -> Output {
    Command::new("psql")
        .args(["--no-psqlrc", "--host=127.0.0.1", "--dbname=test"])
        .args(["--port", port, "--username", user, "--command=SELECT 1"])
        .env("PGPASSWORD", SqlServer::<K>::PASSWORD)
        .env("PGSSLMODE", mode)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&all).into_owned()
}

/// Returns those of the processes that have not ended.
fn alive(pids: &[u32]) -> Vec<u32> {
    pids.iter().copied().filter(|pid| is_alive(*pid)).collect()
}
