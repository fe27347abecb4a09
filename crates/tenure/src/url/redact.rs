//! URLs in a form that is safe to show.

use crate::schemes::{Form, Scheme};

/// Returns a URL without its passwords and the values of its options; the URL need not be valid.
pub fn redact(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once(':') else {
        return "…".to_owned();
    };
    let form = Scheme::of(url).ok().map(|(row, ..)| row.form);
    match (form, rest.strip_prefix("//")) {
        (Some(Form::Literal), _) => url.to_owned(),
        (Some(Form::Nodes { .. }), Some(nodes)) => {
            let nodes: Vec<_> = nodes.split(',').map(redact_node).collect();
            format!("{scheme}://{}", nodes.join(","))
        }
        (_, Some(address)) => format!("{scheme}://{}", redact_address(address)),
        (Some(Form::Socket), None) => format!("{scheme}:{}", redact_address(rest)),
        (_, None) => format!("{scheme}:…"),
    }
}

/// Returns a text in which URLs have no passwords and options; a URL ends at a space or a quote.
pub fn redact_all(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + "://".len());
        shown.push_str(before);
        let end = after.find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"'));
        let (address, next) = after.split_at(end.unwrap_or(after.len()));
        shown.push_str(&redact_address(address));
        rest = next;
    }
    shown + rest
}

/// Returns one of several servers, without its password.
fn redact_node(node: &str) -> String {
    let (scheme, address) = match node.split_once("://") {
        Some((scheme, address)) => (format!("{scheme}://"), address),
        None => (String::new(), node),
    };
    let shown = redact_address(address);
    if let Some((_, server)) = shown.rsplit_once('@') {
        // Not even the user is shown: after a comma in a password, it is the rest of that password.
        return format!("{scheme}…@{server}");
    }
    let place = shown.split(['?', '/']).next().unwrap_or_default();
    let port = place.rsplit_once(':').map_or("", |(_, port)| port);
    if place.ends_with(']') || port.bytes().all(|digit| digit.is_ascii_digit()) {
        return format!("{scheme}{shown}");
    }
    // A text that does not look like a server may be the beginning of such a password.
    "…".to_owned()
}

/// Replaces the part between the first colon and the last at sign, and all options.
fn redact_address(address: &str) -> String {
    let (address, query) = match address.split_once('?') {
        Some((address, _)) => (address, "?…"),
        None => (address, ""),
    };
    match address.rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{user}:…@{host}{query}")
        }
        None => format!("{address}{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::StoreUrl;

    #[test]
    fn passwords_and_options_are_not_shown() {
        let cases = [
            ("redis://user:secret@x:7000/0", "redis://user:…@x:7000/0"),
            ("redis://:se@cr:et@x", "redis://:…@x"),
            ("redis://x/0?password=secret", "redis://x/0?…"),
            ("local:/some/folder", "local:/some/folder"),
            ("unix:/run/r.sock?db=secret", "unix:/run/r.sock?…"),
            (
                "redlock://u:it's secret@a,u:secret@b?db=1,c",
                "redlock://…@a,…@b?…,c",
            ),
            (
                "redlock://a:1,redis://:secret@b:2/3,[::1],[::1]:7?drift=1",
                "redlock://a:1,redis://…@b:2/3,[::1],[::1]:7?…",
            ),
        ];
        for (url, shown) in cases {
            assert_eq!(redact(url), shown);
            let parsed = StoreUrl::parse(url).unwrap();
            assert_eq!(parsed.to_string(), shown);
            assert_eq!(format!("{parsed:?}"), format!("StoreUrl({shown})"));
        }
        let wrong = [
            ("redlock://u:sec,ret@a", "redlock://…,…@a"),
            ("redlock://u:secr,e:t@a", "redlock://…,…@a"),
            ("redis:/u:secret@a", "redis:…"),
            ("secret", "…"),
        ];
        for (url, shown) in wrong {
            assert_eq!(redact(url), shown);
            StoreUrl::parse(url).unwrap_err();
        }
        assert_eq!(
            redact_all("unknown 'a://b:secret@c' and d://e:secret@f"),
            "unknown 'a://b:…@c' and d://e:…@f"
        );
    }
}
