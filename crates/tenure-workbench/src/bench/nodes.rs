//! Takes the URL of a server, or of servers that vote, apart, and puts it together with other addresses.
//!
//! The store has read the URL already, so nothing is checked here.

/// The nodes as the URL writes them, each with options of its own, and the options for all.
#[derive(Debug, Clone)]
pub(crate) struct Nodes {
    scheme: String,
    nodes: Vec<String>,
    options: String,
}

impl Nodes {
    pub(crate) fn of(url: &str) -> Self {
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        let votes = scheme.starts_with("redlock");
        let last = rest.rfind(',').filter(|_| votes);
        let last = last.map_or(0, |comma| comma + 1);
        // Options behind the last node are for all.
        let all = rest[last..].rfind('?').map_or(rest.len(), |at| last + at);
        let (nodes, options) = rest.split_at(all);
        let nodes = match votes {
            true => nodes.split(',').map(str::to_owned).collect(),
            false => vec![nodes.to_owned()],
        };
        Self {
            scheme: scheme.to_owned(),
            nodes,
            options: options.to_owned(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.nodes.len()
    }

    /// The URL of one node as a server by itself.
    pub(crate) fn server(&self, node: usize) -> String {
        let node = &self.nodes[node];
        if is_whole(node) {
            return node.clone();
        }
        // The scheme ends in an s if the connection is encrypted.
        let scheme = self.scheme.replace("redlock", "redis");
        format!("{scheme}://{node}")
    }

    /// Where a node is, without its password.
    pub(super) fn place(&self, node: usize) -> &str {
        let (_, place, _) = around_address(&self.nodes[node]);
        place
    }

    /// A node's host and port; `None` if it is reached through a file, or encrypted: its certificate is
    /// for no other address.
    pub(super) fn address(&self, node: usize) -> Option<String> {
        let server = self.server(node);
        if !(server.starts_with("redis://") || server.starts_with("valkey://")) {
            return None;
        }
        let address = self.place(node);
        let has_port = address.rsplit_once(':').is_some_and(|(_, port)| {
            !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit())
        });
        if has_port {
            return Some(address.to_owned());
        }
        Some(format!("{address}:6379"))
    }

    /// Gives a node another host and port.
    pub(super) fn set_address(&mut self, node: usize, address: &str) {
        let (before, _, after) = around_address(&self.nodes[node]);
        self.nodes[node] = format!("{before}{address}{after}");
    }

    /// The whole store.
    pub(super) fn url(&self) -> String {
        self.store_of(&self.nodes)
    }

    /// The same store with another host and port for the last node.
    pub(super) fn with_last(&self, address: &str) -> String {
        let mut other = self.clone();
        other.set_address(self.count() - 1, address);
        other.url()
    }

    /// The same store without its last node.
    pub(super) fn without_last(&self) -> String {
        self.store_of(&self.nodes[..self.count() - 1])
    }

    fn store_of(&self, nodes: &[String]) -> String {
        format!("{}://{}{}", self.scheme, nodes.join(","), self.options)
    }
}

fn is_whole(node: &str) -> bool {
    node.contains("://") || node.starts_with("unix:")
}

/// Splits a node into what stands before its host and port, these, and what stands behind.
fn around_address(node: &str) -> (&str, &str, &str) {
    if !node.contains("://") && node.starts_with("unix:") {
        return ("", node.split('?').next().unwrap_or(node), "");
    }
    let scheme = node.find("://").map_or(0, |at| at + "://".len());
    let end = node[scheme..].find(['/', '?']);
    let end = end.map_or(node.len(), |at| scheme + at);
    let start = node[..end].rfind('@').map_or(scheme, |at| at + 1);
    (&node[..start], &node[start..end], &node[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const URL: &str = "redlock://a,rediss://b:1/3,ann:secret@c:2?db=1?prefix=x:&drift=5%25";

    #[test]
    fn each_node_is_a_server() {
        let nodes = Nodes::of(URL);
        let servers: Vec<_> = (0..nodes.count()).map(|node| nodes.server(node)).collect();
        assert_eq!(
            servers,
            ["redis://a", "rediss://b:1/3", "redis://ann:secret@c:2?db=1"]
        );
        let places: Vec<_> = (0..nodes.count()).map(|node| nodes.place(node)).collect();
        assert_eq!(places, ["a", "b:1", "c:2"]);
        assert_eq!(Nodes::of("redlocks://a,b").server(1), "rediss://b");
    }

    #[test]
    fn the_last_node_is_replaced_and_nothing_else() {
        let url = "redlock://a,rediss://b:1/3,ann:secret@d:9?db=1?prefix=x:&drift=5%25";
        assert_eq!(Nodes::of(URL).with_last("d:9"), url);
        assert_eq!(
            Nodes::of("redlock://a,b").with_last("d:9"),
            "redlock://a,d:9"
        );
        let url = "redlock://a,redis://b/3";
        assert_eq!(Nodes::of(url).with_last("d:9"), "redlock://a,redis://d:9/3");
        let url = "redlock://a,rediss://b:1/3?prefix=x:&drift=5%25";
        assert_eq!(Nodes::of(URL).without_last(), url);
    }

    #[test]
    fn a_node_has_an_address_unless_it_is_a_file_or_encrypted() {
        let last = |url| {
            let nodes = Nodes::of(url);
            nodes.address(nodes.count() - 1)
        };
        assert_eq!(last(URL).as_deref(), Some("c:2"));
        assert_eq!(last("redlock://a,b").as_deref(), Some("b:6379"));
        assert_eq!(last("redlock://a,[::1]").as_deref(), Some("[::1]:6379"));
        assert_eq!(last("redlock://a,[::1]:7").as_deref(), Some("[::1]:7"));
        assert_eq!(last("redlock://a,unix:/run/r.sock"), None);
        assert_eq!(last("redlocks://a,b"), None);
        assert_eq!(last("redis://a:1/0?x=y").as_deref(), Some("a:1"));
        for none in [
            "rediss://a",
            "unix:/run/r.sock",
            "redis+unix:///r",
            "local:",
        ] {
            assert_eq!(last(none), None, "{none}");
        }
    }

    #[test]
    fn a_server_by_itself_is_a_node_too() {
        let mut nodes = Nodes::of("redis://ann:a,b@c:2/3?prefix=x:");
        assert_eq!(nodes.count(), 1);
        nodes.set_address(0, "d:9");
        assert_eq!(nodes.url(), "redis://ann:a,b@d:9/3?prefix=x:");
    }
}
