import { spawn } from 'node:child_process'
import { programEnvironment } from '../../../shared/runtime/config.ts'

/**
 * Becomes the program, so that signals and exit code are its own, as where an npm script starts it. Below `npx`, which
 * starts a shell and on SIGTERM ends just that, it stays beside the program and stops it when its parent is gone.
 */
export async function becomeProgram(program: {
  file: string
  environment: Record<string, string>
}): Promise<number> {
  const environment = programEnvironment({ fallbacks: program.environment })
  const canBecome = process.platform !== 'win32' && typeof process.execve === 'function'
  if (canBecome && environment['npm_command'] !== 'exec')
    process.execve!(process.execPath, [process.execPath, program.file], environment)
  // The channel tells the program when this process is gone.
  const child = spawn(process.execPath, [program.file], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: environment,
  })
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  // A terminal sends Ctrl-C to both, and a second one would end the program at once.
  process.on('SIGINT', () => process.stdin.isTTY || child.kill('SIGINT'))
  const parent = process.ppid
  const watch = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(watch)
    child.kill('SIGTERM')
  }, 500)
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', (code) => {
      clearInterval(watch)
      resolve(code ?? 1)
    })
  })
}
