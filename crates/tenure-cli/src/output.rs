//! Output: locks as JSON and as tables, and the log.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};
use rustix::termios::tcgetwinsize;
use serde::Serialize;
use tenure::driver::{About, Entry, Holder, Mode, Waiter};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use crate::error::Result;
use crate::holding::Holding;

/// A lock as JSON. Scripts depend on this format, so it is not a type of the library.
#[derive(Debug, Serialize)]
pub(crate) struct LockJson<'a> {
    name: &'a str,
    mode: &'static str,
    holders: Vec<HolderJson<'a>>,
    waiters: Vec<WaiterJson<'a>>,
}

/// An owner that holds a lock, as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct HolderJson<'a> {
    owner: &'a str,
    fence: u64,
    depth: usize,
    #[serde(flatten)]
    permits: PermitsJson,
    #[serde(flatten)]
    about: AboutJson<'a>,
    held_ms: u64,
    expires_in_ms: u64,
}

#[derive(Debug, Serialize)]
struct WaiterJson<'a> {
    owner: &'a str,
    mode: &'static str,
    #[serde(flatten)]
    permits: PermitsJson,
    #[serde(flatten)]
    about: AboutJson<'a>,
    waited_ms: u64,
}

/// How many permits an owner has or wants, if the lock is a semaphore.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct PermitsJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    take: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    of: Option<u32>,
}

/// Who asks for a lock and why, as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct AboutJson<'a> {
    reason: Option<&'a str>,
    host: &'a str,
    pid: u32,
}

impl<'a> From<&'a Entry> for LockJson<'a> {
    fn from(entry: &'a Entry) -> Self {
        Self {
            name: entry.name.as_str(),
            mode: word(mode_of(entry)),
            holders: holders_json(&entry.holders),
            waiters: entry.waiters.iter().map(WaiterJson::from).collect(),
        }
    }
}

impl<'a> From<&Holding<'a>> for HolderJson<'a> {
    fn from(holding: &Holding<'a>) -> Self {
        let first = holding.first;
        Self {
            owner: first.owner.as_str(),
            fence: first.fence.get(),
            depth: holding.depth(),
            permits: first.mode.into(),
            about: (&first.about).into(),
            held_ms: millis(holding.held()),
            expires_in_ms: millis(holding.expires_in()),
        }
    }
}

/// Returns the holders as JSON, one for each owner.
pub(crate) fn holders_json(holders: &[Holder]) -> Vec<HolderJson<'_>> {
    let all = Holding::all(holders);
    all.iter().map(HolderJson::from).collect()
}

impl<'a> From<&'a Waiter> for WaiterJson<'a> {
    fn from(waiter: &'a Waiter) -> Self {
        Self {
            owner: waiter.owner.as_str(),
            mode: word(waiter.mode),
            permits: waiter.mode.into(),
            about: (&waiter.about).into(),
            waited_ms: millis(waiter.waited),
        }
    }
}

impl From<Mode> for PermitsJson {
    fn from(mode: Mode) -> Self {
        let (take, of) = match mode {
            Mode::Permits { take, of } => (Some(take), Some(of)),
            _ => (None, None),
        };
        Self { take, of }
    }
}

impl<'a> From<&'a About> for AboutJson<'a> {
    fn from(about: &'a About) -> Self {
        Self {
            reason: about.reason.as_deref(),
            host: &about.host,
            pid: about.pid,
        }
    }
}

/// Returns the mode of the first holder, or of the first in line.
fn mode_of(entry: &Entry) -> Mode {
    let holding = entry.holders.first().map(|holder| holder.mode);
    let waiting = entry.waiters.first().map(|waiter| waiter.mode);
    holding.or(waiting).unwrap_or(Mode::Exclusive)
}

/// Returns a mode as the word that scripts read.
pub(crate) fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Shared => "shared",
        Mode::Permits { .. } => "permits",
        _ => "exclusive",
    }
}

/// Returns a mode as text for people.
pub(crate) fn mode(mode: Mode) -> String {
    match mode {
        Mode::Permits { take, of } => format!("{take} of {of}"),
        _ => word(mode).to_owned(),
    }
}

/// Returns the duration in whole milliseconds.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Prints a value as one JSON document.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    Ok(print(&json(value)?)?)
}

