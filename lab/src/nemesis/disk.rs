//! [`Disk`]: a file system that loses power, is filled, or fails to write back.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use idem_core::BoxError;

use super::shell::{retry, run};

/// How long processes that were killed may keep the file system busy.
const TIME_TO_UNMOUNT: Duration = Duration::from_secs(20);

/// How long the memory of an image may take to be taken.
const TIME_TO_STARVE: Duration = Duration::from_secs(5);

/// By how much less room is tried when a disk is filled.
const STEP: u64 = 64 << 10;

/// Shuts the file system down without a flush of its log: `FS_IOC_SHUTDOWN` with
/// `EXT4_GOING_FLAGS_NOLOGFLUSH`. Perl, because every Debian has it and the workspace forbids unsafe
/// code, which a call of `ioctl` needs.
pub(super) const SHUT_DOWN: &str = "open(my $d, '<', $ARGV[0]) or die $!; \
                         my $flags = pack('L', 2); ioctl($d, 0x8004587D, $flags) or die $!;";

/// The memory for an image whose writes fail. It has to hold a server's data.
const ROOM: u64 = 768 << 20;

/// What lets the tables and the journal of such an image lie at its beginning.
const AT_BEGINNING: [&str; 4] = ["-N", "8192", "-J", "size=8,location=4M"];

/// The end of both. They have their memory, so that only writes of files fail: without its journal a
/// file system takes no writes at all.
const BEGINNING: &str = "12M";

/// An ext4 file system in an image.
///
/// After [`cut`](Self::cut) nothing reaches the image any more, and [`restore`](Self::restore)
/// mounts what had: as after a power failure of a disk that does not lie about its flushes.
#[derive(Debug)]
pub(crate) struct Disk {
    image: PathBuf,
    at: PathBuf,
    /// The memory in which the image lies, if it does.
    room: Option<PathBuf>,
}

/// A disk whose writes fail for want of memory.
#[derive(Debug)]
pub(crate) struct Starved {
    room: PathBuf,
    device: String,
    /// The seconds of the kernel's clock.
    since: f64,
}

impl Disk {
    /// Creates the image, and mounts it at that folder.
    pub(crate) fn create(image: &Path, at: &Path, bytes: u64) -> Result<Self, BoxError> {
        let disk = Self::format(image, at, bytes, &[])?;
        disk.mount()?;
        Ok(disk)
    }

    /// Creates the image in memory, which can be taken from it, and mounts it at that folder.
    pub(crate) fn create_in_room(room: &Path, at: &Path, bytes: u64) -> Result<Self, BoxError> {
        fs::create_dir_all(room)?;
        let folder = room.display().to_string();
        run("mount", &["-t", "tmpfs", "tmpfs", &folder])?;
        resize(room, &ROOM.to_string())?;
        let mut disk = Self::format(&room.join("image"), at, bytes, &AT_BEGINNING)?;
        run("fallocate", &["-n", "-l", BEGINNING, &disk.image()])?;
        disk.room = Some(room.to_owned());
        disk.mount()?;
        Ok(disk)
    }

    fn format(image: &Path, at: &Path, bytes: u64, options: &[&str]) -> Result<Self, BoxError> {
        File::create_new(image)?.set_len(bytes)?;
        fs::create_dir_all(at)?;
        let disk = Self {
            image: image.to_owned(),
            at: at.to_owned(),
            room: None,
        };
        let image = disk.image();
        let arguments = [&["-q", "-F", "-m", "0"], options, &[&image]].concat();
        run("mkfs.ext4", &arguments)?;
        Ok(disk)
    }

    /// Lets everything that was written reach the image.
    pub(crate) fn sync(&self) -> Result<(), BoxError> {
        run("sync", &["-f", &self.at()]).map(drop)
    }

    /// Lets nothing reach the image any more. Returns what shows it.
    pub(crate) fn cut(&self) -> Result<String, BoxError> {
        run("perl", &["-e", SHUT_DOWN, &self.at()])?;
        match fs::write(self.at.join("after"), "x") {
            Err(error) => Ok(format!("a write after it: {error}")),
            Ok(()) => Err("the file system takes writes after its shutdown".into()),
        }
    }

