//! Where the figures come from: they mean little without it.

use serde::Serialize;

/// The machine and how busy it was.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    cores: usize,
    kernel: String,
    /// The mean number of running processes in the minute before the run, where it is known.
    load: Option<f64>,
}

impl Machine {
    /// Looks at this machine.
    pub(super) fn look() -> Self {
        let system = rustix::system::uname();
        let (name, release) = (system.sysname(), system.release());
        let load = std::fs::read_to_string("/proc/loadavg").ok();
        let load = load.and_then(|text| text.split_whitespace().next()?.parse().ok());
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: format!("{} {}", name.to_string_lossy(), release.to_string_lossy()),
            load,
        }
    }

    /// Returns one line about it.
    pub(super) fn sentence(&self) -> String {
        let Self { cores, kernel, .. } = self;
        match self.load {
            Some(load) => format!("{cores} cores, {kernel}, load before the run {load}"),
            None => format!("{cores} cores, {kernel}"),
        }
    }
}
