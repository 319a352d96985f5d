import type { DecodedSet } from './character-sets.ts'

/** The names of the sets in glibc's iconv. */
export const iconvNames: Readonly<Record<DecodedSet, string>> = {
  'utf-8': 'UTF-8',
  'iso-8859-1': 'ISO-8859-1',
  'windows-1252': 'CP1252',
  'windows-1250': 'CP1250',
  'windows-1251': 'CP1251',
  'iso-8859-2': 'ISO-8859-2',
  'iso-8859-15': 'ISO-8859-15',
  'utf-16le': 'UTF-16LE',
  'utf-16be': 'UTF-16BE',
  shift_jis: 'CP932',
  gbk: 'GB18030',
  big5: 'BIG5-HKSCS',
  'euc-kr': 'CP949',
}

export const twoByteSets: readonly DecodedSet[] = ['shift_jis', 'gbk', 'big5', 'euc-kr']

const words = (text: string): string[] => text.trim().split(/\s+/)

const inclusive = (first: number, last: number): string[] =>
  Array.from({ length: last - first + 1 }, (_, i) => (first + i).toString(16))

/** Codes that iconv reads otherwise than the Encoding Standard, in hexadecimal, by hand. */
export const knownCodes: Readonly<Partial<Record<DecodedSet, readonly string[]>>> = {
  // A control in the standard and in Windows, nothing in iconv.
  shift_jis: ['80'],
  gbk: [
    // The euro sign in the standard and in Windows, nothing in GB18030.
    '80',
    // A private character in GB18030; the standard reads the ideographic space, as many pages have it there.
    'a3a0',
    // Private characters in the standard, as in GBK; letters of Unicode 3.1 in iconv.
    ...words('fe51 fe52 fe53 fe6c fe76 fe91'),
    // Second codes, from 2005, of characters to which GB18030-2022 gives two bytes. iconv has the latter alone.
    ...inclusive(0x82_35_90_37, 0x82_35_90_39),
    ...inclusive(0x82_35_91_30, 0x82_35_91_34),
    ...inclusive(0x84_31_82_36, 0x84_31_82_39),
    ...inclusive(0x84_31_83_30, 0x84_31_83_35),
  ],
  big5: [
    // A control in iconv, nothing in the standard.
    '80',
    // Second codes of characters that Big5 has elsewhere. HKSCS dropped them, and the standard still reads them.
    ...words(`
      8e69 8e6f 8e7e 8eab 8eb4 8ecd 8ed0 8f57 8f69 8f6e 8fcb 8fcc 8ffe 906d 907a 90dc 90f1 91bf 9244 92af 92b0 92b1
      92b2 92c8 92d1 9447 94ca 95d9 9644 96ed 96fc 9b76 9b78 9b7b 9bc6 9bde 9bec 9bf6 9c42 9c53 9c62 9c68 9c6b 9c77
      9cbc 9cbd 9cd0 9d57 9d5a 9dc4 9ea9 9eef 9efd 9f60 9f66 9fcb 9fd8 a063 a077 a0d5 a0df a0e4
      c6cf c6d3 c6d5 c6d7 c6de c6df fa5f fa66 fabd fac5 fad5 fb48 fbb8 fbf3 fbf9 fc4f fc6c fcb9 fce2 fcf1 fdb7 fdb8
      fdbb fdf1 fe52 fe6f feaa fedd`),
    // The standard reads these as Windows does (CP950), iconv as Hong Kong's government.
    ...words(
      'a145 a14e a15a a1c2 a1c3 a1c5 a1e3 a1f2 a1f3 a1fe a240 a241 a242 a244 a246 a247 a2cc a2ce a3e1',
    ),
    // Pictures of controls, of the ETEN extensions.
    ...inclusive(0xa3_c0, 0xa3_e0),
  ],
}

/** Codes of four bytes: all of the first planes' beginning, and one of 997 others. */
export function longCodes(): Buffer[] {
  const firstPlane = 4 * 10 * 126 * 10
  const count = 126 * 10 * 126 * 10
  const codes: Buffer[] = []
  for (let pointer = 0; pointer < count; pointer += pointer < firstPlane ? 1 : 997)
    codes.push(
      Buffer.of(
        0x81 + Math.floor(pointer / 12_600),
        0x30 + (Math.floor(pointer / 1260) % 10),
        0x81 + (Math.floor(pointer / 10) % 126),
        0x30 + (pointer % 10),
      ),
    )
  return codes
}
