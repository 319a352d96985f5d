/** Grafana's JSON for a dashboard of rows of panels; only what ours need of it. */

export interface Query {
  expr: string
  /** What a series is called: text, or labels as `{{state}}`. */
  legend: string
}

export interface Panel {
  title: string
  description?: string
  kind: 'timeseries' | 'stat' | 'heatmap'
  /** One of Grafana's units: `s`, `bytes`, `Bps`, `percentunit`, `short`, `rowsps`, ... */
  unit: string
  queries: Query[]
  stacked?: boolean
}

export interface Dashboard {
  uid: string
  title: string
  description: string
  panels: Panel[]
}

const datasource = { type: 'prometheus', uid: '${datasource}' }
const columns = 24
const sizes = { timeseries: { w: 12, h: 8 }, stat: { w: 6, h: 4 }, heatmap: { w: 12, h: 8 } } as const

export function grafanaJson({ uid, title, description, panels }: Dashboard): object {
  return {
    uid,
    title,
    description,
    tags: ['rollcall'],
    schemaVersion: 39,
    editable: false,
    refresh: '10s',
    time: { from: 'now-1h', to: 'now' },
    links: [{ type: 'dashboards', tags: ['rollcall'], title: 'Rollcall', asDropdown: false, keepTime: true }],
    templating: {
      list: [{ type: 'datasource', name: 'datasource', query: 'prometheus', label: 'Prometheus' }],
    },
    panels: placed(panels),
  }
}

/** From left to right, a new line where one is full or the height changes. */
function placed(panels: Panel[]): object[] {
  let x = 0
  let y = 0
  let lineHeight = 0
  return panels.map((panel, index) => {
    const { w, h } = sizes[panel.kind]
    if (x + w > columns || (x > 0 && h !== lineHeight)) {
      x = 0
      y += lineHeight
    }
    lineHeight = h
    const gridPos = { x, y, w, h }
    x += w
    return { id: index + 1, gridPos, ...panelJson(panel) }
  })
}

function panelJson({ kind, title, description, unit, queries, stacked = false }: Panel): object {
  const targets = queries.map(({ expr, legend }, index) => ({
    refId: String.fromCharCode(65 + index),
    expr,
    legendFormat: legend,
    ...(kind === 'heatmap' ? { format: 'heatmap' } : {}),
    ...(kind === 'stat' ? { instant: true } : {}),
  }))
  return {
    type: kind,
    title,
    ...(description === undefined ? {} : { description }),
    datasource,
    targets,
    ...options[kind](unit, stacked),
  }
}

const options: Record<Panel['kind'], (unit: string, stacked: boolean) => object> = {
  timeseries: (unit, stacked) => ({
    fieldConfig: {
      defaults: {
        unit,
        min: 0,
        custom: { fillOpacity: stacked ? 40 : 10, stacking: { mode: stacked ? 'normal' : 'none' } },
      },
      overrides: [],
    },
    options: {
      legend: { displayMode: 'list', placement: 'bottom' },
      tooltip: { mode: 'multi', sort: 'desc' },
    },
  }),
  stat: (unit) => ({
    fieldConfig: { defaults: { unit }, overrides: [] },
    options: { reduceOptions: { calcs: ['lastNotNull'] }, graphMode: 'area', colorMode: 'value' },
  }),
  heatmap: (unit) => ({
    options: { calculate: false, yAxis: { unit }, color: { scheme: 'Oranges', mode: 'scheme' }, cellGap: 1 },
  }),
}
