#!/bin/sh
# Builds listmonk for its benchmark, without its web pages, from a checkout or a bare repository on this machine, or else
# from a clone of its public repository. Needs git and Go (1.26 for the present sources); takes a minute or two.
#
#   bench/peers/build-listmonk.sh [CHECKOUT [COMMIT]]
#
# COMMIT is the one that the figures in RESULTS.md are of, unless another is given.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
target="$here/node_modules/.cache/rollcall/listmonk"
source=${1:-https://github.com/knadh/listmonk.git}
commit=${2:-911e0b7}
if [ -d "$source" ]; then source="file://$(cd "$source" && pwd)"; fi
rm -rf "$target"
mkdir -p "$(dirname "$target")"
git clone --quiet "$source" "$target"
cd "$target"
git checkout --quiet "$commit"
# It reads its queries, templates and texts from its folder, and wants one where the pages would be.
mkdir -p frontend/dist
go build -ldflags "-X main.versionString=$commit -X main.buildString=$commit" -o listmonk ./cmd
echo "built $target/listmonk"
