//! ZooKeeper: one server, or an ensemble of three.

mod builder;
mod ensemble;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;

use crate::error::{Error, Result};
use crate::port::Port;
use crate::process;
use crate::server::{Launch, Server, server_methods};
use crate::tls::Tls;
use crate::url::escaped;
use crate::wait;

pub use builder::ZooKeeperBuilder;
pub use ensemble::ZooKeeperEnsemble;

/// A ZooKeeper server of one's own, on a loopback port and in a temporary folder; killed on drop.
///
/// Its tick is 200 ms, so that sessions may last from 400 ms to 240 s. It keeps what it has confirmed if the process is
/// killed, but does not flush to disk.
#[derive(Debug)]
pub struct ZooKeeperServer {
    // Dropped first, before the ports are free for others.
    server: Server,
    plain: Port,
    secure: Option<(Port, Tls)>,
    /// The ports for the other servers of an ensemble.
    _peers: Vec<Port>,
}

impl ZooKeeperServer {
    /// Starts a server that is alone.
    ///
    /// # Errors
    ///
    /// Those of [`ZooKeeperBuilder::start`].
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// Returns the options of a server that is to be started.
    pub fn builder() -> ZooKeeperBuilder {
        ZooKeeperBuilder::default()
    }

    /// Returns the URL for clients.
    pub fn url(&self) -> String {
        self.url_on(self.port())
    }

    /// Returns the URL for clients that come by another port, such as a [`Proxy`](crate::Proxy)'s.
    pub fn url_on(&self, port: u16) -> String {
        let scheme = match self.secure {
            Some(_) => "zookeepers",
            None => "zookeeper",
        };
        format!("{scheme}://127.0.0.1:{port}/tenure")
    }

    /// Returns the URL for clients that say who they are.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        let access = format!("://{}:{}@", escaped(user), escaped(password));
        self.url().replace("://", &access)
    }

    /// Returns the port for clients; with TLS, the port that speaks it.
    pub fn port(&self) -> u16 {
        let secure = self.secure.as_ref().map(|(port, _)| port);
        secure.unwrap_or(&self.plain).number()
    }

    /// Returns the port without TLS, which a server with TLS has as well.
    pub fn plain_port(&self) -> u16 {
        self.plain.number()
    }

    /// Returns the files of the certificates, if the server speaks TLS.
    pub fn tls(&self) -> Option<&Tls> {
        self.secure.as_ref().map(|(_, files)| files)
    }

    /// Returns what the server is: `standalone`, `leader` or `follower`.
    ///
    /// # Errors
    ///
    /// If it does not serve, as a server without a quorum.
    pub fn mode(&self) -> Result<String> {
        mode(self.plain_port()).map_err(|text| Error::Answer {
            command: "srvr".into(),
            text,
        })
    }

    /// Returns whether the server runs and is not frozen.
    pub(super) fn is_awake(&self) -> bool {
        self.server.is_awake()
    }

    pub(super) fn wait_until_ready(&self) -> Result<()> {
        let (plain, port) = (self.plain_port(), self.port());
        self.server.wait_until_ready(|| {
            mode(plain)?;
            // The port with TLS comes later.
            let reached = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
            reached.map(drop).map_err(said)
        })
    }
}

server_methods!(impl ZooKeeperServer);

/// What a server says that it is. It answers before it serves, and then does not say what it is.
fn mode(port: u16) -> Result<String, String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(said)?;
    stream.set_read_timeout(Some(ANSWER)).map_err(said)?;
    stream.write_all(b"srvr").map_err(said)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(said)?;
    let mut lines = answer.lines();
    let mode = lines.find_map(|line| line.strip_prefix("Mode: "));
    mode.map(str::to_owned).ok_or(answer)
}

fn said(error: std::io::Error) -> String {
    error.to_string()
}

/// How the server program is started with the configuration in its folder.
fn launch(with_netty: bool) -> Result<Launch> {
    let java = process::find("java", "zookeeper")?;
    let mut jars = vec!["zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-simple"];
    jars.extend(["metrics-core", "snappy-java", "commons-cli"]);
    if with_netty {
        jars.extend(NETTY);
    }
    let paths = jars.iter().map(|jar| jar_path(jar));
    let paths: Vec<_> = paths.collect::<Result<_>>()?;
    let paths: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let mut args: Vec<String> = OPTIONS.iter().map(|&option| option.into()).collect();
    args.extend(["-cp".into(), paths.join(":"), MAIN.into(), CONFIG.into()]);
    Ok(Launch {
        program: java,
        args,
        log: "zookeeper.log",
        shutdown: Signal::TERM,
        user: None,
        clock: None,
        leftovers: vec![],
    })
}

/// Where Debian puts a library.
fn jar_path(name: &str) -> Result<PathBuf> {
    let path = Path::new("/usr/share/java").join(format!("{name}.jar"));
    match path.exists() {
        true => Ok(path),
        false => Err(Error::Missing {
            program: "zookeeper",
            package: "zookeeper",
        }),
    }
}

/// A small machine that starts soon; it does not flush.
const OPTIONS: [&str; 6] = [
    "-Xmx64m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Dzookeeper.forceSync=no",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dzookeeper.jmx.log4j.disable=true",
];

const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";

const NETTY: [&str; 9] = [
    "netty-buffer",
    "netty-codec",
    "netty-common",
    "netty-handler",
    "netty-resolver",
    "netty-transport",
    "netty-transport-native-epoll",
    "netty-transport-native-unix-common",
    "netty-tcnative",
];

/// The name of the configuration in the server's folder.
const CONFIG: &str = "zoo.cfg";

/// How long a server may take to say what it is.
const ANSWER: Duration = Duration::from_secs(2);
