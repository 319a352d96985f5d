/**
 * Recognizes files that are no table by the whole magic of their format. A short magic is not enough: the first
 * header of a table may be `PK`, `BM`, `GIF`, `[Email]` or `<Email>`.
 */

const checkedBytes = 64 * 1024

/**
 * A sentence that names the kind of file and what to do, for the beginning of a file that is no table; null for all
 * others.
 */
export function findNonTable(beginning: Buffer): string | null {
  const bytes = beginning.subarray(0, checkedBytes)
  const binary = binaryKinds.find(({ matches }) => matches(bytes))
  if (binary !== undefined) return binary.sentence
  if (isZip(bytes)) return findOfficeFile(bytes) ?? archive('a zip archive')
  const text = decode(bytes).trimStart()
  switch (text[0]) {
    case '<':
      return findMarkup(text)
    case '[':
    case '{':
      return isJson(text) ? convert('JSON') : null
    default:
      return textKinds.find(({ matches }) => matches(text))?.sentence ?? null
  }
}

/** The sentence for an Office file that is a zip, by its beginning; null for other zips and all other files. */
export function findOfficeFile(beginning: Buffer): string | null {
  const bytes = beginning.subarray(0, checkedBytes)
  return isZip(bytes) ? findOfficeZip(localNames(bytes), bytes) : null
}

/** The sentence for an Office file, which is a zip with these names; null for other zips. `head`: its first bytes. */
export function findOfficeZip(names: string[], head: Buffer): string | null {
  if (names.includes('[Content_Types].xml')) {
    const kind = openXmlKinds.find(([, folder]) => names.some((name) => name.startsWith(folder)))
    return saveAsCsv(kind?.[0] ?? 'an Office file')
  }
  // OpenDocument has its type as the first member, unpacked.
  const type = /^mimetypeapplication\/vnd\.oasis\.opendocument\.([a-z]+)/.exec(
    head.toString('latin1', 30, 200),
  )
  if (type?.[1] === 'spreadsheet') return saveAsCsv('an OpenDocument workbook (.ods)')
  if (type !== null || (names.includes('mimetype') && names.includes('META-INF/manifest.xml')))
    return saveAsCsv('an OpenDocument file')
  return names.some((name) => name.endsWith('Index/Document.iwa')) ? saveAsCsv('an Apple iWork file') : null
}

const openXmlKinds: [kind: string, folder: string][] = [
  ['an Excel workbook (.xlsx, .xlsb)', 'xl/'],
  ['a Word document (.docx)', 'word/'],
  ['a PowerPoint presentation (.pptx)', 'ppt/'],
]

const saveAsCsv = (kind: string): string =>
  `the file is ${kind}, and imports read tables as text: open it in its program, save it as CSV UTF-8 and import that file`
const convert = (kind: string): string =>
  `the file is ${kind}, and imports read tables as text: convert it, save it as CSV UTF-8 and import that file`
const archive = (kind: string): string =>
  `the file is ${kind}, which imports don't unpack: unpack it and import the table in it, saved as CSV UTF-8, or pack that table with zip, gzip or zstd`
const image = (kind: string): string =>
  `the file is ${kind}, and imports read tables as text: save the table itself as CSV UTF-8 and import that file`

