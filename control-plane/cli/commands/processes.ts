import { spawn } from 'node:child_process'
import { programEnvironment } from '../../../shared/runtime/config.ts'
import { exitCodes } from '../exit-codes.ts'

/**
 * Replaces this process by the program (execve), so that signals and the exit code are the program's own. Below `npx`,
 * which starts a shell and on SIGTERM ends only that, this process stays and stops the program when its parent has
 * gone.
 */
export async function becomeProgram(program: {
  file: string
  environment: Record<string, string>
}): Promise<number> {
  const environment = programEnvironment({ fallbacks: program.environment })
  if (process.platform !== 'win32' && environment['npm_command'] !== 'exec')
    process.execve?.(process.execPath, [process.execPath, program.file], environment)
  // The program notices by the IPC channel when this process has gone.
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
      resolve(code ?? exitCodes.failed)
    })
  })
}
