#!/usr/bin/perl
# Writes to a fresh file system step by step, makes each step durable, and says so:
#   work.pl KIND [STEPS] [DRIVE]
# KIND is ext4, xfs or btrfs, or wal or rollback: SQLite's two journals, on ext4.
# A line "step N" means that everything up to step N is durable.
use strict;
use warnings;
use IO::Handle;

my ($kind, $steps, $drive) = @ARGV;
$steps ||= 300;
$drive ||= '/dev/vda';
$| = 1;

my %make = (
    ext4  => "mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 $drive",
    xfs   => "mkfs.xfs -q $drive",
    btrfs => "mkfs.btrfs -q $drive",
);
my $make = $make{$kind} || $make{ext4};
run($make);
run("mount $drive /mnt && sync -f /mnt");
print "step 0\n";
$kind =~ /^(wal|rollback)$/ ? database($kind) : files();
run('umount /mnt');

sub run { system($_[0]) == 0 or die "work.pl: $_[0] failed: $?\n" }

# Numbers that depend on the step alone.
sub text { my ($step, $length) = @_; return substr("$step: " . chr(97 + $step % 26) x $length, 0, $length - 1) . "\n" }

sub durable { $_[0]->flush && $_[0]->sync or die "work.pl: fsync: $!\n" }

# Perl's own fsync is for what is written to.
sub folder {
    my $fsync = 74; # of x86-64
    open my $folder, '<', $_[0] or die "work.pl: $_[0]: $!\n";
    syscall($fsync, fileno $folder) == 0 or die "work.pl: fsync: $!\n";
}

# Four kinds of steps in turn; check.pl knows them.
sub files {
    mkdir '/mnt/many';
    folder('/mnt');
    open my $log,   '>>', '/mnt/log'   or die;
    open my $table, '+>', '/mnt/table' or die;
    for my $step (1 .. $steps) {
        my $what = $step % 4;
        if ($what == 0) {
            # A line at the end.
            print $log text($step, 200 + $step % 5000);
            durable($log);
        } elsif ($what == 1) {
            # A block in its place.
            seek $table, 4096 * ($step % 16), 0;
            print $table text($step, 4096);
            durable($table);
        } elsif ($what == 2) {
            # A file that takes another's place.
            open my $new, '>', '/mnt/new' or die;
            print $new text($step, 9000);
            durable($new);
            rename '/mnt/new', '/mnt/current' or die;
            folder('/mnt');
        } else {
            # A file more, and one less.
            open my $new, '>', "/mnt/many/$step" or die;
            print $new text($step, 100);
            durable($new);
            unlink '/mnt/many/' . ($step - 40);
            folder('/mnt/many');
        }
        folder('/mnt') if $step <= 4;
        print "step $step\n";
    }
}

# A transaction for each step. FULL would not make the removal of a rollback
# journal durable, by SQLite's own words (pragma synchronous).
sub database {
    my $journal = $_[0] eq 'wal' ? 'wal' : 'delete';
    open my $sql, '|-', 'stdbuf -oL sqlite3 -batch -bail /mnt/db' or die;
    print $sql "PRAGMA journal_mode=$journal; PRAGMA synchronous=EXTRA; PRAGMA wal_autocheckpoint=50;
        BEGIN; CREATE TABLE head(id INTEGER PRIMARY KEY, step);
        CREATE TABLE steps(step INTEGER PRIMARY KEY, text); INSERT INTO head VALUES(1, 0); COMMIT;\n";
    for my $step (1 .. $steps) {
        my $text = text($step, 200 + $step % 3000);
        chomp $text;
        print $sql "BEGIN; INSERT INTO steps VALUES($step, '$text'); UPDATE head SET step=$step; COMMIT;
            SELECT 'step $step';\n";
    }
    close $sql or die "work.pl: sqlite3 failed\n";
}
