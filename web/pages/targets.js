// Targets: how the endpoints answer that events go to.
import { html } from '../parts/view.js';
import { address, Link } from '../parts/router.js';
import { get, post } from '../parts/api.js';
import { can } from '../parts/session.js';
import { Badge, Facts, Failure, Head, Loading } from '../parts/basics.js';
import { act } from '../parts/dialog.js';
import { useData } from '../parts/data.js';
import { Cell, List } from '../parts/table.js';
import { Chart } from '../parts/chart.js';
import { Pictures, stepText } from '../parts/statistics.js';
import { LoadMap } from '../parts/load_map.js';
import { kindText, schedulesAt } from '../parts/target_fields.js';
import { targetState } from '../parts/state.js';
import { agoText, clockText, count, durationText, idOf, pathText, secondsOf, shortText, Time } from '../parts/format.js';

/** Delivered events per second of a target, over the last minute. @param {any} target */
export const deliveredPerSecond = (target) => (target.handlers ?? []).reduce((/** @type {number} */ sum, /** @type {any} */ h) => {
  const seconds = secondsOf(h.measuredDuration);
  return sum + (seconds > 0 ? (Number(h.attemptCount ?? 0) - Number(h.failureCount ?? 0)) / seconds : 0);
}, 0);

/** @param {any} t */
const targetAddress = (t) => address(t.name.split('/')[1], ['targets', idOf(t.name)]);
/** @param {any} t */
const failuresText = (t) => (Number(t.attemptCount) ? `${Math.round((t.errorRate ?? 0) * 100)} %` : '–');
/** @param {any} t */
const tryNow = (t) => can('OPERATOR') && t.state !== 'CLOSED' && html`<button onClick=${() => act('Events go to it again within some seconds.', () => post(`/v1/${t.name}:reset`, {}))}>Try now</button>`;

/** @type {import('../parts/table.js').Column[]} */
export const targetColumns = [
  { title: 'Endpoint', size: 22, cell: (t) => html`<span class="badge idle">${kindText(t.transport)}</span> <${Cell} to=${targetAddress(t)}>${pathText(t.endpoint || idOf(t.name))}<//>` },
  { title: 'State', size: 15, cell: (t) => html`<${Badge} of=${targetState(t)} />` },
  { title: 'Under way', wide: true, number: true, cell: (t) => `${count(t.inFlight)} of ${count(t.inFlightMax)}` },
  { title: 'Per second', wide: true, number: true, cell: (t) => deliveredPerSecond(t).toFixed(1) },
  { title: 'Failures', number: true, cell: failuresText },
  { title: 'Last error', size: 26, wide: true, cell: (t) => t.lastError && html`<span class="error">${shortText(t.lastError, 200)}</span> <span class="muted">${agoText(t.lastErrorTime)}</span>` },
  { title: 'Next try', wide: true, has: (t) => t.nextProbeTime, cell: (t) => t.nextProbeTime && agoText(t.nextProbeTime) },
  { title: 'Action', has: tryNow, cell: tryNow },
];

/** @param {{tenant: string}} props */
export const Targets = ({ tenant }) => html`<${Head} title="Targets" note="Endpoints that events went to in the last minutes. The values may be half a minute old." />
  <${List} path=${`/v1/tenants/${tenant}/targets`} field="targets" columns=${targetColumns} caption="Targets" noun="targets" every=${3000} empty="No event was delivered in the last minutes." />`;

/** Attempts and lateness. @param {import('../parts/statistics.js').Point[]} points @param {import('../parts/statistics.js').Range} range */
function charts(points, range) {
  const sumOf = (/** @type {'attempts'|'errors'|'late'} */ field) => points.reduce((sum, point) => sum + point[field], 0);
  const [attempts, errors] = [sumOf('attempts'), sumOf('errors')];
  const worst = points.reduce((most, point) => ((point.latenessMax ?? -1) > (most.latenessMax ?? -1) ? point : most), points[0]);
  return [
    html`<${Chart} title=${`Attempts of each ${stepText(range)}`} points=${points} summary=${attempts ? `${Math.round((errors * 100) / attempts)} % failed; ${Number((attempts / range.seconds).toPrecision(2))} attempts per second.` : 'No attempt ended.'}
      series=${[{ name: 'Accepted', tone: 'good', kind: 'bar', values: points.map((point) => point.attempts - point.errors), total: attempts - errors },
        { name: 'Failed', tone: 'bad', kind: 'bar', values: points.map((point) => point.errors), total: errors }]} />`,
    html`<${Chart} title="From due time to first attempt" points=${points} seconds series=${[{ name: 'Lateness', tone: 'warn', kind: 'bar', values: points.map((point) => point.latenessMax) }]}
      summary=${worst.latenessMax === null ? 'No event was sent.' : `The most of each ${stepText(range)}; ${durationText(worst.latenessMax)} at ${clockText(worst.time)}. ${count(sumOf('late'))} left more than a second late.`} />`,
  ];
}

/** @param {{tenant: string, id: string, query: URLSearchParams}} props */
export function Target({ tenant, id, query }) {
  const name = `tenants/${tenant}/targets/${id}`;
  const { data: t, error, reload } = useData((signal) => get(`/v1/${name}`, {}, signal), [name], 3000);
  if (!t && !error) return html`<${Loading} />`;
  return html`<${Head} title=${t?.endpoint || id} above=${html`<${Link} to=${address(tenant, ['targets'])}>Targets<//>`}>${t && tryNow(t)}<//>
    ${t ? html`<section class="card"><${Facts} items=${[['State', html`<${Badge} of=${targetState(t)} />`], ['Kind', kindText(t.transport)], ['Schedules', html`<${Link} to=${schedulesAt(tenant, t.transport, t.endpoint ?? '')}>Those that send to it<//>`], ['Down since', t.downSinceTime && html`<${Time} value=${t.downSinceTime} />`], ['Next try', t.nextProbeTime && agoText(t.nextProbeTime)], ['Under way', `${count(t.inFlight)} of ${count(t.inFlightMax)}`],
      ['Delivered in the last minute', `${deliveredPerSecond(t).toFixed(1)} per second`], ['Failures in the last minute', failuresText(t)], ['Last error', t.lastError && html`<span class="error">${t.lastError}</span> <span class="muted">${agoText(t.lastErrorTime)}</span>`]]} /></section>`
      : error.status === 404 ? html`<p class="muted">No event went to it in the last minutes.</p>` : html`<${Failure} error=${error} retry=${reload} />`}
    <${Pictures} tenant=${tenant} subject=${name} query=${query}>${(/** @type {any} */ points, /** @type {any} */ range) => charts(points, range)}<//>
    ${t && html`<${LoadMap} tenant=${tenant} query=${query} only=${`${t.transport}:${t.endpoint ?? ''}`} />`}`;
}
