//! Stands between controller and server: cuts the line, or answers in the server's place.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// See the module's text.
pub struct Proxy {
    address: SocketAddr,
    /// Odd while the line is down.
    cuts: watch::Sender<u32>,
}

impl Proxy {
    /// Starts before a server. `instead` sees the start of the first request of each connection; if
    /// it gives an answer, that is sent, and the server sees nothing of it.
    pub async fn start(
        server: &str,
        instead: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let server = server.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it has an address");
        let (cuts, cut) = watch::channel(0);
        let instead = Arc::new(instead);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (server, mut cut) = (server.clone(), cut.clone());
                if *cut.borrow_and_update() % 2 == 1 {
                    continue;
                }
                let instead = Arc::clone(&instead);
                tokio::spawn(async move {
                    tokio::select! {
                        _ = connection(near, &server, &*instead) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self { address, cuts }
    }

    /// Where to go instead of to the server.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Cuts every connection, and lets none through for a while.
    pub async fn cut(&self, pause: Duration) {
        self.cuts.send_modify(|count| *count += 1);
        tokio::time::sleep(pause).await;
        self.cuts.send_modify(|count| *count += 1);
    }
}

async fn connection(
    mut near: TcpStream,
    server: &str,
    instead: &(dyn Fn(&str) -> Option<String> + Send + Sync),
) -> std::io::Result<()> {
    let mut start = vec![0; 64 * 1024];
    let length = near.read(&mut start).await?;
    if let Some(answer) = instead(&String::from_utf8_lossy(&start[..length])) {
        return near.write_all(answer.as_bytes()).await;
    }
    let mut far = TcpStream::connect(server).await?;
    far.write_all(&start[..length]).await?;
    copy_bidirectional(&mut near, &mut far).await?;
    Ok(())
}
