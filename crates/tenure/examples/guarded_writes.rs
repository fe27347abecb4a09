//! Writes that ZooKeeper accepts only while a lock is held: an old holder cannot write late.
//!
//! `cargo run -p tenure --features zookeeper --example guarded_writes -- zookeeper://localhost/locks`
//!
//! It makes a node `/guarded_writes_example` there, and deletes it at the end.

use tenure::guarded::NodeWrite;
use tenure::{Client, Error};

const NODE: &str = "/guarded_writes_example";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1);
    let url = url.unwrap_or_else(|| "zookeeper://localhost/locks".to_owned());
    let (ann, bob) = (tenure::open(&url).await?, tenure::open(&url).await?);

    let old = ann.mutex("primary").lock().await?;
    old.write_nodes(&[NodeWrite::create(NODE, "ann")]).await?;
    println!(
        "ann holds the lock and has written, with fence {}",
        old.fence()
    );

    take_over(&bob, &old).await?;

    match old
        .write_nodes(&[NodeWrite::set(NODE, "ann, too late")])
        .await
    {
        Err(Error::Lost { source, .. }) => println!("ann's late write was refused: {source}"),
        other => println!("unexpected: {other:?}"),
    }
    let last = bob.mutex("primary").lock().await?;
    last.write_nodes(&[NodeWrite::delete(NODE)]).await?;
    Ok(())
}

/// An operator takes the lock away, and bob gets it and writes.
async fn take_over(bob: &Client, old: &tenure::Guard) -> tenure::Result<()> {
    bob.evict(old.name()).await?;
    let new = bob.mutex("primary").lock().await?;
    new.write_nodes(&[NodeWrite::set(NODE, "bob")]).await?;
    println!(
        "bob holds the lock and has written, with fence {}",
        new.fence()
    );
    new.release().await?;
    Ok(())
}
