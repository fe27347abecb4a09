//! nginx as the front: its configuration, start and end.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tenure_testkit::{Port, Process};

use super::listen;
use tenure_cli::error::{Failure, Result};
use tenure_cli::exit_code;

/// A running nginx; killed when dropped, and also if we are killed.
#[derive(Debug)]
pub(in crate::demo::flash_sale) struct Nginx {
    port: u16,
    process: Process,
    /// Kept from others, if we chose it.
    _claim: Option<Port>,
}

impl Nginx {
    pub(super) fn start(
        program: &Path,
        port: Option<u16>,
        copies: &[u16],
        folder: &Path,
    ) -> Result<Self> {
        let claim = match port {
            Some(_) => None,
            None => Some(Port::free().map_err(|error| failed(&error))?),
        };
        let port = claim.as_ref().map(Port::number).or(port).unwrap_or(0);
        // nginx would try for some seconds; we know at once, and say it better.
        drop(listen(Some(port))?);
        let folder = folder.join("nginx");
        std::fs::create_dir_all(&folder)?;
        let config = folder.join("nginx.conf");
        std::fs::write(&config, configuration(&folder, port, copies))?;
        let log = folder.join("error.log");
        let (config, errors) = (config.display().to_string(), log.display().to_string());
        let arguments = ["-p", ".", "-c", &config, "-e", &errors];
        let process = Process::start(program, &arguments, &folder, &log);
        let process = process.map_err(|error| failed(&error))?;
        let nginx = Self {
            port,
            process,
            _claim: claim,
        };
        nginx.wait_until_ready(&log)?;
        Ok(nginx)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    fn wait_until_ready(&self, log: &Path) -> Result<()> {
        let give_up = Instant::now() + PATIENCE;
        let address = (std::net::Ipv4Addr::LOCALHOST, self.port);
        while std::net::TcpStream::connect(address).is_err() {
            if !self.process.is_running() || Instant::now() > give_up {
                let log = std::fs::read_to_string(log).unwrap_or_default();
                let why = log.lines().last().unwrap_or("it says nothing").to_owned();
                return Err(failed(&why));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// Finds nginx on the `PATH`, or where Debian puts it, which is not on everybody's.
pub(super) fn find() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    find_in(std::env::split_paths(&path).chain(["/usr/sbin".into()]))
}

fn find_in(folders: impl Iterator<Item = PathBuf>) -> Result<PathBuf> {
    let mut programs = folders.map(|folder| folder.join("nginx"));
    programs.find(|program| program.is_file()).ok_or_else(|| {
        let sentence = "nginx is not installed; install it with 'apt-get install nginx-light', \
                        or leave out --front nginx";
        Failure::new(exit_code::UNAVAILABLE, sentence)
    })
}

/// One process without a master, so that its end is the end of one process. Everything that it writes is
/// in the folder, so that it runs as any user.
fn configuration(folder: &Path, port: u16, copies: &[u16]) -> String {
    let folder = folder.display();
    let mut servers = String::new();
    for copy in copies {
        // A copy that was killed stays in rotation, because another takes its place at once. Writing to
        // a text does not fail.
        let _ = writeln!(servers, "    server 127.0.0.1:{copy} max_fails=0;");
    }
    let mut temporary = String::new();
    for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
        let _ = writeln!(temporary, "  {kind}_temp_path \"{folder}/{kind}\";");
    }
    format!(
        "\
daemon off;
master_process off;
pid \"{folder}/nginx.pid\";
error_log \"{folder}/error.log\" error;
events {{ worker_connections 8192; }}
http {{
{temporary}  access_log off;
  upstream copies {{
    least_conn;
{servers}    keepalive 1024;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=2048;
    keepalive_requests 1000000;
    location / {{
      proxy_pass http://copies;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_connect_timeout 5s;
      proxy_read_timeout 2h;
    }}
  }}
}}
"
    )
}

fn failed(why: &dyn std::fmt::Display) -> Failure {
    let sentence = format!("nginx cannot be used: {why}; try --front own");
    Failure::new(exit_code::UNAVAILABLE, sentence)
}

const PATIENCE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_no_nginx_is_told_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let folders = || std::iter::once(folder.path().to_owned());
        let failure = find_in(folders()).unwrap_err();
        assert!(failure.to_string().contains("apt-get install"), "{failure}");
        std::fs::write(folder.path().join("nginx"), "").unwrap();
        assert!(find_in(folders()).is_ok());
    }
}
