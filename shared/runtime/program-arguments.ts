import { fileURLToPath } from 'node:url'

/** Node.js strips the types of no file in `node_modules`, where this package is once it is installed. */
const isInstalled = /[/\\]node_modules[/\\]/.test(import.meta.dirname)

/** The arguments with which Node.js runs a TypeScript file of this package. */
export const programArguments = (file: URL | string): string[] => [
  ...(isInstalled ? ['--import', new URL('strip-types.js', import.meta.url).href] : []),
  typeof file === 'string' ? file : fileURLToPath(file),
]
