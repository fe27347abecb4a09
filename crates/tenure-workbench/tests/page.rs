//! What users see of the flash sale, in a real browser: the live page and the report.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Stdio};

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use tenure_testkit::Browser;

use crate::common::{Place, bare, descendants, end, is_alive, pid, runs, wait_for};

/// A demo that has printed the address of its page.
struct Demo {
    process: Child,
    /// Kept open, so that the demo can write.
    _said: BufReader<ChildStderr>,
    /// The address as printed, such as `127.0.0.1:4711`.
    address: String,
}

impl Demo {
    /// Starts a demo with these flags.
    fn start(flags: &[&str], input: Stdio) -> Self {
        let mut command = bare(&["demo", "flash-sale", "--page", "--front", "own"]);
        let command = command.args(flags).stdin(input);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line
            .split("http://")
            .nth(1)
            .and_then(|rest| rest.split('/').next());
        let address = address.unwrap_or_else(|| panic!("no address: {line}"));
        Self {
            address: address.to_owned(),
            process,
            _said: said,
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        // The same as Ctrl-C, so that nothing is left behind; it may have ended before.
        let _ = kill_process(pid(self.process.id()), Signal::INT);
        let _ = self.process.wait();
    }
}

/// A demo, and a browser that shows its page.
struct Stage {
    demo: Demo,
    browser: Browser,
}

impl Stage {
    /// Starts a demo with these flags and opens its page.
    fn open(flags: &[&str]) -> Self {
        let quick = ["--buyers", "1500", "--think", "2ms"];
        let demo = Demo::start(&[&quick, flags].concat(), Stdio::null());
        Self::of(demo, Browser::start().unwrap())
    }

    /// Opens the page of a demo.
    fn of(demo: Demo, browser: Browser) -> Self {
        let mut stage = Self { demo, browser };
        let address = format!("http://{}/", stage.demo.address);
        stage.browser.goto(&address).unwrap();
        // Only then can another sale be told apart from the first.
        stage.wait_for("state?.number > 0");
        stage
    }

    /// Chooses a lock and presses the button; returns once the sale is running.
    fn start(&mut self, lock: &str) {
        let number = self.eval("state.number").as_u64().unwrap();
        self.eval(&format!("document.querySelector('#lock').value = '{lock}'"));
        self.browser.click("#start .main").unwrap();
        self.wait_for(&format!(
            "state.number > {number} && state.lock === '{lock}'"
        ));
    }

    /// Waits until the sale is over, and returns what the page then shows.
    fn over(&mut self) -> Value {
        self.wait_for(
            "state?.sale?.finished && document.querySelector('#totals-title').textContent === 'Final result'",
        );
        self.eval(SHOWN)
    }

    fn eval(&mut self, script: &str) -> Value {
        self.browser.eval(script).unwrap()
    }

    fn wait_for(&mut self, condition: &str) -> Value {
        self.browser.wait_for(condition).unwrap()
    }

    fn no_errors(&mut self) {
        assert_eq!(self.browser.errors().unwrap(), Vec::<String>::new());
    }
}

/// Reads what a user reads: the totals by name, what the copies sold, the big number and the
/// verdict.
const SHOWN: &str = r"(() => {
    const number = (text) => Number(text.replace(/[^0-9]/g, ''));
    const shown = { left: number(left.textContent), verdict: document.getElementById('status').textContent };
    for (const figure of document.querySelectorAll('#totals > div')) {
        shown[figure.dataset.name] = number(figure.querySelector('dd').firstChild.data);
        if (figure.classList.contains('bad')) shown[figure.dataset.name + ' is bad'] = true;
    }
    shown.copies = [...document.querySelectorAll('.copy .number')].map((copy) => number(copy.textContent));
    return shown;
})()";

/// Records every number that the page shows as left.
const WATCH: &str = r"
    window.seen = [];
    new MutationObserver(() => seen.push(Number(left.textContent.replace(/[^0-9]/g, '')))).observe(left, { childList: true });
";

