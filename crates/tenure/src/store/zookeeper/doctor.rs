//! What in a ZooKeeper ensemble endangers locks.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::clock;
use crate::doctor::{Check, Finding, RIGHTS};
use crate::driver::Clock;
use crate::error::{Error, Result};
use crate::store::session::pulse::Lifetime;
use crate::store::zookeeper::core::{Core, children, data};
use crate::store::zookeeper::settings::{DEFAULT_SESSION, Settings};
use crate::store::zookeeper::wire::{Answer, Code, NodeKind, Operation, Watch};
use crate::url::Host;

/// Checks an ensemble.
///
/// # Errors
///
/// [`InvalidUrl`](crate::Error::InvalidUrl) for an invalid URL;
/// [`Unavailable`](crate::Error::Unavailable) if no server takes a session.
///
/// # Panics
///
/// Outside a Tokio runtime with I/O and time enabled.
///
/// # Cancel safety
///
/// Cancel safe: what it writes ends with its session.
pub async fn doctor(url: &str) -> Result<Vec<Finding>> {
    let settings = Arc::new(Settings::parse(url)?);
    let core = session_at(&settings, &settings.servers).await?;
    let given = core.wire.session().timeout;
    let spoken = Spoken::ask(&settings).await;
    let mut findings = vec![servers(&settings).await, ensemble(&core, &settings).await?];
    findings.extend(spoken.version());
    findings.push(session(&settings, given));
    findings.push(spoken.tick(given));
    findings.push(spoken.connections());
    findings.push(rights(&core).await?);
    findings.push(clock_of(&core).await?);
    Ok(findings)
}

/// A session with some of the servers, which ends with the value.
async fn session_at(settings: &Settings, servers: &[Host]) -> Result<Arc<Core>> {
    let settings = Arc::new(Settings {
        servers: servers.to_vec(),
        ..settings.clone()
    });
    let clock = Arc::new(clock::Clock::start(Clock::Boot));
    let (core, ..) = Core::open(settings, clock, Arc::default(), None).await?;
    Ok(core)
}

/// Whether all servers of the URL take sessions.
async fn servers(settings: &Settings) -> Finding {
    const CHECK: Check = Check("servers");
    let mut away = Vec::new();
    for server in &settings.servers {
        if let Err(error) = session_at(settings, std::slice::from_ref(server)).await {
            away.push(error.why());
        }
    }
    let count = settings.servers.len();
    match away.is_empty() {
        true => CHECK.fine(format!(
            "{count} of {count} servers of the URL take sessions"
        )),
        false => CHECK.warning(
            format!("servers of the URL take no sessions: {}", away.join("; ")),
            "start them again, or remove them from the URL",
        ),
    }
}

/// How many servers agree on each change.
async fn ensemble(core: &Core, settings: &Settings) -> Result<Finding> {
    const CHECK: Check = Check("ensemble");
    let text = match core.one(data(CONFIG, Watch::No)).await? {
        Ok(Answer::Data(bytes, _)) => String::from_utf8_lossy(&bytes).into_owned(),
        _ => {
            let found = format!("not checked: the servers do not show {CONFIG}");
            return Ok(CHECK.unknown(found, "look at the lines server.N of zoo.cfg"));
        }
    };
    let lines = text.lines().filter(|line| line.starts_with("server."));
    let members = lines.filter(|line| !line.contains(":observer")).count();
    let named = settings.servers.len();
    Ok(match members {
        0 | 1 => CHECK.warning(
            "one server alone: locks stop while it is away, and its disk is the only copy",
            "run three or five servers",
        ),
        2 => CHECK.warning(
            "two servers: locks stop while either is away",
            "run three or five servers",
        ),
        _ if members % 2 == 0 => CHECK.warning(
            format!(
                "{members} servers survive no more failures than {}",
                members - 1
            ),
            "run an odd number of servers",
        ),
        _ if named < members => CHECK.warning(
            format!("the URL names {named} of {members} servers"),
            "name all of them, so that a client finds another one",
        ),
        _ => CHECK.fine(format!("{members} servers")),
    })
}

/// Whether the servers allow the session that the URL asks for.
fn session(settings: &Settings, given: Duration) -> Finding {
    const CHECK: Check = Check("session");
    let lasts = Lifetime::of(given).lasts();
    let found = format!(
        "sessions of {given:?}: a lease is good for up to {lasts:?} without renewal, and a client that is killed holds its locks for {given:?}"
    );
    let wanted = settings.session;
    match settings.session_is_named {
        true if given < wanted => CHECK.problem(
            format!("session={wanted:?} is more than the servers allow, {given:?}"),
            "raise maxSessionTimeout, or ask for less",
        ),
        true if given > wanted => CHECK.problem(
            format!("session={wanted:?} is less than the servers allow, {given:?}"),
            "lower minSessionTimeout or tickTime, or ask for more",
        ),
        false if given < DEFAULT_SESSION => CHECK.warning(
            found,
            "raise maxSessionTimeout to 40000, so that the default lease of 30 s can last",
        ),
        _ => CHECK.fine(found),
    }
}

