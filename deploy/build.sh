#!/usr/bin/env bash
# Builds static binaries, and prints where they are.
#
#   deploy/build.sh [TARGET]            the image's binary: the controller, and nothing else
#   deploy/build.sh TARGET commands     lakh with all commands but `local`, and kubectl-lakh
#
# TARGET is a Rust target of Linux; default: this machine's.
#
# Of a commit, a toolchain and a C library it makes the same bytes wherever and whenever: no path of the machine, no
# time and no host's name is in them. LAKH_COMMIT says which commit it is, where there is no git.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
cargo_home=${CARGO_HOME:-$HOME/.cargo}
# For whatever writes a date.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export CARGO_INCREMENTAL=0
flags="-C target-feature=+crt-static --remap-path-prefix=$PWD=/lakh --remap-path-prefix=$cargo_home=/cargo"
# Addresses that the loader fills in take 24 bytes each; packed they take next to nothing.
export RUSTFLAGS="$flags -C link-arg=-Wl,-z,pack-relative-relocs"
# The parts that are written in C: the allocator and the cryptography.
export CFLAGS="-ffile-prefix-map=$PWD=/lakh -ffile-prefix-map=$cargo_home=/cargo"
folder=${CARGO_TARGET_DIR:-target}/$target/production
# By its name, so that the flags are not for what runs while it is built.
if [ "${2:-}" = commands ]; then
    cargo build --profile production --locked --no-default-features --features commands --bin lakh --target "$target" >&2
    cargo build --profile production --locked -p lakh-inspect --bin kubectl-lakh --target "$target" >&2
    echo "$folder"
else
    cargo build --profile production --locked --no-default-features --bin lakh --target "$target" >&2
    echo "$folder/lakh"
fi
