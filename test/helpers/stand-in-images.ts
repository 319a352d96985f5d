import { existsSync } from 'node:fs'
import { copyFile, cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { command, type DockerEngine } from './docker-engine.ts'
import { missing } from './missing-programs.ts'
import { present } from './present.ts'

/**
 * Stand-ins for the base images of Dockerfile and docker-compose.yml, under their names, for a machine that reaches
 * no registry. They are made of Debian's packages, npm's Node.js, a Caddy that Go builds, and the test's mongod.
 */
const root = fileURLToPath(new URL('../..', import.meta.url))

interface StandInOptions {
  /** The folder that the engine will see as /work. */
  folder: string
  /** Keeps what was built for the next run; `isKept` says that there will be one. */
  cache: string
  isKept: boolean
  /** A clone, and those of its commits that are to be built. */
  checkout: string
  commits: string[]
  mongod: string
  /** Paths of mongodump and mongorestore, where they are installed. */
  databaseTools: string[]
}

/** Puts into the folder what the images are made of. It needs no engine, so that one can be made meanwhile. */
export async function downloadStandIns(options: StandInOptions): Promise<void> {
  const { folder, mongod, databaseTools } = options
  for (const [name, dockerfile] of Object.entries(await dockerfiles())) {
    await mkdir(path.join(folder, 'images', name), { recursive: true })
    await writeFile(path.join(folder, 'images', name, 'Dockerfile'), dockerfile)
  }
  const node = path.join(folder, 'images/node')
  await copyFile(process.execPath, path.join(node, 'node'))
  await fillPackageCache(path.join(node, 'npm-cache'), options)
  await command('npm', ['pack', '--silent', 'npm@11', '--cache', path.join(node, 'npm-cache')], { cwd: node })
  await command('sh', ['-c', 'tar xzf npm-11.*.tgz && rm npm-11.*.tgz && mv package npm'], { cwd: node })
  const registry = await command('npm', ['config', 'get', 'registry'])
  await writeFile(path.join(node, 'npmrc'), `registry=${registry}\noffline=true\n`)

  const mongo = path.join(folder, 'images/mongo')
  await copyFile(mongod, path.join(mongo, 'mongod'))
  await writeFile(path.join(mongo, 'mongosh'), mongoshStandIn)
  await writeFile(path.join(mongo, 'docker-entrypoint.sh'), mongoEntrypoint)
  await mkdir(path.join(mongo, 'tools'))
  for (const tool of databaseTools) await copyFile(tool, path.join(mongo, 'tools', path.basename(tool)))
  for (const name of driverPackages)
    await cp(path.join(root, 'node_modules', name), path.join(mongo, 'node_modules', name), {
      recursive: true,
    })

  await buildCaddy(options)
}

/** The engine builds the images from what was downloaded. Resolves to the versions that replace the pinned ones. */
export async function makeStandInImages(
  engine: DockerEngine,
  { folder, cache }: StandInOptions,
): Promise<string> {
  await command('sh', [
    '-euc',
    `for name in caddy prometheus; do
       to="$1/images/$name/$name"
       [ -e "$to" ] || { dpkg-deb -x "$2"/debian/root/"$name"_*.deb "$1/unpacked" && mv "$1/unpacked/usr/bin/$name" "$to"; }
     done
     rm -rf "$1/unpacked"; cp "$2/base.tar" "$1"`,
    'sh',
    folder,
    cache,
  ])
  await engine.run('docker import base.tar standin/debian && rm base.tar')
  const names = await imageNames()
  const build = (name: keyof typeof names) =>
    engine.run(`docker build --quiet --tag ${names[name]} images/${name}`)
  await build('node')
  await Promise.all([build('mongo'), build('caddy'), build('prometheus'), build('grafana')])
  await rm(path.join(folder, 'images'), { recursive: true, force: true })
  return engine.run(
    `for said in "$(docker run --rm ${names.caddy} caddy version)" "$(docker run --rm ${names.prometheus} --version 2>&1)" "$(docker run --rm ${names.mongo} mongod --version)"; do echo "$said" | head -n 1; done`,
  )
}

/** The base images of the Dockerfile and the compose file, by the kind of stand-in. */
async function imageNames(): Promise<Record<'node' | 'mongo' | 'caddy' | 'prometheus' | 'grafana', string>> {
  const dockerfile = await readFile(path.join(root, 'Dockerfile'), 'utf8')
  const compose: { services: Record<string, { image: string; build?: { dockerfile_inline?: string } }> } =
    parse(await readFile(path.join(root, 'docker-compose.yml'), 'utf8'), { merge: true })
  const firstOf = (text: string) => present(/^FROM (\S+)/m.exec(text)?.[1], 'FROM')
  const builtFrom = (service: string) => firstOf(compose.services[service]?.build?.dockerfile_inline ?? '')
  return {
    node: firstOf(dockerfile),
    mongo: present(compose.services['mongodb'], 'mongodb').image,
    caddy: builtFrom('proxy'),
    prometheus: builtFrom('prometheus'),
    grafana: builtFrom('grafana'),
  }
}

/** Everything that `npm ci` asks for in the image of each of the commits, so that it needs no network. */
async function fillPackageCache(cache: string, { folder, checkout, commits }: StandInOptions): Promise<void> {
  const stage = path.join(folder, 'stage')
  const locks = new Set<string>()
  for (const commit of commits) {
    const lock = await command('git', ['-C', checkout, 'rev-parse', `${commit}:package-lock.json`])
    if (locks.has(lock)) continue
    locks.add(lock)
    await mkdir(stage, { recursive: true })
    const take = 'git -C "$1" archive "$2" package.json package-lock.json .npmrc | tar -x'
    await command('sh', ['-c', take, 'sh', checkout, commit], { cwd: stage })
    const install = ['ci', '--silent', '--omit=dev', '--omit=optional', '--cache', cache]
    await command('npm', install, { cwd: stage })
    await rm(stage, { recursive: true, force: true })
  }
}

/**
 * Builds the pinned Caddy where the machine has Go; otherwise Debian's is used. The build takes almost three minutes
 * of processor time, so it is done only where the next run will find it.
 */
async function buildCaddy({ folder, cache, isKept }: StandInOptions): Promise<void> {
  const version = present(/^caddy:([\d.]+)/.exec((await imageNames()).caddy)?.[1], 'the version of Caddy')
  const kept = path.join(cache, `caddy-${version}`)
  // Caddy knows its version only in a module that requires it, as Caddy's page says.
  const build = `mkdir -p "$1" && cd "$1"
    printf 'module proxy\\n\\ngo 1.25\\n\\nrequire github.com/caddyserver/caddy/v2 v%s\\n' "$2" > go.mod
    printf 'package main\\nimport "github.com/caddyserver/caddy/v2/cmd"\\nimport _ "github.com/caddyserver/caddy/v2/modules/standard"\\nfunc main() { caddycmd.Main() }\\n' > main.go
    go build -mod=mod -ldflags='-s -w' -o caddy .`
  if (isKept && missing('go') === false && !existsSync(path.join(kept, 'caddy')))
    await command('sh', ['-euc', build, 'sh', kept, version], {
      env: { ...process.env, GOFLAGS: '', CGO_ENABLED: '0' },
    }).catch(() => undefined)
  await copyFile(path.join(kept, 'caddy'), path.join(folder, 'images/caddy/caddy')).catch(() => undefined)
}

/** The driver and what it loads. */
const driverPackages = [
  ...['mongodb', 'bson', 'mongodb-connection-string-url', '@mongodb-js', 'whatwg-url', 'tr46'],
  ...['webidl-conversions', 'punycode', 'memory-pager', 'sparse-bitfield'],
]

const nodeImage = `FROM standin/debian
RUN groupadd --gid 1000 node && useradd --uid 1000 --gid node --shell /bin/bash --create-home node
COPY --chmod=755 node /usr/local/bin/node
COPY npm /usr/local/lib/node_modules/npm
COPY npm-cache /root/.npm
COPY npmrc /usr/local/etc/npmrc
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm && chmod 755 /usr/local/lib/node_modules/npm/bin/*.js
CMD ["node"]
`

const mongoImage = (node: string) => `FROM ${node}
RUN groupadd --gid 999 --system mongodb && useradd --uid 999 --system --gid mongodb --home-dir /data/db mongodb \\
 && mkdir -p /data/db /data/configdb && chown mongodb:mongodb /data/db /data/configdb
COPY node_modules /opt/node_modules
COPY --chmod=755 mongod mongosh /usr/bin/
COPY --chmod=755 tools /usr/bin/
COPY --chmod=755 docker-entrypoint.sh /usr/local/bin/
VOLUME /data/db /data/configdb
EXPOSE 27017
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["mongod"]
`

/**
 * Runs the JavaScript of \`--eval\` with what the health check and the pages use of mongosh. Its calls return at once
 * there, so a thread asks the server while the program waits. What it doesn't know is a TypeError, which ends it with 1.
 */
const mongoshStandIn = `#!/usr/local/bin/node
const { MessageChannel, Worker, receiveMessageOnPort } = require('node:worker_threads')
const { port1, port2 } = new MessageChannel()
const answered = new Int32Array(new SharedArrayBuffer(4))
new Worker(\`
  const { MongoClient, BSON } = require('/opt/node_modules/mongodb')
  const { port, answered } = require('node:worker_threads').workerData
  const client = new MongoClient('mongodb://127.0.0.1:27017/?directConnection=true', { serverSelectionTimeoutMS: 5000 })
  port.on('message', async (command) => {
    const reply = await client.db('admin').command(command).then((said) => ({ said: BSON.EJSON.stringify(said) }), ({ message }) => ({ message }))
    port.postMessage(reply)
    Atomics.store(answered, 0, 1)
    Atomics.notify(answered, 0)
  })
\`, { eval: true, workerData: { port: port2, answered }, transferList: [port2] })
const ask = (command) => {
  Atomics.store(answered, 0, 0)
  port1.postMessage(command)
  Atomics.wait(answered, 0, 0, 8000)
  const { said, message } = receiveMessageOnPort(port1)?.message ?? { message: 'the server does not answer' }
  if (said === undefined) throw new Error(message)
  return JSON.parse(said)
}
const context = {
  db: { hello: () => ask({ hello: 1 }) },
  rs: { status: () => ask({ replSetGetStatus: 1 }), initiate: (config) => ask({ replSetInitiate: config }) },
  quit: (code = 0) => process.exit(code),
}
try {
  require('node:vm').runInNewContext(process.argv[process.argv.indexOf('--eval') + 1], context)
  process.exit(0)
} catch (error) {
  console.error(String(error))
  process.exit(1)
}
`

const mongoEntrypoint = `#!/bin/bash
set -Eeuo pipefail
if [[ "$1" == mongo* ]] && [ "$(id -u)" = 0 ]; then
  chown -R mongodb /data/configdb /data/db
  exec gosu mongodb "$BASH_SOURCE" "$@"
fi
exec "$@"
`

const caddyImage = `FROM standin/debian
RUN mkdir -p /config/caddy /data/caddy /etc/caddy
COPY --chmod=755 caddy /usr/bin/caddy
ENV XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data
EXPOSE 80 443
CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]
`

const prometheusImage = `FROM standin/debian
COPY --chmod=755 prometheus /bin/prometheus
RUN mkdir -p /prometheus /etc/prometheus && chown nobody:nogroup /prometheus /etc/prometheus
USER nobody
EXPOSE 9090
VOLUME /prometheus
ENTRYPOINT ["/bin/prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
`

const grafanaImage = (node: string) => `FROM ${node}
RUN mkdir -p /var/lib/grafana && chown 472:0 /var/lib/grafana
USER 472
EXPOSE 3000
ENTRYPOINT ["/usr/local/bin/node", "-e", "const fs=require('fs');for(const d of ['/etc/grafana/provisioning','/dashboards'])for(const e of fs.readdirSync(d,{recursive:true,withFileTypes:true}))if(e.isFile())fs.readFileSync(e.parentPath+'/'+e.name);fs.writeFileSync('/var/lib/grafana/probe','');require('http').createServer((q,s)=>s.end('stand-in')).listen(3000);process.on('SIGTERM',()=>process.exit(0))"]
`

async function dockerfiles(): Promise<Record<keyof Awaited<ReturnType<typeof imageNames>>, string>> {
  const { node } = await imageNames()
  return {
    node: nodeImage,
    mongo: mongoImage(node),
    caddy: caddyImage,
    prometheus: prometheusImage,
    grafana: grafanaImage(node),
  }
}
