//! A browser: opens pages, reports their content and errors, and ends with its value.

use std::fs;
use std::path::Path;

use tenure_testkit::{Browser, Error, Scheme};

#[test]
fn a_browser_shows_a_page_and_is_gone_with_its_value() {
    let mut browser = Browser::start().unwrap();
    let (pid, folder) = (browser.pid(), browser.folder().to_owned());
    browser.goto(&page(&folder)).unwrap();
    assert_eq!(browser.eval("document.title").unwrap(), "a page");
    assert_eq!(browser.eval("Promise.resolve(1 + 1)").unwrap(), 2);
    browser.click("#more").unwrap();
    browser.click("#more").unwrap();
    let count = browser.wait_for("Number(document.querySelector('#count').textContent) === 2");
    assert_eq!(count.unwrap(), true);
    drop(browser);
    assert!(!Path::new(&format!("/proc/{pid}")).exists());
    assert!(!folder.exists());
}

#[test]
fn what_goes_wrong_in_a_page_is_told() {
    let mut browser = Browser::start().unwrap();
    let folder = browser.folder().to_owned();
    browser.goto(&page(&folder)).unwrap();
    assert_eq!(browser.errors().unwrap(), Vec::<String>::new());
    let thrown = browser.eval("nowhere.to_be_found").unwrap_err();
    assert!(
        matches!(&thrown, Error::Answer { text, .. } if text.contains("nowhere")),
        "{thrown}"
    );
    browser.eval("console.error('one', 2)").unwrap();
    let later = "new Promise(done => setTimeout(() => { done(1); throw new Error('three'); }, 0))";
    browser.eval(later).unwrap();
    let nothing = browser.goto("file:///no/such/file").unwrap_err();
    assert!(nothing.to_string().contains("no/such/file"), "{nothing}");
    let errors = browser.errors().unwrap().join("\n");
    for part in ["one 2", "three"] {
        assert!(errors.contains(part), "{part} in {errors}");
    }
}

#[test]
fn a_picture_has_the_size_of_the_window_and_its_colours() {
    let mut browser = Browser::start().unwrap();
    let folder = browser.folder().to_owned();
    browser.resize(390, 700).unwrap();
    browser.prefer(Scheme::Dark).unwrap();
    browser.goto(&page(&folder)).unwrap();
    let dark = "matchMedia('(prefers-color-scheme: dark)').matches";
    assert_eq!(browser.eval(dark).unwrap(), true);
    let file = folder.join("picture.png");
    browser.screenshot(&file).unwrap();
    let picture = fs::read(file).unwrap();
    assert_eq!(picture[1..4], *b"PNG");
    assert_eq!(picture[16..20], 390_u32.to_be_bytes());
}

/// Writes a small page, and returns its address.
fn page(folder: &Path) -> String {
    let file = folder.join("page.html");
    let text = "<!doctype html><meta name=viewport content='width=device-width'><title>a page</title>\
        <button id=more onclick='count.textContent = Number(count.textContent) + 1'>more</button>\
        <p id=count>0</p>";
    fs::write(&file, text).unwrap();
    format!("file://{}", file.display())
}
