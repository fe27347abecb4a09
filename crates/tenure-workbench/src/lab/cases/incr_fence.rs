//! A fence from `INCR`, and a server that loses its data.

use tenure_checker::Promise;
use tenure_testkit::RedisServer;

use crate::lab::case::{Case, LONG};
use crate::lab::props::{curtain, urls};
use crate::lab::scene::Scene;
use crate::lab::upset::{Result, Upset};
use crate::recipes::Kind;

pub(super) const CASE: Case = Case {
    number: 11,
    title: "A fence counted by INCR",
    recipe: Kind::IncrFence,
    fault: "the server restarts without its data",
    faults: &["restart"],
    breaks: Promise::GrowingFences,
    instead: "takes the larger of the last fence + 1 and the server's clock, so that it grows through the loss of all data.",
    lesson: include_str!("11-incr-fence.md"),
    ttl: LONG,
    grants: 2,
    play,
};

/// The server forgets all it knew between two grants.
fn play(scene: &mut Scene) -> Result<()> {
    let mut server = RedisServer::start()?;
    let urls = urls(scene, &[server.port()]);
    let ann = scene.enter(&urls)?;
    let first = scene.lock(ann)?;
    scene.release(first)?;
    let before = server.pid();
    server.start_again()?;
    if server.pid() == before || server.command(&["DBSIZE"])?.to_string() != "0" {
        return Err(Upset::Play("the server has not forgotten".to_owned()));
    }
    scene.fault("restart", None);
    scene.heal();
    let bob = scene.enter(&urls)?;
    let second = scene.lock(bob)?;
    scene.release(second)?;
    curtain(scene, &[&server])
}
