//! Keys that are fetched from a URL: single flight, a rate limit, and no wait for tokens whose key is known.

use super::*;
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::mpsc,
};

/// An issuer whose answers the test controls.
struct TestIssuer {
    url: String,
    /// One item for each request.
    requests: mpsc::UnboundedReceiver<()>,
    answers: mpsc::UnboundedSender<String>,
}

impl TestIssuer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/jwks", listener.local_addr().unwrap());
        let (request_sender, requests) = mpsc::unbounded_channel();
        let (answers, mut answer_receiver) = mpsc::unbounded_channel::<String>();
        tokio::spawn(async move {
            loop {
                let (mut socket, _) = listener.accept().await.unwrap();
                let _ = socket.read(&mut [0; 4096]).await.unwrap();
                let _ = request_sender.send(());
                let Some(body) = answer_receiver.recv().await else { return };
                let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length:";
                let _ = socket.write_all(format!("{head} {}\r\n\r\n{body}", body.len()).as_bytes()).await;
            }
        });
        Self { url, requests, answers }
    }

    /// Prepares the answer to the next request, or answers the pending one.
    fn answer(&self, keys: &[Value]) {
        self.answers.send(json!({ "keys": keys }).to_string()).unwrap();
    }

    /// The number of requests since the last call.
    fn requests(&mut self) -> usize {
        std::iter::from_fn(|| self.requests.try_recv().ok()).count()
    }

    fn verifier(&self) -> Arc<JwtVerifier> {
        Arc::new(JwtVerifier::open(config(&self.url), |_| ()).unwrap())
    }
}

async fn advance(seconds: u64) {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(seconds)).await;
    tokio::time::resume();
}

fn token(signer: &Signer, id: &str) -> String {
    let algorithm = match signer {
        Signer::P256(_) => "ES256",
        Signer::P384(_) => "ES384",
        Signer::Ed25519(_) => "EdDSA",
        Signer::Rsa(_) => "PS256",
    };
    signer.sign(&json!({"alg": algorithm, "kid": id}), &claims())
}

fn ann() -> String {
    "ann".to_owned()
}

#[tokio::test]
async fn a_url_is_fetched_on_demand_and_at_a_limited_rate_for_unknown_keys() {
    let (old, new) = (Signer::ed25519(), Signer::p256());
    let mut issuer = TestIssuer::start().await;
    issuer.answer(&[old.jwk("old")]);
    let jwt = issuer.verifier();
    assert_eq!(issuer.requests(), 0, "no token was verified yet");
    for _ in 0..3 {
        assert_eq!(jwt.verify(&token(&old, "old"), NOW).await, Ok(ann()));
        assert_eq!(jwt.verify(&token(&new, "new"), NOW).await, Err(JwtError::Key));
    }
    assert_eq!(issuer.requests(), 1);
    issuer.answer(&[old.jwk("old"), new.jwk("new")]);
    advance(31).await;
    assert_eq!(jwt.verify(&token(&new, "new"), NOW).await, Ok(ann()));
    assert_eq!((jwt.verify(&token(&old, "old"), NOW).await, issuer.requests()), (Ok(ann()), 1));
}

#[tokio::test]
async fn tokens_with_invented_key_ids_share_one_fetch_and_others_do_not_wait() {
    let (known, rotated) = (Signer::ed25519(), Signer::p256());
    let mut issuer = TestIssuer::start().await;
    issuer.answer(&[known.jwk("known")]);
    let jwt = issuer.verifier();
    assert_eq!(jwt.verify(&token(&known, "known"), NOW).await, Ok(ann()));
    assert_eq!(issuer.requests(), 1);
    advance(31).await;

    let verify_later = |token: String| {
        let jwt = Arc::clone(&jwt);
        tokio::spawn(async move { jwt.verify(&token, NOW).await })
    };
    let unknown: Vec<_> = (0..50).map(|id| verify_later(token(&known, &format!("guess-{id}")))).collect();
    let waiting = verify_later(token(&rotated, "rotated"));
    issuer.requests.recv().await.unwrap();
    // The fetch is in progress until the issuer answers below.
    assert_eq!(jwt.verify(&token(&known, "known"), NOW).await, Ok(ann()));
    assert!(!waiting.is_finished());
    issuer.answer(&[known.jwk("known"), rotated.jwk("rotated")]);
    assert_eq!(waiting.await.unwrap(), Ok(ann()));
    for token in unknown {
        assert_eq!(token.await.unwrap(), Err(JwtError::Key));
    }
    assert_eq!(jwt.verify(&token(&known, "guess"), NOW).await, Err(JwtError::Key), "refused without a fetch");
    assert_eq!(issuer.requests(), 0, "one fetch for all of them, which was received above");
}

