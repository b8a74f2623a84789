//! Stands between controller and server: cuts or delays connections, answers in the server's place, or drops the
//! server's responses.

use std::{future::pending, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// The fate of a request.
pub enum Fate {
    /// The server gets it.
    Passed,
    /// The server does not see it; this text is the response.
    Answered(String),
    /// The server gets it; its response is lost.
    AnswerLost,
    /// The server gets it twice; the second response is returned.
    SentTwice,
    /// The server does not see it, and there is never a response.
    Held,
}

/// A TCP proxy in front of a server. Its `judge` decides the fate of each request. Connect clients to [`Proxy::url`].
pub struct Proxy {
    address: SocketAddr,
    /// Odd while connections are cut.
    cuts: watch::Sender<u32>,
    frozen: watch::Sender<bool>,
}

impl Proxy {
    /// Starts in front of a server. `judge` sees the start of each request.
    pub async fn start(server: &str, judge: impl Fn(&str) -> Fate + Send + Sync + 'static) -> Self {
        let server = server.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it has an address");
        let (cuts, cut) = watch::channel(0);
        let (frozen, is_frozen) = watch::channel(false);
        let judge = Arc::new(judge);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (server, mut cut) = (server.clone(), cut.clone());
                if *cut.borrow_and_update() % 2 == 1 {
                    continue;
                }
                let (judge, is_frozen) = (Arc::clone(&judge), is_frozen.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        _ = connection(near, &server, &*judge, is_frozen) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self {
            address,
            cuts,
            frozen,
        }
    }

    /// The URL to use instead of the server's.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Cuts every connection, and refuses new ones for a while.
    pub async fn cut(&self, pause: Duration) {
        self.cut_while(tokio::time::sleep(pause)).await;
    }

    /// Cuts every connection, and refuses new ones until `meanwhile` is done.
    pub async fn cut_while(&self, meanwhile: impl Future<Output = ()>) {
        self.cuts.send_modify(|count| *count += 1);
        meanwhile.await;
        self.cuts.send_modify(|count| *count += 1);
    }

    /// Stops or resumes the traffic in both directions.
    pub fn freeze(&self, frozen: bool) {
        self.frozen.send_replace(frozen);
    }
}

/// Requests are separated by the chunks in which they arrive: a client that waits for each response starts a request
/// with a new chunk.
async fn connection(
    mut near: TcpStream,
    server: &str,
    judge: &(dyn Fn(&str) -> Fate + Send + Sync),
    mut frozen: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let mut far = TcpStream::connect(server).await?;
    let (mut asked, mut answered) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        // The sender of `frozen` goes with the test.
        let _ = frozen.wait_for(|frozen| !frozen).await;
        tokio::select! {
            length = near.read(&mut asked) => {
                let piece = &asked[..length?];
                if piece.is_empty() {
                    return Ok(());
                }
                let _ = frozen.wait_for(|frozen| !frozen).await;
                match judge(&String::from_utf8_lossy(piece)) {
                    Fate::Passed => far.write_all(piece).await?,
                    Fate::Answered(answer) => return near.write_all(answer.as_bytes()).await,
                    Fate::SentTwice => {
                        let mut first = TcpStream::connect(server).await?;
                        first.write_all(piece).await?;
                        // The server has executed it once a response arrives.
                        first.readable().await?;
                        far.write_all(piece).await?;
                    }
                    Fate::Held => return pending().await,
                    Fate::AnswerLost => {
                        far.write_all(piece).await?;
                        // The server has executed it once a response arrives.
                        return far.readable().await;
                    }
                }
            }
            length = far.read(&mut answered) => {
                let piece = &answered[..length?];
                if piece.is_empty() {
                    return Ok(());
                }
                let _ = frozen.wait_for(|frozen| !frozen).await;
                near.write_all(piece).await?;
            }
        }
    }
}

/// Returns a raw HTTP response, after which the connection is closed.
pub fn answer(code: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {code} -\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n{headers}\r\n{body}",
        body.len()
    )
}

/// Returns a raw HTTP response with a Status object that refuses the request.
pub fn refusal(code: u16, reason: &str, message: &str) -> String {
    let body = format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"{reason}","message":"{message}","code":{code}}}"#
    );
    answer(code, "", &body)
}
