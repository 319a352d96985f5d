import { execFile, spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { existsSync } from 'node:fs'
import { appendFile, copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { missing } from './missing-programs.ts'
import { until } from './service.ts'

/**
 * A Docker engine for a machine that has none and reaches no image registry: Debian's packages in a folder, started in
 * namespaces of its own. Root is needed. Nothing of it is seen outside of its folder and its namespaces.
 */
export interface DockerEngine {
  /** The folder that the engine sees as /work. */
  folder: string
  /** Runs a shell command beside the engine, in a folder of its own; returns what it prints. Throws when it fails. */
  run: (command: string, options?: { timeoutMs?: number; in?: string }) => Promise<string>
  /** Runs a program of this machine in the engine's network; resolves to what it prints, and throws when it fails. */
  runInNetwork: (program: string, args: string[]) => Promise<string>
  /** A Unix socket whose connections go to a port of the engine's loopback. */
  forward: (port: number) => Promise<string>
  stop: () => Promise<void>
}

/** Why there can be no engine here; false where there can. */
export function noDockerEngine(): string | false {
  if (process.platform !== 'linux') return 'Linux is needed for a Docker engine in namespaces'
  if (process.getuid?.() !== 0) return 'root is needed for a Docker engine in namespaces'
  const absent = missing('debootstrap', 'unshare', 'nsenter', 'setcap')
  if (absent !== false) return absent
  const { status } = spawnSync('unshare', ['--net', '--mount', '--uts', '--ipc', 'true'])
  return status === 0 ? false : 'this machine allows no namespaces'
}

const enginePackages = [
  ...['docker.io', 'docker-cli', 'docker-compose', 'docker-buildx', 'nftables', 'iptables', 'iproute2'],
  ...['procps', 'ca-certificates'],
]

/** Debian in a folder, with packages and without any service. A folder that has been finished before is left as it is. */
export async function makeDebian(folder: string, release: string, packages: string[]): Promise<void> {
  const finished = path.join(folder, '.finished')
  if (existsSync(finished)) return
  await rm(folder, { recursive: true, force: true })
  await command('debootstrap', ['--variant=minbase', release, folder, await debianMirror()])
  await writeFile(path.join(folder, 'usr/sbin/policy-rc.d'), '#!/bin/sh\nexit 101\n', { mode: 0o755 })
  await copyFile('/etc/resolv.conf', path.join(folder, 'etc/resolv.conf'))
  const install = `apt-get -qq update && apt-get -qq install -y --no-install-recommends ${packages.join(' ')}`
  await command('chroot', [
    folder,
    'env',
    '--unset=TMPDIR',
    'DEBIAN_FRONTEND=noninteractive',
    'sh',
    '-c',
    install,
  ])
  await writeFile(finished, '')
}

/** Where this machine has its own packages from. */
async function debianMirror(): Promise<string> {
  for (const file of ['/etc/apt/sources.list.d/debian.sources', '/etc/apt/sources.list']) {
    const text = await readFile(file, 'utf8').catch(() => '')
    const uri = /^URIs: (\S+)/m.exec(text)?.[1] ?? /^deb (?:\[.*?\] )?(\S+)/m.exec(text)?.[1]
    if (uri !== undefined) return uri
  }
  throw new Error("Debian's mirror stands neither in debian.sources nor in sources.list")
}

export async function startDockerEngine(folder: string, debian: string): Promise<DockerEngine> {
  await makeDebian(debian, 'trixie', enginePackages)
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
      '--net',
      '--mount',
      '--uts',
      '--ipc',
      '--propagation',
      'private',
      'bash',
      '-c',
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
    stop: async () => {
      for (const child of forwarders) child.kill('SIGKILL')
      await stop()
    },
  }
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
