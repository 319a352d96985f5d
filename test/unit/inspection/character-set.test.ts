import t from 'tap'
import {
  asUtf8,
  detectCharacterSet,
} from '../../../control-plane/resources/import-inspection/character-set.ts'

const detected = (bytes: Buffer, isWhole = false) => detectCharacterSet(bytes, { isWhole })
const text = 'email;Größe\njörg@example.com;“5 €”\n'
const bom = (...bytes: number[]) => Buffer.from(bytes)
const swapped = (bytes: Buffer) => Buffer.from(bytes).swap16()

t.test('each character set is recognized by its bytes, and read back without loss', (t) => {
  const wide = Buffer.from(text, 'utf16le')
  const windows = Buffer.concat([
    Buffer.from('email;Größe\njörg@example.com;', 'latin1'),
    Buffer.from([0x93, 0x35, 0x20, 0x80, 0x94, 0x0a]),
  ])
  const files: [bytes: Buffer, expected: string, as?: string][] = [
    [Buffer.from(text), 'utf-8'],
    [Buffer.concat([bom(0xef, 0xbb, 0xbf), Buffer.from(text)]), 'utf-8'],
    [Buffer.concat([bom(0xff, 0xfe), wide]), 'utf-16le'],
    [Buffer.concat([bom(0xfe, 0xff), swapped(wide)]), 'utf-16be'],
    [wide, 'utf-16le'],
    [swapped(wide), 'utf-16be'],
    [windows, 'windows-1252'],
    [Buffer.from('email\njörg@example.com\n', 'latin1'), 'iso-8859-1', 'email\njörg@example.com\n'],
    [Buffer.alloc(0), 'utf-8', ''],
    [Buffer.from('email\n'), 'utf-8', 'email\n'],
  ]
  for (const [bytes, expected, as] of files) {
    t.equal(detected(bytes), expected)
    t.equal(asUtf8(bytes, detected(bytes)).toString(), as ?? text, expected)
  }
  t.end()
})

t.test('neither a cut character nor one broken cell makes another character set of UTF-8', (t) => {
  const whole = Buffer.from(text.repeat(3))
  const multibyte = whole.indexOf(0xc3)
  t.equal(detected(whole.subarray(0, multibyte + 1)), 'utf-8')
  t.equal(detected(Buffer.from('a\n€').subarray(0, 4)), 'utf-8')
  t.equal(detected(Buffer.concat([whole, Buffer.from('josé@example.com\n', 'latin1'), whole])), 'utf-8')
  t.equal(detected(Buffer.from('josé', 'latin1'), true), 'iso-8859-1', 'its last character is no half one')
  t.end()
})
