//! The protected resource: numbers that are read, and written back one larger, by whoever holds the lock.
//! It also keeps the leases by hand that one client leaves to another.
//!
//! It is no part of the store under test. It checks the fence of each question, reads included: a holder that was paused
//! past its lease may otherwise write between the read and the write of the next one, who has shown its fence to nobody yet.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tenure_checker::{Event, What, Written};

use super::clock::now_us;
use super::recorder::Recorder;
use super::wire::{LeftLease, Question, Reply};

/// A register that answers on a loopback port.
#[derive(Debug)]
pub(super) struct Register {
    port: u16,
}

impl Register {
    /// Starts to answer; each write is noted, in the order in which they were decided.
    pub(super) fn start(recorder: &Arc<Recorder>) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let cells = Arc::new(Cells::new(recorder));
        // These threads end with the process: there is one register in it.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let cells = Arc::clone(&cells);
                thread::spawn(move || cells.serve(&stream));
            }
        });
        Ok(Self { port })
    }

    /// Returns the port for clients.
    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

/// The register's numbers.
#[derive(Debug)]
struct Cells {
    cells: Mutex<HashMap<String, Cell>>,
    /// Leases by hand that wait for somebody to go on with them, the newest last.
    left: Mutex<Vec<LeftLease>>,
    recorder: Arc<Recorder>,
}

#[derive(Debug, Default)]
struct Cell {
    version: u64,
    /// The largest fence that was seen.
    fence: u64,
}

impl Cells {
    fn new(recorder: &Arc<Recorder>) -> Self {
        Self {
            cells: Mutex::default(),
            left: Mutex::default(),
            recorder: Arc::clone(recorder),
        }
    }

    /// Answers until the client has gone.
    fn serve(&self, stream: &TcpStream) {
        // Only slower without it.
        let _ = stream.set_nodelay(true);
        let mut out = stream;
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            let Ok(question) = serde_json::from_str(&line) else {
                return;
            };
            let Ok(mut text) = serde_json::to_string(&self.answer(question)) else {
                return;
            };
            text.push('\n');
            if out.write_all(text.as_bytes()).is_err() {
                return;
            }
        }
    }

    fn answer(&self, question: Question) -> Reply {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        match question {
            Question::Read { name, fence } => {
                let cell = cells.entry(name).or_default();
                match cell.admits(fence) {
                    true => Reply::Version(cell.version),
                    false => Reply::Stale,
                }
            }
            Question::Write {
                claim,
                name,
                fence,
                read,
            } => {
                let cell = cells.entry(name.clone()).or_default();
                let (reply, outcome) = match cell.admits(fence) {
                    true => {
                        cell.version += 1;
                        (Reply::Version(cell.version), Written::Accepted)
                    }
                    false => (Reply::Stale, Written::Stale),
                };
                // Noted while nobody else can write, so that the notes have the order of the writes.
                self.recorder.note(Event {
                    at_us: now_us(),
                    process: 0,
                    what: What::Wrote {
                        claim,
                        name,
                        fence: Some(fence),
                        read,
                        version: cell.version,
                        outcome,
                    },
                });
                reply
            }
            Question::Leave(lease) => {
                // The oldest have run out.
                if left.len() == MOST_LEFT {
                    left.remove(0);
                }
                left.push(lease);
                Reply::Lease(None)
            }
            Question::TakeUp => Reply::Lease(left.pop()),
        }
    }
}

impl Cell {
    /// Whether no larger fence was seen.
    fn admits(&mut self, fence: u64) -> bool {
        let admits = fence >= self.fence;
        self.fence = self.fence.max(fence);
        admits
    }
}

/// So many leases wait at most.
const MOST_LEFT: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn write(cells: &Cells, fence: u64, read: u64) -> Reply {
        cells.answer(Question::Write {
            claim: fence,
            name: "a".to_owned(),
            fence,
            read,
        })
    }

    fn read(cells: &Cells, fence: u64) -> Reply {
        let name = "a".to_owned();
        cells.answer(Question::Read { name, fence })
    }

    #[test]
    fn a_smaller_fence_is_refused_once_a_larger_one_has_read() {
        let cells = Cells::new(&Arc::default());
        assert_eq!(read(&cells, 1), Reply::Version(0));
        assert_eq!(read(&cells, 2), Reply::Version(0));
        assert_eq!(write(&cells, 1, 0), Reply::Stale);
        assert_eq!(write(&cells, 2, 0), Reply::Version(1));
        assert_eq!(read(&cells, 1), Reply::Stale);
    }

    #[test]
    fn writes_are_noted_with_what_was_said_to_them() {
        let recorder = Arc::<Recorder>::default();
        let cells = Cells::new(&recorder);
        write(&cells, 2, 0);
        write(&cells, 1, 0);
        let outcomes: Vec<_> = recorder
            .history()
            .into_iter()
            .map(|event| match event.what {
                What::Wrote {
                    outcome, version, ..
                } => (outcome, version),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(outcomes, [(Written::Accepted, 1), (Written::Stale, 1)]);
    }
}
