# Makes `in`, a folder with one of every kind of file; of devices and owners only as root.
umask 022; mkdir -p in/empty in/set-group in/sticky in/private; cd in
printf '#!/bin/sh\necho tool\n' >tool; chmod 755 tool
for mode in 400 444 600 640 644 664 700 755 775 1755 2755 4755 6711; do
    echo $mode >mode-$mode; chmod $mode mode-$mode
done
chmod 2775 set-group; chmod 1777 sticky; chmod 700 private; echo secret >private/key
ln -s tool link; ln -s /nowhere/at//all/ dangling; ln -s empty/ to-folder; ln -s .. up
long=$(printf '%0250d' 1); echo long >$long; ln -s $long/$long/$long to-long
deep=$(printf '%0250d' 2); mkdir -p $deep/$deep; echo deep >$deep/$deep/$long
echo once >first; ln first second; mkdir later; ln first later/third; ln link same-link
: >no-bytes; truncate -s 1M sparse; printf abcd >>sparse; truncate -s 3M hole
for at in $(seq 0 40); do
    dd if=/dev/urandom of=holes bs=4k count=1 seek=$((at * 17)) conv=notrunc status=none
done
printf x >"$(printf 'not-\377\376-utf8')"; echo y >"a b"; echo z >"$(printf 'new\nline')"
echo "-" >-dash; echo "u" >ünïcode; mkfifo pipe; chmod 622 pipe
touch -d @1 old; touch -d @4000000000 new; touch -d @1600000000.5 half
[ $(id -u) != 0 ] || {
    echo 0 >mode-0; chmod 0 mode-0; mknod null c 1 3; mknod large b 259 70000; chmod 660 large
    echo owned >owned; chown 1000:1001 owned; chown -h 7:8 dangling; chown 9 empty
}
