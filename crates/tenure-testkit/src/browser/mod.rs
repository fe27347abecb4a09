//! A real browser, for pages that must work in one.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

mod base64;
mod channel;

use self::channel::Channel;
use crate::error::{Error, Result};
use crate::process::{self, Process};
use crate::wait;

/// Chromium without a window, with one open page and its own profile; killed on drop.
#[derive(Debug)]
pub struct Browser {
    // Dropped in this order: first the program, then what it uses.
    process: Process,
    channel: Channel,
    /// The page that commands go to.
    session: String,
    folder: TempDir,
}

/// The colours that the user prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scheme {
    /// Dark text on a light background.
    Light,
    /// Light text on a dark background.
    Dark,
}

impl Browser {
    /// Starts chromium, and opens an empty page.
    ///
    /// # Errors
    ///
    /// [`Error::Missing`] if chromium is not installed; otherwise what kept it from starting.
    pub fn start() -> Result<Self> {
        let program = process::find("chromium", "chromium")?;
        let folder = tempfile::Builder::new().prefix("tenure-browser-").tempdir();
        let folder = folder.map_err(Error::io("make a folder for chromium"))?;
        let path = folder.path();
        let log = path.join(LOG);
        let mut channel = Channel::make(path, &log)?;
        let process = launch(&program, path, &log)?;
        channel.call("Browser.getVersion", json!({}), None)?;
        channel.release()?;
        let session = open_page(&mut channel)?;
        Ok(Self {
            process,
            channel,
            session,
            folder,
        })
    }

    /// Returns chromium's process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns the directory of the browser, which is removed with it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Opens `url`, and returns once it is loaded.
    ///
    /// # Errors
    ///
    /// [`Error::Answer`] if there is no such page.
    pub fn goto(&mut self, url: &str) -> Result<()> {
        let answer = self.command("Page.navigate", json!({ "url": url }))?;
        if let Some(text) = answer["errorText"].as_str() {
            return Err(refused(format!("to open {url}"), text));
        }
        let loaded = "document.readyState === 'complete' && location.href !== 'about:blank'";
        self.wait_for(loaded).map(drop)
    }

    /// Runs JavaScript in the page, and returns what it or its promise resolves to.
    ///
    /// # Errors
    ///
    /// [`Error::Answer`] with the exception that it threw.
    pub fn eval(&mut self, script: &str) -> Result<Value> {
        let params = json!({
            "expression": script,
            "awaitPromise": true,
            "returnByValue": true,
            "userGesture": true,
        });
        let answer = self.command("Runtime.evaluate", params)?;
        match answer.get("exceptionDetails") {
            Some(thrown) => Err(refused(script.to_owned(), &told(thrown))),
            None => Ok(answer["result"]["value"].clone()),
        }
    }

