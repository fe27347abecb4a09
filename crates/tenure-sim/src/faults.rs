//! Makes the faults of a plan, each at its time, and ends them.

use std::sync::Arc;

use tenure_checker::What;

use crate::network::{Link, Silence};
use crate::plan::{Fault, FaultKind};
use crate::run::Crew;
use crate::workload::millis;
use crate::world::World;

/// Makes one fault, and waits until it is over.
pub(crate) async fn make(world: Arc<World>, crew: Arc<Crew>, fault: Fault) {
    tokio::time::sleep(millis(fault.at_ms)).await;
    let class = fault.what.class();
    let lasts = millis(fault.lasts());
    let link = fault.what.client().map(|client| world.link_of(client));
    if let Some(None) = link {
        return;
    }
    let link = link.flatten();
    let target = link.as_ref().map(|link| link.process);
    world.sample();
    world.fault(class, target);
    world.recorder.line(|| tell(&fault.what, link.as_deref()));
    begin(&world, &crew, &fault.what, link.as_ref());
    tokio::time::sleep(lasts).await;
    end(&world, &crew, &fault.what, link.as_ref());
    let kind = class.to_owned();
    world.recorder.note(0, What::Over { kind, target });
}

fn begin(world: &Arc<World>, crew: &Crew, fault: &FaultKind, link: Option<&Arc<Link>>) {
    match (fault, link) {
        (FaultKind::Cut { .. }, Some(link)) => link.cut(Silence::Known),
        (FaultKind::Partition { .. }, Some(link)) => link.cut(Silence::Unknown),
        (FaultKind::Stop { .. }, Some(link)) => {
            link.clock.stop();
            world.lose_told(link.process);
        }
        (FaultKind::Kill { .. }, Some(link)) => crew.kill(world, link),
        (FaultKind::Suspend { by_ms, .. }, Some(link)) => {
            link.clock.jump(i64::try_from(*by_ms).unwrap_or(i64::MAX));
            world.lose_told(link.process);
        }
        (FaultKind::Drift { ppm, .. }, Some(link)) => link.clock.drift(*ppm),
        (FaultKind::StoreJump { by_ms }, _) => {
            if *by_ms > 0 {
                world.excuse_all();
            }
            world.store.clock.jump(*by_ms);
        }
        (FaultKind::StoreDrift { ppm }, _) => world.store.clock.drift(*ppm),
        (FaultKind::StoreDown { .. }, _) => {
            world.store.go_down();
            for link in world.live_links() {
                link.cut(Silence::Known);
            }
        }
        _ => {}
    }
}

fn end(world: &Arc<World>, crew: &Arc<Crew>, fault: &FaultKind, link: Option<&Arc<Link>>) {
    match (fault, link) {
        (FaultKind::Cut { .. } | FaultKind::Partition { .. }, Some(link))
            if !world.store.is_down() =>
        {
            world
                .recorder
                .line(|| format!("client {} is connected again", link.called()));
            link.connect();
        }
        (FaultKind::Stop { .. }, Some(link)) => {
            world
                .recorder
                .line(|| format!("client {} goes on", link.called()));
            link.clock.go_on();
        }
        (
            FaultKind::Kill {
                client,
                restart_ms: Some(_),
            },
            _,
        ) => crew.restart(world, *client),
        (FaultKind::StoreDown { forgets, .. }, _) => {
            if *forgets {
                world.excuse_all();
                world.store.forget(world.planted.forgets_fences());
            }
            world.store.come_up();
            world.recorder.line(|| "the store is up again".to_owned());
            for link in world.live_links() {
                link.connect();
            }
        }
        _ => {}
    }
}

fn tell(fault: &FaultKind, link: Option<&Link>) -> String {
    let who = link.map(Link::called).unwrap_or_default();
    match fault {
        FaultKind::Cut { for_ms, .. } => {
            format!("the connection of client {who} breaks for {for_ms} ms")
        }
        FaultKind::Partition { for_ms, .. } => {
            format!("client {who} is cut off for {for_ms} ms, and nobody is told")
        }
        FaultKind::Stop { for_ms, .. } => format!("client {who} is stopped for {for_ms} ms"),
        FaultKind::Kill { .. } => format!("client {who} is killed"),
        FaultKind::Suspend { by_ms, .. } => {
            format!("the machine of client {who} was suspended for {by_ms} ms")
        }
        FaultKind::Drift { ppm, .. } => {
            format!("the clock of client {who} now runs {ppm} ppm fast")
        }
        FaultKind::StoreJump { by_ms } => format!("the store's clock jumps by {by_ms} ms"),
        FaultKind::StoreDrift { ppm } => format!("the store's clock now runs {ppm} ppm fast"),
        FaultKind::StoreDown {
            for_ms,
            forgets: false,
        } => format!("the store is down for {for_ms} ms"),
        FaultKind::StoreDown {
            for_ms,
            forgets: true,
        } => format!("the store is down for {for_ms} ms and loses its data"),
    }
}
