#!/bin/sh
# Brings what runs to the present build and settings, in the order of docs/upgrading.md and without losing a request.
# Where it fails, mend the cause and run it again. In the project's folder: sh docs/compose/rolling-upgrade.sh
set -eu

# Each `up` names the same services: for another selection Compose computes another hash of the same configuration, and
# would replace the containers once more. With a MongoDB of your own the bundled one stays out, as on docker-compose.md.
services=
docker compose config engine | grep -q ' MONGODB_URI: mongodb://mongodb:27017/' ||
  services="--no-deps $(docker compose config --services | grep -vx mongodb)"
up() { docker compose up --detach --wait "$@" $services; }

# Each container of a service with its health; one of `docker compose run`, such as a backup, is none of them.
containers() {
  for container in $(docker compose ps --all --quiet "$1"); do
    docker inspect "$container" --format '{{if eq (index .Config.Labels "com.docker.compose.oneoff") "False"}}{{.Id}} {{with .State.Health}}{{.Status}}{{end}}{{end}}'
  done | grep . || true
}

end() {
  docker stop -t 15 "$1" >/dev/null
  docker rm "$1" >/dev/null
}

# The new containers are ready before an old one ends.
replace() {
  # `up` would wait for the unhealthy ones of a run that failed.
  containers "$1" | while read -r container health; do [ "$health" = healthy ] || end "$container"; done
  old=$(containers "$1" | cut -d ' ' -f 1)
  new=$(docker compose config "$1" | sed -n 's/^ *replicas: //p')
  up --no-recreate --scale "$1=$(($(echo "$old" | wc -w) + new))"
  for container in $old; do end "$container"; done
}

docker compose build --quiet
replace engine
# The published ports are one FTP server's. Its sessions end, and clients resume their uploads.
containers ftp | while read -r container health; do end "$container"; done
up --no-recreate
replace control-plane
# MongoDB, the proxy, Prometheus and Grafana, where their definition or image changed: a new MongoDB or proxy is some
# seconds without the API.
up
