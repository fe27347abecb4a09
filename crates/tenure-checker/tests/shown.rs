//! How people and programs see a verdict.

use tenure_checker::{Event, Freed, Mode, Promise, Verdict, What, check};

mod notation;
use notation::{stories, story};

#[test]
fn a_finding_is_a_sentence_and_a_table() {
    let told = story(
        "two",
        "Two at once\n\
         expect: without liveness\n\
         5000    p1 asks 1 stock as ann\n\
         5001    p1 granted 1 #7\n\
         5002    p2 asks 2 stock as bob shared\n\
         5003.25 p2 granted 2 #8\n\
         5004    p2 releasing 2\n\
         5005    p2 freed 2\n\
         5006    p0 fault pause p1",
    );
    let shown = check(&told.history, &told.expect).to_string();
    let wanted = "\
broken: 2 claims, 2 granted (1 had to wait), 0 refused, 0 unknown, 0 lost; 0 writes, 0 refused as stale; faults: 1 pause

exclusion: claim 2 of process 2 was granted \"stock\" while claim 1 of process 1 believed that it holds it
         0.000 ms  process 1    claim 1 is granted, fence 7
         2.250 ms  process 2    claim 2 is granted, fence 8
         3.000 ms  process 2    claim 2 begins to let go
";
    assert_eq!(shown, wanted);
}

#[test]
fn a_breach_that_was_seen_often_is_told_once() {
    let told = story(
        "often",
        "Three lost updates\n\
         0 p0 healed\n\
         0 p1 asks 1 stock as ann\n\
         1 p1 granted 1 #1\n\
         2 p0 wrote 1 stock 4>5 #1\n\
         3 p0 wrote 1 stock 4>5 #1\n\
         4 p0 wrote 1 stock 4>5 #1\n\
         5 p0 wrote 1 stock 4>5 #1",
    );
    let verdict = check(&told.history, &told.expect);
    let [found] = verdict.findings() else {
        panic!("not one finding: {verdict}");
    };
    assert_eq!(found.count, 3);
    let last = found.events.last().map(|event| event.at_us);
    assert_eq!(last, Some(3_000), "the first of them is told");
    assert!(found.to_string().contains("(the first of 3)"), "{found}");
}

#[test]
fn a_nested_call_that_waits_for_itself_is_called_by_its_name() {
    let mut told = stories("bad").into_iter();
    let told = told
        .find(|story| story.file == "locked_itself_out")
        .unwrap();
    let shown = check(&told.history, &told.expect).to_string();
    assert!(shown.contains("locked itself out"), "{shown}");
}

#[test]
fn an_unknown_verdict_says_what_is_missing() {
    let shown = check(&[], &tenure_checker::Expect::new().fault("kill")).to_string();
    let wanted = "\
unknown, which is no pass: 0 claims, 0 granted (0 had to wait), 0 refused, 0 unknown, 0 lost; 0 writes, 0 refused as stale; faults: none
  too few grants: 0 seen, at least 1 wanted
  the fault kill did not land: 0 seen, at least 1 wanted
  nobody said that the faults are over, so every wait may be theirs
";
    assert_eq!(shown, wanted);
}

#[test]
fn verdicts_and_histories_survive_being_written_down() {
    for folder in ["good", "bad", "unknown"] {
        for story in stories(folder) {
            let lines: Vec<String> = story.history.iter().map(written).collect();
            let read = lines.iter().map(|line| serde_json::from_str(line).unwrap());
            assert_eq!(read.collect::<Vec<Event>>(), story.history);
            let verdict = check(&story.history, &story.expect);
            let read: Verdict =
                serde_json::from_str(&serde_json::to_string(&verdict).unwrap()).unwrap();
            assert_eq!(read, verdict);
        }
    }
}

#[test]
fn a_promise_is_called_the_same_in_text_and_in_json() {
    for promise in Promise::ALL {
        let json = serde_json::to_string(&promise).unwrap();
        assert_eq!(json, format!("\"{promise}\""));
    }
}

/// A holder and another one beside it, many times: if the checker compared pairs, this would not
/// end.
#[test]
fn long_histories_of_broken_locks_are_judged() {
    let mut history = Vec::new();
    let claims = 20_000;
    for claim in 0..claims {
        let (at_us, process) = (claim * 10, u32::try_from(claim % 7).unwrap() + 1);
        let (name, mode) = ("stock".to_owned(), Mode::Exclusive);
        let owner = claim.to_string();
        history.push(Event::new(
            at_us,
            process,
            What::Asked {
                claim,
                name,
                mode,
                owner,
            },
        ));
        history.push(Event::new(at_us + 1, 0, What::Queued { claim }));
        let fence = Some(claims - claim);
        history.push(Event::new(
            at_us + 2,
            process,
            What::Granted { claim, fence },
        ));
    }
    for claim in 0..claims {
        let (at_us, process) = (claims * 10 + claim, u32::try_from(claim % 7).unwrap() + 1);
        let freed = Freed::Freed;
        history.push(Event::new(at_us, process, What::Releasing { claim }));
        history.push(Event::new(at_us, process, What::Released { claim, freed }));
    }
    let verdict = check(&history, &tenure_checker::Expect::new());
    let wanted = [Promise::Exclusion, Promise::GrowingFences];
    assert_eq!(verdict.broken(), wanted, "{verdict}");
    let counts: Vec<_> = verdict.findings().iter().map(|found| found.count).collect();
    assert_eq!(counts, [19_999, 19_999]);
}

fn written(event: &Event) -> String {
    serde_json::to_string(event).unwrap()
}
