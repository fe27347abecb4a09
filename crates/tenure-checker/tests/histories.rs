//! Every handwritten history gets exactly the verdict that its file states.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tenure_checker::{Promise, Verdict, check};

mod notation;
use notation::stories;

#[test]
fn good_histories_are_valid() {
    let good = stories("good");
    let mut wrong = String::new();
    for story in &good {
        let verdict = check(&story.history, &story.expect);
        if !verdict.is_valid() {
            let (file, title) = (&story.file, &story.title);
            writeln!(wrong, "{file} ({title}) is {verdict}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(good.len() >= 60, "{} good histories", good.len());
}

#[test]
fn bad_histories_break_just_the_promise_they_say() {
    let bad = stories("bad");
    let mut wrong = String::new();
    for story in &bad {
        let verdict = check(&story.history, &story.expect);
        if verdict.broken() != story.breaks || story.breaks.is_empty() {
            let (file, title, breaks) = (&story.file, &story.title, &story.breaks);
            writeln!(wrong, "{file} ({title}) breaks {breaks:?}, not: {verdict}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(bad.len() >= 60, "{} bad histories", bad.len());
}

#[test]
fn unknown_histories_say_what_is_missing() {
    let unknown = stories("unknown");
    let mut wrong = String::new();
    for story in &unknown {
        let verdict = check(&story.history, &story.expect);
        let said = match &verdict {
            Verdict::Unknown { reasons, .. } => reasons.clone(),
            Verdict::Valid { .. } | Verdict::Broken { .. } => Vec::new(),
        };
        let wanted = &story.unknown;
        let each = said
            .iter()
            .zip(wanted)
            .all(|(said, wanted)| said.contains(wanted));
        if said.is_empty() || said.len() != wanted.len() || !each {
            let (file, title) = (&story.file, &story.title);
            writeln!(wrong, "{file} ({title}) lacks {wanted:?}, not: {verdict}").unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(unknown.len() >= 10, "{} unknown histories", unknown.len());
}

#[test]
fn with_each_rule_switched_off_bad_histories_slip_through() {
    let bad = stories("bad");
    let mut slipped: BTreeMap<Promise, Vec<&str>> = BTreeMap::new();
    for promise in Promise::ALL {
        let through = slipped.entry(promise).or_default();
        for story in &bad {
            let blind = story.expect.clone().without(promise);
            if check(&story.history, &blind).is_valid() {
                through.push(&story.file);
            }
        }
    }
    for (promise, through) in &slipped {
        println!("without {promise}: {}", through.join(", "));
    }
    for (promise, through) in &slipped {
        assert!(
            !through.is_empty(),
            "nothing shows that {promise} is needed"
        );
    }
}

#[test]
fn findings_are_short_proofs_in_order_of_time() {
    for story in stories("bad") {
        let verdict = check(&story.history, &story.expect);
        for found in verdict.findings() {
            let (file, count) = (&story.file, found.events.len());
            assert!((1..=6).contains(&count), "{file}: {count} events");
            let times: Vec<_> = found.events.iter().map(|event| event.at_us).collect();
            assert!(times.is_sorted(), "{file}: {times:?}");
            let real = found
                .events
                .iter()
                .all(|event| story.history.contains(event));
            assert!(real && found.count > 0, "{file}: {found}");
            let sentence = &found.sentence;
            let known = verdict.to_string().contains(sentence.as_str());
            assert!(known, "{file}: \"{sentence}\" is not shown");
        }
    }
}

#[test]
fn every_history_tells_a_story_of_its_own() {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for folder in ["good", "bad", "unknown"] {
        for story in stories(folder) {
            let file = format!("{folder}/{}", story.file);
            let told = format!("{:?} {:?}", story.history, story.expect);
            if let Some(before) = seen.insert(told, file.clone()) {
                panic!("{file} is the same as {before}");
            }
            if let Some(before) = seen.insert(story.title.clone(), file.clone()) {
                panic!("{file} has the title of {before}");
            }
        }
    }
}