    /// Evaluates the JavaScript `condition` repeatedly until it is true, and returns its value.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] with the text of the page; errors of [`eval`](Self::eval) are returned
    /// at once.
    pub fn wait_for(&mut self, condition: &str) -> Result<Value> {
        let began = Instant::now();
        let script = format!("(() => {{ const it = ({condition}); return it ? it : null; }})()");
        loop {
            let value = match self.eval(&script) {
                // The page was unloaded during the call: a new one is being loaded.
                Err(Error::Answer { text, .. }) if text.contains(BETWEEN_PAGES) => Value::Null,
                found => found?,
            };
            if !value.is_null() {
                return Ok(value);
            }
            if began.elapsed() >= PATIENCE {
                let page = self.eval("document.body.innerText")?;
                return Err(Error::TimedOut {
                    what: condition.to_owned(),
                    waited: PATIENCE,
                    last: page.as_str().unwrap_or_default().to_owned(),
                });
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Clicks with the mouse on the middle of the first element that matches `selector`.
    ///
    /// # Errors
    ///
    /// If there is no such element.
    pub fn click(&mut self, selector: &str) -> Result<()> {
        let selector = Value::from(selector);
        let place = self.eval(&format!(
            "(() => {{ const found = document.querySelector({selector}); \
             found.scrollIntoView({{ block: 'center' }}); \
             const box = found.getBoundingClientRect(); \
             return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
        ))?;
        for kind in ["mousePressed", "mouseReleased"] {
            let params = json!({
                "type": kind, "x": place[0], "y": place[1], "button": "left", "clickCount": 1,
            });
            self.command("Input.dispatchMouseEvent", params)?;
        }
        Ok(())
    }

    /// Moves the mouse to a position in the window.
    ///
    /// # Errors
    ///
    /// If the browser is gone.
    pub fn point(&mut self, x: f64, y: f64) -> Result<()> {
        let params = json!({ "type": "mouseMoved", "x": x, "y": y });
        self.command("Input.dispatchMouseEvent", params).map(drop)
    }

    /// Resizes the window; narrow windows behave like a phone.
    ///
    /// # Errors
    ///
    /// If the browser is gone.
    pub fn resize(&mut self, width: u32, height: u32) -> Result<()> {
        let params = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.command("Emulation.setDeviceMetricsOverride", params)
            .map(drop)
    }

    /// Sets the colours that the user prefers.
    ///
    /// # Errors
    ///
    /// If the browser is gone.
    pub fn prefer(&mut self, scheme: Scheme) -> Result<()> {
        let value = match scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        self.command(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        )
        .map(drop)
    }

    /// Writes a picture of the whole page as PNG.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn screenshot(&mut self, file: &Path) -> Result<()> {
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let answer = self.command("Page.captureScreenshot", params)?;
        let picture = answer["data"].as_str().and_then(base64::decode);
        let Some(picture) = picture else {
            return Err(refused("a screenshot".into(), "no picture came"));
        };
        fs::write(file, picture).map_err(Error::io(format!("write {}", file.display())))
    }

    /// Returns the errors of the page so far: exceptions, `console.error`, failed requests.
    ///
    /// # Errors
    ///
    /// If the browser is gone.
    pub fn errors(&mut self) -> Result<Vec<String>> {
        // Events arrive in order: when this is answered, all earlier ones have arrived.
        self.eval("0")?;
        let errors = self.channel.events().iter().filter_map(error_of);
        Ok(errors.collect())
    }

    fn command(&mut self, method: &str, params: Value) -> Result<Value> {
        self.channel.call(method, params, Some(&self.session))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // A browser that closes by itself also ends its helper processes; one that cannot is
        // killed.
        if self.channel.send("Browser.close", json!({}), None).is_ok() {
            let _ = wait::until("chromium ends", || match self.process.is_running() {
                true => Err(String::new()),
                false => Ok(()),
            });
        }
    }
}

/// Starts chromium so that it reads commands from descriptor 3 and writes replies to descriptor 4.
fn launch(program: &Path, folder: &Path, log: &Path) -> Result<Process> {
    let profile = format!("--user-data-dir={}", folder.join("profile").display());
    let program = program.to_string_lossy();
    let mut args = vec!["-c", channel::JOINED, "browser", &program];
    args.extend(FLAGS);
    args.extend([profile.as_str(), "about:blank"]);
    Process::start(Path::new("/bin/sh"), &args, folder, log)
}

/// Attaches to the only page, and subscribes to its errors.
fn open_page(channel: &mut Channel) -> Result<String> {
    let created = channel.call("Target.createTarget", json!({ "url": "about:blank" }), None)?;
    let target = &created["targetId"];
    let params = json!({ "targetId": target, "flatten": true });
    let attached = channel.call("Target.attachToTarget", params, None)?;
    let session = attached["sessionId"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
        channel.call(domain, json!({}), Some(&session))?;
    }
    Ok(session)
}

/// Returns the error that an event reports, if any.
fn error_of(event: &Value) -> Option<String> {
    let params = &event["params"];
    match event["method"].as_str()? {
        "Runtime.exceptionThrown" => Some(told(&params["exceptionDetails"])),
        "Runtime.consoleAPICalled" if params["type"] == "error" => {
            let said = params["args"].as_array()?.iter();
            let said: Vec<_> = said.map(|arg| plain(&arg["value"])).collect();
            Some(said.join(" "))
        }
        "Log.entryAdded" if params["entry"]["level"] == "error" => {
            let entry = &params["entry"];
            Some(format!(
                "{} {}",
                plain(&entry["text"]),
                plain(&entry["url"])
            ))
        }
        _ => None,
    }
}

fn told(thrown: &Value) -> String {
    match thrown["exception"]["description"].as_str() {
        Some(text) => text.to_owned(),
        None => plain(&thrown["text"]),
    }
}

fn plain(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

fn refused(command: String, text: &str) -> Error {
    Error::Answer {
        command,
        text: text.to_owned(),
    }
}

/// As tests need it: no window, no sandbox (which root cannot use), no network traffic of its own.
const FLAGS: [&str; 10] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--remote-debugging-pipe",
];

const LOG: &str = "chromium.log";

/// What chromium replies if the page is unloaded during a call.
const BETWEEN_PAGES: &str = "context was destroyed";

/// A page may do real work on a busy machine before it shows the result.
const PATIENCE: Duration = Duration::from_secs(90);

/// The pause between two evaluations.
const PAUSE: Duration = Duration::from_millis(25);
