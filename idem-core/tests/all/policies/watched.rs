//! A file that changes is reloaded by itself.

use std::fs;
use std::path::Path;
use std::time::Duration;

use idem_core::engine::{PolicyFile, WatchOptions};
use idem_core::{Idempotency, Key, MemoryStore};

use super::support::{Folder, Reports, lease, lease_of, until};

/// Settles soon; polls only where a test says so.
fn quick() -> WatchOptions {
    WatchOptions::default()
        .with_settle(Duration::from_millis(20))
        .with_poll(Duration::from_secs(3600))
}

fn until_lease(file: &PolicyFile, seconds: u64) {
    until(&format!("a lease of {seconds} s"), || {
        lease_of(file) == seconds
    });
}

/// Puts another file in its place, as editors do.
fn replace(path: &Path, text: &str) {
    let other = path.with_extension("swp");
    fs::write(&other, text).unwrap();
    fs::rename(other, path).unwrap();
}

#[test]
fn files_written_in_place_and_renamed_over_are_seen() {
    let folder = Folder::new();
    let file = folder.load("p.toml", &lease(1));
    let idem = Idempotency::new(MemoryStore::new()).with_policy_file(&file);
    let reports = Reports::default();
    let watch = file.watch(quick(), reports.listener()).unwrap();
    assert!(watch.is_notified());
    for seconds in 2..6 {
        if seconds % 2 == 0 {
            replace(file.path(), &lease(seconds));
        } else {
            folder.write("p.toml", &lease(seconds));
        }
        until_lease(&file, seconds);
    }
    let key = Key::new("s", "o", "i").unwrap();
    assert_eq!(idem.policy_for(&key).lease().as_secs(), 5);
    until("reported", || reports.all().len() == 4);
    assert!(reports.all().iter().all(Result::is_ok), "{reports:?}");
}

#[cfg(unix)]
#[test]
fn a_link_that_is_swapped_as_kubernetes_does_is_seen() {
    let folder = Folder::new();
    let version = |number: u64| {
        let name = format!("..version{number}");
        fs::create_dir(folder.path(&name)).unwrap();
        folder.write(&format!("{name}/p.toml"), &lease(number));
        let fresh = folder.path("..data_tmp");
        std::os::unix::fs::symlink(name, &fresh).unwrap();
        fs::rename(fresh, folder.path("..data")).unwrap();
    };
    version(1);
    std::os::unix::fs::symlink("..data/p.toml", folder.path("p.toml")).unwrap();
    let file = PolicyFile::load(folder.path("p.toml")).unwrap();
    let _watch = file.watch(quick(), |_| {}).unwrap();
    for number in 2..5 {
        version(number);
        fs::remove_dir_all(folder.path(&format!("..version{}", number - 1))).unwrap();
        until_lease(&file, number);
    }
}

#[test]
fn a_bad_file_is_reported_once_and_the_old_policies_stay_until_it_is_good_again() {
    let folder = Folder::new();
    let file = folder.load("p.toml", &lease(1));
    let reports = Reports::default();
    let options = quick().with_poll(Duration::from_millis(5));
    let _watch = file.watch(options, reports.listener()).unwrap();
    folder.write("p.toml", "[default]\nlease = \"never\"");
    until("the refusal", || !reports.all().is_empty());
    std::thread::sleep(Duration::from_millis(100));
    let all = reports.all();
    let [Err(error)] = all.as_slice() else {
        panic!("{reports:?}");
    };
    assert!(error.contains("p.toml:2:1: default.lease: "), "{error}");
    assert_eq!(lease_of(&file), 1);
    fs::remove_file(file.path()).unwrap();
    until("that it is gone", || reports.all().len() == 2);
    assert!(reports.all()[1].is_err());
    // The file is valid again, though its policies held all the time.
    replace(file.path(), &lease(1));
    until("the recovery", || reports.all().len() == 3);
    assert!(reports.all()[2].is_ok());
    assert_eq!(lease_of(&file), 1);
}

#[test]
fn a_file_that_is_half_written_is_not_taken() {
    let folder = Folder::new();
    let text = format!("{}[operations.a]\npreset = \"fix\"\n", lease(2));
    let file = folder.load("p.toml", &text);
    let reports = Reports::default();
    let options = quick().with_settle(Duration::from_millis(300));
    let _watch = file.watch(options, reports.listener()).unwrap();
    let text = text.replace("2s", "3s");
    for end in [0, 4, 26, text.len()] {
        folder.write("p.toml", &text[..end]);
        std::thread::sleep(Duration::from_millis(30));
    }
    until_lease(&file, 3);
    assert_eq!(reports.all(), [Ok(())]);
    assert_eq!(file.policies().operations().count(), 1);
}

#[test]
fn without_notifications_the_file_is_polled() {
    let folder = Folder::new();
    fs::create_dir(folder.path("sub")).unwrap();
    let file = folder.load("sub/p.toml", &lease(1));
    let options = quick().with_poll(Duration::from_millis(10));
    let _watch = file.watch(options, |_| {}).unwrap();
    // The watched folder is another one from now on.
    fs::rename(folder.path("sub"), folder.path("old")).unwrap();
    fs::create_dir(folder.path("sub")).unwrap();
    folder.write("sub/p.toml", &lease(2));
    until_lease(&file, 2);
    folder.write("sub/p.toml", &lease(3));
    until_lease(&file, 3);
}

#[test]
fn a_change_before_the_watch_began_is_seen() {
    let folder = Folder::new();
    let file = folder.load("p.toml", &lease(1));
    folder.write("p.toml", &lease(2));
    let _watch = file.watch(quick(), |_| {}).unwrap();
    until_lease(&file, 2);
}

#[test]
fn a_dropped_watch_polls_no_more() {
    let folder = Folder::new();
    let file = folder.load("p.toml", &lease(1));
    let reports = Reports::default();
    let options = quick().with_poll(Duration::from_millis(5));
    let watch = file.watch(options, reports.listener()).unwrap();
    folder.write("p.toml", &lease(2));
    until_lease(&file, 2);
    drop(watch);
    std::thread::sleep(Duration::from_millis(60));
    folder.write("p.toml", &lease(3));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(lease_of(&file), 2);
}
