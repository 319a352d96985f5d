import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'

/** A certificate that signs itself, for 127.0.0.1 or the names that openssl is to write into it, as two files in the folder. */
export async function makeCertificate(
  folder: string,
  name: string,
  names = 'IP:127.0.0.1',
): Promise<{ cert: string; key: string }> {
  const [cert, key] = [path.join(folder, `${name}.crt`), path.join(folder, `${name}.key`)]
  const args = [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '30'],
    ...['-subj', `/CN=${name}`, '-addext', `subjectAltName=${names}`, '-keyout', key, '-out', cert],
  ]
  await promisify(execFile)('openssl', args)
  return { cert, key }
}
