import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { rm, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'

/** Mounts an empty disk of that many MiB on the folder, until the end of the test. */
export function mountSmallDisk(t: Test, folder: string, megabytes: number): void {
  mount(folder, megabytes)
  t.teardown(() => unmount(folder))
}

/** Fills the disk up to that many free bytes. Resolves to a function that frees the space again. */
export async function fillDisk(folder: string, leftBytes: number): Promise<() => Promise<void>> {
  const file = path.join(folder, 'ballast')
  const { bavail, bsize } = await statfs(folder)
  // `dd` ends with an error where other programs were faster and the disk is full before.
  const blocks = (bavail * bsize - leftBytes) / 65_536
  spawnSync('dd', ['if=/dev/zero', `of=${file}`, 'bs=65536', `count=${Math.ceil(blocks)}`])
  return () => rm(file)
}

/** The reason why a test with a small disk is skipped; false where one can be mounted. */
export function whyNoSmallDisk(): string | false {
  const folder = mkdtempSync(path.join(tmpdir(), 'rollcall-disk-'))
  try {
    mount(folder, 1)
    unmount(folder)
    return false
  } catch {
    return 'no right to mount a small disk here: run it as root, or in `unshare --map-root-user --mount`'
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const mount = (folder: string, megabytes: number) =>
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', folder], { stdio: 'pipe' })
const unmount = (folder: string) => execFileSync('umount', ['-l', folder])
