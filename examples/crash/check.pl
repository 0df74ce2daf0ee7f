#!/usr/bin/perl
# Looks at what a power cut has left of work.pl's disk:
#   check.pl KIND [LAG_MS]
# The file system must mount and then be sound. Steps that were durable LAG_MS before
# the cut must be there, and with any step all that came before it.
#
# The environment says when the power was cut (STASIS_CUT_NS), where the lines are that
# the work had written by then (STASIS_OUTPUT_LINES), and when it had (STASIS_OUTPUT_TIMES).
use strict;
use warnings;

my ($kind, $lag) = @ARGV;
my $drive = '/dev/vda';
my $until = $ENV{STASIS_CUT_NS} - 1e6 * ($lag || 0);
my $database = $kind =~ /^(wal|rollback)$/;

# The last step that must be there, and the last that anybody knows of.
my ($told, $begun) = (-1, -1);
open my $lines, '<', $ENV{STASIS_OUTPUT_LINES} or die "no lines: $!\n";
open my $times, '<', $ENV{STASIS_OUTPUT_TIMES} or die "no times: $!\n";
while (<$lines>) {
    my $time = <$times>;
    next if !/^step (\d+)$/;
    $told = $1 if $time <= $until;
    $begun = $1 + 1;
}
# Nobody was told that this is a file system.
exit 0 if $told < 0;

my $type = $database ? 'ext4' : $kind;
if (system("mount -t $type $drive /mnt 2>/run/mount-errors") != 0) {
    broken("it does not mount: " . slurp('/run/mount-errors') . `dmesg | tail -n 5`);
}
my @places = $database ? steps_of_database() : steps_of_files();
# The last step that is there. It may be there in part; what came before it may not.
my $last = 0;
for (@places) { $last = $_->[1] if $_->[1] > $last }
for my $must ($told, $last - 1) {
    my $why = $must == $told ? "step $told was durable" : "step $last is there";
    for (@places) {
        my ($place, $held, $first, $every) = @$_;
        # The last of the steps first, first + every, ... that is due.
        next if $must < $first;
        my $due = $must - ($must - $first) % $every;
        broken("$place has step $held, not $due, but $why") if $held < $due;
    }
    files_beside($must, $last > $told ? $last : $told, $why) if !$database;
}
system('umount /mnt') == 0 or broken('it does not unmount');

my %sound = (
    ext4  => "e2fsck -fn $drive",
    xfs   => "xfs_repair -n $drive",
    btrfs => "btrfs check $drive",
);
my $said = `$sound{$type} 2>&1`;
broken("$sound{$type}:\n$said") if $? != 0;
exit 0;

sub broken { print "$_[0]\n"; exit 1 }

sub slurp { my ($name) = @_; open my $file, '<', $name or return ''; local $/; return scalar <$file> // '' }

sub text { my ($step, $length) = @_; return substr("$step: " . chr(97 + $step % 26) x $length, 0, $length - 1) . "\n" }

# Each place: its name, the step that is there whole, and that it is written by step
# FIRST and every EVERY-th after it.
sub steps_of_files {
    my @places;
    my ($held, $log) = (0, slurp('/mnt/log'));
    for (my $step = 4; $step <= $begun; $step += 4) {
        my $text = text($step, 200 + $step % 5000);
        last if substr($log, 0, length $text, '') ne $text;
        $held = $step;
    }
    push @places, ['/mnt/log', $held, 4, 4];
    my $table = slurp('/mnt/table');
    for my $slot (1, 5, 9, 13) {
        my $block = 4096 * $slot < length $table ? substr($table, 4096 * $slot, 4096) : '';
        push @places, ["block $slot of /mnt/table", block($block), $slot, 16];
    }
    my $current = slurp('/mnt/current');
    my $step = $current =~ /^(\d+): / && $current eq text($1, 9000) ? $1 : 0;
    broken('/mnt/current is no whole file') if !$step && $current ne '';
    push @places, ['/mnt/current', $step, 2, 4];
    return @places;
}

# The step that a block is of. One that is being overwritten may be of two, sector by
# sector; the older one is there whole, as far as anybody was told.
sub block { my ($block) = @_;
    my ($first) = $block =~ /^(\d+): /;
    my @steps = defined $first ? ($first - 16, $first) : (0, 0);
    for my $older (@steps) {
        my @both = map { $_ > 0 ? text($_, 4096) : "\0" x 4096 } $older, $older + 16;
        my $fits = 1;
        for my $sector (0 .. length($block) / 512 - 1) {
            my ($one, $two, $is) = map { substr $_, $sector * 512, 512 } @both, $block;
            $fits = 0 if $is ne $one && $is ne $two;
        }
        # All of the newer one is more than half of each.
        return $older + 16 if $block eq $both[1];
        return $older > 0 ? $older : 0 if $fits;
    }
    return -1;
}

# The files in /mnt/many that a step makes and the fortieth after it removes.
sub files_beside { my ($must, $last, $why) = @_;
    for (my $step = 3; $step <= $must; $step += 4) {
        my $name = "/mnt/many/$step";
        # Removed, or being removed.
        next if $step + 40 <= $last + 1 && !-e $name;
        broken("$name is gone or not whole, but $why") if slurp($name) ne text($step, 100);
    }
}

sub steps_of_database {
    my $all = `sqlite3 -batch /mnt/db "PRAGMA integrity_check; SELECT coalesce((SELECT step FROM head), 0); SELECT count(*), min(step), max(step) FROM steps; SELECT step, text FROM steps;" 2>&1`;
    # Before the tables are there.
    return (['/mnt/db', 0, 1, 1]) if $all =~ /no such table/;
    my ($sound, $head, $counts, @rows) = split /\n/, $all;
    broken("integrity_check: $all") if ($sound // '') ne 'ok';
    return (['/mnt/db', 0, 1, 1]) if !$head && @rows == 0;
    broken("head says $head, the steps are $counts") if $counts ne "$head|1|$head";
    for (@rows) {
        my ($step, $text) = split /\|/, $_, 2;
        broken("step $step has another text") if "$text\n" ne text($step, 200 + $step % 3000);
    }
    return (['/mnt/db', $head, 1, 1]);
}
