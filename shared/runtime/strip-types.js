import { readFileSync } from 'node:fs'
import { registerHooks, stripTypeScriptTypes } from 'node:module'

/** Runs the TypeScript of this package from `node_modules`, in the process or thread that imports this module. */
const root = new URL('../../', import.meta.url).href

// Its first call warns on standard error that the function may change, which no user of the command can act on.
const { emitWarning } = process
process.emitWarning = () => undefined
stripTypeScriptTypes('')
process.emitWarning = emitWarning

registerHooks({
  load(url, context, nextLoad) {
    if (!url.startsWith(root) || !url.endsWith('.ts')) return nextLoad(url, context)
    const source = stripTypeScriptTypes(readFileSync(new URL(url), 'utf8'))
    return { format: 'module', source, shortCircuit: true }
  },
})
