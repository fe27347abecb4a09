//! Protects the page from other sites that are open in the same browser.

use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Refuses requests that another site could have made the browser send.
///
/// DNS rebinding leaves the name of the other site in `Host`. A cross-site request cannot have the
/// content type JSON without a preflight request, and this server does not answer preflight
/// requests.
pub(super) async fn check(request: Request, next: Next) -> Response {
    let headers = request.headers();
    if !is_loopback(headers) {
        return refuse("this page is only for this machine; open the address that was printed");
    }
    if request.method() == Method::POST && !is_json(headers) {
        return refuse("commands must be JSON; send them with Content-Type: application/json");
    }
    next.run(request).await
}

fn refuse(sentence: &'static str) -> Response {
    (StatusCode::FORBIDDEN, sentence).into_response()
}

fn is_loopback(headers: &HeaderMap) -> bool {
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let Some(host) = host else { return false };
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|c| c.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "127.0.0.1" | "localhost" | "[::1]")
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        headers
    }

    #[test]
    fn only_names_of_this_machine_are_let_in() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost:8080",
            "[::1]:1",
            "[::1]",
        ] {
            assert!(is_loopback(&headers(header::HOST, host)), "{host}");
        }
        for host in [
            "example.com",
            "example.com:127",
            "127.0.0.1.example.com",
            "localhost.example.com:80",
            "127.0.0.1:80@example.com",
            "",
        ] {
            assert!(!is_loopback(&headers(header::HOST, host)), "{host}");
        }
        assert!(!is_loopback(&HeaderMap::new()));
    }

    #[test]
    fn what_a_form_can_send_is_no_json() {
        for kind in ["application/json", "Application/JSON; charset=utf-8"] {
            assert!(is_json(&headers(header::CONTENT_TYPE, kind)), "{kind}");
        }
        for kind in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "text/plain; application/json",
        ] {
            assert!(!is_json(&headers(header::CONTENT_TYPE, kind)), "{kind}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}
