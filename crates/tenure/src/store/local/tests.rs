//! What only this store does; the rules that all stores keep are in `conformance`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use tempfile::TempDir;
use tokio::time::timeout;

use super::*;
use crate::driver::{About, Life, Loss, Mode, Wait};
use crate::name::{Fence, Owner};

#[tokio::test]
async fn two_clients_exclude_each_other() {
    let folder = folder();
    let (ann, bob) = (open(&folder).await, open(&folder).await);
    let (hers, his) = (claim("a", Wait::No), claim("a", Wait::No));
    granted(&ann, &hers).await;
    assert_eq!(bob.acquire(&his).await.unwrap(), Answer::Busy);
    assert_eq!(ann.release(&release(&hers)).await.unwrap(), Released::Freed);
    granted(&bob, &his).await;
}

#[tokio::test]
async fn the_line_is_served_in_order_and_told() {
    let folder = folder();
    let (ann, bob, cid) = (
        open(&folder).await,
        open(&folder).await,
        open(&folder).await,
    );
    let [first, second, third] = [0; 3].map(|_| claim("a", Wait::InLine));
    let fence = granted(&ann, &first).await;
    queued(&bob, &second).await;
    queued(&cid, &third).await;
    ann.release(&release(&first)).await.unwrap();
    let next = told_granted(&bob, &second).await;
    assert!(fence < next);
    bob.release(&release(&second)).await.unwrap();
    assert!(next < told_granted(&cid, &third).await);
}

