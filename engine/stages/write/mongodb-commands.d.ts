/** Internal to the driver, whose version is pinned; test/integration/imports.test.ts and all others fail without it. */
declare module 'mongodb/lib/cmap/commands.js' {
  export class DocumentSequence {
    constructor(field: string)
    /** Adds documents that are BSON already. */
    push(document: unknown, bytes: Uint8Array): number
  }
}