    /// Mounts what had reached the image. No process may use the file system any more.
    pub(crate) fn restore(&self) -> Result<(), BoxError> {
        retry(TIME_TO_UNMOUNT, || run("umount", &[&self.at()]))?;
        self.mount()
    }

    /// Leaves the image only the memory that it has: what is written to new blocks fails when the
    /// kernel writes it back, long after it has taken it. The next forced write of that file fails,
    /// and the one after it succeeds.
    pub(crate) fn starve(&self) -> Result<Starved, BoxError> {
        let room = self.room.clone().ok_or("the image is not in memory")?;
        let device = run("losetup", &["-n", "-O", "NAME", "-j", &self.image()])?;
        let device = device.rsplit('/').next().unwrap_or_default().to_owned();
        let log = run("dmesg", &[])?;
        let since = log.lines().rev().find_map(seconds).unwrap_or_default();
        // The image may take more in between.
        retry(TIME_TO_STARVE, || {
            let used = run("df", &["-B1", "--output=used", &room.display().to_string()])?;
            resize(&room, used.lines().last().unwrap_or_default().trim())
        })?;
        Ok(Starved {
            room,
            device,
            since,
        })
    }

    /// Fills the disk up to some KiB. Returns the file that does so.
    pub(crate) fn fill(&self) -> Result<PathBuf, BoxError> {
        let ballast = self.at.join("ballast");
        let left = run("df", &["-B1", "--output=avail", &self.at()])?;
        let left = left.lines().last().unwrap_or_default().trim().to_owned();
        let mut size: u64 = left.parse()?;
        // The file's own blocks need room, too.
        loop {
            let bytes = size.to_string();
            let path = ballast.display().to_string();
            match run("fallocate", &["-l", &bytes, &path]) {
                Ok(_) => return Ok(ballast),
                Err(error) if size < STEP => return Err(error),
                Err(_) => size -= STEP,
            }
        }
    }

    /// Returns what shows that there is no room.
    pub(crate) fn is_full(&self) -> Result<String, BoxError> {
        let more = self.at.join("more");
        let written = fs::write(&more, vec![1; 4 * usize::try_from(STEP)?]);
        let _ = fs::remove_file(&more);
        match written {
            Err(error) => Ok(format!("a write: {error}")),
            Ok(()) => Err("there was room again".into()),
        }
    }

    /// Gives the room back.
    pub(crate) fn free(&self, ballast: PathBuf) -> Result<(), BoxError> {
        Ok(fs::remove_file(ballast)?)
    }

    fn mount(&self) -> Result<(), BoxError> {
        let mounted = run("mount", &["-o", "loop", &self.image(), &self.at()]);
        mounted.map(drop)
    }

    fn image(&self) -> String {
        self.image.display().to_string()
    }

    fn at(&self) -> String {
        self.at.display().to_string()
    }
}

impl Starved {
    /// Returns the kernel's word that a write to the disk failed; `None` while none has.
    pub(crate) fn failure(&self) -> Result<Option<String>, BoxError> {
        let log = run("dmesg", &[])?;
        let line = log.lines().find(|line| {
            let is_new = seconds(line).is_some_and(|at| at > self.since);
            is_new && line.contains(&self.device) && line.contains("error")
        });
        Ok(line.map(str::to_owned))
    }

    /// Gives the memory back.
    pub(crate) fn feed(self) -> Result<(), BoxError> {
        resize(&self.room, &ROOM.to_string())
    }
}

/// Returns when the kernel wrote a line of its log.
fn seconds(line: &str) -> Option<f64> {
    let (at, _) = line.strip_prefix('[')?.split_once(']')?;
    at.trim().parse().ok()
}

/// Gives a file system in memory another size.
fn resize(room: &Path, bytes: &str) -> Result<(), BoxError> {
    let size = format!("remount,size={bytes}");
    run("mount", &["-o", &size, &room.display().to_string()]).map(drop)
}