#[tokio::test]
async fn an_inbox_that_overflows_says_ask_again() {
    let folder = folder();
    let (ann, bob) = (open(&folder).await, open(&folder).await);
    hand_over(&ann, &bob, 30).await;
    let (mut grants, mut ask_again) = (0, 0);
    while let Ok(news) = timeout(Duration::from_millis(100), bob.news()).await {
        match news {
            News::AskAgain(None) => ask_again += 1,
            News::Granted { .. } => grants += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!((1..30).contains(&grants), "{grants} fit into the queue");
    assert_eq!(ask_again, 1);
}

#[tokio::test]
async fn those_who_do_not_read_keep_no_news_from_others() {
    let folder = folder();
    let ann = open(&folder).await;
    let mut deaf = Vec::new();
    for _ in 0..40 {
        let other = open(&folder).await;
        hand_over(&ann, &other, 15).await;
        deaf.push(other);
    }
    // By now the sender's buffer is full of what nobody reads, and bob waits already.
    let bob = open(&folder).await;
    tokio::join!(next(&bob), hand_over(&ann, &bob, 1));
}

#[tokio::test]
async fn a_client_that_is_dropped_frees_its_leases() {
    let folder = folder();
    let (ann, bob) = (open(&folder).await, open(&folder).await);
    let his = claim("a", Wait::InLine);
    granted(&ann, &claim("a", Wait::No)).await;
    queued(&bob, &his).await;
    drop(ann);
    told_granted(&bob, &his).await;
    let files = fs::read_dir(folder.path().join("clients")).unwrap().count();
    assert_eq!(files, 2, "the files of one client are left");
}

#[tokio::test]
async fn a_killed_holder_frees_its_lease_for_the_waiter_at_once() {
    let folder = folder();
    let mut holder = child(&folder, "hold a");
    let bob = open(&folder).await;
    let his = claim("a", Wait::InLine);
    queued(&bob, &his).await;
    let killed = Instant::now();
    holder.kill().unwrap();
    told_granted(&bob, &his).await;
    let took = killed.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
    holder.wait().unwrap();
}

#[tokio::test]
async fn a_holder_killed_between_its_release_and_the_message_leaves_nobody_waiting() {
    let folder = folder();
    let mut holder = child(&folder, "release-unsaid a");
    let bob = open(&folder).await;
    let his = claim("a", Wait::InLine);
    queued(&bob, &his).await;
    // It dies by itself, when it has released and not told.
    holder.wait().unwrap();
    assert_eq!(next(&bob).await, News::AskAgain(Some(his.name.clone())));
    granted(&bob, &his).await;
}

#[tokio::test]
async fn a_holder_that_was_killed_before_is_found_out_by_a_claim() {
    let folder = folder();
    let bob = open(&folder).await;
    let mut holder = child(&folder, "hold a");
    assert_eq!(
        bob.acquire(&claim("a", Wait::No)).await.unwrap(),
        Answer::Busy
    );
    holder.kill().unwrap();
    holder.wait().unwrap();
    granted(&bob, &claim("a", Wait::No)).await;
}

#[tokio::test]
async fn a_killed_waiter_is_passed_over() {
    let folder = folder();
    let (ann, bob) = (open(&folder).await, open(&folder).await);
    let (hers, his) = (claim("a", Wait::No), claim("a", Wait::InLine));
    granted(&ann, &hers).await;
    let mut waiter = child(&folder, "wait a");
    queued(&bob, &his).await;
    waiter.kill().unwrap();
    waiter.wait().unwrap();
    ann.release(&release(&hers)).await.unwrap();
    told_granted(&bob, &his).await;
}

#[tokio::test]
async fn a_grant_to_the_dead_is_taken_back() {
    let folder = folder();
    let ann = open(&folder).await;
    let hers = claim("a", Wait::No);
    granted(&ann, &hers).await;
    let mut waiter = child(&folder, "wait a");
    waiter.kill().unwrap();
    waiter.wait().unwrap();
    ann.release(&release(&hers)).await.unwrap();
    assert_eq!(ann.list(None).await.unwrap(), []);
}

#[tokio::test]
async fn opening_forgets_the_dead() {
    let folder = folder();
    let mut holder = child(&folder, "hold a");
    holder.kill().unwrap();
    holder.wait().unwrap();
    let bob = open(&folder).await;
    assert_eq!(bob.list(None).await.unwrap(), []);
    let files = fs::read_dir(folder.path().join("clients")).unwrap().count();
    assert_eq!(files, 2, "only bob's");
}

#[tokio::test]
async fn killed_in_the_midst_of_changes_leaves_a_whole_state() {
    let folder = folder();
    let bob = open(&folder).await;
    for _ in 0..10 {
        let mut busy = child(&folder, "busy a");
        std::thread::sleep(Duration::from_millis(fastrand::u64(1..20)));
        busy.kill().unwrap();
        busy.wait().unwrap();
        let mine = claim("a", Wait::No);
        granted(&bob, &mine).await;
        bob.release(&release(&mine)).await.unwrap();
        check::whole(&state_file(&folder)).unwrap();
    }
}

#[tokio::test]
async fn fences_grow_through_a_reboot() {
    let folder = folder();
    let ann = open(&folder).await;
    let before = granted(&ann, &claim("a", Wait::No)).await;
    drop(ann);
    let other_boot = folder.path().join("state-0.mdb");
    fs::rename(state_file(&folder), &other_boot).unwrap();
    let bob = open(&folder).await;
    let after = granted(&bob, &claim("a", Wait::No)).await;
    assert!(before < after);
    assert!(!other_boot.exists());
}

#[tokio::test]
async fn the_ceiling_is_raised_before_it_is_reached() {
    let folder = folder();
    let ann = open(&folder).await;
    let mut large = claim("a", Wait::No);
    large.fences = u32::MAX;
    let fence = granted(&ann, &large).await.get();
    let ceiling = fence::read(&ann.state.folder).unwrap().unwrap();
    assert!(fence + u64::from(u32::MAX) <= ceiling);
}

#[tokio::test]
async fn a_state_file_that_is_no_state_is_damaged() {
    let folder = used_folder().await;
    let path = state_file(&folder);
    let page = u32::try_from(rustix::param::page_size()).unwrap();
    let whole = fs::read(&path).unwrap();
    let mut other_page_size = whole.clone();
    other_page_size[40..44].copy_from_slice(&(2 * page).to_ne_bytes());
    let wrong = [
        b"".to_vec(),
        b"garbage".to_vec(),
        vec![0xff; 65536],
        other_page_size,
    ];
    for content in wrong {
        fs::write(&path, &content).unwrap();
        let error = Local::open(Some(folder.path())).await.unwrap_err();
        let Error::Damaged { source, .. } = error else {
            panic!("{error:?}");
        };
        assert!(source.to_string().contains("delete it"), "{source}");
    }
    fs::write(&path, &whole).unwrap();
    open(&folder).await;
}

#[tokio::test]
async fn a_state_file_that_is_cut_short_is_damaged_or_whole() {
    let folder = used_folder().await;
    let path = state_file(&folder);
    let whole = fs::read(&path).unwrap();
    let mut damaged = 0;
    for length in (0..whole.len()).step_by(1000) {
        fs::write(&path, &whole[..length]).unwrap();
        damaged += usize::from(survives(&folder).await);
    }
    assert!(damaged > 0);
}

#[tokio::test]
async fn an_overwritten_page_ends_no_process() {
    let folder = used_folder().await;
    let path = state_file(&folder);
    let whole = fs::read(&path).unwrap();
    let page_size = rustix::param::page_size();
    let mut damaged = 0;
    for page in 0..whole.len() / page_size {
        for filling in [0x00, 0x03, 0xff] {
            fs::write(&path, &whole).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            let garbage = vec![filling; page_size];
            file.write_all_at(&garbage, (page * page_size) as u64)
                .unwrap();
            damaged += usize::from(survives(&folder).await);
        }
    }
    assert!(damaged > 0);
}

#[tokio::test]
async fn a_state_in_use_is_never_taken_for_a_damaged_one() {
    let folder = folder();
    let ann = open(&folder).await;
    let path = state_file(&folder);
    let mut random = fastrand::Rng::with_seed(3);
    let mut held = Vec::new();
    for round in 0..4_000 {
        // Grows at first, and shrinks to nothing in the end.
        if random.usize(..4_000) > round {
            let mut long = claim(&format!("{}-{round}", random.u64(..)), Wait::No);
            let length = [10, 500, 3_000, 20_000][random.usize(..4)];
            long.about.reason = Some("x".repeat(random.usize(..length)).into());
            granted(&ann, &long).await;
            held.push(long);
        } else if !held.is_empty() {
            let gone = held.swap_remove(random.usize(..held.len()));
            ann.release(&release(&gone)).await.unwrap();
        }
        if round % 20 == 0 {
            let section = ann.state.enter().await.unwrap();
            check::whole(&path).unwrap();
            drop(section);
        }
    }
}

#[tokio::test]
async fn a_record_that_makes_no_sense_is_damaged() {
    let folder = folder();
    let ann = open(&folder).await;
    let section = ann.state.enter().await.unwrap();
    let mut change = ann.state.env.write_txn().unwrap();
    ann.state.table.put(&mut change, b"a", &[0xff; 9]).unwrap();
    change.commit().unwrap();
    drop(section);
    let error = ann.acquire(&claim("a", Wait::No)).await.unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
    // So many changes that some of them sweep, which comes upon the damage.
    for number in 0..1000 {
        granted(&ann, &claim(&format!("b{number}"), Wait::No)).await;
    }
}

#[tokio::test]
async fn a_missing_or_damaged_fence_file_is_damage() {
    let folder = used_folder().await;
    let path = folder.path().join("fence");
    for content in ["", "1048576", "1048577 0000000000000000\n"] {
        fs::write(&path, content).unwrap();
        let error = Local::open(Some(folder.path())).await.unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
    }
    fs::remove_file(&path).unwrap();
    let error = Local::open(Some(folder.path())).await.unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
}

#[tokio::test]
async fn a_state_or_lock_that_vanishes_under_a_client_is_noticed() {
    for file in ["state", "lock"] {
        let folder = folder();
        let ann = open(&folder).await;
        granted(&ann, &claim("a", Wait::No)).await;
        let path = match file {
            "state" => state_file(&folder),
            other => folder.path().join(other),
        };
        // Kept elsewhere, so that its number is not used again.
        fs::rename(&path, folder.path().join("elsewhere")).unwrap();
        let mut other = spawn(&folder, "hold b");
        assert!(!other.wait().unwrap().success(), "{file}");
        if file == "state" {
            let error = Local::open(Some(folder.path())).await.unwrap_err();
            assert!(matches!(error, Error::Damaged { .. }), "{error:?}");
        }
    }
}

#[tokio::test]
async fn an_unwritable_folder_is_unavailable() {
    let folder = folder();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o555)).unwrap();
    let mut nobody = command(&folder, "hold a");
    if rustix::process::geteuid().is_root() {
        nobody.uid(65534).gid(65534);
    }
    let mut nobody = nobody.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut stderr = nobody.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert!(!nobody.wait().unwrap().success());
    assert!(said.contains("not writable for this user"), "{said}");
    assert!(said.contains("Unavailable"), "{said}");
}

