//! The process that started this one as a [`Child`](crate::Child): it sends messages, and this
//! process ends with it.

use std::io::{self, BufRead, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::child::line;
use crate::error::{Error, Result};

/// The messages of the parent, each a line of JSON.
#[derive(Debug)]
pub struct Parent {
    /// The part that this process runs, and the command that it belongs to.
    part: (&'static str, &'static str),
    lines: mpsc::UnboundedReceiver<String>,
}

impl Parent {
    /// Waits for the first message, and then reads more on a separate thread.
    ///
    /// This process ends when its parent does, whatever it is doing or waiting for.
    ///
    /// # Errors
    ///
    /// [`NotByHand`](Error::NotByHand) if the first message is not a `T`: then a person runs the
    /// `part` of the command `of`.
    pub fn listen<T: DeserializeOwned>(part: &'static str, of: &'static str) -> Result<(T, Self)> {
        let part = (part, of);
        let first = io::stdin().lock().lines().next();
        let first = first.and_then(io::Result::ok).unwrap_or_default();
        let first = read(&first, part)?;
        let lines = lines(|| Self::exit());
        Ok((first, Self { part, lines }))
    }

    /// Reads messages until there are no more; this process then continues without its parent.
    pub fn listen_to_the_end(part: &'static str, of: &'static str) -> Self {
        let (part, lines) = ((part, of), lines(|| ()));
        Self { part, lines }
    }

    /// Waits for the next message.
    ///
    /// # Errors
    ///
    /// [`NotByHand`](Error::NotByHand) if it is not a `T`, or if there are no more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a message that was not returned is returned by the next call.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<T> {
        let line = self.lines.recv().await;
        read(&line.unwrap_or_default(), self.part)
    }

    /// Returns whether a message is waiting, or there are no more.
    pub fn is_next_ready(&self) -> bool {
        !self.lines.is_empty() || self.lines.is_closed()
    }

    /// Returns the error for a person who runs this part by hand.
    pub fn not_by_hand(&self) -> Error {
        let (part, of) = self.part;
        Error::NotByHand { part, of }
    }

    /// Sends a message to the parent in one write, so that a kill never leaves half a message.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn send(message: &impl Serialize) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(&line(message)?)?;
        out.flush()
    }

    /// Ends this process, because its parent is gone or has told it to end.
    pub fn exit() -> ! {
        std::process::exit(0);
    }
}

/// Reads standard input on a separate thread, which calls `at_end` when there is no more.
fn lines(at_end: impl FnOnce() + Send + 'static) -> mpsc::UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(io::Result::ok) {
            // Nobody receives messages after the part is over.
            let _ = sender.send(line);
        }
        at_end();
    });
    lines
}

fn read<T: DeserializeOwned>(line: &str, part: (&'static str, &'static str)) -> Result<T> {
    let (part, of) = part;
    serde_json::from_str(line).map_err(|_| Error::NotByHand { part, of })
}
