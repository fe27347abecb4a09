//! One task that renews all leases of a client in batches, reports losses in time, and releases kept
//! leases whose time is up.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::clock::{Clock, Tick};
use crate::driver::{Loss, Renewed};
use crate::engine::Engine;
use crate::engine::lease::{Care, HeldLease};
use crate::name::ClaimId;
use crate::random::SeededMap;
use crate::sync::Mutex;

/// The leases that a client holds.
#[derive(Debug)]
pub(crate) struct Leases {
    held: Mutex<Held>,
    /// Notified when the watchdog has to look earlier than planned.
    earlier: Notify,
}

#[derive(Debug)]
struct Held {
    leases: SeededMap<ClaimId, Arc<HeldLease>>,
    /// When the watchdog looks next.
    next_look: Tick,
}

impl Default for Leases {
    fn default() -> Self {
        let held = Held {
            leases: SeededMap::default(),
            next_look: Tick::NEVER,
        };
        Self {
            held: Mutex::new(held),
            earlier: Notify::new(),
        }
    }
}

impl Leases {
    /// Adds a lease.
    pub(crate) fn add(&self, lease: &Arc<HeldLease>) {
        let first_look = lease.first_look();
        let mut held = self.held.lock();
        held.leases
            .insert(lease.claim.id.clone(), Arc::clone(lease));
        if first_look < held.next_look {
            held.next_look = first_look;
            self.earlier.notify_one();
        }
    }

    /// Removes a lease.
    pub(crate) fn remove(&self, lease: &Arc<HeldLease>) {
        self.held.lock().leases.remove(&lease.claim.id);
    }

    /// Returns the lease of a claim.
    pub(crate) fn find(&self, claim: &ClaimId) -> Option<Arc<HeldLease>> {
        self.held.lock().leases.get(claim).cloned()
    }

    /// Returns all leases.
    pub(crate) fn all(&self) -> Vec<Arc<HeldLease>> {
        self.held.lock().leases.values().cloned().collect()
    }

    /// Makes every lease due for renewal, because news may have been missed.
    pub(crate) fn renew_all(&self) {
        let mut held = self.held.lock();
        for lease in held.leases.values() {
            lease.hurry();
        }
        held.next_look = Tick::default();
        self.earlier.notify_one();
    }

    /// Marks every lease that can be called back as called back.
    pub(crate) fn call_all_back(&self) {
        let held = self.held.lock();
        let leases = held.leases.values();
        for lease in leases.filter(|lease| lease.claim.tell_if_wanted) {
            lease.call_back();
        }
    }

    /// Makes the watchdog look now.
    pub(crate) fn look_earlier(&self) {
        self.earlier.notify_one();
    }

    /// Checks every lease once: returns those to renew, those that are over, and the next look.
    fn look(&self, now: Tick) -> Look {
        let mut held = self.held.lock();
        let mut look = Look {
            due: Vec::new(),
            over: Vec::new(),
            next: Tick::NEVER,
        };
        for lease in held.leases.values() {
            match lease.care(now) {
                // The lease is checked again in time to report its loss.
                Care::Renew(again) => {
                    look.due.push(Arc::clone(lease));
                    look.next = look.next.min(again);
                }
                Care::Over(loss) => look.over.push((Arc::clone(lease), loss)),
                Care::Wait(until) => look.next = look.next.min(until),
            }
        }
        held.next_look = look.next;
        look
    }
}

struct Look {
    due: Vec<Arc<HeldLease>>,
    over: Vec<(Arc<HeldLease>, Loss)>,
    next: Tick,
}

/// Renews leases until the engine has ended.
pub(crate) async fn watch(engine: Weak<Engine>, leases: Arc<Leases>, clock: Arc<Clock>) {
    let mut renewals = JoinSet::new();
    loop {
        let Some(strong) = engine.upgrade() else {
            return;
        };
        let now = strong.clock.now();
        let kept_look = strong.end_keeping(now);
        let look = leases.look(now);
        for (lease, loss) in &look.over {
            strong.lose(lease, *loss);
        }
        // Leases whose names are adjacent in a store are renewed together.
        let mut due = look.due;
        due.sort_by(|one, other| one.claim.name.cmp(&other.claim.name));
        for batch in due.chunks(LARGEST_BATCH) {
            renewals.spawn(renew(Weak::clone(&engine), batch.to_vec()));
        }
        while renewals.try_join_next().is_some() {}
        let nap = look
            .next
            .min(kept_look)
            .since(strong.clock.now())
            .min(LONGEST_NAP);
        // The sleep must not keep an engine alive that nobody uses any more.
        drop(strong);
        tokio::select! {
            biased;
            () = leases.earlier.notified() => {}
            () = clock.sleep(nap) => {}
        }
    }
}

/// Renews some leases with one request.
async fn renew(engine: Weak<Engine>, leases: Vec<Arc<HeldLease>>) {
    let Some(engine) = engine.upgrade() else {
        return;
    };
    let sent = engine.clock.now();
    let requests: Vec<_> = leases.iter().map(|lease| lease.renewal(sent)).collect();
    let answers = match engine.driver.renew(&requests).await {
        Ok(answers) => answers,
        Err(error) => {
            tracing::warn!(leases = leases.len(), %error, "renewal failed, trying again");
            let now = engine.clock.now();
            for lease in &leases {
                lease.not_renewed(sent, now, error.why());
            }
            engine.leases.earlier.notify_one();
            return;
        }
    };
    for (lease, answer) in leases.iter().zip(answers) {
        match answer {
            Renewed::Extended { fence, valid } if fence == lease.fence => {
                if let Err(loss) = lease.renewed(sent, valid, engine.clock.now()) {
                    engine.lose(lease, loss);
                }
            }
            Renewed::Extended { .. } => engine.lose(lease, Loss::TakenOver),
            Renewed::Lost(loss) => engine.lose(lease, loss),
            Renewed::Unknown => {
                let why = "a part of the store did not answer".to_owned();
                lease.not_renewed(sent, engine.clock.now(), why);
                engine.leases.earlier.notify_one();
            }
        }
    }
}

const LARGEST_BATCH: usize = 1000;

/// The longest sleep: Tokio's timers stop while the machine is suspended, so they are never trusted
/// for long.
const LONGEST_NAP: Duration = Duration::from_secs(1);
