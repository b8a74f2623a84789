//! Guards against requests from web pages, where no token is required.
//!
//! Responsible for: distinguishing them from requests of programs. Must not: know users or the API.
//!
//! Any page may make its reader's browser send requests to this machine. The browser then sends the page's `Origin`. Or
//! the page's name resolves to this machine (DNS rebinding), and the browser sends that name as `Host`. Programs do
//! neither.

use std::net::IpAddr;

use http::{HeaderMap, Uri, header, uri::Authority};

/// Returns the reason to refuse a request; none if a program on this machine may have sent it.
pub(super) fn refusal(headers: &HeaderMap, uri: &Uri, is_tls: bool) -> Option<String> {
    let hosts = headers.get_all(header::HOST).iter();
    // A header that is not text matches no host.
    let hosts = hosts.map(|host| host.to_str().unwrap_or("?"));
    let asked = uri.authority().map(Authority::as_str);
    let hosts: Vec<&str> = asked.into_iter().chain(hosts).collect();
    // Over TLS, a browser accepts only the certificate's names.
    if !is_tls && let Some(host) = hosts.iter().find(|host| !is_loopback(host)) {
        return Some(format!(
            "Host {host:?} is not this server: without tokens only 127.0.0.1, [::1] and localhost are \
             served (--token-file serves all)"
        ));
    }
    let scheme = if is_tls { "https" } else { "http" };
    let is_own = |origin: &str| {
        let origin = origin.strip_prefix(scheme);
        let origin = origin.and_then(|origin| origin.strip_prefix("://"));
        origin.is_some_and(|origin| hosts.contains(&origin))
    };
    let origins = headers.get_all(header::ORIGIN).iter();
    let mut origins = origins.map(|origin| origin.to_str().unwrap_or("?"));
    let origin = origins.find(|origin| !is_own(origin))?;
    Some(format!(
        "Origin {origin:?} is not this server: without tokens no web page is served (--token-file serves \
         all)"
    ))
}

/// Returns true if a host, with or without a port, can only be this machine.
fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority.host();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => name.eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn is_refused(host: &str, origin: Option<&str>, is_tls: bool) -> bool {
        let mut headers = HeaderMap::new();
        if !host.is_empty() {
            headers.insert(header::HOST, HeaderValue::from_str(host).expect("text"));
        }
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_str(origin).expect("text"));
        }
        refusal(&headers, &Uri::from_static("/api"), is_tls).is_some()
    }

    #[test]
    fn requests_with_a_loopback_host_are_served() {
        for host in ["127.0.0.1:80", "127.0.0.2", "localhost", "LocalHost:9"] {
            assert!(!is_refused(host, None, false), "{host}");
        }
        assert!(!is_refused("[::1]:6443", None, false));
        assert!(!is_refused("", None, false), "no browser leaves it out");
        for host in [
            "evil.example",
            "localhost.evil.example:80",
            "10.0.0.1:80",
            "[::2]:80",
            "127.0.0.1.evil.example",
            "user@",
            "?",
        ] {
            assert!(is_refused(host, None, false), "{host}");
        }
        assert!(!is_refused("lakh.example", None, true), "the certificate's");
        let proxied = Uri::from_static("http://evil.example/api");
        assert!(refusal(&HeaderMap::new(), &proxied, false).is_some());
    }

    #[test]
    fn a_page_is_served_by_its_own_server_alone() {
        let host = "127.0.0.1:80";
        assert!(!is_refused(host, Some("http://127.0.0.1:80"), false));
        for origin in [
            "http://127.0.0.1:81",
            "https://127.0.0.1:80",
            "http://evil.example",
            "null",
            "",
        ] {
            assert!(is_refused(host, Some(origin), false), "{origin}");
        }
        assert!(is_refused(host, Some("http://127.0.0.1:80"), true));
    }
}
