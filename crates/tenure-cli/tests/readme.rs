//! The documentation: its statements are true where a test can check them, and its links work.

mod common;
mod markdown;

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::common::{Place, end, path_with_tenure};
use crate::markdown::{Page, root};

#[test]
fn every_link_points_to_a_file_and_a_heading() {
    for page in Page::all() {
        for link in page.links() {
            check_link(&page, &link);
        }
    }
}

fn check_link(page: &Page, link: &str) {
    if link.starts_with("http://") || link.starts_with("https://") {
        return;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => page.path.clone(),
        file => normal(&page.path.with_file_name(file)),
    };
    let from = page.path.display();
    assert!(root().join(&target).exists(), "{from}: no file for {link}");
    if !anchor.is_empty() {
        let anchors = Page::open(&target).anchors();
        let found = anchors.iter().any(|one| one == anchor);
        assert!(found, "{from}: no heading for {link}, but {anchors:?}");
    }
}

#[test]
fn both_readmes_show_the_same_code() {
    let (english, chinese) = readmes();
    let [english, chinese] = [english, chinese].map(|page| {
        let blocks = page.blocks().into_iter();
        let code = blocks.map(|block| (block.language.clone(), block.without_comments()));
        code.collect::<Vec<_>>()
    });
    assert_eq!(english.len(), 3);
    assert_eq!(english, chinese);
}

#[test]
fn both_readmes_have_the_same_sections_and_links() {
    let (english, chinese) = readmes();
    let levels = |page: &Page| -> Vec<usize> {
        let headings = page.headings().into_iter();
        headings.map(|heading| heading.level).collect()
    };
    assert_eq!(levels(&english), levels(&chinese));
    let links = |page: &Page| -> Vec<String> {
        let links = page.links().into_iter();
        links.filter(|link| !link.starts_with("README")).collect()
    };
    assert_eq!(links(&english), links(&chinese));
    assert!(english.links().contains(&"README.zh-CN.md".to_owned()));
    assert!(chinese.links().contains(&"README.md".to_owned()));
}

#[test]
fn the_readme_is_short() {
    let words = Page::open("README.md").words();
    assert!(words <= 900, "{words} words: move something to docs/");
}

#[test]
fn the_command_lines_of_the_readme_work() {
    let place = Place::new();
    for script in ["make", "report.sh", "import.sh"] {
        place.script(script, "echo \"$0 $*\"");
    }
    let blocks = Page::open("README.md").blocks();
    let commands: Vec<_> = blocks
        .iter()
        .filter(|block| block.language == "sh")
        .collect();
    let [first, verbs] = commands.as_slice() else {
        panic!("{commands:?}");
    };
    let first = first.code.lines().next().unwrap();
    let first = first.replace("cargo run --release --", "tenure");
    for command in std::iter::once(first.as_str()).chain(verbs.code.lines()) {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(place.path(""));
        let path = format!("{}:{}", place.path("").display(), path_with_tenure());
        shell.env("PATH", path).env("TENURE_STORE", place.store());
        let ended = end(&mut shell);
        assert_eq!(ended.code, 0, "{command}: {}", ended.err);
    }
}

#[test]
fn the_index_of_the_documentation_leads_to_every_page() {
    let index = Page::open("docs/README.md");
    let links = index.links().into_iter();
    let linked: BTreeSet<PathBuf> = links
        .map(|link| {
            let file = link.split('#').next().unwrap_or_default();
            normal(&index.path.with_file_name(file))
        })
        .collect();
    for page in Page::all() {
        let is_decision = page.path.starts_with("docs/decisions");
        if page.path.starts_with("docs") && page.path != index.path && !is_decision {
            assert!(linked.contains(&page.path), "{}", page.path.display());
        }
    }
}

#[test]
fn the_pages_of_the_stores_have_the_same_sections() {
    let sections = |page: &Page| -> Vec<String> {
        let headings = page.headings().into_iter();
        let headings = headings.filter(|heading| heading.level == 2);
        headings.map(|heading| heading.text).collect()
    };
    let pages = Page::all();
    let pages = pages
        .iter()
        .filter(|page| page.path.starts_with("docs/stores"));
    for page in pages {
        assert_eq!(sections(page), SECTIONS, "{}", page.path.display());
    }
}

/// The sections of a page about a store; details follow below them.
const SECTIONS: [&str; 6] = [
    "When to use it",
    "How it works",
    "Guarantees",
    "What breaks it",
    "Options",
    "Setting it up",
];

fn readmes() -> (Page, Page) {
    (Page::open("README.md"), Page::open("README.zh-CN.md"))
}

/// Returns a path without `..` and `.`, as it is written elsewhere.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = normal.pop(),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}
