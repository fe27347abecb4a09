//! Wrong usage of the workbench.

mod common;

use std::fs::File;
use std::process::Stdio;

use crate::common::{Ended, bare, end};

#[test]
fn an_output_that_cannot_be_written_gives_74_and_a_sentence() {
    for case in [&["--help"][..], &["lab", "--list"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = bare(case);
        command.stdin(Stdio::null()).stdout(full);
        let ended = Ended::from(command.stderr(Stdio::piped()).output().unwrap());
        assert_eq!(ended.code, 74, "{case:?}: {}", ended.err);
        let sentence = "tenure: the output could not be written: ";
        assert!(ended.err.starts_with(sentence), "{case:?}: {}", ended.err);
    }
}

/// Verbs that this program uses itself to start its own processes.
#[test]
fn parts_of_other_verbs_are_not_called_by_hand() {
    let parts = [
        ("bench-child", "bench"),
        ("demo-cache-copy", "demo cache"),
        ("demo-copy", "demo flash-sale"),
        ("lab-client", "lab"),
        ("torture-client", "torture"),
    ];
    for (part, whole) in parts {
        let ended = end(&mut bare(&[part]));
        assert_eq!(ended.code, 2, "{part}: {ended:?}");
        let sentence =
            format!("tenure: {part} is a part of 'tenure {whole}' and not called by hand\n");
        assert_eq!(ended.err, sentence);
        assert_eq!(ended.out, "");
    }
}
