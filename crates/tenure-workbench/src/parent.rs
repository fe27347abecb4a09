//! The process that started this one: says by lines of JSON what to do, and takes this one along when it ends.

use std::io::{BufRead, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

/// The lines that the parent writes.
#[derive(Debug)]
pub(crate) struct Parent {
    /// The hidden verb that this process plays, and the verb that it is a part of.
    part: (&'static str, &'static str),
    lines: mpsc::UnboundedReceiver<String>,
}

impl Parent {
    /// Returns the first line, and listens for more on a thread of its own, so that this process ends
    /// with its parent, whatever it is doing or blocked by.
    ///
    /// Waits for the first line itself: nothing goes on yet, and whoever calls by hand gets an answer.
    pub(crate) fn listen<T: DeserializeOwned>(
        verb: &'static str,
        of: &'static str,
    ) -> Result<(T, Self)> {
        let (sender, lines) = mpsc::unbounded_channel();
        let parent = Self {
            part: (verb, of),
            lines,
        };
        let first = std::io::stdin().lock().lines().next().transpose()?;
        let first = parent.understand(&first.unwrap_or_default())?;
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                // Nobody listens when the part is over.
                let _ = sender.send(line);
            }
            end_now();
        });
        Ok((first, parent))
    }

    /// Waits for the next line.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a line that nobody has taken stays for the next call.
    pub(crate) async fn hear<T: DeserializeOwned>(&mut self) -> Result<T> {
        let line = self.lines.recv().await.ok_or_else(|| self.not_by_hand())?;
        self.understand(&line)
    }

    fn understand<T: DeserializeOwned>(&self, line: &str) -> Result<T> {
        serde_json::from_str(line).map_err(|_| self.not_by_hand())
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
