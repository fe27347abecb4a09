//! The lab, as its clients see it.

use std::io::{BufRead, Write};

use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::error::{Failure, Result};
use crate::exit_code;
use crate::lab::wire::Say;

/// The lines that the lab writes.
#[derive(Debug)]
pub(super) struct Parent(mpsc::UnboundedReceiver<String>);

impl Parent {
    /// Listens on a thread of its own, so that this process ends with the lab, whatever it is doing.
    pub(super) fn listen() -> Self {
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines() {
                let Ok(line) = line else { break };
                // Nobody listens when the part is over.
                let _ = sender.send(line);
            }
            end_now();
        });
        Self(lines)
    }

    /// Waits for the next line.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a line that nobody has taken stays for the next call.
    pub(super) async fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        let line = self.0.recv().await.ok_or_else(not_by_hand)?;
        serde_json::from_str(&line).map_err(|_| not_by_hand())
    }
}

/// Tells the lab something.
pub(super) fn tell(say: &Say) -> Result<()> {
    let mut text = serde_json::to_string(say).map_err(std::io::Error::from)?;
    text.push('\n');
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

#[expect(
    clippy::exit,
    reason = "the lab is gone, and nothing is worth cleaning up"
)]
fn end_now() {
    std::process::exit(0);
}

pub(super) fn not_by_hand() -> Failure {
    let sentence = "lab-client is a part of 'tenure lab' and not called by hand";
    Failure::new(exit_code::USAGE, sentence)
}