#[test]
fn the_page_shows_the_stock_fall_to_nothing_and_who_sold() {
    let mut stage = Stage::open(&["--stock", "500"]);
    assert_eq!(stage.over()["sold"], 500);
    stage.eval(WATCH);
    stage.start("tenure");
    stage.wait_for(
        "document.querySelector('.client.holds') && document.querySelector('.client:not(.holds)')",
    );
    let shown = stage.over();
    assert_eq!(
        (
            &shown["sold"],
            &shown["left"],
            &shown["oversold"],
            &shown["lost updates"]
        ),
        (&500.into(), &0.into(), &0.into(), &0.into())
    );
    assert_eq!(shown["verdict"], "✓ exact");
    let copies: Vec<u64> = shown["copies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|sold| sold.as_u64().unwrap())
        .collect();
    assert_eq!(
        (copies.len(), copies.iter().sum::<u64>()),
        (2, 500),
        "{copies:?}"
    );
    assert!(copies.iter().all(|sold| *sold > 0), "both sell: {copies:?}");
    let seen = stage.eval("seen");
    let seen: Vec<u64> = seen
        .as_array()
        .unwrap()
        .iter()
        .map(|left| left.as_u64().unwrap())
        .collect();
    // The zero of the previous sale comes first.
    let fell: Vec<u64> = seen.iter().copied().skip_while(|left| *left == 0).collect();
    assert!(
        fell.is_sorted_by(|one, next| one >= next),
        "it falls: {seen:?}"
    );
    assert!(
        seen.iter().any(|left| (1..500).contains(left)),
        "on the way: {seen:?}"
    );
    assert_eq!(seen.last(), Some(&0));
    stage.no_errors();
}

#[test]
fn a_copy_that_is_killed_by_a_click_is_replaced_and_nothing_is_sold_twice() {
    let mut stage = Stage::open(&["--stock", "1000"]);
    stage.start("tenure");
    stage.wait_for("state.phase === 'running' && state.copies[0].sold > 0");
    let before = stage.eval("state.copies[0].pid");
    stage.browser.click("[data-copy='1'] .kill").unwrap();
    stage.wait_for("document.querySelector('#faults').textContent.includes('Copy 1 was killed')");
    stage.wait_for(&format!("state.copies[0].pid !== {before}"));
    let process = stage.eval("document.querySelector('[data-copy=\"1\"] .pid').textContent");
    assert_ne!(process, format!("process {before}"));
    assert!(!is_alive(&before.to_string()));
    let shown = stage.over();
    assert_eq!(
        (&shown["sold"], &shown["lost updates"]),
        (&1000.into(), &0.into()),
        "{shown}"
    );
    stage.no_errors();
}

#[test]
fn a_copy_that_is_frozen_by_a_click_comes_back_too_late_to_write() {
    let mut stage = Stage::open(&["--stock", "1000", "--ttl", "1s"]);
    stage.start("tenure");
    stage.wait_for("state.phase === 'running' && state.copies[1].sold > 0");
    stage.browser.click("[data-copy='2'] .pause").unwrap();
    stage.wait_for("document.querySelector('[data-copy=\"2\"] .state').textContent === 'frozen'");
    stage.wait_for(
        "document.querySelector('#faults').textContent.includes('late write was refused')",
    );
    let shown = stage.over();
    assert_eq!(
        (&shown["sold"], &shown["stale writes"]),
        (&1000.into(), &1.into()),
        "{shown}"
    );
    stage.no_errors();
}

#[test]
fn the_sale_waits_for_the_page_and_lasts_until_copies_are_broken_by_hand() {
    let demo = Demo::start(&["--ttl", "1s"], Stdio::null());
    // A browser takes a while to start, like a user.
    let browser = Browser::start().unwrap();
    let copies = descendants(demo.process.id());
    let copies = copies.iter().filter(|pid| runs(pid, "demo-copy"));
    assert_eq!(copies.count(), 0, "nothing was started yet");
    let mut stage = Stage::of(demo, browser);
    stage.wait_for("state.phase === 'running' && state.copies.every((copy) => copy.sold > 0)");
    let told = "document.querySelector('#faults').textContent";
    stage.browser.click("[data-copy='2'] .pause").unwrap();
    stage.wait_for("document.querySelector('[data-copy=\"2\"] .state').textContent === 'frozen'");
    // The other copy must take over first.
    stage.browser.click("[data-copy='1'] .pause").unwrap();
    let button = "document.querySelector('[data-copy=\"1\"] .pause').textContent";
    stage.wait_for(&format!("{button} === 'once another is serving …'"));
    for copies in [[2, 1], [1, 2]] {
        let [frozen, other] = copies;
        stage.wait_for(&format!(
            "/Copy {frozen} was frozen .*copy {other} took over .*late write was refused/.test({told})"
        ));
    }
    stage.wait_for("!document.querySelector('[data-copy=\"1\"] .kill').disabled");
    stage.browser.click("[data-copy='1'] .kill").unwrap();
    stage.wait_for(&format!("{told}.includes('Copy 1 was killed')"));
    assert_eq!(
        stage.eval("state.phase"),
        "running",
        "there is time for more"
    );
    stage.no_errors();
}

#[test]
fn the_only_copy_is_not_frozen() {
    let mut stage = Stage::open(&["--stock", "300", "--copies", "1"]);
    stage.start("tenure");
    let disabled = "[...document.querySelectorAll('.buttons button')].map((one) => one.disabled)";
    stage.wait_for("state.phase === 'running' && state.copies[0].sold > 0");
    stage.wait_for(&format!("String({disabled}) === 'true,false'"));
    let said = stage.wait_for(
        "(window.asked ??= send('pause', { copy: 1 })) && \
         document.querySelector('#problem').textContent",
    );
    assert!(said.as_str().unwrap().contains("--copies 2"), "{said}");
}

#[test]
fn a_line_on_standard_input_begins_the_sale_without_the_page() {
    let mut demo = Demo::start(&["--stock", "20", "--think", "1ms"], Stdio::piped());
    demo.process
        .stdin
        .as_mut()
        .unwrap()
        .write_all(b"\n")
        .unwrap();
    let mut said = String::new();
    let printed = BufReader::new(demo.process.stdout.take().unwrap());
    for line in printed.lines() {
        said += &line.unwrap();
        if said.contains("exactly the stock is sold") {
            break;
        }
    }
    assert!(said.contains("20 pieces"), "{said}");
}

#[test]
fn a_sale_without_a_lock_shows_lost_updates() {
    let mut stage = Stage::open(&["--stock", "300"]);
    stage.start("none");
    let shown = stage.over();
    assert!(shown["lost updates"].as_u64().unwrap() > 0, "{shown}");
    assert_eq!(shown["lost updates is bad"], true);
    assert!(
        shown["verdict"].as_str().unwrap().starts_with('✗'),
        "{shown}"
    );
    stage.no_errors();
}

#[test]
fn the_page_says_when_the_demo_is_gone_and_nothing_runs_on() {
    let mut stage = Stage::open(&["--stock", "300"]);
    stage.start("tenure");
    stage.wait_for("state.phase === 'running'");
    let copies = stage.eval("state.copies.map((copy) => copy.pid)");
    let copies: Vec<String> = copies
        .as_array()
        .unwrap()
        .iter()
        .map(Value::to_string)
        .collect();
    assert!(copies.iter().all(|copy| is_alive(copy)));
    kill_process(pid(stage.demo.process.id()), Signal::INT).unwrap();
    assert_eq!(stage.demo.process.wait().unwrap().code(), Some(130));
    let said = stage.wait_for("!document.querySelector('#problem').hidden && document.querySelector('#problem').textContent");
    assert!(said.as_str().unwrap().contains("does not answer"), "{said}");
    assert_eq!(
        stage.eval("document.querySelector('#start .main').disabled"),
        true
    );
    wait_for("the copies to end", || {
        !copies.iter().any(|copy| is_alive(copy))
    });
}

#[test]
fn the_report_of_all_sales_is_a_click_away() {
    let mut stage = Stage::open(&["--stock", "100"]);
    stage.over();
    stage.start("process");
    stage.over();
    stage.browser.click("#report").unwrap();
    stage.wait_for("document.querySelectorAll('svg[role=img]').length === 2 * 5");
    let locks =
        stage.eval("[...document.querySelectorAll('main section[id]')].map((lock) => lock.id)");
    assert_eq!(locks, serde_json::json!(["tenure", "process"]));
    stage.no_errors();
}

#[test]
fn a_report_opens_by_itself_and_its_charts_have_sane_numbers() {
    let place = Place::new();
    let file = place.path("sale.html");
    let mut command = bare(&[
        "demo",
        "flash-sale",
        "--stock",
        "400",
        "--buyers",
        "1000",
        "--kill",
    ]);
    let ended = end(command.args(["--front", "own", "--report"]).arg(&file));
    assert_eq!(ended.code, 0, "{}", ended.err);
    let mut browser = Browser::start().unwrap();
    browser.goto(&format!("file://{}", file.display())).unwrap();
    let charts = "[...document.querySelectorAll('svg[role=img]')]";
    let titles = browser.eval(&format!(
        "{charts}.map((chart) => chart.querySelector('title').textContent)"
    ));
    assert_eq!(titles.unwrap().as_array().unwrap().len(), 4);
    let inside = format!(
        "{charts}.every((chart) => [...chart.querySelectorAll('path.line, rect.bar')].every((mark) => {{
            const [box, frame] = [mark.getBBox(), chart.viewBox.baseVal];
            return box.width > 0 && box.x >= 0 && box.y >= 0
                && box.x + box.width <= frame.width && box.y + box.height <= frame.height; }}))"
    );
    assert_eq!(browser.eval(&inside).unwrap(), true);
    let lines = browser.eval(&format!("{charts}[0].querySelectorAll('path.line').length"));
    assert_eq!(lines.unwrap(), 3, "two copies, and what was really left");
    let faults = browser.eval("document.querySelectorAll('.band').length");
    assert_eq!(faults.unwrap(), 3, "one for each chart over time");
    let sold = browser.eval("document.querySelector('.numbers dd').firstChild.data");
    assert_eq!(sold.unwrap(), "400");
    point_at_the_stock(&mut browser);
    assert_eq!(browser.errors().unwrap(), Vec::<String>::new());
}