#[tokio::test]
async fn a_client_that_disconnects_does_not_end_the_fetch() {
    let signer = Signer::ed25519();
    let mut issuer = TestIssuer::start().await;
    let jwt = issuer.verifier();
    let first = {
        let (jwt, token) = (Arc::clone(&jwt), token(&signer, "k"));
        tokio::spawn(async move { jwt.verify(&token, NOW).await })
    };
    issuer.requests.recv().await.unwrap();
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    issuer.answer(&[signer.jwk("k")]);
    assert_eq!(jwt.verify(&token(&signer, "k"), NOW).await, Ok(ann()));
    assert_eq!(issuer.requests(), 0);
}

/// The paused clock advances to the next deadline while everything waits.
#[tokio::test(start_paused = true)]
async fn an_issuer_that_does_not_answer_delays_unknown_keys_until_the_deadline() {
    let signer = Signer::ed25519();
    let mut issuer = TestIssuer::start().await;
    let jwt = issuer.verifier();
    let started = tokio::time::Instant::now();
    assert_eq!(jwt.verify(&token(&signer, "k"), NOW).await, Err(JwtError::Key));
    assert_eq!(started.elapsed().as_secs(), 5);
    assert_eq!(jwt.verify(&token(&signer, "k"), NOW).await, Err(JwtError::Key));
    assert_eq!(started.elapsed().as_secs(), 5, "refused at once until the interval is over");
    // The clock may advance before the request has reached the issuer.
    assert!(issuer.requests() <= 1);
}

#[tokio::test]
async fn outdated_keys_are_used_while_new_ones_are_fetched_unless_they_are_too_old() {
    let (old, new) = (Signer::ed25519(), Signer::p256());
    let mut issuer = TestIssuer::start().await;
    issuer.answer(&[old.jwk("old")]);
    let jwt = issuer.verifier();
    assert_eq!(jwt.verify(&token(&old, "old"), NOW).await, Ok(ann()));
    issuer.requests.recv().await.unwrap();
    advance(10 * 60 + 1).await;
    assert_eq!(jwt.verify(&token(&old, "old"), NOW).await, Ok(ann()), "the issuer has not answered yet");
    issuer.requests.recv().await.unwrap();
    issuer.answer(&[old.jwk("old"), new.jwk("new")]);
    assert_eq!(jwt.verify(&token(&new, "new"), NOW).await, Ok(ann()));
    advance(20 * 60 + 1).await;
    issuer.answer(&[new.jwk("new")]);
    assert_eq!(
        jwt.verify(&token(&old, "old"), NOW).await,
        Err(JwtError::Key),
        "revoked while the server was idle"
    );
    assert_eq!(issuer.requests(), 1);
}

#[tokio::test]
async fn keys_stay_in_use_while_the_issuer_fails() {
    let signer = Signer::ed25519();
    let mut issuer = TestIssuer::start().await;
    issuer.answer(&[signer.jwk("k")]);
    let jwt = issuer.verifier();
    assert_eq!(jwt.verify(&token(&signer, "k"), NOW).await, Ok(ann()));
    advance(20 * 60 + 1).await;
    issuer.answers.send("no keys".to_owned()).unwrap();
    assert_eq!(jwt.verify(&token(&signer, "k"), NOW).await, Ok(ann()));
    assert_eq!(issuer.requests(), 2);
}

#[tokio::test]
async fn without_keys_every_token_is_refused() {
    let issuer = TestIssuer::start().await;
    issuer.answers.send("no keys".to_owned()).unwrap();
    let jwt = issuer.verifier();
    assert_eq!(jwt.verify(&token(&Signer::ed25519(), "k"), NOW).await, Err(JwtError::Key));
}
