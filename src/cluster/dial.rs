//! Opens connections to the API server: TCP, through a proxy where there is one, and TLS by kube.
//!
//! Must not: know who we are beyond what TLS shows, or what is sent.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderValue, Uri};
use hyper::rt::{Read, Write};
use hyper_util::{
    client::legacy::connect::{Connection, HttpConnector, proxy::Tunnel},
    rt::TokioIo,
};
use kube::{Config, client::ConfigExt as _};
use percent_encoding::percent_decode_str;
use tokio_rustls::rustls;
use tower::{Service, ServiceExt as _, util::BoxCloneSyncService};

use super::{coalesced_io::Socket, transport::TransportError};

/// What bytes come and go by.
pub(super) trait Stream: Read + Write + Unpin + Send {}

impl<T: Read + Write + Unpin + Send> Stream for T {}

/// A connection.
pub(super) type Io = Box<dyn Stream>;

/// Opens a connection to a server.
pub(super) type Dial = BoxCloneSyncService<Uri, Io, TransportError>;

/// The way that a configuration means, with its certificates as they are now.
pub(super) fn dial(config: &Config) -> kube::Result<Dial> {
    let mut tcp = HttpConnector::new();
    // TLS around it is for others to ask for.
    tcp.enforce_http(false);
    tcp.set_connect_timeout(config.connect_timeout);
    // What is written is a whole message each time: nothing is gained by waiting for more.
    tcp.set_nodelay(true);
    let tcp = tcp.map_result(|tcp| -> Result<TokioIo<Socket>, TransportError> {
        Ok(TokioIo::new(Socket::new(tcp?.into_inner())?))
    });
    let Some(proxy) = &config.proxy_url else {
        return with_tls(config, tcp);
    };
    match proxy.scheme_str() {
        Some("http") => with_tls(config, tunnel(proxy, tcp)),
        Some("https") => {
            let tls = config.rustls_https_connector_with_connector(tcp)?;
            with_tls(config, tunnel(proxy, tls))
        }
        _ => Err(kube::Error::ProxyProtocolUnsupported {
            proxy_url: Box::new(proxy.clone()),
        }),
    }
}

fn with_tls<C>(config: &Config, connect: C) -> kube::Result<Dial>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Connection + Read + Write + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<TransportError>,
{
    let tls = config.rustls_https_connector_with_connector(connect)?;
    let tls = tls.map_response(|io| -> Io { Box::new(io) });
    Ok(BoxCloneSyncService::new(tls))
}

fn tunnel<C>(proxy: &Uri, connect: C) -> Tunnel<C> {
    let tunnel = Tunnel::new(proxy.clone(), connect);
    let authority = proxy.authority().map(http::uri::Authority::as_str);
    let user = authority.and_then(|authority| authority.rsplit_once('@'));
    let basic = user.map(|(user, _)| BASE64_STANDARD.encode(percent_decoded(user)));
    let header = basic.and_then(|basic| HeaderValue::try_from(format!("Basic {basic}")).ok());
    match header {
        Some(header) => tunnel.with_auth(header),
        None => tunnel,
    }
}

/// A part of a URL, in which `%40` is an `@`.
fn percent_decoded(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// Whether two ends could not agree on who they are.
pub(super) fn is_of_tls(error: &TransportError) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(&**error);
    while let Some(error) = next {
        if error.is::<rustls::Error>() {
            return true;
        }
        // What an error of input or output wraps is not its source but in it.
        let inner = error.downcast_ref::<std::io::Error>();
        let inner = inner.and_then(std::io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_escaped_in_a_proxys_password_is_meant() {
        for (text, meant) in [
            ("user:pa%40ss%3aword", "user:pa@ss:word"),
            ("user:50%", "user:50%"),
            ("user:%zz%4", "user:%zz%4"),
        ] {
            assert_eq!(percent_decoded(text), meant.as_bytes());
        }
    }

    #[test]
    fn errors_of_tls_differ_from_those_of_the_connection() {
        let alert = rustls::Error::AlertReceived(rustls::AlertDescription::CertificateExpired);
        let wrapped = std::io::Error::other(std::io::Error::other(alert));
        assert!(is_of_tls(&TransportError::from(wrapped)));
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert!(!is_of_tls(&TransportError::from(refused)));
    }
}