/// Moves the pointer over the first chart, where the stock has fallen, and checks what it shows.
fn point_at_the_stock(browser: &mut Browser) {
    let place = browser.eval(
        "(() => { const plot = document.querySelector('.plot'); plot.scrollIntoView({ block: 'center' }); \
         const box = plot.getBoundingClientRect(); return [box.right - 30, box.y + box.height / 2]; })()",
    );
    let place = place.unwrap();
    browser
        .point(place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
        .unwrap();
    let tip = browser.wait_for(
        "!document.querySelector('.tip').hidden && document.querySelector('.tip').textContent",
    );
    let tip = tip.unwrap();
    let tip = tip.as_str().unwrap();
    assert!(tip.contains("really left 0"), "{tip}");
}

#[test]
fn other_sites_cannot_use_the_page() {
    let stage = Stage::open(&["--stock", "100"]);
    let json = "Content-Type: application/json";
    let order = r#"{"lock":"none"}"#;
    let cases = [
        ("GET / HTTP/1.1", "rebound.example", "", "", 403),
        ("GET /state HTTP/1.1", "rebound.example:80", "", "", 403),
        ("POST /start HTTP/1.1", "rebound.example", json, order, 403),
        (
            "POST /start HTTP/1.1",
            &stage.demo.address,
            "Content-Type: text/plain",
            order,
            403,
        ),
        ("POST /start HTTP/1.1", &stage.demo.address, "", order, 403),
        (
            "POST /start HTTP/1.1",
            &stage.demo.address,
            json,
            r#"{"lock":"nonsense"}"#,
            400,
        ),
        (
            "POST /start HTTP/1.1",
            &stage.demo.address,
            json,
            r#"{"lock":"setnx"}"#,
            409,
        ),
        (
            "POST /kill HTTP/1.1",
            &stage.demo.address,
            json,
            r#"{"copy":7}"#,
            404,
        ),
        (
            "POST /start HTTP/1.1",
            &stage.demo.address,
            json,
            order,
            202,
        ),
    ];
    for (first, host, header, body, status) in cases {
        let header = if header.is_empty() {
            String::new()
        } else {
            format!("{header}\r\n")
        };
        let length = body.len();
        let text = format!(
            "{first}\r\nHost: {host}\r\n{header}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        );
        let mut stream = TcpStream::connect(&stage.demo.address).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{text}\n{answer}"
        );
    }
}

#[test]
fn what_cannot_be_shown_is_one_sentence() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let cases: [(&[&str], i32, &str); 4] = [
        (
            &["--page", "--page-port", &port],
            69,
            "try another --page-port",
        ),
        (&["--page-port", "4711"], 2, "--page"),
        (&["--page", "--json"], 2, "--json"),
        (
            &[
                "--stock",
                "1",
                "--buyers",
                "1",
                "--report",
                "/no/such/folder/a.html",
            ],
            74,
            "name another file",
        ),
    ];
    for (flags, code, part) in cases {
        let ended = end(bare(&["demo", "flash-sale"]).args(flags));
        assert_eq!(ended.code, code, "{flags:?}: {}", ended.err);
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
        assert!(ended.err.contains(part), "{}", ended.err);
    }
}
