//! [`KeyRing`]: the keys that results are encrypted under.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use aes_gcm_siv::{Aes256GcmSiv, KeyInit};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::KeyService;
use crate::{Effect, Error, ErrorKind, Result};

/// A key for AES-256-GCM-SIV, and the id by which stored values name it.
///
/// `Debug` shows the id.
#[derive(Clone)]
pub struct DataKey {
    id: Arc<str>,
    cipher: Arc<Aes256GcmSiv>,
}

impl DataKey {
    /// Most bytes that an id may have.
    pub const MAX_ID_BYTES: usize = 32;

    /// Creates a key of these bytes, which must be as good as random. The id (1 to 32 letters,
    /// digits, `.`, `_` and `-`) is stored in clear with each value. Never give two keys one id.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for another id.
    pub fn new(id: impl AsRef<str>, secret: &[u8; 32]) -> Result<Self> {
        let id = id.as_ref();
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if id.is_empty() || id.len() > Self::MAX_ID_BYTES || !id.bytes().all(is_valid) {
            return Err(Error::invalid_input(format!(
                "the id of a key has {} bytes or a character that is not allowed; it needs 1 to {} \
                 letters, digits, `.`, `_` or `-`",
                id.len(),
                Self::MAX_ID_BYTES
            )));
        }
        Ok(Self {
            id: id.into(),
            cipher: Arc::new(Aes256GcmSiv::new(secret.into())),
        })
    }

    /// Creates a new random key, and returns it with its wrapped form: store that, and
    /// [`unwrap`](Self::unwrap) it when a process starts.
    ///
    /// # Errors
    ///
    /// Those of the service, and as for [`new`](Self::new); `Other` where the operating system has
    /// no source of randomness.
    pub async fn generate(id: &str, service: &dyn KeyService) -> Result<(Self, Vec<u8>)> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|source| {
            let message = "the operating system has no source of randomness";
            Error::new(ErrorKind::Other, Effect::None, message).with_source(source)
        })?;
        let key = Self::new(id, &secret)?;
        let wrapped = service.wrap(&secret).await?;
        Ok((key, wrapped))
    }

    /// Creates the key from its wrapped form.
    ///
    /// # Errors
    ///
    /// Those of the service, and as for [`new`](Self::new).
    pub async fn unwrap(id: &str, wrapped: &[u8], service: &dyn KeyService) -> Result<Self> {
        let secret = service.unwrap(wrapped).await?;
        Self::new(id, &secret)
    }

    /// Returns the id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn cipher(&self) -> &Aes256GcmSiv {
        &self.cipher
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataKey({})", self.id)
    }
}

/// The keys of a process: the current one, which encrypts, and others, which can still be read.
///
/// # Rotation
///
/// The keys can be changed while the process runs; share the ring in an [`Arc`]. Rotate in this
/// order, so that no process meets a key that it does not have:
///
/// 1. [`add`](Self::add) the new key in every process.
/// 2. [`make_current`](Self::make_current) in every process.
/// 3. Re-encrypt the old records with [`rewrap`](super::Protected::rewrap) or `idem rewrap`, or
///    wait until their retention has ended.
/// 4. [`remove`](Self::remove) the old key when a whole pass of `rewrap` found no record under
///    another key and none in flight.
///
/// A value that is being encrypted during step 2 takes one key or the other; all processes can
/// read both.
///
/// ```
/// use idem_core::wrappers::protected::{DataKey, KeyRing};
///
/// let ring = KeyRing::new(DataKey::new("2026-01", &[7; 32])?);
/// ring.add(DataKey::new("2026-02", &[8; 32])?)?;
/// ring.make_current("2026-02")?;
/// assert_eq!(ring.current(), "2026-02");
/// # Ok::<(), idem_core::Error>(())
/// ```
///
/// `Debug` shows the ids.
pub struct KeyRing {
    /// Replaced as a whole, so that each value is encrypted under one state of the ring.
    keys: RwLock<Arc<Keys>>,
}

#[derive(Clone)]
struct Keys {
    current: DataKey,
    by_id: BTreeMap<Arc<str>, DataKey>,
}

impl KeyRing {
    /// Creates a ring of this key.
    #[must_use]
    pub fn new(current: DataKey) -> Self {
        let by_id = BTreeMap::from([(Arc::clone(&current.id), current.clone())]);
        Self {
            keys: RwLock::new(Arc::new(Keys { current, by_id })),
        }
    }

