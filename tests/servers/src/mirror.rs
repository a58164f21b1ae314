use std::fs;
use std::path::{Path, PathBuf};

const SOURCES: &str = "/etc/apt";
/// Names that a machine's own suite may go by, beside that of its release.
const SUITES: &[&str] = &["stable", "testing", "unstable", "sid"];

/// Where this machine gets Debian's packages from, as its own settings say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mirror {
    /// Without suite and component.
    pub(crate) uri: String,
    /// File with the keys that vouch for it; where none is told, apt trusts the machine's.
    pub(crate) keyring: Option<String>,
}

/// One line of `sources.list`, or one paragraph of a `.sources` file.
#[derive(Debug, Default)]
struct Entry {
    types: Vec<String>,
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    signed_by: Option<String>,
}

impl Mirror {
    /// None on another system than Debian.
    pub(crate) fn find() -> Option<Self> {
        let release = fs::read_to_string("/etc/os-release").ok()?;
        let value = |name: &str| {
            let mut values = release
                .lines()
                .filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
            values.next().map(|value| value.trim_matches('"'))
        };
        if value("ID") != Some("debian") {
            return None;
        }
        let codename = value("VERSION_CODENAME").unwrap_or_default();
        files().iter().find_map(|file| {
            let text = fs::read_to_string(file).ok()?;
            Self::named_in(&text, file, codename)
        })
    }

    fn named_in(text: &str, file: &Path, codename: &str) -> Option<Self> {
        let entries = if file.extension().is_some_and(|end| end == "sources") {
            text.replace('\r', "")
                .split("\n\n")
                .filter_map(paragraph)
                .collect::<Vec<_>>()
        } else {
            text.lines().filter_map(line).collect()
        };
        entries
            .into_iter()
            .find_map(|entry| entry.mirror_of(codename))
    }
}

impl Entry {
    /// A source of Debian itself, rather than of somebody's packages for Debian, is known by its suite.
    fn mirror_of(self, codename: &str) -> Option<Mirror> {
        let has = |list: &[String], wanted: &str| list.iter().any(|word| word == wanted);
        let suite = |name: &String| name == codename || SUITES.contains(&name.as_str());
        let fits = has(&self.types, "deb")
            && has(&self.components, "main")
            && self.suites.iter().any(suite);
        let uri = self
            .uris
            .into_iter()
            .find(|uri| !uri.starts_with("cdrom:"))?;
        fits.then_some(Mirror {
            uri,
            keyring: self.signed_by.filter(|path| path.starts_with('/')),
        })
    }
}

/// `sources.list` first, then the files beside it, by name.
fn files() -> Vec<PathBuf> {
    let folder = Path::new(SOURCES);
    let parts = fs::read_dir(folder.join("sources.list.d"));
    let mut parts: Vec<_> = parts
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            path.extension()
                .is_some_and(|end| end == "list" || end == "sources")
        })
        .collect();
    parts.sort();
    parts.insert(0, folder.join("sources.list"));
    parts
}

/// `deb [signed-by=FILE] URI SUITE COMPONENT…`
fn line(text: &str) -> Option<Entry> {
    let text = text.split('#').next()?.trim();
    let (kind, rest) = text.split_once(char::is_whitespace)?;
    let (options, rest) = match rest.trim_start().strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace().map(str::to_owned);
    Some(Entry {
        types: vec![kind.into()],
        uris: vec![words.next()?],
        suites: vec![words.next()?],
        components: words.collect(),
        signed_by: options
            .split_whitespace()
            .find_map(|option| option.strip_prefix("signed-by="))
            .map(Into::into),
    })
}

/// `Field: words`, where words may go on in lines that begin with a blank.
fn paragraph(text: &str) -> Option<Entry> {
    let mut entry = Entry::default();
    let mut field = String::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words = match line.split_once(':') {
            Some((name, words)) if !line.starts_with([' ', '\t']) => {
                field = name.to_lowercase();
                words
            }
            _ => line,
        };
        let mut words = words.split_whitespace().map(str::to_owned);
        match field.as_str() {
            "types" => entry.types.extend(words),
            "uris" => entry.uris.extend(words),
            "suites" => entry.suites.extend(words),
            "components" => entry.components.extend(words),
            "signed-by" => entry.signed_by = entry.signed_by.or_else(|| words.next()),
            "enabled" if words.next().is_some_and(|word| word == "no") => return None,
            _ => {}
        }
    }
    Some(entry)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Mirror;

    fn mirror(file: &str, text: &str) -> Option<(String, Option<String>)> {
        let mirror = Mirror::named_in(text, Path::new(file), "bookworm")?;
        Some((mirror.uri, mirror.keyring))
    }

    #[test]
    fn a_one_line_source_is_read_with_its_keyring() {
        let text = "# deb http://old/debian bookworm main\n\
            deb [arch=amd64 signed-by=/k.gpg] http://mirror/debian bookworm main contrib # ours\n";
        assert_eq!(
            mirror("sources.list", text),
            Some(("http://mirror/debian".into(), Some("/k.gpg".into())))
        );
    }

    #[test]
    fn a_paragraph_is_read_with_comments_and_continued_lines() {
        let text = "Types: deb\n# where it was\nURIs: http://mirror/debian\nSuites:\n bookworm\n \
            bookworm-updates\nComponents: main\nSigned-By: /k.gpg\n";
        assert_eq!(
            mirror("debian.sources", text),
            Some(("http://mirror/debian".into(), Some("/k.gpg".into())))
        );
    }

    #[test]
    fn a_key_written_into_the_source_is_no_file() {
        let text = "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm\nComponents: main\n\
            Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n xyz: abc\n";
        assert_eq!(
            mirror("debian.sources", text),
            Some(("http://mirror/debian".into(), None))
        );
    }

    #[test]
    fn sources_of_others_of_updates_and_of_sources_are_passed_over() {
        let text = "deb http://vendor/apt cloud-bookworm main\n\
            deb-src http://mirror/debian bookworm main\n\
            deb http://security/debian-security bookworm-security main\n\
            deb cdrom:[disk] bookworm main\n\
            deb http://mirror/debian bookworm contrib\n";
        assert_eq!(mirror("sources.list", text), None);
        let off = "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm\nComponents: main\n\
            Enabled: no\n";
        assert_eq!(mirror("debian.sources", off), None);
    }
}
