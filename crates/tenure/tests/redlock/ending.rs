//! What a program leaves on the nodes when its runtime ends.

use tokio::runtime::{Builder, Runtime};

use crate::nodes::Nodes;
use crate::{LONG, open, until_waiting};

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_guard_dropped_at_the_end_of_main_leaves_nothing_on_any_node() {
    let nodes = Nodes::start(3);
    runtime().block_on(async {
        let client = open(&nodes.url()).await;
        let _guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
    });
    for node in 0..3 {
        assert!(!nodes.is_taken(node, "a"), "node {node}");
    }
}

#[test]
fn who_waits_when_the_runtime_ends_leaves_the_line_of_every_node() {
    let nodes = Nodes::start(3);
    let holder = runtime();
    let (_client, _guard) = holder.block_on(async {
        let client = open(&nodes.url()).await;
        let guard = client.mutex("a").ttl(LONG).lock().await.unwrap();
        (client, guard)
    });
    runtime().block_on(async {
        let client = open(&nodes.url()).await;
        let lock = client.mutex("a").ttl(LONG);
        tokio::spawn(async move { lock.lock().await });
        until_waiting(&client, "a", 1).await;
    });
    for node in 0..3 {
        assert_eq!(nodes.line(node, "a"), "0", "node {node}");
    }
}
