# Sends the files of a folder as scripts with Net::FTP do, and compares names, sizes, times and bytes afterwards.
use strict;
use warnings;
use Net::FTP;
use POSIX 'strftime';

my ($host, $port, $key, $folder, $mode) = @ARGV;
my $ftp = Net::FTP->new($host, Port => $port) or die $@;
$mode eq 'TLS' and ($ftp->starttls(SSL_verify_mode => 0) or die $ftp->message);
$ftp->login('api', $key) or die $ftp->message;
$ftp->binary or die $ftp->message;
opendir my $directory, $folder or die $!;
for my $name (sort grep { -f "$folder/$_" } readdir $directory) {
    my $path = "$folder/$name";
    my $modified = (stat $path)[9];
    $ftp->put($path, $name) or die $ftp->message;
    $ftp->quot('MFMT', strftime('%Y%m%d%H%M%S', gmtime $modified), $name) == 2 or die $ftp->message;
    $ftp->mdtm($name) == $modified or die 'MDTM';
    $ftp->size($name) == -s $path or die 'SIZE';
    grep { $_ eq $name } $ftp->ls or die 'NLST';
    open my $into, '>:raw', \my $received or die $!;
    $ftp->get($name, $into) or die $ftp->message;
    open my $file, '<:raw', $path or die $!;
    local $/;
    $received eq <$file> or die 'bytes';
}
$ftp->quit or die $ftp->message;
