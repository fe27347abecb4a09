//! How a ZooKeeper server is to be started.

use std::fmt::Write as _;
use std::fs;

use tempfile::TempDir;

use super::{CONFIG, ZooKeeperServer, launch};
use crate::error::{Error, Result};
use crate::port::Port;
use crate::server::Server;
use crate::tls::{Certificate, ClientCertificate, Tls};

/// The options of a [`ZooKeeperServer`].
///
/// By default: no TLS, a tick of 200 ms, sessions of up to 240 s.
#[derive(Clone, Debug, Default)]
#[must_use = "it starts nothing until `start` is called"]
pub struct ZooKeeperBuilder {
    tls: Option<(Certificate, ClientCertificate)>,
    settings: Vec<(String, String)>,
}

/// One of the servers of an ensemble: its number, and the lines that name all of them.
pub(super) struct Member<'a> {
    pub(super) id: usize,
    pub(super) all: &'a str,
    pub(super) peers: Vec<Port>,
}

impl ZooKeeperBuilder {
    /// Speaks TLS on a port of its own; the files are in [`ZooKeeperServer::tls`].
    pub fn tls(mut self, certificate: Certificate, client: ClientCertificate) -> Self {
        self.tls = Some((certificate, client));
        self
    }

    /// Adds a line to the configuration file, in the place of a default of the same name.
    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Starts the server and returns once it answers.
    ///
    /// # Errors
    ///
    /// If `zookeeper` or, for TLS, `openssl` is not installed, with what to install; or if the server does not start, with
    /// its log.
    pub fn start(self) -> Result<ZooKeeperServer> {
        Server::on_free_port(|| {
            let server = self.launch(Port::free()?, None)?;
            server.wait_until_ready()?;
            Ok(server)
        })
    }

    /// Starts the program without waiting until it is ready.
    pub(super) fn launch(
        &self,
        plain: Port,
        member: Option<Member<'_>>,
    ) -> Result<ZooKeeperServer> {
        let folder = Server::make_folder("zookeeper")?;
        let secure = match self.tls {
            Some((certificate, _)) => Some((Port::free()?, Tls::make(folder.path(), certificate)?)),
            None => None,
        };
        let mut text = self.text(&folder, plain.number(), secure.as_ref())?;
        let mut peers = vec![];
        if let Some(member) = member {
            text += member.all;
            write(&folder, "myid", &member.id.to_string())?;
            peers = member.peers;
        }
        write(&folder, CONFIG, &text)?;
        Ok(ZooKeeperServer {
            server: Server::start(folder, launch(secure.is_some())?)?,
            plain,
            secure,
            _peers: peers,
        })
    }

    fn text(&self, folder: &TempDir, plain: u16, secure: Option<&(Port, Tls)>) -> Result<String> {
        let mut settings: Vec<(String, String)> = [
            ("tickTime", "200"),
            ("initLimit", "50"),
            ("syncLimit", "10"),
            ("maxSessionTimeout", "240000"),
            ("maxClientCnxns", "0"),
            ("clientPortAddress", "127.0.0.1"),
            ("admin.enableServer", "false"),
            ("4lw.commands.whitelist", "srvr"),
        ]
        .map(|(name, value)| (name.into(), value.into()))
        .into();
        settings.push(("dataDir".into(), folder.path().display().to_string()));
        settings.push(("clientPort".into(), plain.to_string()));
        if let (Some((port, files)), Some((_, client))) = (secure, self.tls) {
            settings.extend(tls_settings(folder, port.number(), files, client)?);
        }
        for (name, value) in &self.settings {
            settings.retain(|(known, _)| known != name);
            settings.push((name.clone(), value.clone()));
        }
        let mut text = String::new();
        for (name, value) in settings {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name}={value}");
        }
        Ok(text)
    }
}

/// TLS is spoken by another implementation of the server's connections, on a port of its own.
fn tls_settings(
    folder: &TempDir,
    port: u16,
    files: &Tls,
    client: ClientCertificate,
) -> Result<Vec<(String, String)>> {
    let read = |path| fs::read_to_string(path).map_err(Error::io("read a certificate"));
    let both = read(files.server_key())? + &read(files.server_certificate())?;
    write(folder, "server.pem", &both)?;
    write(folder, "ca.pem", &read(files.ca())?)?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let asked = match client {
        ClientCertificate::NotAsked => "none",
        ClientCertificate::Required => "need",
    };
    let factory = "org.apache.zookeeper.server.NettyServerCnxnFactory";
    Ok([
        ("serverCnxnFactory", factory.to_owned()),
        ("secureClientPort", port.to_string()),
        ("secureClientPortAddress", "127.0.0.1".to_owned()),
        ("ssl.keyStore.location", path("server.pem")),
        ("ssl.trustStore.location", path("ca.pem")),
        ("ssl.clientAuth", asked.to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into())
}

fn write(folder: &TempDir, name: &str, text: &str) -> Result<()> {
    fs::write(folder.path().join(name), text).map_err(Error::io(format!("write {name}")))
}
