#!/bin/sh
# Only the unstable output format needs it: with this variable for the whole build, every dependency
# would be built anew.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
