#!/usr/bin/env bash
# Makes the files of a release.
#
#   deploy/release.sh FOLDER [TARGET]
#
# FOLDER then has lakh-VERSION-TARGET.tar.gz with the static binaries of lakh (all commands but `local`) and its kubectl
# plugin, completions, manual pages and the licence; the list
# of crates that are in it (CycloneDX), where cargo-cyclonedx is installed; and the sums of both. The same commit and
# toolchain make the same archive.
set -euo pipefail
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."

target=${2:-$(rustc -vV | sed -n 's/^host: //p')}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
name=lakh-$version-$target
date=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
built=$(deploy/build.sh "$target" commands)
binary=$built/lakh

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/$name/completions"
cp "$binary" "$built/kubectl-lakh" LICENSE "$work/$name"
# The binary says of itself what shells and man(1) are told: it has to be one that runs here.
for shell in bash fish zsh; do
    "$binary" completion $shell > "$work/$name/completions/lakh.$shell"
done
"$binary" man "$work/$name/man"
tar --directory "$work" --sort=name --mtime="@$date" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
    --create "$name" | gzip --no-name --best > "$out/$name.tar.gz"

if cargo cyclonedx --version >/dev/null 2>&1; then
    # In a copy without the load test, which asks for the embedded cluster: its crates are not in the binary.
    mkdir "$work/tree"
    git archive HEAD | tar --extract --directory "$work/tree"
    sed -i 's/^members = .*/members = ["crates\/*"]\nexclude = ["crates\/embedded"]/; s/^exclude = \["fuzz"\]$//' "$work/tree/Cargo.toml"
    SOURCE_DATE_EPOCH=$date cargo cyclonedx --quiet --manifest-path "$work/tree/Cargo.toml" --format json \
        --no-default-features --features commands --target "$target" --override-filename "$name.cdx"
    # Nor is the folder of the copy.
    sed "s|$work/tree|/lakh|g" "$work/tree/$name.cdx.json" > "$out/$name.cdx.json"
else
    echo 'cargo-cyclonedx is not installed: no list of crates' >&2
fi
cd "$out"
sha256sum "$name".* > "SHA256SUMS-$target"
cat "SHA256SUMS-$target"