#[tokio::test]
async fn files_take_the_rights_of_a_folder_that_a_group_shares() {
    let folder = folder();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o2770)).unwrap();
    let ann = open(&folder).await;
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    let session = ann.session;
    for file in ["lock", "fence", "format"] {
        assert_eq!(mode(folder.path().join(file)), 0o660, "{file}");
    }
    assert_eq!(mode(state_file(&folder)), 0o660);
    assert_eq!(mode(folder.path().join("clients")), 0o2770);
    assert_eq!(mode(ann.state.folder.presence(session)), 0o660);
    assert_eq!(mode(ann.state.folder.socket(session)), 0o660);
}

#[tokio::test]
async fn a_folder_that_all_may_write_to_serves_every_user() {
    let folder = folder();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let mut nobody = command(&folder, "hold a");
    if rustix::process::geteuid().is_root() {
        nobody.uid(65534).gid(65534);
    }
    let mut holder = ready(nobody.spawn().unwrap());
    let ann = open(&folder).await;
    let busy = ann.acquire(&claim("a", Wait::No)).await.unwrap();
    assert_eq!(busy, Answer::Busy);
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[tokio::test]
async fn root_leaves_the_folder_to_its_user() {
    let folder = folder();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(folder.path(), Some(65534), Some(65534)).unwrap();
    }
    let ann = open(&folder).await;
    let owner = |path: PathBuf| {
        let found = fs::metadata(path).unwrap();
        (found.uid(), found.gid())
    };
    let user = owner(folder.path().to_owned());
    for file in ["lock", "fence", "format", "clients"] {
        assert_eq!(owner(folder.path().join(file)), user, "{file}");
    }
    assert_eq!(owner(state_file(&folder)), user);
    assert_eq!(owner(ann.state.folder.socket(ann.session)), user);
}

