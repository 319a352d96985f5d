import type { Argument, Command, Option } from 'commander'

/** Completion for shells, made from the commands themselves. */

export const shells = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof shells)[number]

/** What may stand after some words of the command line. */
interface Place {
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
  const places = placesOf(program, [], values)
  switch (shell) {
    case 'bash':
      return bash(places)
    case 'zsh':
      return `#compdef rollcall\nautoload -U +X bashcompinit && bashcompinit\n${bash(places)}`
    case 'fish':
      return fish(places)
  }
}

function placesOf(command: Command, path: string[], known: Record<string, readonly string[]>): Place[] {
  const help = command.createHelp()
  const options = [...help.visibleOptions(command), ...help.visibleGlobalOptions(command)]
  const own: Place = {
    path: path.join(' '),
    description: command.description(),
    commands: help
      .visibleCommands(command)
      .map((child) => ({ name: child.name(), description: child.summary() || child.description() })),
    options: options.flatMap((option) => optionOf(option, known)),
    values: command.registeredArguments.flatMap((argument) => valuesOf(argument, known)),
    takesFile: command.registeredArguments.some((argument) => argument.name() === 'file'),
  }
  return [own, ...command.commands.flatMap((child) => placesOf(child, [...path, child.name()], known))]
}

function optionOf(option: Option, known: Record<string, readonly string[]>): Place['options'] {
  const flag = option.long
  if (flag === undefined || flag === null) return []
  const values = option.argChoices ?? known[flag] ?? []
  return [{ flag, description: option.description, takesValue: option.required, values }]
}

const valuesOf = (argument: Argument, known: Record<string, readonly string[]>): readonly string[] =>
  argument.argChoices ?? known[argument.name()] ?? []

function bash(places: Place[]): string {
  const words = places.map(
    ({ path, commands, options, values, takesFile }) =>
      `    '${path}') words='${[...commands.map(({ name }) => name), ...values, ...options.map(({ flag }) => flag)].join(' ')}'${takesFile ? '; files=1' : ''} ;;`,
  )
  const ofOptions = new Map(
    places.flatMap(({ options }) =>
      options.filter(({ takesValue }) => takesValue).map((o) => [o.flag, o.values]),
    ),
  )
  const optionCases = [...ofOptions].map(([flag, values]) => `    ${flag}) words='${values.join(' ')}' ;;`)
  const paths = places.map(({ path }) => `'${path}'`).join('|')
  return `# Completion of rollcall; load it with: source <(rollcall completion bash)
_rollcall() {
  local word="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}" path='' words='' files='' i try found
  for ((i = 1; i < COMP_CWORD; i++)); do
    try="\${path:+$path }\${COMP_WORDS[i]}"
    case "$try" in ${paths}) path="$try" ;; esac
  done
  case "$before" in
${optionCases.join('\n')}
    *) case "$path" in
${words.map((line) => `  ${line}`).join('\n')}
      esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  if [[ -n "$files" && "$word" != -* ]]; then
    word="\${word//\\\\/}"
    while IFS= read -r found; do COMPREPLY+=("$found"); done < <(compgen -f -- "\${word#[\\"\\']}")
  fi
}
complete -o filenames -F _rollcall rollcall
`
}

function fish(places: Place[]): string {
  const lines = places.flatMap((place) => {
    const words = place.path === '' ? [] : place.path.split(' ')
    const names = place.commands.map(({ name }) => name).join(' ')
    const seen = words.map((word) => `__fish_seen_subcommand_from ${word}`)
    const isHere = [...seen, ...(names === '' ? [] : [`not __fish_seen_subcommand_from ${names}`])].join(
      '; and ',
    )
    const condition = isHere === '' ? '' : ` -n '${isHere}'`
    return [
      ...place.commands.map(
        ({ name, description }) => `complete -c rollcall -f${condition} -a ${name} -d ${quoted(description)}`,
      ),
      ...place.values.map((value) => `complete -c rollcall -f${condition} -a ${value}`),
      ...(place.takesFile ? [`complete -c rollcall -F${condition}`] : []),
      ...place.options.map(({ flag, description, takesValue, values }) =>
        [
          `complete -c rollcall${condition} -l ${flag.slice(2)} -d ${quoted(description)}`,
          takesValue ? ' -r' : '',
          values.length > 0 ? ` -f -a ${quoted(values.join(' '))}` : '',
        ].join(''),
      ),
    ]
  })
  return `# Completion of rollcall; load it with: rollcall completion fish | source\n${lines.join('\n')}\n`
}

const quoted = (text: string): string => `'${text.replaceAll(/['\\]/g, (character) => `\\${character}`)}'`