/// Returns a value as an indented JSON document.
pub(crate) fn json(value: &impl Serialize) -> io::Result<String> {
    Ok(visible_json(&serde_json::to_string_pretty(value)?) + "\n")
}

/// Replaces hidden characters with their JSON escapes, which does not change the value.
pub(crate) fn visible_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        // JSON outside of strings is ASCII only, and strings contain no raw line breaks.
        match c != '\n' && is_hidden(c) {
            true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                shown.push_str(&format!("\\u{unit:04x}"));
            }),
            false => shown.push(c),
        }
    }
    shown
}

/// Prints a text, and flushes it.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(unwritten)
}

/// Returns stdout, with colours if it is a terminal. Its errors are marked as output errors.
pub fn stdout() -> Out {
    Out(anstream::stdout().lock())
}

/// Stdout.
#[derive(Debug)]
pub struct Out(anstream::AutoStream<io::StdoutLock<'static>>);

impl Write for Out {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.write(text).map_err(unwritten)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(unwritten)
    }
}

/// Marks an error as an output error, which has its own exit code.
pub(crate) fn unwritten(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), Unwritten(error))
}

/// Returns whether an error is an output error.
pub(crate) fn is_unwritten(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Unwritten>())
}

/// The reason why the output could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unwritten(io::Error);

/// Returns an empty table that fits on the terminal.
pub fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    if let Some(width) = terminal_width() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
    }
    table.set_header(header);
    table
}

/// Returns a table as text with a bold heading.
pub fn with_bold_heading(table: &Table) -> String {
    let mut lines: Vec<_> = table.lines().collect();
    lines[1] = format!("{HEADING}{}{HEADING:#}", lines[1]);
    lines.join("\n")
}

/// Returns how many times an owner holds a lock, if more than once.
pub(crate) fn times(depth: usize) -> String {
    match depth {
        0 | 1 => String::new(),
        depth => format!(" ×{depth}"),
    }
}

/// Returns the host and the process id.
pub(crate) fn who(about: &About) -> String {
    format!("{}/{}", escape(&about.host), about.pid)
}

/// Returns the reason, or an empty text.
pub(crate) fn reason(about: &About) -> String {
    escape(about.reason.as_deref().unwrap_or_default())
}

/// Shortens an owner: anybody who can read all of it could release the lock.
pub(crate) fn short(owner: &str) -> String {
    if owner.chars().count() <= 10 {
        return escape(owner);
    }
    let head: String = owner.chars().take(8).collect();
    escape(&head) + "…"
}

/// Cuts a text that is wider than so many columns, and marks the cut.
///
/// Counts two columns for each character that is not ASCII: some are that wide.
pub(crate) fn fit(text: &str, columns: usize) -> String {
    let width = |c: char| if c.is_ascii() { 1 } else { 2 };
    if text.chars().map(width).sum::<usize>() <= columns {
        return text.to_owned();
    }
    let mut used = width('…');
    let fitting = text.chars().take_while(|c| {
        used += width(*c);
        used <= columns
    });
    fitting.collect::<String>() + "…"
}

/// Makes hidden characters visible, so that a text can neither control the terminal nor imitate
/// another text.
pub fn escape(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown
}

/// Returns whether a character is invisible or changes how others are drawn: control characters,
/// format characters such as those that change the text direction, unusual spaces, fillers and
/// variation selectors.
fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    // Unicode classifies these as letters, symbols or marks, but they are drawn as nothing.
    let is_blank = matches!(
        c,
        '\u{34f}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{ffa0}'
            | '\u{e0100}'..='\u{e01ef}'
    );
    // The standard library knows the others. It does not escape an accent that follows a letter.
    is_blank || format!("a{c}").escape_debug().nth(1) == Some('\\')
}

/// Quotes a text for a shell.
pub(crate) fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Returns a text as one word for a shell, quoted only if it has to be.
pub(crate) fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    let is_word = !text.starts_with(['-', '=']) && text.chars().all(is_plain);
    match is_word && !text.is_empty() {
        true => text.to_owned(),
        // After -- it is not taken for a flag.
        false if text.starts_with('-') => format!("-- {}", quote(text)),
        false => quote(text),
    }
}

