//! The patches that bring faults back still apply.

use std::path::Path;
use std::process::Command;

use idem_prove::regress::Patch;

#[test]
fn every_patch_says_what_catches_it_and_applies() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let patches = Patch::all(&root).unwrap();
    assert!(patches.len() > 12, "{}", patches.len());
    for patch in patches {
        let file = root
            .join("lab/patches")
            .join(format!("{}.patch", patch.name));
        let mut git = Command::new("git");
        git.args(["apply", "--check"]).arg(&file).current_dir(&root);
        let output = git.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", patch.name);
        assert!(!patch.defect.is_empty() && !patch.shows.is_empty());
    }
}
