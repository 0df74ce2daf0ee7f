# Transcodes a clip on a file system on the first drive, RUNS times, each with
# nothing of it in memory. Microseconds of each run go to
# /results/microseconds.
set -eu
mkfs.ext4 -q /dev/nvme0n1
mount /dev/nvme0n1 /mnt
ffmpeg -v error -nostdin -f lavfi -i testsrc2=size=160x120:rate=25 -frames:v "$FRAMES" \
    -c:v mpeg4 -q:v 2 -threads 1 /mnt/clip.mp4
for run in $(seq "$RUNS"); do
    rm -f /mnt/out.mp4
    sync
    echo 3 >/proc/sys/vm/drop_caches
    begin=$EPOCHREALTIME
    ffmpeg -v error -nostdin -threads 1 -progress "/results/progress.$run" -i /mnt/clip.mp4 \
        -c:v libx264 -preset ultrafast -threads 1 /mnt/out.mp4
    sync /mnt/out.mp4
    end=$EPOCHREALTIME
    # Microseconds, without the point.
    echo "$((${end/./} - ${begin/./}))" >>/results/microseconds
done
ls -l /mnt >/results/files