/// Starts the log on stderr, if TENURE_LOG or `default` sets a level.
pub fn start_log(default: Option<&str>) {
    let wanted = std::env::var("TENURE_LOG").ok();
    let wanted = wanted.as_deref().filter(|filter| !filter.is_empty());
    if let Some(filter) = wanted.or(default) {
        // Invalid parts are ignored, as is usual for log filters.
        let parts = filter
            .split(',')
            .filter(|part| part.parse::<Targets>().is_ok());
        let targets: Targets = parts
            .collect::<Vec<_>>()
            .join(",")
            .parse()
            .unwrap_or_default();
        let lines = tracing_subscriber::fmt::layer()
            .with_ansi(io::stderr().is_terminal())
            .with_writer(|| Log);
        tracing_subscriber::registry()
            .with(lines.with_filter(targets))
            .init();
    }
}

/// Returns whether the log may write to stderr.
pub(crate) fn is_logging() -> bool {
    LevelFilter::current() != LevelFilter::OFF
}

/// The log on stderr, which makes hidden characters visible.
struct Log;

impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut shown = String::with_capacity(line.len());
        // ASCII control characters come from the log itself: line breaks and colours.
        for c in String::from_utf8_lossy(line).chars() {
            match !c.is_ascii() && is_hidden(c) {
                true => shown.extend(c.escape_default()),
                false => shown.push(c),
            }
        }
        io::stderr().write_all(shown.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Returns the width of the terminal, if the output is one.
pub fn terminal_width() -> Option<u16> {
    // This fails if the output is not a terminal.
    let size = tcgetwinsize(rustix::stdio::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col)
}

/// The style of headings.
pub const HEADING: anstyle::Style = anstyle::Style::new().bold();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_shortened() {
        assert_eq!(short("job-7"), "job-7");
        assert_eq!(short("0123456789abcdef:1"), "01234567…");
    }

    #[test]
    fn a_text_that_is_too_wide_is_cut() {
        assert_eq!(fit("abcdef", 6), "abcdef");
        assert_eq!(fit("abcdef", 5), "abc…");
        assert_eq!(fit("ab名前", 5), "ab…");
        assert_eq!(fit("ab", 0), "…");
    }

    #[test]
    fn quoted_text_survives_a_shell() {
        assert_eq!(quote("it's"), r"'it'\''s'");
    }

    #[test]
    fn a_word_is_quoted_only_if_it_has_to_be() {
        for word in ["deploy", "deploy/eu-1", "a.b:c@d"] {
            assert_eq!(shell_word(word), word);
        }
        for (text, word) in [
            ("a b", "'a b'"),
            ("$x", "'$x'"),
            ("größe", "'größe'"),
            ("", "''"),
            ("-x", "-- '-x'"),
        ] {
            assert_eq!(shell_word(text), word);
        }
    }

    #[test]
    fn hidden_characters_become_visible() {
        assert_eq!(escape("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
        let hidden = [
            '\u{7f}',
            '\u{85}',
            '\u{a0}',
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{180b}',
            '\u{180e}',
            '\u{200b}',
            '\u{200e}',
            '\u{2028}',
            '\u{202e}',
            '\u{2060}',
            '\u{2069}',
            '\u{2800}',
            '\u{3000}',
            '\u{3164}',
            '\u{e000}',
            '\u{fe0e}',
            '\u{feff}',
            '\u{ffa0}',
            '\u{fffb}',
            '\u{1d173}',
            '\u{e0001}',
            '\u{e0101}',
        ];
        for c in hidden {
            let code = format!("\\u{{{:x}}}", u32::from(c));
            assert_eq!(escape(&format!("a{c}b")), format!("a{code}b"));
        }
    }

    #[test]
    fn what_can_be_seen_stays_as_it_is() {
        for text in [
            "it's \"a\\b\"",
            "größe",
            "e\u{301}",
            "ก็",
            "名前",
            "שם",
            "🔒",
        ] {
            assert_eq!(escape(text), text);
        }
    }

    #[test]
    fn json_escapes_hidden_characters_and_says_the_same() {
        let text = "a\u{202e}b\u{7f}\u{e0041}ß\n";
        let json = json(&text).unwrap();
        assert_eq!(json, "\"a\\u202eb\\u007f\\udb40\\udc41ß\\n\"\n");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
