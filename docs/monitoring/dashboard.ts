import type { Builder } from '@grafana/grafana-foundation-sdk/cog'
import * as common from '@grafana/grafana-foundation-sdk/common'
import * as grafana from '@grafana/grafana-foundation-sdk/dashboard'
import * as heatmap from '@grafana/grafana-foundation-sdk/heatmap'
import * as prometheus from '@grafana/grafana-foundation-sdk/prometheus'
import * as stat from '@grafana/grafana-foundation-sdk/stat'
import * as timeseries from '@grafana/grafana-foundation-sdk/timeseries'

/** Panels and dashboards of one look, in Grafana's own types. */

/** By what a series is called, text or labels as `{{state}}`, its query. */
type Queries = Record<string, string>
/** Empty for a value that is neither good nor bad. */
type Limits = grafana.Threshold[]

const datasource = { type: 'prometheus', uid: '${datasource}' }

/** Green, amber from one value on, and red from another one on. */
export const above = (amber: number, red?: number): Limits => [
  { value: null, color: 'green' },
  { value: amber, color: 'orange' },
  ...(red === undefined ? [] : [{ value: red, color: 'red' }]),
]

/** Green, amber below one value, and red below another one. */
export const below = (amber: number, red: number): Limits => [
  { value: null, color: 'red' },
  { value: red, color: 'orange' },
  { value: amber, color: 'green' },
]

interface Content<Show> {
  /** What is good, and what to do otherwise. */
  text: string
  show: Show
}

function begin<P extends timeseries.PanelBuilder | stat.PanelBuilder | heatmap.PanelBuilder>(
  panel: P,
  title: string,
  { text, show }: Content<Queries>,
  format = prometheus.PromQueryFormat.TimeSeries,
): P {
  panel.title(title).description(text).datasource(datasource).span(8).height(7)
  for (const [index, [legend, expr]] of Object.entries(show).entries()) {
    const target = new prometheus.DataqueryBuilder().refId(String.fromCharCode(65 + index)).format(format)
    target.expr(expr).legendFormat(legend)
    panel.withTarget(panel instanceof stat.PanelBuilder ? target.instant() : target.range())
  }
  return panel
}

/** Lines over time, with a dashed one at each limit. */
export function graph(title: string, unit: string, limits: Limits, content: Content<Queries>) {
  const panel = begin(new timeseries.PanelBuilder(), title, content).unit(unit).min(0).fillOpacity(10)
  panel
    .legend(new common.VizLegendOptionsBuilder().showLegend(true))
    .tooltip(new common.VizTooltipOptionsBuilder().mode(common.TooltipDisplayMode.Multi))
  if (limits.length === 0) return panel
  const style = new common.GraphThresholdsStyleConfigBuilder().mode(common.GraphThresholdsStyleMode.Dashed)
  return panel.thresholds(new grafana.ThresholdsConfigBuilder().steps(limits)).thresholdsStyle(style)
}

export const stacked = (...of: Parameters<typeof graph>) =>
  graph(...of).stacking(new common.StackingConfigBuilder().mode(common.StackingMode.Normal))

/** One value, whose colour says whether it is good. */
export const single = (title: string, unit: string, limits: Limits, { text, show }: Content<string>) =>
  begin(new stat.PanelBuilder(), title, { text, show: { [title]: show } })
    .unit(unit)
    .thresholds(new grafana.ThresholdsConfigBuilder().steps(limits))
    .colorMode(common.BigValueColorMode.Background)
    .graphMode(common.BigValueGraphMode.None)
    .reduceOptions(new common.ReduceDataOptionsBuilder().calcs(['lastNotNull']))
    .span(6)
    .height(3)

/** Durations by frequency, of the buckets of a histogram. */
export const heat = (title: string, { text, show }: Content<string>) =>
  begin(
    new heatmap.PanelBuilder(),
    title,
    { text, show: { '{{le}}': show } },
    prometheus.PromQueryFormat.Heatmap,
  ).yAxis(new heatmap.YAxisConfigBuilder().unit('s'))

interface Description {
  uid: string
  title: string
  description: string
  /** The pattern of the jobs whose processes can be chosen. */
  jobs: string
  /** Panels by the title of their row. A blank title is none. */
  rows: Record<string, Builder<grafana.Panel>[]>
}

export function dashboard({ uid, title, description, jobs, rows }: Description): grafana.Dashboard {
  const links = new grafana.DashboardLinkBuilder('Rollcall').type(grafana.DashboardLinkType.Dashboards)
  const process = new grafana.QueryVariableBuilder('process')
    .label('Process')
    .datasource(datasource)
    .query(`label_values(up{job=~"${jobs}"}, instance)`)
    .refresh(grafana.VariableRefresh.OnTimeRangeChanged)
    .multi(true)
    .includeAll(true)
    .allValue('.*')
    .current({ text: 'All', value: '$__all' })
  const builder = new grafana.DashboardBuilder(title)
    .uid(uid)
    .description(description)
    .tags(['rollcall'])
    .link(links.tags(['rollcall']).keepTime(true))
    .readonly()
    .refresh('10s')
    .time({ from: 'now-1h', to: 'now' })
    .tooltip(grafana.DashboardCursorSync.Crosshair)
    .withVariable(new grafana.DatasourceVariableBuilder('datasource').label('Prometheus').type('prometheus'))
    .withVariable(process)
    .annotation(times('Starts', 'blue', 'process_start_time_seconds{job=~"rollcall-.+"}', '{{job}}'))
    .annotation(times('Leader', 'purple', 'rollcall_engine_leader_since_timestamp_seconds > 0', 'leads now'))
  for (const [name, panels] of Object.entries(rows)) {
    if (name !== '') builder.withRow(new grafana.RowBuilder(name))
    for (const panel of panels) builder.withPanel(panel)
  }
  const built = builder.build()
  for (const [index, panel] of built.panels!.entries()) panel.id = index + 1
  return built
}

/** An annotation at each time that is a value of the query. */
const times = (name: string, color: string, expr: string, text: string) =>
  new grafana.AnnotationQueryBuilder()
    .name(name)
    .datasource(datasource)
    .enable(true)
    .iconColor(color)
    .expr(`1000 * (${expr})`)
    .useValueForTime(true)
    .titleFormat(name)
    .textFormat(`{{instance}} ${text}`)
