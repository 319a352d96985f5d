"""Sends the files of a folder as scripts with ftplib do, and compares names, sizes, times and bytes afterwards."""
import ftplib
import io
import os
import ssl
import sys
from datetime import datetime

host, port, key, folder, mode = sys.argv[1:6]


class ResumingTls(ftplib.FTP_TLS):
    """What docs/uploads.md asks of ftplib: data connections resume the TLS session of the control connection."""

    def ntransfercmd(self, cmd, rest=None):
        connection, size = ftplib.FTP.ntransfercmd(self, cmd, rest)
        if self._prot_p:
            connection = self.context.wrap_socket(connection, server_hostname=self.host, session=self.sock.session)
        return connection, size


ftp = ResumingTls(context=ssl._create_unverified_context()) if mode == 'TLS' else ftplib.FTP()
ftp.connect(host, int(port))
ftp.login('api', key)
if mode == 'TLS':
    ftp.prot_p()
for name in sorted(os.listdir(folder)):
    path = os.path.join(folder, name)
    with open(path, 'rb') as file:
        ftp.storbinary('STOR ' + name, file)
    modified = datetime.utcfromtimestamp(int(os.path.getmtime(path)))
    ftp.sendcmd(f'MFMT {modified:%Y%m%d%H%M%S} {name}')
    assert datetime.strptime(ftp.sendcmd('MDTM ' + name)[4:], '%Y%m%d%H%M%S') == modified
    facts = dict(ftp.mlsd())[name]
    assert datetime.strptime(facts['modify'], '%Y%m%d%H%M%S') == modified
    assert int(facts['size']) == ftp.size(name) == os.path.getsize(path)
    assert name in ftp.nlst()
    received = io.BytesIO()
    ftp.retrbinary('RETR ' + name, received.write)
    with open(path, 'rb') as file:
        assert received.getvalue() == file.read()
ftp.quit()
