import type { VNode } from 'preact'
import { html } from 'htm/preact'
import { statusName } from './counts.ts'
import { zone } from './format.ts'
import { saysConsent } from './import-columns.ts'
import type { DraftState, ImportDraft } from './import-draft.ts'
import { Check, Field, isTicked, Select, valueOf } from './page.ts'

interface PanelProps {
  draft: ImportDraft
  state: DraftState
}

export function OptionsPanel({ draft, state }: PanelProps): VNode {
  const { options } = state
  const tick = (
    key: 'overwrite' | 'deactivate' | 'triggers' | 'triggersOnUpdated' | 'clearsBlanks' | 'usesFieldDefaults',
  ) => ({
    checked: options[key],
    onChange: (event: Event) => draft.setOptions({ [key]: isTicked(event) }),
  })
  return html`<section class="panel">
    <h2>Options</h2>
    <${Consent} ...${{ draft, state }} />
    <${Check} label="Overwrite existing subscribers" ...${tick('overwrite')} />
    ${options.overwrite ? html`<${OverwriteParts} ...${{ draft, state }} />` : html`<p class="hint sub">Who is on the list already stays as is.</p>`}
    <${Check} label="Deactivate subscribers not in the file" ...${tick('deactivate')} />
    <p class="hint sub">For a file that has everyone. Active subscribers that are missing in it are deactivated at the end.</p>
    <${Check} label="Send on-subscription autoresponders" ...${tick('triggers')} />
    ${
      options.triggers &&
      options.overwrite &&
      html`<div class="sub"><${Check} label="Also to updated subscribers" ...${tick('triggersOnUpdated')} /></div>`
    }
    <${Check} label="Blank cells clear the field" ...${tick('clearsBlanks')} />
    <${Check} label="Fill in the fields’ defaults" ...${tick('usesFieldDefaults')} />
    <${Field}
      label="Begin later"
      type="datetime-local"
      value=${options.beginsAt}
      hint=${`Blank: at once. The time is in ${zone()}.`}
      onChange=${(event: Event) => draft.setOptions({ beginsAt: valueOf(event) })}
    />
  </section>`
}

function OverwriteParts({ draft, state: { list, options } }: PanelProps): VNode {
  const { overwriteWhat: what, overwriteWhenStatus: when } = options
  const parts = [
    ['custom_fields', 'Fields'],
    ['status', 'Status'],
    ...(list.has_format ? [['format', 'Email format']] : []),
    ...(list.has_confirmed ? [['confirmed', 'Confirmed']] : []),
  ] as [keyof typeof what, string][]
  return html`<div class="sub parts">
    <fieldset>
      <legend>What is overwritten</legend>
      ${parts.map(
        ([key, name]) =>
          html`<${Check} key=${key} label=${name} checked=${what[key]} onChange=${(event: Event) => draft.setOptions({ overwriteWhat: { ...what, [key]: isTicked(event) } })} />`,
      )}
    </fieldset>
    <fieldset>
      <legend>Of subscribers who are</legend>
      ${(Object.keys(when) as (keyof typeof when)[]).map(
        (key) =>
          html`<${Check} key=${key} label=${statusName(key)} checked=${when[key]} onChange=${(event: Event) => draft.setOptions({ overwriteWhenStatus: { ...when, [key]: isTicked(event) } })} />`,
      )}
    </fieldset>
  </div>`
}

/** Where no column says who wants mail, a person has to say it. */
function Consent({ draft, state }: PanelProps): VNode | null {
  const { targets, options, inspection } = state
  if (saysConsent(targets)) return null
  const choice = (value: 'active' | 'unsubscribed', name: string, hint: string) =>
    html`<label class="check">
      <input type="radio" name="consent" required checked=${options.consent === value} onChange=${() => draft.setOptions({ consent: value })} />
      <span>${name} <span class="hint">${hint}</span></span>
    </label>`
  const columns = [
    ['', 'Choose…'],
    ...(inspection?.columns ?? []).map(({ header }, i) => [String(i), header ?? `Column ${i + 1}`]),
  ]
  return html`<fieldset class="consent">
    <legend>New subscribers are</legend>
    ${choice('active', 'Subscribed', 'they agreed to get mail')}
    ${choice('unsubscribed', 'Unsubscribed', 'they get none')}
    <${Select}
      label="Or the column that says so"
      value=""
      options=${columns}
      onPick=${(column: string) => column !== '' && draft.setTarget(Number(column), 'field:consent')}
    />
  </fieldset>`
}
