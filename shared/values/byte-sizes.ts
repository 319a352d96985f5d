/**
 * The two meanings of MB in the contract. Bodies, records, and files that the command line reads itself, are bounded in
 * binary megabytes, as are buffers. Downloads, quotas, disk space and pages are counted in decimal ones.
 */
export const binaryMegabyte = 1024 * 1024
export const decimalMegabyte = 1_000_000
