//! The servers in the URL of a store.

use tenure::url::{Host, StoreUrl};

/// Returns the URL of each single server: of each node, if servers vote.
pub(crate) fn each(url: &StoreUrl) -> Vec<StoreUrl> {
    match url.nodes.as_slice() {
        [] => vec![url.clone()],
        nodes => nodes.to_vec(),
    }
}

/// Returns whether a server is reached over TCP without TLS: its scheme is one of these, and no
/// option overrides it.
pub(crate) fn is_plain(server: &StoreUrl, schemes: &[&str]) -> bool {
    let is_otherwise = server.option("socket").is_some() || server.option("tls") == Some("on");
    schemes.contains(&server.scheme) && !is_otherwise
}

/// Returns the addresses of all servers for replacement; a server behind a socket has none.
pub(crate) fn hosts(url: &mut StoreUrl) -> impl Iterator<Item = &mut Host> {
    let nodes = url.nodes.iter_mut().flat_map(|node| &mut node.servers);
    url.servers.iter_mut().chain(nodes)
}

/// Returns the address of a local port.
pub(crate) fn loopback(port: u16) -> Host {
    let name = "127.0.0.1".to_owned();
    Host { name, port }
}
