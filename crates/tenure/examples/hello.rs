//! Holds a lock across processes, with nothing installed: start it twice.
//!
//! `cargo run -p tenure --example hello`

use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let locks = tenure::open("local:").await?;
    println!("waiting for my turn …");
    let guard = locks.mutex("hello").reason("the example").lock().await?;
    println!(
        "it is mine, with fence {}; letting go in 5 s",
        guard.fence()
    );
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(5)) => {}
        why = guard.lost() => return Err(why.into()),
    }
    println!("{:?}", guard.release().await?);
    Ok(())
}
