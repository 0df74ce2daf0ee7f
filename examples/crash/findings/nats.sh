# A NATS server with a stream in files: "work" publishes messages, and prints each once the server
# has acknowledged it; "check" asks a server on the same files for each of them.
set -eu
serve() { # a server, and a connection to it
  nats-server -a 127.0.0.1 -js -sd /mnt >/tmp/log 2>&1 &
  for try in $(seq 200); do exec 3<>/dev/tcp/127.0.0.1/4222 && break || sleep 0.1; done 2>/dev/null
  printf 'CONNECT {"verbose":false}\r\nSUB answers 1\r\n' >&3
}
ask() { # SUBJECT TEXT: prints the server's answer
  printf 'PUB %s answers %d\r\n%s\r\n' "$1" ${#2} "$2" >&3
  while read -rt 20 line <&3; do
    [[ $line != MSG* ]] || { read -rt 20 line <&3; echo "${line%$'\r'}"; return; }
  done
}
if [ "$1" = work ]; then
  mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/vda
  mount /dev/vda /mnt
  serve
  ask '$JS.API.STREAM.CREATE.events' '{"name":"events","subjects":["event"],"storage":"file"}' >/tmp/created
  grep -q '"created"' /tmp/created || { cat /tmp/log; exit 2; }
  sync -f /mnt
  for number in 1 2 3 4 5; do
    answer=$(ask event "message $number")
    [[ $answer != *'"seq":'* ]] || echo "acknowledged $number"
  done
else
  grep -q '^acknowledged ' "$STASIS_OUTPUT_LINES" || exit 0 # nothing is promised yet
  mount /dev/vda /mnt
  serve
  last=$(sed -n 's/^acknowledged //p' "$STASIS_OUTPUT_LINES" | tail -n 1)
  for number in $(seq 1 "$last"); do
    answer=$(ask '$JS.API.STREAM.MSG.GET.events' "{\"seq\":$number}")
    [[ $answer != *'"data":'* ]] || continue
    why=${answer##*'"description":"'}
    echo "message $number of $last that were acknowledged is lost: ${why%%'"'*}"
    exit 2
  done
fi
