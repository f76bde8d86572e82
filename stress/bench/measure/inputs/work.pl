# Work of ci/bench apps: hashes of hashes, strings that grow, sorting, regular expressions. Prints a digest.
use strict;
use warnings;
use Digest::MD5 qw(md5_hex);
my $state = 42;
sub draw { my ($limit) = @_; $state = $state * 48271 % 2147483647; return $state % $limit; }
my %table;
my $digest = '';
for my $round (1 .. 5) {
    for my $i (1 .. 60000) {
        my $key = 'k' . draw(20000);
        $table{$key}{count}++;
        $table{$key}{text} .= chr(97 + draw(26)) x draw(12);
        push @{ $table{$key}{list} }, $i;
    }
    my $text = join ' ', map { $table{$_}{text} } sort keys %table;
    my $count = () = $text =~ /a+b*/g;
    $digest = md5_hex($digest . $text . $count);
    delete $table{ 'k' . draw(20000) } for 1 .. 10000;
}
print "$digest\n";
