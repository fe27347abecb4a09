//! Injects the faults of a plan, each at its time, and ends them.

use std::sync::Arc;

use tenure_checker::What;

use crate::network::{Link, Silence, serve};
use crate::plan::{Fault, FaultKind};
use crate::run::Crew;
use crate::workload::millis;
use crate::world::World;

/// Injects one fault, and waits until it is over.
pub(crate) async fn make(world: Arc<World>, crew: Arc<Crew>, fault: Fault) {
    tokio::time::sleep(millis(fault.at_ms)).await;
    let class = fault.what.class();
    let lasts = millis(fault.lasts());
    let hit = world.hit(&fault.what);
    let mut links = Vec::new();
    if let Some(client) = fault.what.client() {
        links = world.links_of(client);
        if links.is_empty() {
            return;
        }
    }
    let target = links.first().map(|link| link.process);
    world.sample();
    world.fault(class, target);
    world
        .recorder
        .line(|| tell(&world, &fault.what, links.first().map(|link| &**link)));
    links.retain(|link| hit.contains(&link.store));
    begin(&world, &crew, &fault.what, &links);
    tokio::time::sleep(lasts).await;
    end(&world, &crew, &fault.what, &links);
    let kind = class.to_owned();
    world.recorder.note(0, What::Over { kind, target });
}

fn begin(world: &Arc<World>, crew: &Crew, fault: &FaultKind, links: &[Arc<Link>]) {
    let stores = || {
        world
            .hit(fault)
            .into_iter()
            .map(|store| &world.stores[store])
    };
    match (fault, links.first()) {
        (FaultKind::Cut { .. }, _) => links.iter().for_each(|link| link.cut(Silence::Known)),
        (FaultKind::Partition { .. }, _) => {
            links.iter().for_each(|link| link.cut(Silence::Unknown));
        }
        (FaultKind::Stop { .. }, Some(link)) => {
            link.clock.stop();
            world.lose_told(link.process);
        }
        (FaultKind::Kill { .. }, Some(link)) => crew.kill(world, link),
        (FaultKind::Suspend { by_ms, .. }, Some(link)) => {
            link.clock.jump(i64::try_from(*by_ms).unwrap_or(i64::MAX));
            world.suspended(link.process);
        }
        (FaultKind::Drift { ppm, .. }, Some(link)) => link.clock.drift(*ppm),
        (FaultKind::StoreJump { by_ms, .. }, _) => {
            if *by_ms > 0 {
                world.excuse_all();
            }
            stores().for_each(|store| store.clock.jump(*by_ms));
        }
        (FaultKind::StoreDrift { ppm, .. }, _) => {
            stores().for_each(|store| store.clock.drift(*ppm));
        }
        (FaultKind::StoreDown { .. }, _) => {
            stores().for_each(|store| store.go_down());
            for link in links_to(world, fault) {
                link.cut(Silence::Known);
            }
        }
        (FaultKind::StoreFrozen { .. }, _) => stores().for_each(|store| store.freeze()),
        _ => {}
    }
}

/// Returns the links of all living processes to the servers that a fault hits.
fn links_to(world: &Arc<World>, fault: &FaultKind) -> impl Iterator<Item = Arc<Link>> {
    let hit = world.hit(fault);
    let live = world.live_links().into_iter();
    live.filter(move |link| hit.contains(&link.store))
}

fn end(world: &Arc<World>, crew: &Arc<Crew>, fault: &FaultKind, links: &[Arc<Link>]) {
    match (fault, links.first()) {
        (FaultKind::Cut { .. } | FaultKind::Partition { .. }, Some(first)) => {
            world
                .recorder
                .line(|| format!("client {} is connected again", first.called()));
            let up = links
                .iter()
                .filter(|link| !world.stores[link.store].is_down());
            up.for_each(Link::connect);
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
            if *forgets && !world.plan.is_redlock() {
                world.excuse_all();
            }
            for store in world.hit(fault) {
                let called = world.called(store);
                let store = &world.stores[store];
                if *forgets {
                    store.forget(world.planted.forgets_fences());
                }
                store.come_up();
                world.recorder.line(|| format!("{called} is up again"));
            }
            links_to(world, fault).for_each(|link| link.connect());
        }
        (FaultKind::StoreFrozen { .. }, _) => {
            for store in world.hit(fault) {
                let called = world.called(store);
                world.recorder.line(|| format!("{called} goes on"));
                let waited = world.stores[store].go_on();
                waited.into_iter().for_each(|request| serve(world, request));
            }
        }
        _ => {}
    }
}

fn tell(world: &World, fault: &FaultKind, link: Option<&Link>) -> String {
    let who = link.map(Link::called).unwrap_or_default();
    let servers = world
        .hit(fault)
        .into_iter()
        .map(|store| world.called(store));
    let servers = servers.collect::<Vec<_>>().join(" and ");
    match fault {
        FaultKind::Cut { for_ms, .. } => {
            format!("the connection of client {who} to {servers} breaks for {for_ms} ms")
        }
        FaultKind::Partition { for_ms, .. } => {
            format!("client {who} is cut off from {servers} for {for_ms} ms, and nobody is told")
        }
        FaultKind::Stop { for_ms, .. } => format!("client {who} is stopped for {for_ms} ms"),
        FaultKind::Kill { .. } => format!("client {who} is killed"),
        FaultKind::Suspend { by_ms, .. } => {
            format!("the machine of client {who} was suspended for {by_ms} ms")
        }
        FaultKind::Drift { ppm, .. } => {
            format!("the clock of client {who} now runs {ppm} ppm fast")
        }
        FaultKind::StoreJump { by_ms, .. } => format!("the clock of {servers} jumps by {by_ms} ms"),
        FaultKind::StoreDrift { ppm, .. } => {
            format!("the clock of {servers} now runs {ppm} ppm fast")
        }
        FaultKind::StoreDown {
            for_ms, forgets, ..
        } => {
            let data = if *forgets { " and loses its data" } else { "" };
            format!("{servers} is down for {for_ms} ms{data}")
        }
        FaultKind::StoreFrozen { for_ms, .. } => format!("{servers} stands still for {for_ms} ms"),
    }
}
