//! The register, as seen by a client.

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::torture::messages::{LeftLease, Reply, Request};

/// A connection to the register.
#[derive(Debug)]
pub(super) struct RegisterClient(BufReader<TcpStream>);

impl RegisterClient {
    pub(super) async fn connect(port: u16) -> std::io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Reads the version and presents the fence; returns `None` if the fence is too small.
    pub(super) async fn read(&mut self, name: &str, fence: u64) -> std::io::Result<Option<u64>> {
        let name = name.to_owned();
        match self.ask(&Request::Read { name, fence }).await? {
            Reply::Version(version) => Ok(Some(version)),
            _ => Ok(None),
        }
    }

    /// Writes the next version; the register records the outcome.
    pub(super) async fn write(
        &mut self,
        claim: u64,
        name: &str,
        fence: u64,
        read: u64,
    ) -> std::io::Result<()> {
        let request = Request::Write {
            claim,
            name: name.to_owned(),
            fence,
            read,
        };
        self.ask(&request).await.map(drop)
    }

    /// Leaves a lease by hand for others.
    pub(super) async fn leave(&mut self, lease: LeftLease) -> std::io::Result<()> {
        self.ask(&Request::Leave(lease)).await.map(drop)
    }

    /// Takes over a lease by hand that somebody has left.
    pub(super) async fn take_up(&mut self) -> std::io::Result<Option<LeftLease>> {
        match self.ask(&Request::TakeUp).await? {
            Reply::Lease(lease) => Ok(lease),
            _ => Ok(None),
        }
    }

    async fn ask(&mut self, request: &Request) -> std::io::Result<Reply> {
        let mut text = serde_json::to_string(request)?;
        text.push('\n');
        self.0.get_mut().write_all(text.as_bytes()).await?;
        let mut line = String::new();
        self.0.read_line(&mut line).await?;
        Ok(serde_json::from_str(&line)?)
    }
}
