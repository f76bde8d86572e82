# Work of the perl test: prints the same lines on any malloc.
use strict;
use warnings;
use Config;

my $state = 1;
sub below { $state = ($state * 48271) % 2147483647; return $state % $_[0]; }

sub work {
    ($state) = @_;
    my (%table, $text);
    for my $i (1 .. 20000) {
        my $key = 'key' . below(4000);
        $table{$key} .= chr(97 + below(26)) x below(40);
        delete $table{'key' . below(4000)};
        $text .= "$key," if $i % 3 == 0;
    }
    my $sum = 0;
    $sum = ($sum * 31 + length($table{$_}) + ord($table{$_} || 'x')) % 1000000007 for sort keys %table;
    my $count = () = $text =~ /key(\d)\d*\1/g;
    (my $changed = $text) =~ s/(\d+),/<$1>/g;
    my @sorted = sort { $a <=> $b || $a cmp $b } map { length $_ } split /[<>]+/, $changed;
    my @nested = map { { n => $_, list => [ 1 .. $_ % 50 ] } } 1 .. 3000;
    my $total = 0;
    $total += scalar @{ $_->{list} } for @nested;
    return join ' ', scalar(keys %table), $sum, $count, length $changed, $sorted[-1], $total;
}

print "main ", work(11), "\n";
for my $seed (21 .. 24) {
    pipe my $reader, my $writer or die "pipe: $!";
    my $child = fork // die "fork: $!";
    if (!$child) {
        print {$writer} work($seed);
        close $writer;
        exit 0;
    }
    close $writer;
    print "child ", <$reader>, "\n";
    waitpid $child, 0;
    die "a child ended with $?" if $?;
}
if ($Config{useithreads}) {
    require threads;
    my @threads = map { my $seed = $_; threads->create(sub { work($seed) }) } 31 .. 34;
    print "thread ", $_->join, "\n" for @threads;
}
