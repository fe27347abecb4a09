//! nginx as the load balancer: its configuration, start and end.

use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tenure_testkit::{Port, Process};

use super::{Balancer, listen};
use tenure_cli::{Failure, Result};

/// Starts nginx. It is killed when the load balancer is dropped, and also if this process is
/// killed.
pub(super) fn start(
    program: &Path,
    port: Option<u16>,
    copies: &[u16],
    folder: &Path,
) -> Result<Balancer> {
    let free = match port {
        Some(_) => None,
        None => Some(Port::free().map_err(|error| failed(&error))?),
    };
    let port = free.as_ref().map(Port::number).or(port).unwrap_or(0);
    // nginx would retry for some seconds; this fails at once, with a better message.
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
    wait_until_ready(&process, port, &log)?;
    Ok(Balancer {
        port,
        name: "nginx",
        // A port that the user did not choose stays reserved.
        _running: Box::new((process, free)),
    })
}

fn wait_until_ready(process: &Process, port: u16, log: &Path) -> Result<()> {
    let give_up = Instant::now() + PATIENCE;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        if !process.is_running() || Instant::now() > give_up {
            let log = std::fs::read_to_string(log).unwrap_or_default();
            return Err(failed(&log.lines().last().unwrap_or("it logged nothing")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Finds nginx on the `PATH`, or where Debian installs it, which is not on every user's `PATH`.
pub(super) fn find() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    find_in(std::env::split_paths(&path).chain(["/usr/sbin".into()]))
}

fn find_in(folders: impl Iterator<Item = PathBuf>) -> Result<PathBuf> {
    let mut programs = folders.map(|folder| folder.join("nginx"));
    programs.find(|program| program.is_file()).ok_or_else(|| {
        let sentence = "nginx is not installed; install it with 'apt-get install nginx-light', \
                        or leave out --front nginx";
        Failure::unavailable(sentence)
    })
}

/// Returns a configuration for a single process without a master, so that stopping it ends
/// everything. Everything that nginx writes is in the directory, so that any user can run it.
fn configuration(folder: &Path, port: u16, copies: &[u16]) -> String {
    let folder = folder.display();
    // A killed copy stays in rotation, because another process takes its place at once.
    let server = |copy: &u16| format!("    server 127.0.0.1:{copy} max_fails=0;\n");
    let servers: String = copies.iter().map(server).collect();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("  {kind}_temp_path \"{folder}/{kind}\";\n"))
        .concat();
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
    Failure::unavailable(format!("nginx cannot be used: {why}; try --front own"))
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
