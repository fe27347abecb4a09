//! Signals that are sent to `tenure`, as a stream.

use std::future::{Future, poll_fn};
use std::io;
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::run::raw;

/// The signals that `tenure` listens to.
#[derive(Debug)]
pub struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Listens to the signals that end a wait or are forwarded to a command.
    pub fn listen() -> io::Result<Self> {
        let mut signals = Self(Vec::new());
        for signal in ENDING {
            signals.also(signal)?;
        }
        Ok(signals)
    }

    /// Listens to one more signal, unless the parent process has set it to be ignored.
    ///
    /// `nohup` and shells without job control start programs like this, and a command inherits it.
    pub(crate) fn also(&mut self, signal: Signal) -> io::Result<()> {
        if !raw::is_ignored(signal) {
            let kind = SignalKind::from_raw(signal.as_raw());
            self.0.push((signal, unix::signal(kind)?));
        }
        Ok(())
    }

    /// Waits for the next signal.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a signal that was not returned is left for the next call.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.0 {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Runs `work` unless a signal arrives first.
    pub async fn unless<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Signal> {
        tokio::select! {
            done = work => Ok(done),
            signal = self.next() => Err(signal),
        }
    }
}

const ENDING: [Signal; 6] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
];
