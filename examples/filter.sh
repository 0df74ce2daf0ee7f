# Runs in the guest: a drive filters records by a program of the user's, and the guest gets those that
# match. `examples/computational.toml` has the drive.
set -eu
block=/dev/nvme0n1 memory=/dev/ng0n2 compute=/dev/ng0n3 admin=/dev/nvme0
records=32768 size=32

# An eBPF instruction: operation, destination, source, offset, and immediate value.
instruction() {
  printf "$(printf '\\%03o' $1 $(($3 << 4 | $2)) $(($4 & 255)) $(($4 >> 8 & 255)) \
    $(($5 & 255)) $(($5 >> 8 & 255)) $(($5 >> 16 & 255)) $(($5 >> 24 & 255)))"
}
# Of a range of records of 32 bytes, those whose last 8 bytes are the first parameter go to the second
# range; it returns how many.
{
  instruction 0x79 6 1 40 0  # r6 = address of the records
  instruction 0x79 7 1 48 0  # r7 = their length
  instruction 0x79 8 1 56 0  # r8 = where matches go
  instruction 0x79 9 1 0 0   # r9 = the parameter
  instruction 0xb7 0 0 0 0   # r0 = 0
  instruction 0x15 7 0 14 0  # while r7 != 0
  instruction 0x79 2 6 24 0  #   r2 = the record's last 8 bytes
  instruction 0x5d 2 9 9 0   #   if r2 == r9
  instruction 0x79 3 6 0 0   #     copy the record
  instruction 0x7b 8 3 0 0
  instruction 0x79 3 6 8 0
  instruction 0x7b 8 3 8 0
  instruction 0x79 3 6 16 0
  instruction 0x7b 8 3 16 0
  instruction 0x7b 8 2 24 0
  instruction 0x07 8 0 0 32  #     r8 += 32
  instruction 0x07 0 0 0 1   #     r0 += 1
  instruction 0x07 6 0 0 32  #   r6 += 32
  instruction 0x07 7 0 0 -32 #   r7 -= 32
  instruction 0x05 0 0 -15 0
  instruction 0x95 0 0 0 0   # return r0
} >filter.bin
bytes=$(stat -c %s filter.bin)

# Little-endian numbers, of 4 and of 8 bytes.
dword() { printf "$(printf '\\%03o' $(($1 & 255)) $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24 & 255)))"; }
qword() { dword $1 && dword 0; }

# Records of text, a megabyte, on the drive.
seq 1 $records | awk '{ printf "%010d;%012d;%-7s\n", $1, $1 * 7919 % 1000003, ($1 % 7 ? "blue" : "red") }' >records
dd if=records of=$block bs=1M oflag=direct status=none

# The program (type C0h, index 0), and a set of two ranges of the memory: 1 MiB of records from its
# first byte on, and as much for matches behind it.
nvme admin-passthru $admin --opcode=0x85 --namespace-id=3 --cdw10=$((0xc0 << 16)) --cdw11=$bytes --cdw14=$bytes \
  --data-len=$bytes --write --input-file=filter.bin
nvme admin-passthru $admin --opcode=0x88 --namespace-id=3 --cdw10=$((1 << 16))
{
  dword 2 && dword $((1 << 20)) && qword 0 && qword 0 && qword 0
  dword 2 && dword $((1 << 20)) && qword $((1 << 20)) && qword 0 && qword 0
} >ranges
nvme admin-passthru $admin --opcode=0x89 --namespace-id=3 --cdw11=2 --data-len=64 --write --input-file=ranges

begin=$(date +%s%N)
# Memory Copy, of half a MiB each: blocks of namespace 1 into the memory.
for half in 0 1; do
  { dword 1 && dword 0 && qword $((half * 1024)) && dword 1023 && dword 0 && qword 0; } >source
  nvme io-passthru $memory --opcode=0x01 --namespace-id=2 --cdw2=$((512 << 10)) --cdw10=$((half << 19)) \
    --cdw12=$((2 << 8)) --data-len=32 --write --input-file=source
done
# Execute Program with set 1, for records that end with "red    " and a new line.
word=$(printf 'red    \n' | od -An -tu4 | tr -s ' ')
set -- $word
nvme io-passthru $compute --opcode=0x01 --namespace-id=3 --cdw2=$((1 << 16)) --cdw10=$1 --cdw11=$2 \
  --latency 2>&1 | tee executed
matches=$(($(sed -n 's/.*[Rr]esult[: ]*\(0x[0-9a-f]*\).*/\1/p' executed)))
# Memory Read of the matches.
nvme io-passthru $memory --opcode=0x02 --namespace-id=2 --cdw10=$((1 << 20)) --cdw12=$((matches * size)) \
  --data-len=$((matches * size)) --read --raw-binary >matches 2>/dev/null
filtered=$(date +%s%N)
# The same in the guest.
dd if=$block bs=512K count=2 iflag=direct status=none | grep 'red    $' >expected
read_all=$(date +%s%N)
cmp matches expected
echo "$matches records of $records: $(((filtered - begin) / 1000)) us in the drive," \
  "$(((read_all - filtered) / 1000)) us in the guest"
