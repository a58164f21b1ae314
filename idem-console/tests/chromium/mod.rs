//! A headless Chromium, driven over its DevTools protocol.
//!
//! The crates for the protocol compile bindings to all of it, which takes minutes; the tests need a
//! dozen calls.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async_with_config};

/// How long a page may take to look as wanted.
const PATIENCE: Duration = Duration::from_secs(30);

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// Runs in each page before its own scripts, and remembers what the page may not do.
const WATCH: &str = "window.violations = [];
    addEventListener('securitypolicyviolation', (e) => violations.push(e.violatedDirective));";

/// Returns the program: that of `IDEM_CHROMIUM`, or the first on the path.
///
/// # Errors
///
/// What to do when there is none.
pub(crate) fn program() -> Result<PathBuf, String> {
    if let Some(program) = std::env::var_os("IDEM_CHROMIUM") {
        return Ok(program.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut programs = NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    programs.find(|program| program.is_file()).ok_or_else(|| {
        "no chromium: `apt-get install chromium`, or set IDEM_CHROMIUM to the program".to_owned()
    })
}

/// A browser with one page.
pub(crate) struct Chromium {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    session: String,
    calls: u64,
    events: Vec<Value>,
    _program: Child,
    _folder: TempDir,
}

impl Chromium {
    pub(crate) async fn start(program: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(program);
        command
            // A sandbox does not work as root, and the pages are the tests' own.
            .args([
                "--headless=new",
                "--no-sandbox",
                "--remote-debugging-port=0",
            ])
            .args(["--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
            ])
            .args(["--disable-extensions", "--hide-scrollbars", "--lang=en"])
            .arg(format!("--user-data-dir={}", folder.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = Vec::new();
        let url = loop {
            let line = tokio::time::timeout(PATIENCE, lines.next_line()).await;
            let Ok(Ok(Some(line))) = line else {
                panic!("chromium does not start: {said:?}");
            };
            if let Some(url) = line.strip_prefix("DevTools listening on ") {
                break url.to_owned();
            }
            said.push(line);
        };
        // A full pipe would stop the browser.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let config = WebSocketConfig::default()
            .max_message_size(None)
            .max_frame_size(None);
        let connected = connect_async_with_config(url, Some(config), true).await;
        let mut browser = Self {
            socket: connected.unwrap().0,
            session: String::new(),
            calls: 0,
            events: Vec::new(),
            _program: child,
            _folder: folder,
        };
        let target = json!({ "url": "about:blank" });
        let target = browser.call("Target.createTarget", target).await;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach).await;
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, json!({})).await;
        }
        let watch = json!({ "source": WATCH });
        browser
            .call("Page.addScriptToEvaluateOnNewDocument", watch)
            .await;
        browser
    }

    /// Makes a call, and returns its result.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.attempt(method, params).await;
        assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        answer["result"].clone()
    }

    /// Makes a call, and returns the answer. Events that come meanwhile are kept.
    async fn attempt(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": params });
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let message = Message::text(message.to_string());
        self.socket.send(message).await.unwrap();
        loop {
            let answer = self.next().await;
            if answer["id"] != json!(self.calls) {
                self.events.push(answer);
                continue;
            }
            return answer;
        }
    }

    async fn next(&mut self) -> Value {
        loop {
            let message = tokio::time::timeout(PATIENCE, self.socket.next()).await;
            let message = message.expect("chromium does not answer").unwrap().unwrap();
            if let Message::Text(text) = message {
                return serde_json::from_str(&text).unwrap();
            }
        }
    }

    /// Opens the page, and waits until it is loaded.
    pub(crate) async fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({ "url": url })).await;
        self.until(&format!(
            "location.href === {} && document.readyState === 'complete'",
            json!(url)
        ))
        .await;
    }

    /// Returns the value of an expression.
    pub(crate) async fn value(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true
        });
        let answer = self.call("Runtime.evaluate", params).await;
        let thrown = &answer["exceptionDetails"];
        assert!(thrown.is_null(), "{expression}: {thrown}");
        answer["result"]["value"].clone()
    }

    /// Waits until the expression is true. A page that is just being left counts as false.
    pub(crate) async fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let params = json!({ "expression": expression, "returnByValue": true });
            let answer = self.attempt("Runtime.evaluate", params).await;
            if answer["result"]["result"]["value"] == json!(true) {
                return;
            }
            if Instant::now() > deadline {
                let text = self.value("document.body.innerText").await;
                panic!("never: {expression}; the page says {text}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the page shows the text.
    pub(crate) async fn shows(&mut self, text: &str) {
        let shown = json!(text);
        self.until(&format!("document.body.innerText.includes({shown})"))
            .await;
    }

    pub(crate) async fn fill(&mut self, selector: &str, text: &str) {
        let (selector, text) = (json!(selector), json!(text));
        self.value(&format!(
            "document.querySelector({selector}).value = {text}"
        ))
        .await;
    }

    /// Clicks, and waits until the next page is loaded.
    pub(crate) async fn follow(&mut self, selector: &str) {
        let selector = json!(selector);
        self.value("document.documentElement.dataset.left = 'yes'; 1")
            .await;
        // The page may be gone before the call is answered.
        let click = format!("document.querySelector({selector}).click()");
        self.attempt("Runtime.evaluate", json!({ "expression": click }))
            .await;
        self.until("!document.documentElement.dataset.left && document.readyState === 'complete'")
            .await;
    }

    pub(crate) async fn resize(&mut self, width: u32, height: u32) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600
        });
        self.call("Emulation.setDeviceMetricsOverride", size).await;
    }

    pub(crate) async fn prefer(&mut self, scheme: &str) {
        let feature = json!({ "name": "prefers-color-scheme", "value": scheme });
        let media = json!({ "features": [feature] });
        self.call("Emulation.setEmulatedMedia", media).await;
    }

    /// Returns a picture of the window, or of the whole page, in PNG format.
    pub(crate) async fn picture(&mut self) -> Vec<u8> {
        let is_whole = std::env::var_os("IDEM_WHOLE_PAGES").is_some();
        let params = json!({ "format": "png", "captureBeyondViewport": is_whole });
        let picture = self.call("Page.captureScreenshot", params).await;
        STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()
    }

    /// Asserts that no script has run that should not, nothing was refused by the policy, and the
    /// page is not wider than its window.
    pub(crate) async fn is_harmless(&mut self) {
        let violations = self.value("window.violations || []").await;
        assert_eq!(violations, json!([]));
        let too_wide =
            "document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(self.value(too_wide).await, json!(0), "the page is too wide");
        for event in &self.events {
            let method = event["method"].as_str().unwrap_or_default();
            let is_security = event["params"]["entry"]["source"] == json!("security");
            let is_harm = matches!(
                method,
                "Page.javascriptDialogOpening" | "Runtime.exceptionThrown"
            );
            assert!(!is_harm && !is_security, "{event}");
        }
    }
}
