#!/bin/sh
# Builds listmonk for its benchmark, without its web pages, from a checkout or a bare repository on this machine, or else
# from a clone of its public repository. Needs git and Go (1.26 for the present sources); takes a minute or two.
#
#   bench/peers/build-listmonk.sh [CHECKOUT]
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
target="$here/node_modules/.cache/rollcall/listmonk"
source=${1:-https://github.com/knadh/listmonk.git}
if [ -d "$source" ]; then source="file://$(cd "$source" && pwd)"; fi
rm -rf "$target"
mkdir -p "$(dirname "$target")"
git clone --quiet --depth 1 "$source" "$target"
cd "$target"
# It reads its queries, templates and texts from its folder, and wants one where the pages would be.
mkdir -p frontend/dist
go build -ldflags "-X main.versionString=$(git rev-parse --short HEAD) -X main.buildString=$(git rev-parse --short HEAD)" -o listmonk ./cmd
echo "built $target/listmonk"
