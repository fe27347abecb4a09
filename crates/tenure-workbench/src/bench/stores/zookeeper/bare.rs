//! Bare locks of ZooKeeper, on a connection that sends one request after the other.

use tenure::url::StoreUrl;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::CREATE;
use crate::bench::stores::prelude::*;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Done<T> = std::result::Result<T, Error>;

/// Opens bare locks at the servers of a URL.
pub(super) fn open(lock: &str, urls: &[String]) -> Result<BareLocks> {
    let waits = lock != CREATE;
    let url = urls.first().ok_or_else(|| bare_failed(&"it has no URL"))?;
    let url = StoreUrl::parse(url)?;
    let server = url.servers.first();
    let server = server.ok_or_else(|| bare_failed(&"it has no server"))?;
    let address = (server.name.clone(), server.port);
    Ok(Box::new(move |name| {
        let node = format!("/{}", name.replace('/', "-"));
        Ok(Box::new(Bare {
            session: None,
            address: address.clone(),
            node,
            held: String::new(),
            waits,
        }))
    }))
}

/// A node that is made and deleted; or the recipe, which waits for the node in front of its own.
#[derive(Debug)]
struct Bare {
    session: Option<Session>,
    address: (String, u16),
    node: String,
    held: String,
    waits: bool,
}

impl Bare {
    async fn lock(&mut self) -> Done<()> {
        if self.session.is_none() {
            let mut session = Session::connect(&self.address).await?;
            if self.waits {
                // Another process may have made it.
                let _ = session.create(&self.node, 0).await;
            }
            self.session = Some(session);
        }
        let session = self.session.as_mut().ok_or("it is gone")?;
        if !self.waits {
            self.held = session.create(&format!("{}-node", self.node), 1).await?;
            return Ok(());
        }
        self.held = session.create(&format!("{}/lock-", self.node), 3).await?;
        let own = self.held.rsplit('/').next().unwrap_or_default().to_owned();
        loop {
            let mut children = session.children(&self.node).await?;
            children.sort();
            let before = children.iter().rfind(|child| **child < own);
            let Some(before) = before else {
                return Ok(());
            };
            if session.watch(&format!("{}/{before}", self.node)).await? {
                session.event().await?;
            }
        }
    }

    async fn unlock(&mut self) -> Done<()> {
        let session = self.session.as_mut().ok_or("it is not held")?;
        session.delete(&self.held).await
    }
}

impl BareLock for Bare {
    fn acquire(&mut self) -> Attempt<'_> {
        Attempt::in_flight(async { self.lock().await.map_err(|error| bare_failed(&error)) })
    }

    fn release(&mut self) -> Attempt<'_> {
        Attempt::in_flight(async { self.unlock().await.map_err(|error| bare_failed(&error)) })
    }
}

/// A session that sends one request after the other.
#[derive(Debug)]
struct Session {
    stream: TcpStream,
    xid: i32,
    /// Events that came before they were waited for.
    events: u32,
}

impl Session {
    async fn connect((host, port): &(String, u16)) -> Done<Self> {
        let stream = TcpStream::connect((host.as_str(), *port)).await?;
        stream.set_nodelay(true)?;
        let (xid, events) = (0, 0);
        let mut session = Self {
            stream,
            xid,
            events,
        };
        let mut hello = Vec::new();
        hello.extend(0_i32.to_be_bytes());
        hello.extend(0_i64.to_be_bytes());
        hello.extend(TIMEOUT_MS.to_be_bytes());
        hello.extend(0_i64.to_be_bytes());
        put(&mut hello, &[0; 16]);
        hello.push(0);
        session.send(&hello).await?;
        session.receive().await?;
        Ok(session)
    }

    async fn send(&mut self, body: &[u8]) -> Done<()> {
        let mut packet = i32::try_from(body.len())?.to_be_bytes().to_vec();
        packet.extend(body);
        Ok(self.stream.write_all(&packet).await?)
    }

    async fn receive(&mut self) -> Done<Vec<u8>> {
        let length = usize::try_from(self.stream.read_i32().await?)?;
        let mut packet = vec![0; length];
        self.stream.read_exact(&mut packet).await?;
        Ok(packet)
    }

    /// Sends a request; returns the error and the body of its answer.
    async fn ask(&mut self, kind: i32, body: &[u8]) -> Done<(i32, Vec<u8>)> {
        self.xid += 1;
        let mut request = self.xid.to_be_bytes().to_vec();
        request.extend(kind.to_be_bytes());
        request.extend(body);
        self.send(&request).await?;
        loop {
            let packet = self.receive().await?;
            match number(&packet, 0)? {
                -1 => self.events += 1,
                _ => return Ok((number(&packet, 12)?, packet[16..].to_vec())),
            }
        }
    }

    /// Makes a node with these flags: 1 for ephemeral, 2 for sequential.
    async fn create(&mut self, path: &str, flags: i32) -> Done<String> {
        let mut body = Vec::new();
        put(&mut body, path.as_bytes());
        put(&mut body, b"");
        body.extend(1_i32.to_be_bytes());
        body.extend(31_i32.to_be_bytes());
        put(&mut body, b"world");
        put(&mut body, b"anyone");
        body.extend(flags.to_be_bytes());
        let (error, answer) = self.ask(1, &body).await?;
        fine(error)?;
        Ok(String::from_utf8(text(&answer, 0)?.to_vec())?)
    }

    async fn delete(&mut self, path: &str) -> Done<()> {
        let mut body = Vec::new();
        put(&mut body, path.as_bytes());
        body.extend((-1_i32).to_be_bytes());
        let (error, _) = self.ask(2, &body).await?;
        fine(error)
    }

    async fn children(&mut self, path: &str) -> Done<Vec<String>> {
        let mut body = Vec::new();
        put(&mut body, path.as_bytes());
        body.push(0);
        let (error, answer) = self.ask(8, &body).await?;
        fine(error)?;
        let (mut children, mut at) = (Vec::new(), 4);
        for _ in 0..number(&answer, 0)? {
            let child = text(&answer, at)?;
            at += 4 + child.len();
            children.push(String::from_utf8(child.to_vec())?);
        }
        Ok(children)
    }

    /// Watches a node; returns whether it is there.
    async fn watch(&mut self, path: &str) -> Done<bool> {
        let mut body = Vec::new();
        put(&mut body, path.as_bytes());
        body.push(1);
        let (error, _) = self.ask(4, &body).await?;
        Ok(error == 0)
    }

    /// Waits for the next event.
    async fn event(&mut self) -> Done<()> {
        while self.events == 0 {
            self.receive().await?;
            self.events += 1;
        }
        self.events -= 1;
        Ok(())
    }
}

fn fine(error: i32) -> Done<()> {
    match error {
        0 => Ok(()),
        error => Err(format!("the server refused a request ({error})").into()),
    }
}

fn put(to: &mut Vec<u8>, bytes: &[u8]) {
    // Paths are short.
    to.extend(i32::try_from(bytes.len()).unwrap_or(0).to_be_bytes());
    to.extend(bytes);
}

fn number(from: &[u8], at: usize) -> Done<i32> {
    let bytes = from.get(at..at + 4).ok_or("a short answer")?;
    Ok(i32::from_be_bytes(bytes.try_into()?))
}

fn text(from: &[u8], at: usize) -> Done<&[u8]> {
    let length = usize::try_from(number(from, at)?)?;
    Ok(from.get(at + 4..at + 4 + length).ok_or("a short answer")?)
}

const TIMEOUT_MS: i32 = 30_000;
