# Ends the process whose id is the argument when standard input closes, which it does when the parent process closes it or
# dies, even by SIGKILL. The embedded MongoDB server is started beside this script, because mongod itself doesn't notice
# the death of its parent.

# A service manager may signal all processes at once, and this one is needed until its parent has ended.
trap '' TERM INT HUP

read -r _
kill -s TERM "$1"
tenths=0
while [ "$tenths" -lt 80 ] && kill -s 0 "$1"; do
  sleep 0.1
  tenths=$((tenths + 1))
done
kill -s KILL "$1"
