//! Looks through a state file before LMDB maps it.
//!
//! LMDB trusts its file: a page that is cut off or overwritten ends the process. So every page
//! that the newest commit can reach is read here first, by the layout of LMDB's data version 1.
//! This takes microseconds for a usual state, and is done once per process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Error, Result};
use crate::store::local::fault;

/// Refuses a file that LMDB could trip over.
pub(super) fn whole(path: &Path) -> Result<()> {
    let file = File::open(path).map_err(|error| fault::io(path, &error))?;
    let checked = Pages::open(file).and_then(|mut pages| pages.check());
    checked.map_err(|fault| match fault {
        Fault::Io(error) => fault::io(path, &error),
        Fault::Wrong(what) => damaged(path, what),
    })
}

fn damaged(path: &Path, what: &'static str) -> Error {
    fault::damaged_state(path, &what)
}

#[derive(Debug)]
enum Fault {
    Io(io::Error),
    Wrong(&'static str),
}

/// The page header, and the header of an entry in a page.
const HEADER: usize = 16;
const NODE: usize = 8;

/// Kinds of pages, and the mark of an entry whose value has pages of its own.
const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
const OVERFLOW: u16 = 0x04;
const META: u16 = 0x08;
const BIG: u16 = 0x01;

const MAGIC: u32 = 0xbeef_c0de;
const DATA_VERSION: u32 = 1;

/// The root of a tree without pages.
const NO_PAGE: u64 = u64::MAX;

/// LMDB's own limit of a tree's depth.
const DEEPEST: u16 = 32;

/// A state file, read page by page.
struct Pages {
    file: File,
    page_bytes: usize,
    /// How many whole pages the file has.
    count: u64,
    /// How many were looked at: a tree that meets itself would have no end.
    seen: u64,
}

/// One of the two trees: the free pages, and the table.
struct Tree {
    root: u64,
    depth: u16,
}

impl Pages {
    fn open(file: File) -> Result<Self, Fault> {
        let bytes = file.metadata().map_err(Fault::Io)?.len();
        let page_bytes = rustix::param::page_size().min(0x8000);
        Ok(Self {
            file,
            count: bytes / page_bytes as u64,
            page_bytes,
            seen: 0,
        })
    }

    fn check(&mut self) -> Result<(), Fault> {
        let [first, second] = [self.meta(0)?, self.meta(1)?];
        let newest = if first.0 > second.0 { first } else { second };
        for tree in newest.1 {
            if tree.root != NO_PAGE {
                self.tree(tree.root, tree.depth)?;
            }
        }
        Ok(())
    }

    /// Reads a meta page: its transaction, and the trees of that.
    fn meta(&self, number: u64) -> Result<(u64, [Tree; 2]), Fault> {
        let page = self.page(number)?;
        let known = u16_at(&page, 10) & META != 0
            && u32_at(&page, 16) == MAGIC
            && u32_at(&page, 20) == DATA_VERSION;
        if !known {
            return Err(Fault::Wrong("it is not a state file"));
        }
        if u32_at(&page, 40) as usize != self.page_bytes {
            return Err(Fault::Wrong("its pages have another size"));
        }
        let tree = |at: usize| Tree {
            depth: u16_at(&page, at + 6),
            root: u64_at(&page, at + 40),
        };
        Ok((u64_at(&page, 144), [tree(40), tree(88)]))
    }

    /// Looks at a page of a tree, and at all below it.
    fn tree(&mut self, number: u64, depth: u16) -> Result<(), Fault> {
        self.seen += 1;
        if self.seen > self.count || depth == 0 || depth > DEEPEST {
            return Err(Fault::Wrong("its tree is broken"));
        }
        let page = self.page(number)?;
        let kind = u16_at(&page, 10) & (BRANCH | LEAF | OVERFLOW | META);
        let (lower, upper) = (
            usize::from(u16_at(&page, 12)),
            usize::from(u16_at(&page, 14)),
        );
        let expected = if depth == 1 { LEAF } else { BRANCH };
        if u64_at(&page, 0) != number || kind != expected {
            return Err(Fault::Wrong("a page is not what it should be"));
        }
        if lower <= HEADER || lower > upper || upper > self.page_bytes {
            return Err(Fault::Wrong("a page's bounds are wrong"));
        }
        for at in (HEADER..lower).step_by(2) {
            let node = usize::from(u16_at(&page, at));
            if node < upper || node + NODE > self.page_bytes {
                return Err(Fault::Wrong("an entry is outside its page"));
            }
            match depth {
                1 => self.leaf(&page, node)?,
                _ => {
                    let below =
                        u64::from(u32_at(&page, node)) | u64::from(u16_at(&page, node + 4)) << 32;
                    self.tree(below, depth - 1)?;
                }
            }
        }
        Ok(())
    }

    /// Looks at one entry of a leaf: key and value must be within the file.
    fn leaf(&self, page: &[u8], node: usize) -> Result<(), Fault> {
        let value = node + NODE + usize::from(u16_at(page, node + 6));
        let length = u32_at(page, node) as usize;
        if u16_at(page, node + 4) & BIG == 0 {
            return match value + length <= self.page_bytes {
                true => Ok(()),
                false => Err(Fault::Wrong("an entry is longer than its page")),
            };
        }
        if value + 8 > self.page_bytes {
            return Err(Fault::Wrong("an entry is longer than its page"));
        }
        let number = u64_at(page, value);
        let first = self.page(number)?;
        let pages = u64::from(u32_at(&first, 12));
        let needed = (HEADER + length).div_ceil(self.page_bytes) as u64;
        let inside = number
            .checked_add(pages)
            .is_some_and(|end| end <= self.count);
        if u16_at(&first, 10) & OVERFLOW == 0 || pages < needed || !inside {
            return Err(Fault::Wrong("a long entry is cut off"));
        }
        Ok(())
    }

    fn page(&self, number: u64) -> Result<Vec<u8>, Fault> {
        if number >= self.count {
            return Err(Fault::Wrong("it is cut off"));
        }
        let mut page = vec![0; self.page_bytes];
        let at = number * self.page_bytes as u64;
        self.file.read_exact_at(&mut page, at).map_err(Fault::Io)?;
        Ok(page)
    }
}

fn u16_at(page: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([page[at], page[at + 1]])
}

fn u32_at(page: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|byte| page[at + byte]))
}

fn u64_at(page: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|byte| page[at + byte]))
}
