//! Reads metrics of other programs in Prometheus' text format, over plain HTTP.

use std::{collections::BTreeMap, io, net::SocketAddr};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A sample of a metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MetricSample<'a> {
    /// Its labels.
    pub(crate) labels: BTreeMap<&'a str, &'a str>,
    /// Its value.
    pub(crate) value: f64,
}

/// Returns the samples of a metric in a text.
pub(crate) fn samples<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = MetricSample<'a>> {
    text.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?;
        let (labels, value) = match rest.strip_prefix('{') {
            Some(rest) => rest.rsplit_once('}')?,
            // Another metric that starts with the same name.
            None if !rest.starts_with(' ') => return None,
            None => ("", rest),
        };
        Some(MetricSample {
            labels: read_labels(labels),
            value: value.split_whitespace().next()?.parse().ok()?,
        })
    })
}

/// Parses labels. Values must not contain escaped quotes; verbs, resources and codes do not.
fn read_labels(text: &str) -> BTreeMap<&str, &str> {
    let pairs = text.split("\",").filter_map(|pair| pair.split_once("=\""));
    pairs
        .map(|(name, value)| (name.trim(), value.trim_end_matches('"')))
        .collect()
}

/// Sends a GET over plain HTTP to a server on this machine; returns status code and body.
pub(crate) async fn get(address: SocketAddr, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let code = head
        .split_whitespace()
        .nth(1)
        .and_then(|code| code.parse().ok());
    let code = code.ok_or(io::ErrorKind::InvalidData)?;
    Ok((code, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_with_and_without_labels_are_read() {
        let text = "# TYPE calls counter\n\
                    calls_total{verb=\"POST\",resource=\"pods\",subresource=\"\"} 12\n\
                    calls_total_more 5\n\
                    pending 7\n";
        let calls: Vec<_> = samples(text, "calls_total").collect();
        assert_eq!(calls.len(), 1);
        assert_eq!(calls[0].value, 12.0);
        assert_eq!(calls[0].labels["verb"], "POST");
        assert_eq!(calls[0].labels["subresource"], "");
        let pending: Vec<_> = samples(text, "pending").map(|one| one.value).collect();
        assert_eq!(pending, [7.0]);
    }
}
