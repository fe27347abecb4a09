//! The two pipes for commands to chromium and its replies.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::error::{Error, Result};

/// Commands and replies, each a JSON text followed by a NUL, through two named pipes.
///
/// Both ends of each pipe are open here until chromium has replied once, so that opening never
/// waits for the other side.
#[derive(Debug)]
pub(super) struct Channel {
    commands: File,
    answers: Receiver<Value>,
    /// The other end of the replies, until chromium has its own.
    spare: Option<File>,
    folder: PathBuf,
    log: PathBuf,
    last_id: u64,
    events: Vec<Value>,
}

impl Channel {
    /// Creates the pipes in `folder`.
    pub(super) fn make(folder: &Path, log: &Path) -> Result<Self> {
        for name in [COMMANDS, ANSWERS] {
            let made = mknodat(CWD, folder.join(name), FileType::Fifo, Mode::RWXU, 0);
            made.map_err(|error| Error::io("make a pipe for chromium")(error.into()))?;
        }
        let both = || File::options().read(true).write(true).clone();
        let spare = open(&both(), &folder.join(ANSWERS))?;
        let reading = open(File::options().read(true), &folder.join(ANSWERS))?;
        Ok(Self {
            commands: open(&both(), &folder.join(COMMANDS))?,
            answers: listen(reading),
            spare: Some(spare),
            folder: folder.to_owned(),
            log: log.to_owned(),
            last_id: 0,
            events: Vec::new(),
        })
    }

    /// Keeps only our ends, so that each side notices when the other is gone.
    pub(super) fn release(&mut self) -> Result<()> {
        self.commands = open(File::options().write(true), &self.folder.join(COMMANDS))?;
        self.spare = None;
        Ok(())
    }

    /// Sends a command and waits for its reply; keeps events that arrive meanwhile.
    pub(super) fn call(
        &mut self,
        method: &str,
        params: Value,
        session: Option<&str>,
    ) -> Result<Value> {
        let id = self.send(method, params, session)?;
        loop {
            let message = match self.answers.recv_timeout(PATIENCE) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => return Err(self.silent(method)),
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
            };
            if message["id"] != id {
                self.events.push(message);
                continue;
            }
            return match message.get("error") {
                Some(error) => Err(Error::Answer {
                    command: method.to_owned(),
                    text: error["message"].as_str().unwrap_or_default().to_owned(),
                }),
                None => Ok(message["result"].clone()),
            };
        }
    }

    /// Sends a command and returns its number.
    pub(super) fn send(
        &mut self,
        method: &str,
        params: Value,
        session: Option<&str>,
    ) -> Result<u64> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let text = format!("{message}\0");
        let sent = self.commands.write_all(text.as_bytes());
        sent.map_err(|_| self.gone())?;
        Ok(self.last_id)
    }

    /// Returns all events so far.
    pub(super) fn events(&self) -> &[Value] {
        &self.events
    }

    fn gone(&self) -> Error {
        Error::Program {
            program: "chromium".into(),
            log: fs::read_to_string(&self.log).unwrap_or_default(),
        }
    }

    fn silent(&self, method: &str) -> Error {
        Error::TimedOut {
            what: format!("chromium answers {method}"),
            waited: PATIENCE,
            last: fs::read_to_string(&self.log).unwrap_or_default(),
        }
    }
}

/// Reads messages on a separate thread, which ends when chromium closes its end.
fn listen(answers: File) -> Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for message in BufReader::new(answers).split(0).map_while(Result::ok) {
            let Ok(message) = serde_json::from_slice(&message) else {
                return;
            };
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    receiver
}

fn open(options: &fs::OpenOptions, file: &Path) -> Result<File> {
    let opened = options.open(file);
    opened.map_err(Error::io("open a pipe to chromium"))
}

/// Runs a program with the pipes where chromium expects them.
pub(super) const JOINED: &str = r#"exec "$@" 3<commands 4>answers"#;

const COMMANDS: &str = "commands";

const ANSWERS: &str = "answers";

/// The timeout of one reply: a browser takes long to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
