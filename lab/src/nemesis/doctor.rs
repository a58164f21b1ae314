//! What this machine can do to a store.

use std::process::Command;

use idem_core::BoxError;

use super::clock::STEP;
use super::disk::SHUT_DOWN;
use super::sandbox::UNSHARE;
use super::shell::output;
use crate::cells::CellSpec;
use crate::cells::Need;

/// A mechanism, and a script that fails where it does not work. The script runs in a sandbox of its
/// own, in a new folder.
struct Probe {
    need: Need,
    script: &'static str,
}

const PROBES: &[Probe] = &[
    Probe {
        need: Need::Sandbox,
        script: "ip link set lo up",
    },
    Probe {
        need: Need::PowerCut,
        script: r#"
            truncate -s 64M image
            mkfs.ext4 -q -F image
            mkdir at
            mount -o loop image at
            echo kept > at/a
            sync -f at
            echo lost > at/c
            perl -e "$SHUT_DOWN" at
            if echo lost > at/b; then exit 1; fi
            umount at
            mount -o loop image at
            test -s at/a
            test ! -e at/b
            test ! -s at/c"#,
    },
    Probe {
        need: Need::FailedCalls,
        script: r#"
            strace -D -f --seccomp-bpf -qq -o report -e trace=fsync \
                -e inject=fsync:error=EIO:when=2 perl -e '
                use IO::Handle;
                open(my $f, q(>), q(file)) or die $!;
                $f->sync or die $!;
                $f->sync and die q(the second one did not fail);
                $f->sync or die $!;'
            grep -q INJECTED report"#,
    },
    Probe {
        need: Need::WriteBack,
        script: r#"
            mkdir room at
            mount -t tmpfs -o size=64M tmpfs room
            truncate -s 512M room/image
            mkfs.ext4 -q -F -m 0 -N 8192 -J size=8,location=4M room/image
            fallocate -n -l 12M room/image
            mount -o loop room/image at
            sync -f at
            mount -o "remount,size=$(df -B1 --output=used room | tail -n 1 | tr -d ' ')" room
            perl -e '
                use IO::Handle;
                open(my $f, q(>), q(at/file)) or die $!;
                print $f q(x) x 4_000_000;
                $f->sync and die q(the first one did not fail);
                $f->sync or die $!;'
            dmesg | grep -q ."#,
    },
    Probe {
        need: Need::FullDisk,
        script: r#"
            truncate -s 8M image
            mkfs.ext4 -q -F -m 0 image
            mkdir at
            mount -o loop image at
            df -B1 --output=avail at
            fallocate -l 1M at/ballast
            if head -c 20M /dev/zero > at/more; then exit 1; fi"#,
    },
    Probe {
        need: Need::Partition,
        script: r#"
            ip link set lo up
            iptables -w -A OUTPUT -o lo -p tcp --dport 5 -j DROP
            perl -e '
                use Socket;
                socket(my $s, AF_INET, SOCK_STREAM, 0) or die $!;
                $SIG{ALRM} = sub { exit 0 };
                alarm 1;
                connect($s, sockaddr_in(5, inet_aton(q(127.0.0.1))));
                die qq(an answer came: $!);'
            iptables -w -D OUTPUT -o lo -p tcp --dport 5 -j DROP"#,
    },
    Probe {
        need: Need::Clock,
        script: r#"
            printf %s "$STEP" > step.c
            cc -shared -fPIC -O2 -Wall -Werror -o step.so step.c
            perl -e 'print pack(q(q), -3600 * 1000000)' > step
            now=$(date +%s)
            then=$(IDEM_STEP_FILE=step LD_PRELOAD=./step.so date +%s)
            test $((now - then)) -gt 3500
            test $((now - then)) -lt 3700"#,
    },
    Probe {
        need: Need::Signals,
        script: r#"
            sleep 60 &
            kill -STOP $!
            until grep -q '^State:.T' "/proc/$!/status"; do :; done
            kill -KILL $!"#,
    },
];

/// Returns why a mechanism does not work here.
fn check(probe: &Probe) -> Result<(), BoxError> {
    let folder = tempfile::Builder::new()
        .prefix("idem-prove-doctor-")
        .tempdir()?;
    let mut command = Command::new("unshare");
    command.args(UNSHARE).args(["sh", "-ec", probe.script]);
    command.env("SHUT_DOWN", SHUT_DOWN).env("STEP", STEP);
    output(command.current_dir(folder.path())).map(drop)
}

/// Returns why a need is not met here.
fn unmet(need: Need) -> Option<String> {
    if let Need::Server(name) = need {
        let server = idem_servers::server(name);
        let programs = server.ok().and_then(idem_servers::Server::programs);
        return programs
            .is_none()
            .then(|| format!("no programs of {name} on this machine"));
    }
    let probe = PROBES.iter().find(|probe| probe.need == need)?;
    let error = check(probe).err()?;
    Some(format!("{need}: {error}"))
}

/// Returns why the machine cannot run a cell; `None` if it can.
pub(crate) fn missing(cell: &CellSpec) -> Option<String> {
    cell.needs().into_iter().find_map(unmet)
}

/// Returns a line for every mechanism and server: that it works, or why not.
#[must_use]
pub fn report() -> Vec<(Need, Option<String>)> {
    let mut needs: Vec<Need> = PROBES.iter().map(|probe| probe.need).collect();
    for need in crate::cells::all().iter().flat_map(CellSpec::needs) {
        if !needs.contains(&need) {
            needs.push(need);
        }
    }
    needs.into_iter().map(|need| (need, unmet(need))).collect()
}
