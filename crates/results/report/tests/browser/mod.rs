//! Pages as a browser shows them: headless Chromium, where it is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Script that uses a page and reports its observations.
const DRIVER: &str = include_str!("driver.js");
/// Page that reports a picture's colours.
const COLOURS: &str = include_str!("colours.html");
/// Page that measures another one's boxes and colours.
const LAYOUT: &str = include_str!("layout.html");

/// A browser with a separate profile.
pub struct Browser {
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Browser {
    /// The one that is installed; `None`, with a message, where there is none.
    pub fn installed() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
        let found = names
            .iter()
            .flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)))
            .find(|program| program.is_file());
        if found.is_none() {
            eprintln!("skipped: no Chromium in PATH to show the page (apt-get install chromium)");
        }
        Some(Self { program: found?, folder: tempfile::tempdir().unwrap() })
    }

    fn run(&self, words: &[&str], page: &Path) -> String {
        let mut command = Command::new(&self.program);
        // As root it refuses its sandbox; the pages are our own.
        command.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
        command.args(["--no-first-run", "--disable-extensions", "--allow-file-access-from-files"]);
        command.arg(format!("--user-data-dir={}", self.folder.path().join("profile").display()));
        command.args(["--window-size=1200,4000", "--virtual-time-budget=20000"]).args(words);
        let output = command.arg(format!("file://{}", page.display())).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {stderr}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The JSON that the page's or the driver's script left in `#seen`.
    fn seen(&self, page: &Path) -> Value {
        self.seen_in(page, false)
    }

    /// The same, where the reader likes dark or light pages.
    fn seen_in(&self, page: &Path, dark: bool) -> Value {
        let shown = self.run(&["--dump-dom", &likes(dark)], page);
        let begin = shown.find("id=\"seen\"").unwrap_or_else(|| panic!("nothing seen: {shown}"));
        let text = &shown[begin..];
        let text = &text[text.find('>').unwrap() + 1..text.find("</pre>").unwrap()];
        let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        serde_json::from_str(&plain).unwrap_or_else(|error| panic!("{error}: {plain}"))
    }

    /// Observations of a user of the page's plots, see `driver.js`.
    pub fn used(&self, page: &Path) -> Value {
        let html = fs::read_to_string(page).unwrap();
        let driven = html.replace("</body>", &format!("<script>{DRIVER}</script></body>"));
        assert!(driven.len() > html.len());
        let path = self.folder.path().join("driven.html");
        fs::write(&path, driven).unwrap();
        self.seen(&path)
    }

    /// Asserts that the page is to be read: light and dark, on a wide screen, on a phone and on
    /// paper. No text is cut off, covers another or is paler than WCAG 2.1 allows, and the answer
    /// comes first; see `layout.html`.
    pub fn laid_out(&self, page: &Path) {
        fs::copy(page, self.folder.path().join("laid-out.html")).unwrap();
        let measuring = self.folder.path().join("layout.html");
        fs::write(&measuring, LAYOUT).unwrap();
        for dark in [false, true] {
            let observed = self.seen_in(&measuring, dark);
            assert_eq!(observed["errors"], serde_json::json!([]), "{}", page.display());
            for view in ["wide", "phone", "print"] {
                let looked = &observed["views"][view];
                let none = serde_json::json!([]);
                assert_eq!(looked["faults"], none, "{}, dark: {dark}: {looked:#}", page.display());
                assert!(looked["texts"].as_u64() > Some(10), "{}: {looked}", page.display());
                // Paper is light whatever the screen is.
                let paper = looked["paper"].as_f64().unwrap();
                let is_dark = dark && view != "print";
                assert!(if is_dark { paper < 0.1 } else { paper > 0.9 }, "{view}: {paper}");
            }
        }
    }

    /// The colours of a page's picture with how many pixels each has, and of how many pixels.
    pub fn colours(&self, page: &Path, dark: bool) -> (Value, u64) {
        let picture = self.folder.path().join("picture.png");
        let words = [format!("--screenshot={}", picture.display()), likes(dark)];
        self.run(&words.each_ref().map(String::as_str), page);
        let measuring = self.folder.path().join("colours.html");
        fs::write(&measuring, COLOURS).unwrap();
        let mut observed = self.seen(&measuring);
        (observed["colours"].take(), observed["pixels"].as_u64().unwrap())
    }
}

/// The word that makes the browser like dark or light pages: Blink's PreferredColorScheme, where 0
/// is dark and 1 light.
fn likes(dark: bool) -> String {
    format!("--blink-settings=preferredColorScheme={}", u8::from(!dark))
}
