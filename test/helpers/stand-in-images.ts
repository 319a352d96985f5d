import { copyFile, cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'
import { command, makeDebian, type DockerEngine } from './docker-engine.ts'

/**
 * Images under the names of those that Dockerfile and docker-compose.yml begin with, made of Debian's packages, npm's
 * Node.js and the test's mongod, for a machine that reaches no registry. Grafana can't be had: its stand-in only reads
 * what the image has for it, and answers.
 */
const root = fileURLToPath(new URL('../..', import.meta.url))

export interface StandInOptions {
  engine: DockerEngine
  /** The folder that holds the engine's Debian; a second one is made beside it. */
  debian: string
  mongod: string
  /** Paths of mongodump and mongorestore, where they are installed. */
  databaseTools: string[]
}

export async function makeStandInImages({
  engine,
  debian,
  mongod,
  databaseTools,
}: StandInOptions): Promise<void> {
  const base = `${debian}-base`
  await makeDebian(base, 'bookworm', ['libatomic1', 'libcurl4', 'libzstd1', 'gosu'])
  const context = path.join(engine.folder, 'images')
  const put = async (name: string, dockerfile: string): Promise<string> => {
    await mkdir(path.join(context, name), { recursive: true })
    await writeFile(path.join(context, name, 'Dockerfile'), dockerfile)
    return path.join(context, name)
  }
  const names = await imageNames()

  const node = await put('node', nodeImage)
  await copyFile(process.execPath, path.join(node, 'node'))
  await cp(await npmPackage(engine.folder), path.join(node, 'npm'), { recursive: true })
  await fillPackageCache(path.join(node, 'npm-cache'), engine.folder)
  await writeFile(
    path.join(node, 'npmrc'),
    `registry=${await command('npm', ['config', 'get', 'registry'])}\noffline=true\n`,
  )

  const mongo = await put('mongo', mongoImage)
  await copyFile(mongod, path.join(mongo, 'mongod'))
  await copyFile(process.execPath, path.join(mongo, 'node'))
  await writeFile(path.join(mongo, 'mongosh'), mongoshStandIn, { mode: 0o755 })
  await mkdir(path.join(mongo, 'tools'))
  for (const tool of databaseTools) await copyFile(tool, path.join(mongo, 'tools', path.basename(tool)))
  await cp(path.join(root, 'node_modules/mongodb'), path.join(mongo, 'node_modules/mongodb'), {
    recursive: true,
  })
  for (const name of [
    'bson',
    'mongodb-connection-string-url',
    '@mongodb-js',
    'whatwg-url',
    'tr46',
    'webidl-conversions',
    'punycode',
    'memory-pager',
    'sparse-bitfield',
  ])
    await cp(path.join(root, 'node_modules', name), path.join(mongo, 'node_modules', name), {
      recursive: true,
    }).catch(() => undefined)
  await writeFile(path.join(mongo, 'docker-entrypoint.sh'), mongoEntrypoint, { mode: 0o755 })

  await command('chroot', [
    debian,
    'env',
    '--unset=TMPDIR',
    'sh',
    '-c',
    'cd /root && apt-get -qq download caddy prometheus',
  ])
  for (const [name, dockerfile] of [
    ['caddy', caddyImage],
    ['prometheus', prometheusImage],
  ] as const) {
    const folder = await put(name, dockerfile)
    await command('sh', [
      '-c',
      `dpkg-deb -x "$1"/root/${name}_*.deb "$2"/unpacked && mv "$2/unpacked/usr/bin/${name}" "$2" && rm -r "$2/unpacked"`,
      'sh',
      debian,
      folder,
    ])
  }
  const grafana = await put('grafana', grafanaImage)
  await copyFile(process.execPath, path.join(grafana, 'node'))

  await command('sh', [
    '-c',
    `tar -C "$1" --exclude=./var/cache --exclude=./usr/share/doc --exclude=./usr/share/locale -cf "$2" .`,
    'sh',
    base,
    path.join(engine.folder, 'base.tar'),
  ])
  await engine.run('docker import base.tar standin/bookworm && rm base.tar')
  for (const [name, tag] of Object.entries(names))
    await engine.run(`docker build -q -t ${tag} images/${name}`)
  await rm(context, { recursive: true, force: true })
}

/** What Dockerfile and compose file begin with, by the kind of stand-in. */
async function imageNames(): Promise<Record<'node' | 'mongo' | 'caddy' | 'prometheus' | 'grafana', string>> {
  const dockerfile = await readFile(path.join(root, 'Dockerfile'), 'utf8')
  const { services } = parse(await readFile(path.join(root, 'docker-compose.yml'), 'utf8'), {
    merge: true,
  }) as {
    services: Record<string, { image: string; build?: { dockerfile_inline?: string } }>
  }
  const firstOf = (text: string) => /^FROM (\S+)/m.exec(text)![1]!
  const builtFrom = (service: string) => firstOf(services[service]!.build!.dockerfile_inline!)
  return {
    node: firstOf(dockerfile),
    mongo: services['mongodb']!.image,
    caddy: builtFrom('proxy'),
    prometheus: builtFrom('prometheus'),
    grafana: builtFrom('grafana'),
  }
}

/** npm as the image of Node.js has it. */
async function npmPackage(folder: string): Promise<string> {
  const unpacked = path.join(folder, 'npm')
  await mkdir(unpacked, { recursive: true })
  const [packed] = JSON.parse(await command('npm', ['pack', '--json', 'npm@11'], { cwd: unpacked })) as [
    { filename: string },
  ]
  await command('tar', ['xzf', packed.filename], { cwd: unpacked })
  return path.join(unpacked, 'package')
}

/** Everything that `npm ci` in the image asks for, so that it needs no network. */
async function fillPackageCache(cache: string, folder: string): Promise<void> {
  const stage = path.join(folder, 'stage')
  await mkdir(stage, { recursive: true })
  for (const name of ['package.json', 'package-lock.json', '.npmrc'])
    await copyFile(path.join(root, name), path.join(stage, name))
  await command('npm', ['ci', '--silent', '--omit=dev', '--omit=optional', '--cache', cache], { cwd: stage })
  await rm(stage, { recursive: true, force: true })
}

const nodeImage = `FROM standin/bookworm
RUN groupadd --gid 1000 node && useradd --uid 1000 --gid node --shell /bin/bash --create-home node
COPY --chmod=755 node /usr/local/bin/node
COPY npm /usr/local/lib/node_modules/npm
COPY npm-cache /root/.npm
COPY npmrc /usr/local/etc/npmrc
RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm && chmod 755 /usr/local/lib/node_modules/npm/bin/*.js
CMD ["node"]
`

const mongoImage = `FROM standin/bookworm
RUN groupadd --gid 999 --system mongodb && useradd --uid 999 --system --gid mongodb --home-dir /data/db mongodb \\
 && mkdir -p /data/db /data/configdb && chown mongodb:mongodb /data/db /data/configdb
COPY --chmod=755 node /opt/node
COPY node_modules /opt/node_modules
COPY --chmod=755 mongod mongosh /usr/bin/
COPY --chmod=755 tools /usr/bin/
COPY docker-entrypoint.sh /usr/local/bin/
VOLUME /data/db /data/configdb
EXPOSE 27017
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["mongod"]
`

/** What the health check and the pages ask of mongosh: rs.status, rs.initiate, db.hello, quit. */
const mongoshStandIn = `#!/opt/node
const { MongoClient } = require('/opt/node_modules/mongodb')
const text = process.argv[process.argv.indexOf('--eval') + 1]
MongoClient.connect('mongodb://127.0.0.1:27017/?directConnection=true', { serverSelectionTimeoutMS: 5000 }).then(async (client) => {
  const admin = client.db('admin')
  const status = await admin.command({ replSetGetStatus: 1 }).catch(() => null)
  const config = /rs\\.initiate\\((\\{.*?\\}\\]\\})\\)/.exec(text)
  if (status === null && config !== null) await admin.command({ replSetInitiate: eval('(' + config[1] + ')') })
  const hello = await admin.command({ hello: 1 })
  await client.close()
  process.exit(hello.isWritablePrimary ? 0 : 1)
}, () => process.exit(1))
`

const mongoEntrypoint = `#!/bin/bash
set -Eeuo pipefail
if [[ "$1" == mongo* ]] && [ "$(id -u)" = 0 ]; then
  chown -R mongodb /data/configdb /data/db
  exec gosu mongodb "$BASH_SOURCE" "$@"
fi
exec "$@"
`

const caddyImage = `FROM standin/bookworm
RUN mkdir -p /config/caddy /data/caddy /etc/caddy
COPY --chmod=755 caddy /usr/bin/caddy
ENV XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data
EXPOSE 80 443
CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]
`

const prometheusImage = `FROM standin/bookworm
COPY --chmod=755 prometheus /bin/prometheus
RUN mkdir -p /prometheus /etc/prometheus && chown nobody:nogroup /prometheus /etc/prometheus
USER nobody
EXPOSE 9090
VOLUME /prometheus
ENTRYPOINT ["/bin/prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
`

const grafanaImage = `FROM standin/bookworm
COPY --chmod=755 node /usr/local/bin/node
RUN mkdir -p /var/lib/grafana && chown 472:0 /var/lib/grafana
USER 472
EXPOSE 3000
ENTRYPOINT ["/usr/local/bin/node", "-e", "const fs=require('fs');for(const d of ['/etc/grafana/provisioning','/dashboards'])for(const e of fs.readdirSync(d,{recursive:true,withFileTypes:true}))if(e.isFile())fs.readFileSync(e.parentPath+'/'+e.name);fs.writeFileSync('/var/lib/grafana/probe','');require('http').createServer((q,s)=>s.end('stand-in')).listen(3000);process.on('SIGTERM',()=>process.exit(0))"]
`