const binaryKinds: { matches: (bytes: Buffer) => boolean; sentence: string }[] = [
  {
    matches: magic(/^d0cf11e0a1b11ae1/),
    sentence: saveAsCsv('an Excel workbook (.xls) or another Office file'),
  },
  { matches: textMagic(/^%PDF-\d\.\d/), sentence: convert('a PDF document') },
  { matches: textMagic(/^\{\\rtf\d/), sentence: saveAsCsv('a Rich Text document (.rtf)') },
  { matches: magic(/^89504e470d0a1a0a/), sentence: image('a PNG image') },
  // Start of image, and a marker that may come first.
  { matches: magic(/^ffd8ff(?:c.|db|dd|e.|fe)/), sentence: image('a JPEG image') },
  // The screen descriptor behind the magic has zeros, which text hasn't.
  { matches: textMagic(/^GIF8[79]a[^]{0,6}\0/), sentence: image('a GIF image') },
  // Four reserved zeros, and the size of one of the known headers.
  { matches: magic(/^424d.{8}0{8}.{8}(?:0c|10|28|34|38|40|6c|7c)0{6}/), sentence: image('a BMP image') },
  { matches: magic(/^(?:49492a00|4d4d002a)/), sentence: image('a TIFF image') },
  { matches: textMagic(/^RIFF[^]{4}WEBPVP8/), sentence: image('a WebP image') },
  {
    matches: textMagic(/^\0\0\0[^]ftyp(?:heic|heix|heif|mif1|msf1|avif|avis)/),
    sentence: image('a HEIF or AVIF image'),
  },
  { matches: magic(/^00000100/), sentence: image('an icon image (.ico)') },
  { matches: isTar, sentence: archive('a tar archive') },
  { matches: magic(/^377abcaf271c/), sentence: archive('a 7z archive') },
  { matches: magic(/^526172211a07/), sentence: archive('a RAR archive') },
  // A block and the magic of π, or the end of an empty file.
  { matches: magic(/^425a683[1-9](?:314159265359|177245385090)/), sentence: archive('packed with bzip2') },
  { matches: magic(/^fd377a585a00/), sentence: archive('packed with xz') },
]

const contacts = (kind: string): string =>
  `the file is ${kind}, and imports read tables as text: export the contacts as CSV UTF-8 from the program that wrote it and import that file`

const textKinds: { matches: (text: string) => boolean; sentence: string }[] = [
  {
    matches: (text) => /^BEGIN:VCARD[ \t]*[\r\n]+[\w.-]+[;:]/i.test(text),
    sentence: contacts('a vCard (.vcf)'),
  },
  {
    matches: (text) => /^BEGIN:VCALENDAR[ \t]*[\r\n]+[\w.-]+[;:]/i.test(text),
    sentence: convert('a calendar (.ics)'),
  },
  { matches: isLdif, sentence: contacts('an LDIF file (.ldif)') },
  {
    matches: isSqlDump,
    sentence:
      'the file is an SQL dump, and imports read tables as text: export the table with the people as CSV UTF-8 and import that file',
  },
]

/** A version, comments and blank lines may come before the first entry's name, under which its attributes are. */
function isLdif(text: string): boolean {
  const entry = text.replace(/^version: *\d+\s*[\r\n]/i, '').replace(/^(?:#.*|\s+)+/, '')
  return /^dn::? *\S.*(?:\r?\n .*)*\r?\n[A-Za-z][\w.-]*(?:;[\w-]+)*:/.test(entry)
}

/** A comment of SQL or of SQL*Plus, or a command of psql. MySQL has statements in comments. */
const sqlComment = /(?:--.*|#.*|rem .*|\/\*(?:(?!\*\/)[^])*\*\/;?|\\\w+.*)\s*/iy
/** A statement without a separator of tables in its first words: headers may be `Create date;Email` or `Set`. */
const sqlStatement = new RegExp(
  [
    String.raw`^(?:create|alter|drop)\s+(?:or\s+replace\s+)?(?:database|schema|table|type|sequence|extension|view|index)\s[^;,\t|\n]*(?:(?:\n\s*)?\(|;\s*[\r\n])`,
    String.raw`^(?:insert|replace\s+into)\s[^;]*\bvalues\s*\(`,
    String.raw`^truncate\s+table\s[^;,\t|\n]*;\s*[\r\n]`,
    String.raw`^copy\s[^;]*\sfrom\s+stdin`,
    String.raw`^(?:set|pragma)\s+[\w@.]+\s*=[^;\n]*;`,
    String.raw`^set\s+names\s+\w+;\s*[\r\n]`,
    String.raw`^set\s+(?:ansi_\w+|quoted_identifier|nocount|identity_insert\s[^;,\t|\n]*)\s(?:on|off)\b *;?\s*[\r\n]`,
    String.raw`^set\s+define\s+off;\s*[\r\n]`,
    String.raw`^lock\s+tables\s[^;\n]*;`,
    String.raw`^use\s+[\x60[]\w`,
    String.raw`^(?:begin|start)\s+transaction\s*;\s*[\r\n]`,
    String.raw`^begin; *\r?\n\s*(?:create|drop|insert|set|delete|update|copy)\s`,
  ].join('|'),
  'i',
)

function isSqlDump(text: string): boolean {
  let end = 0
  do {
    sqlComment.lastIndex = end
    end += sqlComment.exec(text)?.[0].length ?? 0
  } while (sqlComment.lastIndex > 0)
  return sqlStatement.test(text.slice(end))
}

const isZip = magic(/^504b0304/)

const magicBytes = 32

/** Whether a file's first bytes, in hexadecimal digits, are of the pattern. */
function magic(pattern: RegExp): (bytes: Buffer) => boolean {
  return (bytes) => pattern.test(bytes.toString('hex', 0, magicBytes))
}

/** The same for a magic that is mostly letters: each byte is one character. */
function textMagic(pattern: RegExp): (bytes: Buffer) => boolean {
  return (bytes) => pattern.test(bytes.toString('latin1', 0, magicBytes))
}

/** The first header holds its own checksum, computed with blanks in its place; every variant of tar has it. */
function isTar(bytes: Buffer): boolean {
  if (bytes.length < 512) return false
  const checksum = bytes.toString('latin1', 148, 156)
  const header = Buffer.from(bytes.subarray(0, 512)).fill(0x20, 148, 156)
  return (
    /^ *[0-7]+[\0 ]/.test(checksum) && header.reduce((sum, byte) => sum + byte, 0) === parseInt(checksum, 8)
  )
}

/** The part of a zip's local header before the name. */
const localHeader = /PK\x03\x04[^]{26}/g

/** The names in the local headers of a zip, of which only the beginning may be there. */
function localNames(bytes: Buffer): string[] {
  return Array.from(bytes.toString('latin1').matchAll(localHeader), ({ index }) => {
    const start = index + 30
    return bytes.toString('utf8', start, start + bytes.readUInt16LE(index + 26))
  })
}

/**
 * The beginning as text. UTF-16 is recognized by a NUL byte in its second character, which is ASCII in markup and JSON,
 * also where a byte order mark is the first.
 */
function decode(bytes: Buffer): string {
  const [, , third, fourth] = bytes
  const set = fourth === 0 ? 'utf-16le' : third === 0 ? 'utf-16be' : 'utf-8'
  return new TextDecoder(set).decode(bytes)
}

const xmlDeclaration = /^<\?xml\s+version\s*=/
/** A comment, a processing instruction or a document type. */
const prologPart = /(?:<!--(?:(?!-->)[^])*-->|<\?[^>]*\?>|<!doctype\s+([a-z_][\w:.-]*)(?:[\s[][^>]*)?>)\s*/giy
const name = String.raw`[A-Za-z_][\w.:-]*`
const attributes = String.raw`(?:\s+${name}\s*=\s*(?:"[^"<]*"|'[^'<]*'))*`
/** Between two tags of markup is nothing or a line break. In a table a separator or a cell follows. */
const gap = String.raw`(?: *[\r\n]\s*| *)`
const htmlStart = new RegExp(
  `^<(?:html|head|body|meta|table|style|script|div)(?:\\s[^<>]*)?>${gap}<(?:!--|/?(?:head|body|title|meta|link|base|script|style|table|caption|col|colgroup|thead|tbody|tr|th|td|div|p|h1|form|center|font)(?:\\s[^<>]*)?/?>)`,
  'i',
)
/** Short pages, and parts of pages that servers send without a page around them, as error messages. */
const htmlPart =
  /^<(html|body|title|h[1-6]|p|pre|center|script|noscript|style|div|form|iframe)(?:\s[^<>]*)?>(?![,;\t|])(?:(?!<\/\1)[^])*<\/\1\s*>\s*(?:<|$)|^<meta\s+(?:charset|http-equiv)\s*=/i
/** Elements in one another. An inner one is closed; the outer ones may be longer than the beginning that is read. */
const nestedElements = new RegExp(
  `^(?:<${name}${attributes}\\s*>${gap}){1,4}<(?:${name}${attributes}\\s*/>|(${name})${attributes}\\s*>[^]*?</\\1>)`,
)

/** The sentence for text that begins with `<`, where it is markup. */
function findMarkup(text: string): string | null {
  const isXml = xmlDeclaration.test(text)
  const { documentType, rest } = skipProlog(text)
  if (/^<svg\s[^<>]*xmlns/.test(rest)) return image('an SVG image')
  if (isXml && text.includes('urn:schemas-microsoft-com:office:spreadsheet'))
    return saveAsCsv('an Excel workbook in XML')
  if (isXml && text.includes('urn:oasis:names:tc:opendocument'))
    return saveAsCsv('an OpenDocument file in XML (.fods)')
  if (documentType === 'html' || htmlStart.test(rest) || htmlPart.test(rest)) return htmlPage
  return isXml || documentType !== null || nestedElements.test(rest) ? convert('an XML document') : null
}

const htmlPage =
  'the file is an HTML page, and imports read tables as text: give the URL of the file itself, without a login page before it, or open the page in a spreadsheet program, save it as CSV UTF-8 and import that file'

function skipProlog(text: string): { documentType: string | null; rest: string } {
  let documentType: string | null = null
  let end = 0
  for (const part of text.matchAll(prologPart)) {
    documentType ??= part[1]?.toLowerCase() ?? null
    end += part[0].length
  }
  return { documentType, rest: text.slice(end) }
}

/** The beginning of JSON whose first value doesn't end here. */
const jsonStart =
  /^(?:\[\s*)*\{\s*"(?:[^"\\\n]|\\.)*"\s*:|^(?:\[\s*)+"(?:[^"\\\n]|\\.)*"\s*[,\]]|^\[\s*\[\s*-?[\d.]+\s*[,\]]/

/** One JSON value, or several in lines. A value with a separator behind it is a cell. */
function isJson(text: string): boolean {
  const end = findValueEnd(text)
  if (end === null) return jsonStart.test(text)
  if (!/^\s*(?:$|[[{])/.test(text.slice(end))) return false
  try {
    JSON.parse(text.slice(0, end))
  } catch {
    return false
  }
  return true
}

/** The end of the array or object that the text begins with; null when the text ends before. */
function findValueEnd(text: string): number | null {
  let depth = 0
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"?|[[\]{}]/g)) {
    if (token.startsWith('"')) continue
    if (token === '[' || token === '{') depth += 1
    else depth -= 1
    if (depth === 0) return index + 1
  }
  return null
}
