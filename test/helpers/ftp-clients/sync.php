<?php
/** Sends the files of a folder as scripts with PHP's ftp_ functions do, and compares what the server has afterwards. */
set_error_handler(function ($_number, $message) { throw new ErrorException($message); });
[, $host, $port, $key, $folder, $mode] = $argv;
$ftp = $mode === 'TLS' ? ftp_ssl_connect($host, (int) $port, 30) : ftp_connect($host, (int) $port, 30);
ftp_login($ftp, 'api', $key);
ftp_pasv($ftp, true);
function check(bool $is, string $what): void { if (!$is) throw new Exception($what); }
foreach (array_diff(scandir($folder), ['.', '..']) as $name) {
    $path = "$folder/$name";
    check(ftp_put($ftp, ".$name.tmp", $path, FTP_BINARY), 'put');
    check(ftp_rename($ftp, ".$name.tmp", $name), 'rename');
    check(ftp_chmod($ftp, 0644, $name) === 0644, 'chmod');
    check(ftp_raw($ftp, 'MFMT ' . gmdate('YmdHis', filemtime($path)) . " $name")[0][0] === '2', 'MFMT');
    check(ftp_mdtm($ftp, $name) === filemtime($path), 'MDTM');
    check(ftp_size($ftp, $name) === filesize($path), 'SIZE');
    check(in_array($name, ftp_nlist($ftp, '.')), 'NLST');
    $facts = array_column(ftp_mlsd($ftp, '.'), null, 'name')[$name];
    $zone = new DateTimeZone('UTC');
    $modified = DateTime::createFromFormat('YmdGis', $facts['modify'], $zone)->getTimestamp();
    check($modified === filemtime($path), 'MLSD');
    $received = fopen('php://memory', 'w+');
    check(ftp_fget($ftp, $received, $name, FTP_BINARY), 'get');
    rewind($received);
    check(stream_get_contents($received) === file_get_contents($path), 'bytes');
}
ftp_close($ftp);
