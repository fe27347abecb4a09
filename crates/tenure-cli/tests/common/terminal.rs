//! Drives programs in a terminal.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};

use crate::common::{Ended, Place, path_with_tenure, wait_for};

/// A program in a terminal of its own, ended when dropped.
pub(crate) struct Terminal(Option<Child>);

impl Terminal {
    /// Starts a program in a new terminal, with `command` in its environment.
    pub(crate) fn start(place: &Place, program: &str, command: &str) -> Self {
        let child = Command::new("script")
            .args(["-qefc", program, "/dev/null"])
            .current_dir(place.path(""))
            .env("SHELL", "/bin/sh")
            .env("PATH", path_with_tenure())
            .env("TENURE_STORE", place.store())
            .env("COMMAND", command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self(Some(child))
    }

    pub(crate) fn press(&mut self, keys: &[u8]) {
        let stdin = self.0.as_mut().unwrap().stdin.as_mut().unwrap();
        stdin.write_all(keys).unwrap();
        stdin.flush().unwrap();
    }

    /// Waits for output, and returns it.
    pub(crate) fn read(&mut self) -> String {
        let mut bytes = [0; 1024];
        let stdout = self.0.as_mut().unwrap().stdout.as_mut().unwrap();
        let length = stdout.read(&mut bytes).unwrap();
        assert!(length > 0, "the program has ended");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    }

    /// Waits until the program has ended.
    pub(crate) fn ended(mut self) -> Ended {
        let child = self.0.as_mut().unwrap();
        let keys = child.stdin.take();
        wait_for("the program to end", || child.try_wait().unwrap().is_some());
        drop(keys);
        self.0.take().unwrap().wait_with_output().unwrap().into()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
