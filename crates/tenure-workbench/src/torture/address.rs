//! The servers in a URL, and the same URL by way of proxies.

/// A URL of servers that a proxy can stand in front of, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    scheme: String,
    /// Who asks, and the port, for each server.
    servers: Vec<(String, u16)>,
    /// What follows the servers.
    rest: String,
}

impl Address {
    /// Takes a URL apart; an error says why no proxy can stand in front of its servers.
    pub(super) fn parse(url: &str) -> Result<Self, &'static str> {
        let (scheme, after) = url.split_once("://").ok_or(NOT_TCP)?;
        if !matches!(scheme, "redis" | "redlock") {
            return Err(NOT_TCP);
        }
        let end = after.find(['/', '?']).unwrap_or(after.len());
        let (places, rest) = after.split_at(end);
        if rest.contains("://") || (scheme == "redlock" && rest.contains(',')) {
            return Err("each server has options of its own");
        }
        let servers = places.split(',').map(server).collect::<Result<_, _>>()?;
        Ok(Self {
            scheme: scheme.to_owned(),
            servers,
            rest: rest.to_owned(),
        })
    }

    /// Returns the servers' ports on this machine.
    pub(super) fn ports(&self) -> impl Iterator<Item = u16> {
        self.servers.iter().map(|(_, port)| *port)
    }

    /// Returns the same URL with other ports of this machine, and the servers listed from one of them on.
    pub(super) fn on(&self, ports: &[u16], first: usize) -> String {
        let servers = self.servers.iter().zip(ports).cycle();
        let servers: Vec<_> = servers
            .skip(first)
            .take(self.servers.len())
            .map(|((user, _), port)| format!("{user}127.0.0.1:{port}"))
            .collect();
        format!("{}://{}{}", self.scheme, servers.join(","), self.rest)
    }

    /// Returns a URL of each server alone, without options of tenure.
    pub(super) fn each(&self) -> impl Iterator<Item = String> {
        let database = self.database();
        self.servers
            .iter()
            .map(move |(user, port)| format!("redis://{user}127.0.0.1:{port}/{database}"))
    }

    /// Returns the value of an option.
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        let (_, query) = self.rest.split_once('?')?;
        let mut options = query.split('&').filter_map(|option| option.split_once('='));
        options
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }

    fn database(&self) -> &str {
        let path = self.rest.split('?').next().unwrap_or_default();
        match path.trim_matches('/') {
            "" => self.option("db").unwrap_or("0"),
            path => path,
        }
    }
}

/// Who asks, and the port.
fn server(text: &str) -> Result<(String, u16), &'static str> {
    let (user, place) = match text.rsplit_once('@') {
        Some((user, place)) => (format!("{user}@"), place),
        None => (String::new(), text),
    };
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().map_err(|_| NOT_TCP)?),
        None => (place, REDIS),
    };
    match host {
        "127.0.0.1" | "localhost" => Ok((user, port)),
        _ => Err("its servers are not on this machine's 127.0.0.1"),
    }
}

const NOT_TCP: &str = "it has no servers with a host and a port, without TLS";

/// The port of a Redis server that has no other.
const REDIS: u16 = 6379;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_leads_by_way_of_proxies() {
        let cases = [
            (
                "redis://127.0.0.1:7000/3?timeout=1s",
                "redis://127.0.0.1:1/3?timeout=1s",
            ),
            ("redis://u:p@localhost", "redis://u:p@127.0.0.1:1"),
            (
                "redlock://localhost:7000,a:b@127.0.0.1?drift=1%25",
                "redlock://127.0.0.1:1,a:b@127.0.0.1:2?drift=1%25",
            ),
        ];
        for (url, by_proxy) in cases {
            assert_eq!(Address::parse(url).unwrap().on(&[1, 2], 0), by_proxy);
        }
    }

    #[test]
    fn the_servers_can_be_listed_in_another_order() {
        let address = Address::parse("redlock://127.0.0.1,a:b@127.0.0.1,127.0.0.1?db=2").unwrap();
        assert_eq!(
            address.on(&[1, 2, 3], 1),
            "redlock://a:b@127.0.0.1:2,127.0.0.1:3,127.0.0.1:1?db=2"
        );
    }

    #[test]
    fn the_servers_can_be_asked_one_by_one() {
        let address = Address::parse("redlock://localhost:7000,a:b@127.0.0.1?db=2").unwrap();
        let each: Vec<_> = address.each().collect();
        let expected = ["redis://127.0.0.1:7000/2", "redis://a:b@127.0.0.1:6379/2"];
        assert_eq!(each, expected);
        assert_eq!(address.ports().collect::<Vec<_>>(), [7000, 6379]);
    }

    #[test]
    fn other_urls_have_no_place_for_a_proxy() {
        for url in [
            "rediss://127.0.0.1/",
            "unix:/run/redis.sock",
            "redis://10.0.0.1/",
            "redlock://127.0.0.1:1?db=2,127.0.0.1:2",
            "redis+sentinel://127.0.0.1/x",
            "redis://127.0.0.1:x/",
        ] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
    }
}
