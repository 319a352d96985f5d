import './ftp/ftp-front.ts'
import './ftp/ftp-bounds.ts'
import './ftp/ftp-tls.ts'
