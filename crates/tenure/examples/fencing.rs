//! A paused holder wakes up after its lease, and the resource refuses its write.
//!
//! `cargo run -p tenure --example fencing`

use std::time::Duration;

use tenure::Fence;

/// A resource that checks fences: it keeps the largest it has seen, and refuses smaller ones.
#[derive(Debug, Default)]
struct Stock {
    left: u32,
    largest: Option<Fence>,
}

impl Stock {
    fn write(&mut self, left: u32, fence: Fence) -> Result<(), String> {
        if Some(fence) < self.largest {
            return Err(format!(
                "fence {fence} is too old, {:?} was seen",
                self.largest
            ));
        }
        self.left = left;
        self.largest = Some(fence);
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join("tenure-fencing");
    let url = format!("local:{}", folder.display());
    let mut stock = Stock {
        left: 10,
        ..Stock::default()
    };

    let ann = tenure::open(&url).await?;
    let bob = tenure::open(&url).await?;
    let lease = Duration::from_millis(200);

    // A lease by hand is not renewed, as if its holder were paused.
    let paused = ann.mutex("stock").ttl(lease).lease().await?;
    let seen_by_ann = stock.left;
    println!("ann read {seen_by_ann}, and is paused past her lease");

    let guard = bob.mutex("stock").lock().await?;
    stock.write(stock.left - 1, guard.fence())?;
    println!(
        "bob sold one with fence {}: {} left",
        guard.fence(),
        stock.left
    );
    guard.release().await?;

    let late = paused.fence.ok_or("a lease that was granted has a fence")?;
    match stock.write(seen_by_ann - 1, late) {
        Ok(()) => println!("ann's stale write was stored: an update is lost"),
        Err(refused) => println!("ann wakes up and writes: refused, {refused}"),
    }
    assert_eq!(stock.left, 9);
    Ok(())
}
