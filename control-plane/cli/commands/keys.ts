import { roles } from '../../../shared/contract/schemas/api-key.ts'
import { usage } from '../failures.ts'
import { ftpAddress, offersTls, readFtpAddress, type FtpAddress } from '../ftp-upload.ts'
import type { Session } from '../session.ts'
import { ask, printable, writeSentence, type Terminal } from '../terminal.ts'
import { printRecord, type RecordView } from './records.ts'

/**
 * The role of a new key. One of --role and --uploads is required, since the API's default may do everything; without
 * both it is asked for on a terminal, and no answer is proposed.
 */
export async function chooseRole(
  { role, uploads, folder }: { role?: string; uploads?: true; folder?: string },
  terminal: Terminal,
): Promise<string> {
  if (role !== undefined && uploads === true)
    throw usage('--uploads is the role uploads: leave out either it or --role')
  if (folder !== undefined && uploads !== true)
    throw usage('--folder is for keys of partners: add --uploads, or leave it out')
  if (uploads === true) return 'uploads'
  if (role !== undefined) return role
  const options = '--role ROLE, or --uploads for a partner who only sends files'
  if (!terminal.input.isTTY || !terminal.err.isTTY) throw usage(`say what the key may do: ${options}`)
  const answer = (await ask(terminal, `What may the key do (${roles.join(', ')})? `)).trim()
  if (roles.some((each) => each === answer)) return answer
  throw usage(`${JSON.stringify(answer)} is no role: give ${options}`)
}

/** Prints a new key; one for a partner as the text to send to it. */
export async function showKey(session: Session, key: RecordView): Promise<void> {
  if (key['role'] !== 'uploads') {
    printRecord(session.terminal, key)
    return
  }
  const { settings, terminal } = session
  const ftp = await ftpOfPartners(session)
  const hasTls = await offersTls(ftp)
  const folder = key['uploads_folder']
  writeSentence(
    terminal.err,
    printable(
      `Key ${String(key['id'])} was created. ${typeof folder === 'string' ? `Its files are ${folder}/NAME in the upload directory.` : 'It sees the whole upload directory.'} Send the following to the partner; the key is shown only now.`,
    ),
  )
  if (hasTls === null)
    writeSentence(
      terminal.err,
      `No FTP server answers at ${ftp.hostname}:${ftp.port}, so whether it offers TLS is not known: check it, or set ROLLCALL_FTP to its address.`,
    )
  const http = new URL(settings.ROLLCALL_URL)
  if ([http, ftp].some(({ hostname }) => /^(127\.|\[::1\]$|localhost$)/.test(hostname)))
    writeSentence(
      terminal.err,
      'An address below is of this machine alone: set ROLLCALL_URL, and ROLLCALL_FTP or PUBLIC_FTP_URL of the service, to what the partner reaches.',
    )
  terminal.out.write(`${partnerText(key, { http, ftp, hasTls }).join('\n')}\n`)
}

/** The address that the service tells people. A server that listens on all addresses has that of the service. */
async function ftpOfPartners({ client, settings }: Session): Promise<FtpAddress> {
  const published = settings.ROLLCALL_FTP === undefined ? await client.ftpUrl() : null
  if (published === null) return ftpAddress(settings)
  const address = readFtpAddress(published, 21)
  const isAny = ['0.0.0.0', '[::]'].includes(address.hostname)
  return isAny ? { ...address, hostname: new URL(settings.ROLLCALL_URL).hostname } : address
}

interface Doors {
  http: URL
  ftp: FtpAddress
  hasTls: boolean | null
}

function partnerText(key: RecordView, { http, ftp, hasTls }: Doors): string[] {
  const isImplicit = ftp.protocol === 'ftps:'
  const host = ftp.hostname
  const encryption = isImplicit
    ? ', with TLS from the first byte'
    : hasTls === true
      ? ', with TLS (AUTH TLS)'
      : ''
  const address = isImplicit ? `ftps://${host}` : host
  const force = hasTls === true && !isImplicit ? 'set ftp:ssl-force true; ' : ''
  const api = `${http.href.replace(/\/$/, '')}/svc/api/v2`
  return [
    `Host      ${http.hostname === host ? host : `${http.hostname} (HTTP), ${host} (FTP)`}`,
    `Ports     ${http.port || (http.protocol === 'https:' ? '443' : '80')} (${http.protocol.slice(0, -1).toUpperCase()}), ${ftp.port} (FTP${encryption})`,
    'User      api',
    `Password  ${String(key['key'])}`,
    '',
    'Both commands ask for the password above.',
    '',
    'Send a file over HTTP, with curl:',
    `  curl --fail --user api --upload-file people.csv ${api}/uploads/people.csv`,
    '',
    'Send a file by FTP, with lftp:',
    `  lftp -u api -p ${ftp.port} -e '${force}put people.csv; bye' ${address}`,
  ]
}
