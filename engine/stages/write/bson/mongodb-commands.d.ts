/** An internal module of the driver, whose version is pinned. Without it every test that imports rows fails. */
declare module 'mongodb/lib/cmap/commands.js' {
  export class DocumentSequence {
    constructor(field: string)
    /** Adds documents that are BSON already. */
    push(document: unknown, bytes: Uint8Array): number
    /** The bytes of the sequence in a message. */
    toBin(): Uint8Array
  }
}