/// Whether the user may do what locks need.
async fn rights(core: &Core) -> Result<Finding> {
    let root = core.settings.root.clone();
    if let Err(error) = core.make_root().await {
        return match error {
            Error::Unavailable { source, .. } => {
                Ok(RIGHTS.problem(format!("{root} cannot be made: {source}"), GRANT))
            }
            error => Err(error),
        };
    }
    let path = format!("{root}/%doctor-{:032x}", crate::random::random_u128());
    let create = Operation::Create {
        path: path.clone(),
        data: Vec::new(),
        kind: NodeKind::Ephemeral,
    };
    let delete = super::core::delete(&path, None);
    let answers = core.fly(vec![children(&root, Watch::No), create, delete]);
    let answers = answers.await?.answers;
    let lacks = ["read", "create", "delete"].into_iter().zip(&answers);
    let lacks = lacks.filter(|(_, answer)| matches!(answer, Err(Code::NO_AUTH)));
    let lacks: Vec<_> = lacks.map(|(right, _)| right).collect();
    Ok(match lacks.is_empty() {
        true => RIGHTS.fine(format!("the user may read, create and delete at {root}")),
        false => RIGHTS.problem(
            format!("the user may not {} at {root}", lacks.join(", ")),
            GRANT,
        ),
    })
}

/// How far the leader's wall clock is from this machine's: it ends leases by hand.
async fn clock_of(core: &Core) -> Result<Finding> {
    const CHECK: Check = Check("clock");
    let server = core.server_now().await?;
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let here = wall.map_or(0, |wall| {
        i64::try_from(wall.as_millis()).unwrap_or(i64::MAX)
    });
    let apart = Duration::from_millis(server.abs_diff(here));
    let found = format!("the leader's clock is {apart:?} from this machine's");
    Ok(match apart > FAR_APART {
        true => CHECK.warning(
            format!("{found}, and it ends leases by hand"),
            "keep the clocks of all servers together, by NTP",
        ),
        false => CHECK.fine(found),
    })
}

/// What a server says by its four-letter words, which may be turned off and are not needed otherwise.
#[derive(Debug, Default)]
struct Spoken {
    srvr: Option<String>,
    conf: Option<String>,
}

impl Spoken {
    async fn ask(settings: &Settings) -> Self {
        let mut spoken = Self::default();
        // They are spoken without TLS alone.
        for server in settings.servers.iter().filter(|_| settings.tls.is_none()) {
            spoken.srvr = ask(server, "srvr").await;
            spoken.conf = ask(server, "conf").await;
            if spoken.srvr.is_some() || spoken.conf.is_some() {
                break;
            }
        }
        spoken
    }

    fn setting(&self, name: &str) -> Option<u64> {
        let mut lines = self.conf.as_ref()?.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value?.trim().parse().ok()
    }

    /// The version, if the server shows it.
    fn version(&self) -> Option<Finding> {
        const CHECK: Check = Check("version");
        let mut lines = self.srvr.as_ref()?.lines();
        let text = lines.find_map(|line| line.strip_prefix("Zookeeper version: "))?;
        let version = text.split(['-', ',', ' ']).next()?;
        let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
        let found = format!("ZooKeeper {version}");
        let numbers = (parts.next()??, parts.next()??, parts.next().flatten());
        Some(match numbers < (3, 5, Some(3)) {
            true => CHECK.problem(found, "update: locks need ZooKeeper 3.5.3 or newer"),
            false => CHECK.fine(found),
        })
    }

    /// Whether a session is long enough for the tick of the servers.
    fn tick(&self, given: Duration) -> Finding {
        const CHECK: Check = Check("tick");
        let Some(tick) = self.setting("tickTime").map(Duration::from_millis) else {
            return not_shown(CHECK, "tickTime");
        };
        let found = format!("tickTime is {tick:?}");
        match Lifetime::of(given).allows(tick) {
            true => CHECK.fine(found),
            false => CHECK.warning(
                format!("{found}, too long for sessions of {given:?}"),
                "ask for a session of at least four ticks",
            ),
        }
    }

    /// How many clients of one machine a server takes.
    fn connections(&self) -> Finding {
        const CHECK: Check = Check("connections");
        let Some(most) = self.setting("maxClientCnxns") else {
            return not_shown(CHECK, "maxClientCnxns");
        };
        match most {
            0 => CHECK.fine("any number of clients of one address"),
            1..=9 => CHECK.warning(
                format!("a server takes {most} clients of one address, and each process is one"),
                "raise maxClientCnxns",
            ),
            _ => CHECK.fine(format!("a server takes {most} clients of one address")),
        }
    }
}

fn not_shown(check: Check, name: &str) -> Finding {
    check.unknown(
        format!("not checked: the servers do not show {name}"),
        format!("look at {name} in zoo.cfg, or add conf to 4lw.commands.whitelist"),
    )
}

/// What a server answers to a four-letter word.
async fn ask(server: &Host, word: &str) -> Option<String> {
    let asked = async {
        let mut stream = TcpStream::connect((server.name.as_str(), server.port)).await?;
        stream.write_all(word.as_bytes()).await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        Ok::<_, std::io::Error>(text)
    };
    let text = timeout(WORD, asked).await.ok()?.ok()?;
    (!text.is_empty() && !text.contains("not in the whitelist")).then_some(text)
}

/// Where the servers show which of them there are.
const CONFIG: &str = "/zookeeper/config";

const GRANT: &str = "give the user all rights there (cdrwa): addauth digest and setAcl in zkCli.sh";

const FAR_APART: Duration = Duration::from_secs(1);

/// How long an answer to a word may take.
const WORD: Duration = Duration::from_secs(2);
