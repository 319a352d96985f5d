import { createHash } from 'node:crypto'

/** The pages that a visitor of a confirmation link sees. */

const style = `
  :root { color-scheme: light dark; font: 1.125rem/1.5 system-ui, sans-serif; }
  body { max-width: 34rem; margin: 20vh auto 0; padding: 0 1.5rem; }
`
export const styleSource = `'sha256-${createHash('sha256').update(style).digest('base64')}'`

const page = (title: string, text: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title}</title>
<style>${style}</style>
</head>
<body>
<main>
<h1>${title}</h1>
<p>${text}</p>
</main>
</body>
</html>
`

export const pages = {
  confirmed: page('Your subscription is confirmed', 'Thank you. You can close this page.'),
  nothingToDo: page(
    'There is nothing more to do',
    'This link was used already, or it is no longer valid. If you expect mail from us and get none, please subscribe again.',
  ),
  later: page(
    'Please try again later',
    'Your confirmation can’t be taken just now. Please follow the link in your mail again in a few minutes.',
  ),
}