#[tokio::test]
async fn a_folder_with_a_long_path_works() {
    let folder = folder();
    let deep = folder.path().join("x".repeat(200)).join("y".repeat(200));
    let [ann, bob] = [
        Local::open(Some(&deep)).await,
        Local::open(Some(&deep)).await,
    ];
    hand_over(&ann.unwrap(), &bob.unwrap(), 1).await;
}

#[tokio::test]
async fn expired_leases_are_swept_away() {
    let folder = folder();
    let ann = open(&folder).await;
    for count in 0..300 {
        let mut short = claim(&format!("short-{count}"), Wait::No);
        short.ttl = Duration::from_nanos(1);
        granted(&ann, &short).await;
    }
    let kept = claim("kept", Wait::No);
    granted(&ann, &kept).await;
    for _ in 0..3 {
        let section = ann.state.enter().await.unwrap();
        let swept = ann
            .state
            .change(section, ann.session, |change| change.sweep());
        swept.unwrap();
    }
    let section = ann.state.enter().await.unwrap();
    let change = Change::begin(&ann.state, &section, ann.session).unwrap();
    let page = change.page(None, usize::MAX, |_| true).unwrap();
    let names: Vec<_> = page.found.into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [kept.name]);
}

#[tokio::test]
async fn many_renewals_are_answered_in_their_order() {
    let folder = folder();
    let ann = open(&folder).await;
    let mut renewals = Vec::new();
    let mut expected = Vec::new();
    for count in 0..2_500 {
        let held = claim(&format!("name-{}", (count * 7_919) % 2_500), Wait::No);
        let fence = match count % 3 {
            0 => None,
            _ => Some(granted(&ann, &held).await),
        };
        expected.push(fence.map_or(Renewed::Lost(Loss::Gone), Renewed::Kept));
        renewals.push(Renewal {
            name: held.name,
            owner: held.owner,
            fence,
            life: Life::Client,
            ttl: TTL,
        });
    }
    assert_eq!(ann.renew(&renewals).await.unwrap(), expected);
    let listed = ann.list(None).await.unwrap();
    assert_eq!(listed.len(), 2_500 - 834);
    assert!(listed.is_sorted_by(|one, other| one.name < other.name));
}