    /// Reads a ring from a text: on each line the id of a key, white space, and its 32 bytes as
    /// base64, as `openssl rand -base64 32` writes them. The first line is the current key. Empty
    /// lines, and lines that begin with `#`, do not count.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when a line has another form, an id occurs
    /// twice or there is no key. The message names the line, never a part of a key.
    pub fn parse(text: &str) -> Result<Self> {
        let mut ring = None;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = parse_line(line).map_err(|why| at_line(index, &why))?;
            match &ring {
                None => ring = Some(Self::new(key)),
                Some(ring) => ring
                    .add(key)
                    .map_err(|_| at_line(index, "its id occurs twice"))?,
            }
        }
        ring.ok_or_else(|| Error::invalid_input("the list of keys has no key"))
    }

    /// Adds a key, for reading.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the ring has a key of this id.
    pub fn add(&self, key: DataKey) -> Result<()> {
        self.change(|keys| {
            if keys.by_id.contains_key(&key.id) {
                return Err(Error::invalid_input(format!(
                    "the key ring has a key with the id `{}` already; each key has its own",
                    key.id
                )));
            }
            keys.by_id.insert(Arc::clone(&key.id), key);
            Ok(())
        })
    }

    /// Makes a key of the ring the one that encrypts. The former one can still be read.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when the ring has no such key.
    pub fn make_current(&self, id: &str) -> Result<()> {
        self.change(|keys| {
            let key = keys.by_id.get(id).ok_or_else(|| {
                Error::invalid_input("the key ring has no such key to make current; add it first")
            })?;
            keys.current = key.clone();
            Ok(())
        })
    }

    /// Removes a key; its values cannot be read any more.
    ///
    /// # Errors
    ///
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) when it is the current one.
    pub fn remove(&self, id: &str) -> Result<()> {
        self.change(|keys| {
            if *keys.current.id == *id {
                return Err(Error::invalid_input(
                    "the current key cannot be removed; make another one current first",
                ));
            }
            keys.by_id.remove(id);
            Ok(())
        })
    }

    /// Returns the id of the current key.
    #[must_use]
    pub fn current(&self) -> String {
        self.keys().current.id.as_ref().to_owned()
    }

    /// Returns the ids of all keys, in the order of the alphabet.
    #[must_use]
    pub fn ids(&self) -> Vec<String> {
        let keys = self.keys();
        keys.by_id.keys().map(|id| id.as_ref().to_owned()).collect()
    }

    /// Returns the key that encrypts now.
    pub(super) fn current_key(&self) -> DataKey {
        self.keys().current.clone()
    }

    /// Returns the key that a stored value names.
    pub(super) fn key(&self, id: &str) -> Option<DataKey> {
        self.keys().by_id.get(id).cloned()
    }

    fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn change(&self, change: impl FnOnce(&mut Keys) -> Result<()>) -> Result<()> {
        let mut shared = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        let mut keys = Keys::clone(&shared);
        change(&mut keys)?;
        *shared = Arc::new(keys);
        Ok(())
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.keys();
        f.debug_struct("KeyRing")
            .field("current", &keys.current.id)
            .field("ids", &keys.by_id.keys())
            .finish()
    }
}

fn parse_line(line: &str) -> std::result::Result<DataKey, String> {
    let mut words = line.split_whitespace();
    let [Some(id), Some(secret), None] = [words.next(), words.next(), words.next()] else {
        return Err("it needs an id and a key as base64".to_owned());
    };
    let secret = STANDARD.decode(secret).ok();
    let secret: Option<[u8; 32]> = secret.and_then(|secret| secret.try_into().ok());
    let secret = secret.ok_or("its key is not 32 bytes as base64")?;
    DataKey::new(id, &secret).map_err(|error| error.to_string())
}

fn at_line(index: usize, why: &str) -> Error {
    Error::invalid_input(format!("line {} of the list of keys: {why}", index + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str, byte: u8) -> DataKey {
        DataKey::new(id, &[byte; 32]).unwrap()
    }

    #[test]
    fn ids_are_short_and_plain() {
        assert!(DataKey::new("2026-01_a.b", &[0; 32]).is_ok());
        for id in ["", "a b", "é", &"a".repeat(33)] {
            assert!(DataKey::new(id, &[0; 32]).is_err(), "{id:?}");
        }
    }

    #[test]
    fn a_ring_reads_its_text() {
        let secret = STANDARD.encode([5; 32]);
        let ring = KeyRing::parse(&format!("# new\nk2 {secret}\n\n  k1\t{secret}\n")).unwrap();
        assert_eq!((ring.current(), ring.ids().len()), ("k2".to_owned(), 2));
        for wrong in [
            "".to_owned(),
            "k1".to_owned(),
            format!("k1 {secret} more"),
            format!("k1 {secret}\nk1 {secret}"),
            format!("k1 {}", STANDARD.encode([5; 31])),
            format!("k/1 {secret}"),
        ] {
            let error = KeyRing::parse(&wrong).unwrap_err();
            assert!(!format!("{error} {error:?}").contains(&secret[..8]));
        }
    }

    #[test]
    fn a_ring_changes_while_it_is_shared() {
        let ring = KeyRing::new(key("k1", 1));
        assert!(ring.make_current("k2").is_err());
        ring.add(key("k2", 2)).unwrap();
        assert!(ring.add(key("k2", 3)).is_err());
        ring.make_current("k2").unwrap();
        assert!(ring.remove("k2").is_err());
        ring.remove("k1").unwrap();
        assert_eq!(ring.ids(), ["k2"]);
        assert!(ring.key("k1").is_none());
    }

    #[test]
    fn nothing_shows_a_key() {
        let ring = KeyRing::new(key("k1", 0xAB));
        let shown = format!("{ring:?} {:?}", key("k2", 0xAB)).to_lowercase();
        assert!(shown.contains("k1") && !shown.contains("171") && !shown.contains("ab, ab"));
    }
}
