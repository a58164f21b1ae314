//! The console in a real browser. Without Chromium, the tests are shown as ignored; where
//! `IDEM_REQUIRE` names it, they fail.
//!
//! `IDEM_PICTURES=$PWD/docs/console cargo test -p idem-console --test browser pictures` writes the
//! pictures of the documentation.

mod chromium;
mod pictured;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use idem_console::{Access, Options, serve_on};
use idem_core::{
    Claim, ClaimRequest, ErrorKind, Fingerprint, IdempotencyStore, IdempotencyStoreExt, Key,
    MemoryStore, Response,
};
use libtest_mimic::{Arguments, Trial};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use chromium::Chromium;

const TOKEN: &str = "correct-horse-battery-staple";
const DAY: Duration = Duration::from_secs(86_400);

/// Most bytes of a picture in the documentation.
const MAX_PICTURE: usize = 150_000;

/// The pictures that are kept; the others are only taken.
const KEPT: [&str; 6] = [
    "overview-1280-light",
    "overview-1280-dark",
    "records-1280-light",
    "record-1280-light",
    "overview-390-light",
    "confirm-390-light",
];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let program = chromium::program();
    let required = std::env::var("IDEM_REQUIRE").unwrap_or_default();
    let mut required = required.split(',').map(str::trim);
    let is_required = required.any(|name| name == "chromium" || name == "all");
    if let Err(missing) = &program {
        eprintln!("the tests in a browser are not run: {missing}");
    }
    macro_rules! trials {
        ($($name:ident,)*) => { vec![$({
            let program = program.clone();
            let is_ignored = program.is_err() && !is_required;
            let trial = Trial::test(stringify!($name), move || {
                let program: PathBuf = program?;
                let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
                runtime.block_on($name(&program));
                Ok(())
            });
            trial.with_ignored_flag(is_ignored)
        }),*] };
    }
    let trials = trials![
        strangers_see_the_login_page_only,
        an_operator_finds_and_releases_a_stuck_key,
        a_claim_appears_without_a_reload,
        hostile_keys_are_harmless_and_fit,
        everything_is_read_without_scripts,
        texts_have_contrast_in_both_schemes,
        pictures,
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// A console on a port of its own, and a browser.
struct Desk {
    browser: Chromium,
    url: String,
    server: JoinHandle<std::io::Result<()>>,
}

impl Drop for Desk {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Desk {
    async fn new(program: &Path, store: Arc<dyn IdempotencyStore>, options: Options) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let options = options.with_refresh(Duration::from_millis(200));
        let server = tokio::spawn(serve_on(listener, store, options));
        Self {
            browser: Chromium::start(program).await,
            url,
            server,
        }
    }

    async fn open(&mut self, path: &str) {
        let url = format!("{}{path}", self.url);
        self.browser.open(&url).await;
    }

    async fn log_in(&mut self, name: &str) {
        self.open("/").await;
        self.browser.fill("#token", TOKEN).await;
        self.browser.fill("#name", name).await;
        self.browser.follow("form.stack button").await;
        self.browser.shows("Oldest in flight").await;
    }
}

fn access() -> Options {
    Options::new().with_access(Access::token(TOKEN).unwrap())
}

fn key(id: &str) -> Key {
    Key::new("tenant-7", "payments.create", id).unwrap()
}

async fn claim(store: &MemoryStore, key: Key) -> Claim {
    let request = ClaimRequest::new(key, Fingerprint::raw("body")).with_lease(DAY / 24);
    store.claim(&request).await.unwrap().acquired().unwrap()
}

async fn strangers_see_the_login_page_only(program: &Path) {
    let store = Arc::new(MemoryStore::new());
    let _ = claim(&store, key("order-1")).await;
    let mut desk = Desk::new(program, store, access().with_changes()).await;
    for path in ["/", "/records", "/changes"] {
        desk.open(path).await;
        desk.browser.shows("Log in").await;
        let html = desk
            .browser
            .value("document.documentElement.outerHTML")
            .await;
        assert!(!html.as_str().unwrap().contains("order-1"), "{path}");
    }
    desk.browser
        .fill("#token", "a wrong token of some length")
        .await;
    desk.browser.follow("form.stack button").await;
    desk.browser.shows("This is not the token.").await;
    let post =
        "fetch('/force', { method: 'POST', body: new URLSearchParams({ action: 'release' }) })";
    let status = desk
        .browser
        .value(&format!("{post}.then((r) => r.status)"))
        .await;
    assert_eq!(status, json!(401));
    desk.browser.is_harmless().await;
}

async fn an_operator_finds_and_releases_a_stuck_key(program: &Path) {
    let store = Arc::new(MemoryStore::new());
    let held = claim(&store, key("order-1")).await;
    let other = Key::new("tenant-7", "invoices.send", "invoice-9").unwrap();
    let _ = claim(&store, other).await;
    let mut desk = Desk::new(program, store.clone(), access().with_changes()).await;
    desk.log_in("Ada").await;
    desk.browser.shows("invoice-9").await;
    desk.open("/records").await;
    desk.browser.shows("invoice-9").await;
    desk.browser.fill("#operation", "payments.create").await;
    desk.browser.follow("form.filters button").await;
    desk.browser.shows("1 shown").await;
    let text = desk.browser.value("document.body.innerText").await;
    assert!(!text.as_str().unwrap().contains("invoice-9"));
    desk.browser.follow("button.link").await;
    desk.browser.shows("Nobody has forced a step.").await;
    let address = desk.browser.value("location.href").await;
    assert_eq!(address, json!(format!("{}/record", desk.url)));
    // The page asks for a reason, and does not go on without.
    desk.browser
        .value("document.querySelector('button.danger').click()")
        .await;
    desk.browser
        .fill("#reason-release", "worker gone, no charge")
        .await;
    desk.browser.follow("button.danger").await;
    desk.browser.shows("Release?").await;
    let token = held.token().as_i64().to_string();
    for text in [
        token.as_str(),
        "in flight",
        "worker gone, no charge",
        "console:Ada",
    ] {
        desk.browser.shows(text).await;
    }
    assert!(store.history(&key("order-1")).await.unwrap().is_empty());
    desk.browser.follow("#confirm").await;
    desk.browser.shows("Done").await;

    let lost = store.complete(&held, &Response::new(200, ""), DAY).await;
    assert_eq!(lost.unwrap_err().kind(), ErrorKind::ClaimLost);
    let _ = claim(&store, key("order-1")).await;
    let history = store.history(&key("order-1")).await.unwrap();
    assert_eq!(history[0].who, "console:Ada");

    desk.browser.follow("form.actions button").await;
    desk.browser.shows("worker gone, no charge").await;
    desk.open("/changes").await;
    desk.browser.shows("worker gone, no charge").await;
    desk.browser.is_harmless().await;
    desk.browser.follow(".person button").await;
    desk.browser.shows("Log in").await;
}

async fn a_claim_appears_without_a_reload(program: &Path) {
    let store = Arc::new(MemoryStore::new());
    let mut desk = Desk::new(program, store.clone(), access()).await;
    desk.log_in("").await;
    desk.browser.shows("Live, as of").await;
    desk.browser.shows("Nothing is in flight.").await;
    desk.browser.value("window.stayed = true").await;
    let held = claim(&store, key("order-77")).await;
    desk.browser.shows("order-77").await;
    desk.browser
        .until("document.getElementById('count-in_flight').innerText === '1'")
        .await;
    // The button that is focused stays so, though it is another one now.
    desk.browser
        .value("document.querySelector('button.link').focus()")
        .await;
    let response = Response::new(200, "paid");
    store.complete(&held, &response, DAY).await.unwrap();
    let _ = claim(&store, key("order-78")).await;
    desk.browser.shows("order-78").await;
    desk.browser
        .until("document.getElementById('count-completed').innerText === '1'")
        .await;
    assert_eq!(desk.browser.value("window.stayed").await, json!(true));
    desk.browser.is_harmless().await;
}

async fn hostile_keys_are_harmless_and_fit(program: &Path) {
    let store = Arc::new(MemoryStore::new());
    let longest = "W".repeat(255);
    let ids = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "'-alert(1)-'",
        "javascript:alert(1)",
        "\u{202E}gpj.exe\u{2066}\u{200B}",
        "👩\u{200D}🚀 🇩🇪 naïve ﷽",
        "مرحبا بالعالم",
        &longest,
    ];
    for id in ids {
        let key = Key::new(id, id.chars().take(25).collect::<String>(), id).unwrap();
        let metadata = idem_core::Metadata::new().with(id, id);
        let request = ClaimRequest::new(key, Fingerprint::raw("body")).with_metadata(metadata);
        let _ = store.claim(&request).await.unwrap().acquired().unwrap();
    }
    let mut desk = Desk::new(program, store, access().with_changes()).await;
    desk.log_in("").await;
    for width in [390, 1280] {
        desk.browser.resize(width, 900).await;
        desk.open("/").await;
        desk.browser.shows("Live, as of").await;
        desk.browser.shows("U+202E").await;
        desk.browser.is_harmless().await;
        for number in 0..ids.len() {
            desk.open("/records").await;
            desk.browser.is_harmless().await;
            desk.browser
                .value(
                    "document.querySelectorAll('button.link').forEach((b, i) => b.id = `row-${i}`)",
                )
                .await;
            desk.browser.follow(&format!("#row-{number}")).await;
            desk.browser.shows("Nobody has forced a step.").await;
            desk.browser.is_harmless().await;
        }
    }
    let images = desk.browser.value("document.images.length").await;
    assert_eq!(images, json!(0));
}