#[tokio::test]
async fn an_evicted_holder_is_told() {
    let folder = folder();
    let (ann, bob) = (open(&folder).await, open(&folder).await);
    let hers = claim("a", Wait::No);
    let fence = granted(&ann, &hers).await;
    let evicted = bob.evict(&hers.name).await.unwrap();
    assert_eq!(evicted.len(), 1);
    let loss = Loss::Evicted;
    let (name, owner) = (hers.name, hers.owner);
    let lost = News::Lost {
        name,
        owner,
        fence,
        loss,
    };
    assert_eq!(next(&ann).await, lost);
}

/// Time is paused, so that the wait for a process that stands still takes no time.
#[tokio::test(start_paused = true)]
async fn a_process_that_stands_still_makes_the_store_unavailable() {
    let folder = folder();
    let ann = open(&folder).await;
    let other = fs::File::open(folder.path().join("lock")).unwrap();
    other.lock().unwrap();
    let begun = tokio::time::Instant::now();
    let error = ann.acquire(&claim("a", Wait::No)).await.unwrap_err();
    let Error::Unavailable { source, .. } = error else {
        panic!("{error:?}");
    };
    assert!(source.to_string().contains("stands still"), "{source}");
    assert!(begun.elapsed() < 2 * gate::PATIENCE);
    drop(other);
    // The thread that still waits for the lock gives it back.
    tokio::time::resume();
    granted(&ann, &claim("a", Wait::No)).await;
}

/// Not a test: the other process of the tests above.
#[tokio::test]
async fn child_process() {
    let Ok(order) = std::env::var("TENURE_TEST_CHILD") else {
        return;
    };
    let mut words = order.split(' ');
    let (verb, name, folder) = (
        words.next().unwrap(),
        words.next().unwrap(),
        words.next().unwrap(),
    );
    let local = Local::open(Some(Path::new(folder))).await.unwrap();
    let claim = claim(name, Wait::InLine);
    let answer = local.acquire(&claim).await.unwrap();
    println!("ready {answer:?}");
    std::io::stdout().flush().unwrap();
    if verb == "release-unsaid" {
        release_unsaid(&local, &claim).await;
    }
    if verb != "busy" {
        tokio::time::sleep(TTL).await;
        return;
    }
    loop {
        local.release(&release(&claim)).await.unwrap();
        local.acquire(&claim).await.unwrap();
    }
}

/// Releases once somebody waits, and is killed before it can send the message.
async fn release_unsaid(local: &Local, claim: &Claim) {
    while local.list(Some(&claim.name)).await.unwrap()[0]
        .waiters
        .is_empty()
    {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let section = local.state.enter().await.unwrap();
    let release = release(claim);
    let released = local.state.change(section, local.session, |change| {
        change.name(&claim.name, |ledger, at| ledger.release(&release, at))
    });
    assert_eq!(released.unwrap().1.len(), 1, "one is to be told");
    let myself = rustix::process::getpid();
    rustix::process::kill_process(myself, rustix::process::Signal::KILL).unwrap();
}

/// Starts another process, and waits until it holds the name or stands in line for it.
fn child(folder: &TempDir, order: &str) -> Child {
    ready(spawn(folder, order))
}

fn ready(mut child: Child) -> Child {
    let output = BufReader::new(child.stdout.take().unwrap());
    let mut lines = output.lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("ready")));
    child
}

