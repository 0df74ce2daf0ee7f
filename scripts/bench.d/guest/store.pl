# A server of keys and values on a disk, with a planted mistake: perl store.pl FOLDER MISTAKE. It answers lines:
# `put KEY VALUE` by `ok` once the value is durable, and `get KEY` by the value or `none`.
use strict;
use warnings;
use IO::Handle;
use IO::Socket::INET;
use Socket qw(IPPROTO_TCP TCP_NODELAY);

my ($folder, $mistake) = @ARGV;
my ($log_file, $page_file) = ("$folder/log", "$folder/pages");
my $page_size = 16384;
my (%kept, $log, $pages, $turn);

# Durable: the file's data, and its name.
sub durable { $_[0]->flush; $_[0]->sync or die "sync: $!"; }

# A log of records: put appends one.
sub read_log {
    open(my $in, '<', $_[0]) or return;
    while (<$in>) { $kept{$1} = $2 if /^(\S+) (\S+)\n/ }
}

sub open_log {
    read_log($log_file);
    # What was found is written anew, in place of a log that has grown.
    open(my $new, '>', "$log_file.new") or die "new: $!";
    if ($mistake eq 'recovery') {
        # The old log is emptied before the new one is durable.
        truncate($log_file, 0) if -e $log_file;
        open(my $old, '>>', $log_file) or die "old: $!";
        durable($old);
        select(undef, undef, undef, 0.002);
    }
    print $new "$_ $kept{$_}\n" for sort keys %kept;
    durable($new);
    rename("$log_file.new", $log_file) or die "rename: $!";
    open($log, '>>', $log_file) or die "log: $!";
    $log->autoflush(1);
    durable($log);
}

# Two pages that are written in turn; a page is a checksum at its beginning, and its number and everything at its
# end, four kilobytes or more behind it.
sub page { my $text = join('', map { "$_ $kept{$_}\n" } sort keys %kept);
    my $body = sprintf('%d %s', $turn, $text);
    return pack('a16 a*', unpack('%32C*', $body), "\0" x ($page_size - 16 - length $body) . $body); }

sub open_pages {
    open($pages, '+>>', $page_file) or die "pages: $!";
    close $pages;
    open($pages, '+<', $page_file) or die "pages: $!";
    $turn = 0;
    for my $place (0, 1) {
        seek($pages, $place * $page_size, 0);
        next unless (read($pages, my $page, $page_size) // 0) == $page_size;
        my ($sum, $body) = unpack('a16 a*', $page);
        $sum =~ s/\0+$//;
        $body =~ s/^\0+//;
        next unless $sum eq unpack('%32C*', $body) and $body =~ /^(\d+) (.*)$/s and $1 > $turn;
        $turn = $1;
        %kept = $2 =~ /^(\S+) (\S+)$/mg;
    }
}

# A header that points to the newest copy: written after the copy is durable.
sub put_copy {
    my $text = join('', map { "$_ $kept{$_}\n" } sort keys %kept);
    $turn++;
    my $at = 4096 + ($turn % 64) * $page_size;
    seek($pages, $at, 0);
    print $pages $text, "\0" x ($page_size - length $text);
    durable($pages) unless $mistake eq 'barrier';
    $pages->flush;
    seek($pages, 0, 0);
    print $pages pack('a512', "$turn $at " . length $text);
    durable($pages);
}

sub open_copy {
    open($pages, '+>>', $page_file) or die "pages: $!";
    close $pages;
    open($pages, '+<', $page_file) or die "pages: $!";
    $turn = 0;
    my ($header, $text) = ('', '');
    return unless (read($pages, $header, 512) // 0) == 512 and $header =~ /^(\d+) (\d+) (\d+)\0/;
    my ($at, $length) = ($2, $3);
    $turn = $1;
    seek($pages, $at, 0);
    read($pages, $text, $length);
    %kept = $text =~ /^(\S+) (\S+)$/mg;
}

my %ways = (torn => 'page', pages => 'page', barrier => 'copy', copies => 'copy');
my $way = $ways{$mistake} // 'log';
$way eq 'log' ? open_log() : $way eq 'page' ? open_pages() : open_copy();
my $count = 0;
my $server = IO::Socket::INET->new(LocalPort => 7000, Listen => 8, ReuseAddr => 1) or die "listen: $!";
while (my $client = $server->accept) {
    setsockopt($client, IPPROTO_TCP, TCP_NODELAY, 1);
    $client->autoflush(1);
    while (my $line = <$client>) {
        if (my ($key, $value) = $line =~ /^put (\S+) (\S+)/) {
            $kept{$key} = $value;
            $count++;
            if ($way eq 'copy') { put_copy() }
            elsif ($way eq 'page') {
                $turn++;
                # A torn page is the only one: what was there before is gone with it.
                seek($pages, $mistake eq 'torn' ? 0 : ($turn % 2) * $page_size, 0);
                print $pages page();
                durable($pages);
            } else {
                print $log "$key $value\n";
                print $client "ok\n" if $mistake eq 'early';
                durable($log) unless $mistake eq 'forgotten' and $count % 50 == 0;
            }
            print $client "ok\n" unless $mistake eq 'early';
        } elsif (($key) = $line =~ /^get (\S+)/) { print $client $kept{$key} // 'none', "\n" }
        else { print $client "ok\n" }
    }
}
