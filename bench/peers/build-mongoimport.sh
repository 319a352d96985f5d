#!/bin/sh
# Builds mongoimport for the benchmarks, from a checkout or a bare repository of mongo-tools on this machine, or else
# from a clone of its public repository. Needs git and Go (1.26 for the present sources); takes a minute or two.
#
#   bench/peers/build-mongoimport.sh [CHECKOUT [COMMIT]]
#
# COMMIT is by default the one of the results in RESULTS.md.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
target="$here/node_modules/.cache/rollcall/mongoimport"
source=${1:-https://github.com/mongodb/mongo-tools.git}
commit=${2:-8fa3cfc}
if [ -d "$source" ]; then source="file://$(cd "$source" && pwd)"; fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git clone --quiet "$source" "$work/mongo-tools"
cd "$work/mongo-tools"
git checkout --quiet "$commit"
mkdir -p "$target"
# Its dependencies are part of its repository: nothing else is fetched.
GOTOOLCHAIN=local go build -mod=vendor \
  -ldflags "-X main.VersionStr=$commit -X main.GitCommit=$commit" \
  -o "$target/mongoimport" ./mongoimport/main
"$target/mongoimport" --version
echo "built $target/mongoimport"