fn spawn(folder: &TempDir, order: &str) -> Child {
    command(folder, order)
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn command(folder: &TempDir, order: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let order = format!("{order} {}", folder.path().display());
    command
        .args([
            "--exact",
            "store::local::tests::child_process",
            "--nocapture",
        ])
        .env("TENURE_TEST_CHILD", order)
        .stdout(Stdio::piped());
    command
}

/// Holds so many names as `from` that `to` waits for, and releases them all.
async fn hand_over(from: &Local, to: &Local, count: usize) {
    let mut held = Vec::new();
    for count in 0..count {
        let name = format!("{:x}-{count}", to.session);
        let (hers, his) = (claim(&name, Wait::No), claim(&name, Wait::InLine));
        granted(from, &hers).await;
        queued(to, &his).await;
        held.push(hers);
    }
    for hers in held {
        from.release(&release(&hers)).await.unwrap();
    }
}

/// Opens a folder that may be damaged; returns whether it is known to be.
///
/// Where it is not, all else must work or be refused, and end no process.
async fn survives(folder: &TempDir) -> bool {
    match Local::open(Some(folder.path())).await {
        Err(Error::Damaged { .. }) => true,
        Err(error) => panic!("{error:?}"),
        Ok(local) => {
            let _ = local.list(None).await;
            for count in 0..20 {
                let _ = local.acquire(&claim(&format!("n{count}"), Wait::No)).await;
            }
            false
        }
    }
}

/// A folder whose state has many pages, and that nobody has open.
async fn used_folder() -> TempDir {
    let folder = folder();
    let ann = open(&folder).await;
    for count in 0..200 {
        let mut long = claim(&format!("name-{count}"), Wait::No);
        long.life = Life::Ttl;
        // Some so long that they get pages of their own.
        let length = if count % 50 == 0 { 9_000 } else { 40 };
        long.about.reason = Some("x".repeat(length).into());
        granted(&ann, &long).await;
    }
    drop(ann);
    folder
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

async fn open(folder: &TempDir) -> Local {
    Local::open(Some(folder.path())).await.unwrap()
}

fn state_file(folder: &TempDir) -> PathBuf {
    folder::Folder::open(folder.path()).unwrap().state()
}

fn claim(name: &str, wait: Wait) -> Claim {
    Claim {
        name: name.parse().unwrap(),
        owner: Owner::unique(),
        mode: Mode::Exclusive,
        ttl: TTL,
        depth: 1,
        wait,
        life: Life::Client,
        fences: 1,
        tell_if_wanted: false,
        about: About::this_process(None),
    }
}

fn release(claim: &Claim) -> Release {
    Release {
        name: claim.name.clone(),
        owner: claim.owner.clone(),
        fence: None,
        life: claim.life,
        depth: 0,
        stays_taken: Duration::ZERO,
    }
}

async fn granted(local: &Local, claim: &Claim) -> Fence {
    match local.acquire(claim).await.unwrap() {
        Answer::Granted(fence) => fence,
        other => panic!("{other:?}"),
    }
}

async fn queued(local: &Local, claim: &Claim) {
    let answer = local.acquire(claim).await.unwrap();
    assert!(matches!(answer, Answer::Queued { .. }), "{answer:?}");
}

async fn told_granted(local: &Local, claim: &Claim) -> Fence {
    match next(local).await {
        News::Granted {
            name, owner, fence, ..
        } => {
            assert_eq!((&name, &owner), (&claim.name, &claim.owner));
            fence
        }
        other => panic!("{other:?}"),
    }
}

async fn next(local: &Local) -> News {
    let news = timeout(Duration::from_secs(10), local.news());
    news.await.expect("news within ten seconds")
}

/// Longer than any test runs.
const TTL: Duration = Duration::from_secs(60);
