# In a guest that has QEMU's own NVMe drive and a server: what both answer to every opcode, feature, log
# page and Identify structure. A line `DRIVE KIND CODE STATUS` each; status 0 is success.
set -eu
modprobe nvme
modprobe nvme-tcp
cd /tmp
ip link set lo up 2>/dev/null || true
watch_steps
serve --drive name=here,model=null,medium=ram:64MiB
connect
of_model() { # WORDS: the controller
    echo /dev/"$(basename "$(dirname "$(grep -l "$1" /sys/class/nvme/nvme*/model)")")"
}
here=$(of_model Stasis)
peer=$(of_model "QEMU NVMe")
until [ -b "${here}n1" ]; do sleep 0.1; done

# The kernel's passthrough, as `nvme admin-passthru` and `io-passthru` use it, in one process: a thousand
# of nvme-cli's are late.
cat >probe.pl <<'PERL'
use strict;
use Fcntl;
my ($drive, $controller, $namespace) = @ARGV;
my ($ADMIN, $IO) = (0xc0484e41, 0xc0484e43);    # NVME_IOCTL_ADMIN_CMD, NVME_IOCTL_IO_CMD
sysopen(my $admin, $controller, O_RDWR) or die "$controller: $!\n";
sysopen(my $block, $namespace, O_RDWR) or die "$namespace: $!\n";
my $data = "\0" x 8192;

# DRIVE KIND CODE STATUS; status 0 is success.
sub say_status {
    my ($kind, $code, $file, $opcode, %of) = @_;
    my $length = $of{length} // 0;
    substr($data, 0, 8192, "\0" x 8192);
    my $address = $length ? unpack("J", pack("p", $data)) : 0;
    $address += -$address & 4095;
    my $command = pack("CCSLLLQQLL(L)8", $opcode, 0, 0, $of{nsid} // 0, 0, 0, 0, $address, 0, $length,
        $of{cdw10} // 0, $of{cdw11} // 0, 0, 0, 0, 0, 60000, 0);
    my $status = ioctl($file, $file == $block ? $IO : $ADMIN, $command);
    print "$drive $kind $code ", defined $status ? sprintf("0x%x", $status) : "none: $!", "\n";
}
my %without_namespace = map { $_ => 1 } 2, 7, 16, 19, 25, 26;
# Those of the driver itself, a request that waits for an event, and what ends the connection are not sent.
my %unsent = map { $_ => 1 } 0, 1, 4, 5, 12, 124, 127;
for my $code (0 .. 255) {
    my $nsid = $without_namespace{$code} ? 0 : 1;
    say_status("identify", $code, $admin, 6, cdw10 => $code, length => 4096, nsid => $nsid);
    say_status("log", $code, $admin, 2, cdw10 => 127 << 16 | $code, cdw11 => 0x10000, length => 512);
    say_status("feature", $code, $admin, 10, cdw10 => $code, cdw11 => 1, nsid => 1, length => 4096);
    # A format that there is not; vendors' own are not sent.
    my %of = ($code == 128 ? (cdw10 => 15) : (), nsid => 1);
    $of{length} = 4096 if ($code & 3) == 1 || ($code & 3) == 2;
    say_status("admin", $code, $admin, $code, %of) unless $unsent{$code} || $code >= 192;
    $of{length} = 512 if $of{length};
    delete $of{cdw10};
    say_status("io", $code, $block, $code, %of) unless $code == 127;
}
PERL
perl probe.pl here "$here" "${here}n1" </dev/null
perl probe.pl peer "$peer" "${peer}n1" </dev/null
# What the drive tells of itself, as nvme-cli reads it.
tells() { # LINE WORDS COMMAND...
    local line=$1 words=$2
    shift 2
    "$@" >told.txt 2>&1 || echo "status $?" >>told.txt
    grep -qi "$words" told.txt && echo "$line" || cat told.txt
}
tells effects "namespace management" nvme effects-log "$here" --csi=0
tells pages "smart" nvme supported-log-pages "$here"
tells features "FID 0e" nvme fid-support-effects-log "$here"
nvme disconnect -n "$nqn" >/dev/null
stop
kill $watch 2>/dev/null || true
