//! What a program leaves on the nodes when its runtime ends.

use tokio::runtime::{Builder, Runtime};

use crate::nodes::Nodes;
use crate::{LONG, open};

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
