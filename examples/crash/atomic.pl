# A database's pages without its double-write buffer: `write STEPS` writes pages of 16 KiB in place, each
# by one atomic write, and says which step is durable; `check` requires that no page is torn.
use strict;
use Fcntl;
use IO::Handle;

my ($what, $steps) = @ARGV;
my ($device, $page, $pages) = ("/dev/nvme0n1", 16384, 256);
my ($pwritev2, $atomic, $direct) = (328, 0x40, 0x4000);    # x86-64: pwritev2, RWF_ATOMIC, O_DIRECT
$| = 1;

if ($what eq "write") {
    my $limit = "/sys/block/nvme0n1/queue/atomic_write_unit_max_bytes";
    open(my $sys, "<", $limit) or die "$limit: $!: the kernel has no atomic writes\n";
    my $most = <$sys> + 0;
    print "atomic writes of up to $most bytes\n";
    die "the drive promises $most bytes, not $page\n" if $most < $page;
    sysopen(my $file, $device, O_RDWR | $direct) or die "$device: $!\n";
    # Direct I/O wants memory that begins at a block.
    my $memory = "\0" x ($page + 4096);
    my $address = unpack("J", pack("p", $memory));
    my $skip = -$address & 4095;
    my $vector = pack("JJ", $address + $skip, $page);
    for my $step (1 .. $steps) {
        my $at = ($step * 97 % $pages) * $page;
        substr($memory, $skip, $page, pack("Q", $step) x ($page / 8));
        my $done = syscall($pwritev2, fileno($file), $vector, 1, $at, 0, $atomic);
        die "step $step: $!\n" unless $done == $page;
        if ($step % 10 == 0) {
            $file->sync or die "sync: $!\n";
            print "step $step\n";
        }
    }
    exit 0;
}

open(my $file, "<:raw", $device) or die "$device: $!\n";
for my $number (0 .. $pages - 1) {
    read($file, my $data, $page) == $page or die "page $number: cannot be read\n";
    my %stamps = map { $_ => 1 } unpack("Q*", $data);
    my @steps = sort { $a <=> $b } keys %stamps;
    die "page $number is torn: it has parts of steps @steps\n" if @steps > 1;
}
print "no page is torn\n";
