//! Opens connections to the API server: TCP, through a proxy if one is set, and TLS by kube.
//!
//! Must not: know credentials other than TLS certificates, or the content of requests.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderValue, Uri};
use hyper::rt::{Read, Write};
use hyper_util::{
    client::legacy::connect::{
        Connection, HttpConnector,
        proxy::{SocksV5, Tunnel},
    },
    rt::TokioIo,
};
use kube::{Config, client::ConfigExt as _};
use percent_encoding::percent_decode_str;
use tokio_rustls::rustls;
use tower::{Service, ServiceExt as _, util::BoxCloneSyncService};

use super::{coalesced_io::Socket, transport::TransportError};

/// A byte stream of a connection.
pub(super) trait Stream: Read + Write + Unpin + Send {}

impl<T: Read + Write + Unpin + Send> Stream for T {}

/// A connection.
pub(super) type Io = Box<dyn Stream>;

/// Opens a connection to a server.
pub(super) type Dial = BoxCloneSyncService<Uri, Io, TransportError>;

/// Returns the dialer for a configuration, with its current certificates.
pub(super) fn dial(config: &Config) -> kube::Result<Dial> {
    let mut tcp = HttpConnector::new();
    // TLS is added by the layer around it.
    tcp.enforce_http(false);
    tcp.set_connect_timeout(config.connect_timeout);
    // Each write is a whole message: there is nothing to gain from waiting for more.
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
        // The proxy resolves the server's name, by either scheme, as in Go's client.
        Some("socks5" | "socks5h") => with_tls(config, socks(proxy, tcp)?),
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
    let basic = user_of(proxy).map(|user| BASE64_STANDARD.encode(percent_decoded(user)));
    let header = basic.and_then(|basic| HeaderValue::try_from(format!("Basic {basic}")).ok());
    match header {
        Some(header) => tunnel.with_auth(header),
        None => tunnel,
    }
}

/// Connects through a SOCKS5 proxy, which listens at port 1080 unless its URL says otherwise.
fn socks<C>(proxy: &Uri, connect: C) -> kube::Result<SocksV5<C>> {
    let host = proxy.host().unwrap_or_default();
    let port = proxy.port_u16().unwrap_or(1080);
    let address = Uri::builder()
        .scheme("socks5")
        .authority(format!("{host}:{port}"))
        .path_and_query("/")
        .build()
        .map_err(kube::Error::HttpError)?;
    let socks = SocksV5::new(address, connect);
    let Some(user) = user_of(proxy) else {
        return Ok(socks);
    };
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let decoded = |text| String::from_utf8_lossy(&percent_decoded(text)).into_owned();
    Ok(socks.with_auth(decoded(name), decoded(password)))
}

/// Returns the user and password in a proxy's URL, still percent-encoded.
fn user_of(proxy: &Uri) -> Option<&str> {
    let (user, _) = proxy.authority()?.as_str().rsplit_once('@')?;
    Some(user)
}

/// Decodes a part of a URL, in which `%40` is an `@`.
fn percent_decoded(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// Returns true if the error is one of TLS.
pub(super) fn is_of_tls(error: &TransportError) -> bool {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(&**error);
    while let Some(error) = next {
        if error.is::<rustls::Error>() {
            return true;
        }
        // `io::Error` does not return the error that it wraps as its source.
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
    fn escapes_in_a_proxys_password_are_decoded() {
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
