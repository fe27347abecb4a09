//! The same seed produces the same run, whatever ran before it.

use tenure_sim::{Ran, Scope, generate, run};

#[test]
fn the_same_seed_gives_the_same_history_byte_for_byte() {
    let forth: Vec<Ran> = (0..SEEDS).map(of_seed).collect();
    // On another thread and in another order, so that state that outlives a run shows.
    let back = std::thread::spawn(|| (0..SEEDS).rev().map(of_seed).collect::<Vec<_>>());
    let back = back.join().unwrap();
    for (seed, (one, other)) in forth.iter().zip(back.iter().rev()).enumerate() {
        let (one, other) = (format!("{one:?}"), format!("{other:?}"));
        assert!(one == other, "seed {seed} ran in two ways");
    }
}

fn of_seed(seed: u64) -> Ran {
    run(&generate(seed, Scope::ALL), None, true)
}

const SEEDS: u64 = 200;