async fn everything_is_read_without_scripts(program: &Path) {
    let store = Arc::new(MemoryStore::new());
    let _ = claim(&store, key("order-1")).await;
    let mut desk = Desk::new(program, store, access()).await;
    let off = json!({ "value": true });
    desk.browser
        .call("Emulation.setScriptExecutionDisabled", off)
        .await;
    desk.log_in("").await;
    desk.browser.shows("order-1").await;
    desk.browser.shows("As of this page").await;
    desk.browser.follow("button.link").await;
    desk.browser.shows("payments.create of tenant-7").await;
    desk.open("/records?state=in_flight").await;
    desk.browser.shows("1 shown").await;
    desk.browser
        .fill("#find-path", "tenant-7:payments.create:order-1")
        .await;
    desk.browser
        .follow("form.filters:nth-of-type(2) button")
        .await;
    desk.browser.shows("Nobody has forced a step.").await;
}

/// Compares each text with what is behind it: WCAG AA wants 4.5, or 3 for large texts.
const CONTRAST: &str = r"(() => {
    const parse = (color) => {
        const parts = color.match(/^rgba?\(([^)]+)\)$/);
        return parts && parts[1].split(/[ ,\/]+/).map(Number);
    };
    const light = ([r, g, b]) => {
        const [x, y, z] = [r, g, b].map((c) => c / 255)
            .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const behind = (element) => {
        for (let e = element; e; e = e.parentElement) {
            const color = parse(getComputedStyle(e).backgroundColor);
            if (color && (color.length < 4 || color[3] === 1)) return color;
        }
        return [255, 255, 255];
    };
    const poor = [];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || !element.offsetParent) continue;
        const style = getComputedStyle(element);
        const [one, other] = [light(parse(style.color)), light(behind(element))];
        const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        const size = parseFloat(style.fontSize);
        const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
        if (ratio < (large ? 3 : 4.5)) poor.push(`${texts.currentNode.data.trim()}: ${ratio}`);
    }
    return poor;
})()";

