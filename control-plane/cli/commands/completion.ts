import type { Argument, Command, Option } from 'commander'

/** Completion for shells, made from the commands themselves. */

export const shells = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof shells)[number]

/** What completion offers after some words of the command line. */
interface Offer {
  /** Words that lead there, such as `org create`. */
  path: string
  description: string
  commands: { name: string; description: string }[]
  options: { flag: string; description: string; takesValue: boolean; values: readonly string[] }[]
  /** Values of its arguments. */
  values: readonly string[]
  takesFile: boolean
}

export function completionScript(
  program: Command,
  shell: Shell,
  values: Record<string, readonly string[]>,
): string {
  return { bash, zsh, fish }[shell](collectOffers(program, [], values))
}

function collectOffers(command: Command, path: string[], known: Record<string, readonly string[]>): Offer[] {
  const help = command.createHelp()
  const options = [...help.visibleOptions(command), ...help.visibleGlobalOptions(command)]
  const own: Offer = {
    path: path.join(' '),
    description: command.description(),
    commands: help
      .visibleCommands(command)
      .map((child) => ({ name: child.name(), description: child.summary() || child.description() })),
    options: options.flatMap((option) => toOption(option, known)),
    values: command.registeredArguments.flatMap((argument) => argumentValues(argument, known)),
    takesFile: command.registeredArguments.some((argument) => argument.name() === 'file'),
  }
  return [own, ...command.commands.flatMap((child) => collectOffers(child, [...path, child.name()], known))]
}

function toOption(option: Option, known: Record<string, readonly string[]>): Offer['options'] {
  const flag = option.long
  if (flag === undefined || flag === null) return []
  const values = option.argChoices ?? known[flag] ?? []
  return [{ flag, description: option.description, takesValue: option.required, values }]
}

const argumentValues = (argument: Argument, known: Record<string, readonly string[]>): readonly string[] =>
  argument.argChoices ?? known[argument.name()] ?? []

/** Zsh runs this script too, so no variable may have one of zsh's own names, such as `path` and `words`. */
function bash(offers: Offer[]): string {
  const words = offers.map(
    ({ path, commands, options, values, takesFile }) =>
      `    '${path}') offered='${[...commands.map(({ name }) => name), ...values, ...options.map(({ flag }) => flag)].join(' ')}'${takesFile ? '; files=1' : ''} ;;`,
  )
  const ofOptions = new Map(
    offers.flatMap(({ options }) =>
      options.filter(({ takesValue }) => takesValue).map((o) => [o.flag, o.values]),
    ),
  )
  const optionCases = [...ofOptions].map(([flag, values]) => `    ${flag}) offered='${values.join(' ')}' ;;`)
  const paths = offers.map(({ path }) => `'${path}'`).join('|')
  return `# Completion of rollcall; load it with: source <(rollcall completion bash)
_rollcall_words() {
  local word="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" place='' offered='' files='' i try found
  for ((i = 1; i < COMP_CWORD; i++)); do
    try="\${place:+$place }\${COMP_WORDS[i]}"
    case "$try" in ${paths}) place="$try" ;; esac
  done
  case "$before" in
${optionCases.join('\n')}
    *) case "$place" in
${words.map((line) => `  ${line}`).join('\n')}
      esac ;;
  esac
  COMPREPLY=($(compgen -W "$offered" -- "$word"))
  if [[ -n "$files" && "$word" != -* ]]; then
    word="\${word//\\\\/}"
    while IFS= read -r found; do COMPREPLY+=("$found"); done < <(compgen -f -- "\${word#[\\"\\']}")
  fi
}
complete -o filenames -F _rollcall_words rollcall
`
}

/**
 * When it is sourced, the script registers itself. As a file of `fpath` it runs at the first TAB and completes that
 * too.
 */
const zsh = (offers: Offer[]): string => `#compdef rollcall
autoload -U +X bashcompinit && bashcompinit
${bash(offers)}
if [[ "\${funcstack[1]}" == _rollcall ]]; then _bash_complete -o filenames -F _rollcall_words; fi
`

function fish(offers: Offer[]): string {
  const paths = offers.map(({ path }) => quoted(path)).join(' ')
  const lines = offers.flatMap((offer) => {
    const condition = ` -n ${quoted(`__rollcall_at ${offer.path}`.trimEnd())}`
    return [
      ...offer.commands.map(
        ({ name, description }) => `complete -c rollcall -f${condition} -a ${name} -d ${quoted(description)}`,
      ),
      ...offer.values.map((value) => `complete -c rollcall -f${condition} -a ${value}`),
      ...(offer.takesFile ? [`complete -c rollcall -F${condition}`] : []),
      ...offer.options.map(({ flag, description, takesValue, values }) =>
        [
          `complete -c rollcall${condition} -l ${flag.slice(2)} -d ${quoted(description)}`,
          takesValue ? ' -r' : '',
          values.length > 0 ? ` -f -a ${quoted(values.join(' '))}` : '',
        ].join(''),
      ),
    ]
  })
  return `# Completion of rollcall; load it with: rollcall completion fish | source
# Whether the words before the cursor lead to this command. It compares whole paths, since a name can have several meanings.
function __rollcall_at
  set -l place
  set -l words (commandline -opc)
  set -e words[1]
  for word in $words
    set -l try (string trim -- "$place $word")
    contains -- $try ${paths}; and set place $try
  end
  test "$place" = "$argv"
end
${lines.join('\n')}
`
}

const quoted = (text: string): string => `'${text.replaceAll(/['\\]/g, (character) => `\\${character}`)}'`
