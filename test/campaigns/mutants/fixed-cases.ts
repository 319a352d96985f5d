import fc from 'fast-check'

/** Loaded before the tests of a mutant: the same cases for each, and the first one that fails is enough. */
fc.configureGlobal({ seed: 7, endOnFailure: true })
