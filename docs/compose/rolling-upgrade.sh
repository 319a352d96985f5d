#!/bin/sh
# Brings running processes to the current build and settings, in the order of docs/upgrading.md and without losing a request.
# Where it fails, correct the cause and run it again. In the project's folder: sh docs/compose/rolling-upgrade.sh
set -eu

# Provenance would give every build a new image id on Docker Engine 29, and `up` would replace what did not change.
export BUILDX_NO_DEFAULT_ATTESTATIONS=1

# With a MongoDB of your own the bundled one stays out, as on docker-compose.md.
no_deps= services=
docker compose config engine | grep -q ' MONGODB_URI: mongodb://mongodb:27017/' || {
  no_deps=--no-deps
  services=$(docker compose config --services | grep -vx mongodb)
}
up() { docker compose up --detach $no_deps "$@"; }

# Containers of `docker compose run`, such as a backup, are left out.
containers() {
  for container in $(docker compose ps --all --quiet "$1"); do
    docker inspect "$container" --format '{{if eq (index .Config.Labels "com.docker.compose.oneoff") "False"}}{{.Id}}{{end}}'
  done | grep . || true
}

end() {
  docker stop -t 15 "$1" >/dev/null
  docker rm "$1" >/dev/null
}

# The new containers are ready before an old one ends. `up --wait` would wait for unhealthy old ones as well.
replace() {
  old=$(containers "$1")
  new=$(docker compose config "$1" | sed -n 's/^ *replicas: //p')
  up --no-recreate --scale "$1=$(($(echo "$old" | wc -w) + new))" "$1"
  for container in $(containers "$1" | grep -vxF "$old"); do
    while health=$(docker inspect "$container" --format '{{.State.Health.Status}}') && [ "$health" = starting ]; do sleep 1; done
    [ "$health" = healthy ] || { echo "a new $1 is not healthy: docker logs $container" >&2 && exit 1; }
  done
  for container in $old; do end "$container"; done
}

docker compose build --quiet
replace engine
# The published ports are one FTP server's. Its sessions end, and clients resume their uploads.
for container in $(containers ftp); do end "$container"; done
up --wait --no-recreate ftp
replace control-plane
# MongoDB, the proxy, Prometheus and Grafana, where their definition or image changed: a new MongoDB or proxy is some
# seconds without the API.
up --wait $services