async fn texts_have_contrast_in_both_schemes(program: &Path) {
    let options = access().with_changes();
    let mut desk = Desk::new(program, pictured::store().await, options).await;
    for scheme in ["light", "dark"] {
        desk.browser.prefer(scheme).await;
        desk.open("/login").await;
        assert_eq!(desk.browser.value(CONTRAST).await, json!([]), "{scheme}");
    }
    desk.log_in("Ada").await;
    for scheme in ["light", "dark"] {
        desk.browser.prefer(scheme).await;
        for path in ["/", "/records", "/changes"] {
            desk.open(path).await;
            let poor = desk.browser.value(CONTRAST).await;
            assert_eq!(poor, json!([]), "{path} in {scheme}");
            let unlabelled = "[...document.querySelectorAll('input:not([type=hidden]), select')]
                .filter((field) => field.labels.length !== 1).length";
            assert_eq!(desk.browser.value(unlabelled).await, json!(0), "{path}");
        }
        desk.open("/records?state=stale").await;
        desk.browser.follow("button.link").await;
        assert_eq!(desk.browser.value(CONTRAST).await, json!([]), "{scheme}");
    }
}

async fn pictures(program: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let folder = std::env::var_os("IDEM_PICTURES").map_or(folder.path().to_owned(), PathBuf::from);
    std::fs::create_dir_all(&folder).unwrap();
    let metrics = pictured::metrics().await;
    let options = access().with_changes().with_metrics_url(&metrics).unwrap();
    let mut desk = Desk::new(program, pictured::store().await, options).await;
    desk.log_in("Ada").await;
    desk.browser.shows("Live, as of").await;
    // Two readings of the metrics, and some samples for the charts.
    desk.browser
        .until("document.body.innerText.includes('last ')")
        .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    for (width, height) in [(1280, 840), (390, 844)] {
        for scheme in ["light", "dark"] {
            desk.browser.resize(width, height).await;
            desk.browser.prefer(scheme).await;
            for name in ["overview", "records", "record", "confirm"] {
                match name {
                    "overview" => {
                        desk.open("/").await;
                        desk.browser.shows("Live, as of").await;
                    }
                    "records" => desk.open("/records").await,
                    "record" => {
                        desk.open("/records?state=stale").await;
                        desk.browser.follow("button.link").await;
                    }
                    _ => {
                        desk.browser
                            .fill(
                                "#reason-release",
                                "worker-3 was killed; no charge at the bank",
                            )
                            .await;
                        desk.browser.follow("button.danger").await;
                    }
                }
                desk.browser.is_harmless().await;
                let picture = desk.browser.picture().await;
                let name = format!("{name}-{width}-{scheme}");
                if KEPT.contains(&name.as_str()) {
                    let is_whole = std::env::var_os("IDEM_WHOLE_PAGES").is_some();
                    let bytes = picture.len();
                    assert!(is_whole || bytes < MAX_PICTURE, "{name}: {bytes} bytes");
                    std::fs::write(folder.join(name).with_extension("png"), picture).unwrap();
                }
            }
        }
    }
}
