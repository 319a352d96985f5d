import { execFile, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { existsSync } from 'node:fs'
import { appendFile, mkdir, readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { missing } from './missing-programs.ts'
import { until } from './service.ts'

/**
 * A Docker engine for a machine that has none and reaches no image registry. It consists of Debian's packages in a
 * folder, and runs in namespaces of its own, as root. Nothing outside of its folder and namespaces changes.
 */
export interface DockerEngine {
  /** The folder that the engine sees as /work. */
  folder: string
  /**
   * Runs a shell command next to the engine, in a folder of its own. Resolves to what it prints, and rejects when it
   * fails.
   */
  run: (command: string, options?: { timeoutMs?: number; in?: string }) => Promise<string>
  /** Runs a program of this machine in the engine's network; resolves to what it prints, and throws when it fails. */
  runInNetwork: (program: string, args: string[]) => Promise<string>
  /** A Unix socket whose connections go to a port of the engine's loopback. */
  forward: (port: number) => Promise<string>
  /** Seconds of processor time of the engine and its containers, since their start and with processes that ended. */
  processorSeconds: () => Promise<number>
  stop: () => Promise<void>
}

/** Why there can be no engine here; false where there can. */
export function noDockerEngine(): string | false {
  if (process.platform !== 'linux') return 'Linux is needed for a Docker engine in namespaces'
  if (process.getuid?.() !== 0) return 'root is needed for a Docker engine in namespaces'
  const absent = missing('mmdebstrap', 'unshare', 'nsenter')
  if (absent !== false) return absent
  const { status } = spawnSync('unshare', ['--net', '--mount', '--uts', '--ipc', 'true'])
  return status === 0 ? false : 'this machine allows no namespaces'
}

/** Packages that the stand-ins of the base images need in addition to Debian's smallest root. */
const basePackages = ['ca-certificates', 'gosu', 'libatomic1', 'libcurl4t64', 'libzstd1', 'passwd']
const enginePackages = [
  ...[
    ...['docker.io', 'docker-cli', 'docker-compose', 'docker-buildx'],
    ...['nftables', 'iptables', 'iproute2', 'mount'],
  ],
]

/**
 * `debian` in a folder is the engine's root, with the packages of Caddy and Prometheus in /root; `base.tar` beside it is
 * what the stand-ins begin with. What has been finished before is left as it is.
 */
async function makeDebian(cache: string): Promise<string> {
  const debian = path.join(cache, 'debian')
  const finished = path.join(cache, 'finished')
  if (existsSync(finished)) return debian
  await rm(debian, { recursive: true, force: true })
  const left = ['./var/cache', './var/lib/apt', './usr/share/doc', './usr/share/locale', './usr/share/man']
  const base = `tar -C "$1" ${left.map((name) => `--exclude=${name}`).join(' ')} --exclude='./dev/*' --exclude='./proc/*' --exclude='./sys/*' --one-file-system -cf '${cache}/base.tar' .`
  const install = `chroot "$1" sh -c 'apt-get -qq install -y --no-install-recommends ${enginePackages.join(' ')} && cd /root && apt-get -qq download caddy prometheus'`
  await command('mmdebstrap', [
    ...['--variant=apt', '--skip=output/dev', `--include=${basePackages.join(',')}`],
    ...[`--customize-hook=${base}`, `--customize-hook=${install}`],
    ...['trixie', debian, await debianMirror()],
  ])
  await writeFile(finished, '')
  return debian
}

/** The package sources that this machine has configured. */
async function debianMirror(): Promise<string> {
  for (const file of ['/etc/apt/sources.list.d/debian.sources', '/etc/apt/sources.list']) {
    const text = await readFile(file, 'utf8').catch(() => '')
    const uri = /^URIs: (\S+)/m.exec(text)?.[1] ?? /^deb (?:\[.*?\] )?(\S+)/m.exec(text)?.[1]
    if (uri !== undefined) return uri
  }
  throw new Error("Debian's mirror stands neither in debian.sources nor in sources.list")
}

/** The engine's Debian lies in the folder `cache`, for the next engine too; everything else in `folder`. */
export async function startDockerEngine(folder: string, cache: string): Promise<DockerEngine> {
  const debian = await makeDebian(cache)
  await mkdir(path.join(folder, 'docker'), { recursive: true })
  // The folder becomes the root of its mount namespace; the network has a loopback of its own and no way out.
  const script = `set -e
mount --bind "$1" "$1"; cd "$1"; mkdir -p work old
mount -t proc proc proc; mount -t sysfs sysfs sys; mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount --rbind /dev dev; mount -t tmpfs -o mode=755 tmpfs run
mount --bind "$2" work; pivot_root . old; umount -l old
ip link set lo up; hostname dockerhost; echo ready; exec sleep 7200`
  const holder = spawn(
    'unshare',
    [
      ...['--net', '--mount', '--uts', '--ipc', '--propagation', 'private', 'bash', '-c'],
      script,
      'bash',
      debian,
      folder,
    ],
    { stdio: ['ignore', 'pipe', 'pipe'], detached: true },
  )
  let said = ''
  for (const stream of [holder.stdout, holder.stderr]) stream.on('data', (data) => (said += String(data)))
  await until(
    'the namespaces of the engine',
    async () => said,
    (text) => text.includes('ready'),
    30_000,
  )
  const enter = ['--target', String(holder.pid), '--net', '--mount', '--uts', '--ipc', '--root', '--wd']
  const run: DockerEngine['run'] = async (line, options = {}) => {
    const text = `cd ${options.in ?? '/work'} && ${line}`
    const { stdout } = await promisify(execFile)('nsenter', [...enter, 'bash', '-c', text], {
      timeout: options.timeoutMs ?? 300_000,
      maxBuffer: 64 * 1024 ** 2,
      env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/root' },
    })
    return stdout.trim()
  }
  const daemon = spawn(
    'nsenter',
    [
      ...enter,
      'dockerd',
      '--data-root',
      '/work/docker',
      '--exec-root',
      '/run/docker',
      '--bip',
      '172.30.78.1/24',
    ],
    { stdio: ['ignore', 'ignore', 'pipe'], env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' } },
  )
  daemon.stderr.on('data', (data) => void appendFile(path.join(folder, 'dockerd.log'), data))
  const daemonEnded = new Promise((resolve) => daemon.once('exit', resolve))
  const stop = async () => {
    daemon.kill('SIGTERM')
    await daemonEnded
    holder.kill('SIGKILL')
  }
  try {
    const answers = () =>
      run('docker info').then(
        () => true,
        () => false,
      )
    await until('the Docker engine', answers, (isUp) => isUp, 60_000)
  } catch (error) {
    await stop()
    throw error
  }
  const ofNetwork = ['--target', String(holder.pid), '--net']
  const forwarders: ChildProcess[] = []
  return {
    folder,
    run,
    runInNetwork: (program, args) => command('nsenter', [...ofNetwork, program, ...args]),
    forward: async (port) => {
      const socket = path.join(folder, `${port}.sock`)
      const args = [...ofNetwork, process.execPath, '-e', forwarder, String(port), socket]
      forwarders.push(spawn('nsenter', args, { stdio: 'inherit' }))
      await until('a forwarder', async () => existsSync(socket), Boolean, 10_000)
      return socket
    },
    processorSeconds: () => processorSecondsOf(holder.pid!),
    stop: async () => {
      for (const child of forwarders) child.kill('SIGKILL')
      await stop()
    },
  }
}

/** Sums up all processes of its UTS namespace, and their descendants, as containers have namespaces of their own. */
async function processorSecondsOf(holder: number): Promise<number> {
  const processes = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const namespace = (pid: string | number) => readlink(`/proc/${pid}/ns/uts`).catch(() => '')
  const own = await namespace(holder)
  const stats = new Map<string, { parent: string; ticks: number; isOwn: boolean }>()
  for (const pid of processes) {
    const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    // User and system time, each of the process and of its children that ended.
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0)
    const [, parent = ''] = fields
    if (text !== '') stats.set(pid, { parent, ticks, isOwn: (await namespace(pid)) === own })
  }
  const belongs = (pid: string): boolean => {
    const process = stats.get(pid)
    return process !== undefined && (process.isOwn || belongs(process.parent))
  }
  const ticks = [...stats].reduce((sum, [pid, process]) => sum + (belongs(pid) ? process.ticks : 0), 0)
  return ticks / 100
}

/** Passes the bytes of each connection of a Unix socket to a port and back; either end's error ends both. */
const forwarder = `
const net = require('node:net')
const [port, file] = process.argv.slice(1)
net.createServer((client) => {
  const server = net.connect(Number(port), '127.0.0.1')
  client.pipe(server).pipe(client)
  client.on('error', () => server.destroy())
  server.on('error', () => client.destroy())
}).listen(file)`

/** Runs a program to its end; throws with the end of what it printed. */
export async function command(
  program: string,
  args: string[],
  options: { cwd?: string; env?: NodeJS.ProcessEnv } = {},
): Promise<string> {
  const { stdout } = await promisify(execFile)(program, args, { ...options, maxBuffer: 64 * 1024 ** 2 })
  return stdout.trim()
}
