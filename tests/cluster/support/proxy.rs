//! Stands between controller and server: cuts the line, holds it up, answers in the server's place
//! or keeps the server's answer to itself.

use std::{future::pending, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// What becomes of a request.
pub enum Fate {
    /// The server gets it.
    Passed,
    /// The server sees nothing of it; this comes back.
    Answered(String),
    /// The server gets it; its answer is lost.
    AnswerLost,
    /// The server gets it twice; the second answer comes back.
    SentTwice,
    /// The server sees nothing of it, and nothing ever comes back.
    Held,
}

/// See the module's text.
pub struct Proxy {
    address: SocketAddr,
    /// Odd while the line is down.
    cuts: watch::Sender<u32>,
    frozen: watch::Sender<bool>,
}

impl Proxy {
    /// Starts before a server. `judge` sees the start of each request.
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

    /// Where to go instead of to the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Cuts every connection, and lets none through for a while.
    pub async fn cut(&self, pause: Duration) {
        self.cut_while(tokio::time::sleep(pause)).await;
    }

    /// Cuts every connection, and lets none through until `meanwhile` is done.
    pub async fn cut_while(&self, meanwhile: impl Future<Output = ()>) {
        self.cuts.send_modify(|count| *count += 1);
        meanwhile.await;
        self.cuts.send_modify(|count| *count += 1);
    }

    /// Holds up, or no longer holds up, all that is said in either direction.
    pub fn freeze(&self, frozen: bool) {
        self.frozen.send_replace(frozen);
    }
}

/// Requests are told apart by the pieces in which they come: a client that waits for each answer
/// starts a request with a piece of its own.
async fn connection(
    mut near: TcpStream,
    server: &str,
    judge: &(dyn Fn(&str) -> Fate + Send + Sync),
    mut frozen: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let mut far = TcpStream::connect(server).await?;
    let (mut asked, mut answered) = (vec![0; 64 * 1024], vec![0; 64 * 1024]);
    loop {
        // Whoever holds the other end goes with the test.
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
                        // It was done, once there is an answer.
                        first.readable().await?;
                        far.write_all(piece).await?;
                    }
                    Fate::Held => return pending().await,
                    Fate::AnswerLost => {
                        far.write_all(piece).await?;
                        // It was done, once there is an answer.
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

/// An answer as it goes over the line, after which the connection is closed.
pub fn answer(code: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {code} -\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n{headers}\r\n{body}",
        body.len()
    )
}

/// A refusal as it goes over the line.
pub fn refusal(code: u16, reason: &str, message: &str) -> String {
    let body = format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"{reason}","message":"{message}","code":{code}}}"#
    );
    answer(code, "", &body)
}
