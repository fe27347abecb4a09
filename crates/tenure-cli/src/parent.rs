//! The process that started this one: says by lines of JSON what to do, and takes this one along when it ends.

use std::io::{BufRead, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use crate::error::{Failure, Result};
use crate::exit_code;

/// The lines that the parent writes.
#[derive(Debug)]
pub(crate) struct Parent {
    /// The hidden verb that this process plays, and the verb that it is a part of.
    part: (&'static str, &'static str),
    lines: mpsc::UnboundedReceiver<String>,
}

impl Parent {
    /// Listens on a thread of its own, so that this process ends with its parent, whatever it is
    /// doing or blocked by.
    pub(crate) fn listen(verb: &'static str, of: &'static str) -> Self {
        let (sender, lines) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            let mut is_told = false;
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                is_told = true;
                // Nobody listens when the part is over.
                let _ = sender.send(line);
            }
            // Whoever calls by hand and says nothing gets an answer.
            if is_told {
                end_now();
            }
        });
        Self {
            part: (verb, of),
            lines,
        }
    }

    /// Waits for the next line.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a line that nobody has taken stays for the next call.
    pub(crate) async fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        let line = self.lines.recv().await.ok_or_else(|| self.not_by_hand())?;
        serde_json::from_str(&line).map_err(|_| self.not_by_hand())
    }

    /// What to say to somebody who calls the hidden verb.
    pub(crate) fn not_by_hand(&self) -> Failure {
        let (verb, of) = self.part;
        let sentence = format!("{verb} is a part of 'tenure {of}' and not called by hand");
        Failure::new(exit_code::USAGE, sentence)
    }
}

/// Tells the parent something, in one write, so that a kill leaves no half of it.
pub(crate) fn tell(said: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string(said).map_err(std::io::Error::from)?;
    text.push('\n');
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Ends this process.
#[expect(
    clippy::exit,
    reason = "the parent is gone, and nothing is worth cleaning up"
)]
pub(crate) fn end_now() -> ! {
    std::process::exit(0);
}
