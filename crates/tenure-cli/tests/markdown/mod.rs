//! Reads the Markdown pages of the repository: headings, code blocks and links.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// One page.
pub(crate) struct Page {
    /// Relative to the root of the repository.
    pub(crate) path: PathBuf,
    text: String,
}

/// A heading outside of code blocks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Heading {
    pub(crate) level: usize,
    pub(crate) text: String,
}

/// A fenced code block.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) code: String,
    /// The heading that it is under.
    pub(crate) heading: String,
}

impl Page {
    pub(crate) fn open(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_owned();
        let text = fs::read_to_string(root().join(&path));
        let text = text.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self { path, text }
    }

    /// Returns the pages in the root directory and all pages under `docs`.
    pub(crate) fn all() -> Vec<Self> {
        let mut found = entries("".as_ref());
        found.retain(|path| is_page(path));
        let mut unread = vec![PathBuf::from("docs")];
        while let Some(folder) = unread.pop() {
            let (pages, others): (Vec<_>, Vec<_>) =
                entries(&folder).into_iter().partition(|path| is_page(path));
            found.extend(pages);
            unread.extend(others.into_iter().filter(|path| root().join(path).is_dir()));
        }
        found.sort();
        found.into_iter().map(Self::open).collect()
    }

    pub(crate) fn words(&self) -> usize {
        self.text.split_whitespace().count()
    }

    pub(crate) fn headings(&self) -> Vec<Heading> {
        self.prose().filter_map(heading).collect()
    }

    /// Returns the anchors of the headings, as GitHub and most other renderers generate them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut seen: HashMap<String, usize> = HashMap::new();
        let headings = self.headings().into_iter();
        let anchors = headings.map(|heading| {
            let anchor = anchor(&heading.text);
            let count = seen.entry(anchor.clone()).or_default();
            *count += 1;
            match *count {
                1 => anchor,
                n => format!("{anchor}-{}", n - 1),
            }
        });
        anchors.collect()
    }

    /// Returns the targets of all links.
    pub(crate) fn links(&self) -> Vec<String> {
        let without_code = |line: &str| -> String { line.split('`').step_by(2).collect() };
        let lines = self.prose().map(without_code);
        let links = lines.flat_map(|line| {
            let targets = line.split("](").skip(1);
            let targets = targets.filter_map(|rest| rest.split_once(')'));
            let targets: Vec<_> = targets.map(|(target, _)| target.to_owned()).collect();
            targets
        });
        links.collect()
    }

    pub(crate) fn blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut under = String::new();
        let mut open: Option<Block> = None;
        for line in self.text.lines() {
            match (&mut open, line.strip_prefix("```")) {
                (None, Some(language)) => {
                    open = Some(Block {
                        language: language.to_owned(),
                        code: String::new(),
                        heading: under.clone(),
                    });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (Some(block), None) => {
                    block.code.push_str(line);
                    block.code.push('\n');
                }
                (None, None) => {
                    if let Some(found) = heading(line) {
                        under = found.text;
                    }
                }
            }
        }
        assert!(
            open.is_none(),
            "{}: a block has no end",
            self.path.display()
        );
        blocks
    }

    /// Returns the lines that are not code.
    fn prose(&self) -> impl Iterator<Item = &str> {
        let mut in_code = false;
        self.text.lines().filter(move |line| {
            let is_fence = line.trim_start().starts_with("```");
            in_code ^= is_fence;
            !in_code && !is_fence
        })
    }
}

impl Block {
    /// Returns the code without comments, for the languages that the READMEs use.
    pub(crate) fn without_comments(&self) -> String {
        let mark = match self.language.as_str() {
            "rust" => " //",
            _ => " #",
        };
        let lines = self.code.lines();
        let lines = lines.map(|line| line.split(mark).next().unwrap_or_default().trim_end());
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Returns the root directory of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the entries of a directory of the repository.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap();
    let entries = entries.map(|entry| folder.join(entry.unwrap().file_name()));
    entries.collect()
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

fn heading(line: &str) -> Option<Heading> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    let text = text.strip_prefix(' ')?.trim().to_owned();
    (level > 0).then_some(Heading { level, text })
}

fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}
