#!/bin/sh
# Brings what runs to the present build and settings, one container after the other, without losing a request.
# Run it in the project's folder, after `git pull` or a change in .env: sh docs/compose/rolling-upgrade.sh
set -eu

docker compose build --quiet

# Twice as many first; the new ones are ready before an old one ends. `up` names no service: for a selection Compose
# computes another hash of the same configuration, and the next `up` would replace the new containers once more.
# Engines come first, as they read what control planes of the version before wrote, and not the other way round.
for service in engine control-plane; do
  old=$(docker compose ps --quiet "$service")
  count=$(echo "$old" | wc -w)
  docker compose up --detach --wait --no-recreate --scale "$service=$((count * 2))"
  for container in $old; do
    docker stop -t 15 "$container" >/dev/null
    docker rm "$container" >/dev/null
  done
done

# The rest, where something changed. A new FTP server ends its sessions, whose uploads their clients resume. The proxy is
# left as it is: replacing it is a moment without the API, and only a change of the Caddyfile needs it.
docker compose up --detach --wait --no-recreate
docker compose up --detach --wait --no-deps ftp prometheus grafana
