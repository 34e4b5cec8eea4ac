// Targets: how the endpoints answer that events go to.
import { html } from '../parts/view.js';
import { post } from '../parts/api.js';
import { can } from '../parts/session.js';
import { Badge, Head } from '../parts/basics.js';
import { act } from '../parts/dialog.js';
import { List } from '../parts/table.js';
import { targetState } from '../parts/state.js';
import { agoText, count, secondsOf, shortText } from '../parts/format.js';

/** Delivered events per second of a target, over the last minute. @param {any} target */
export const deliveredPerSecond = (target) => (target.handlers ?? []).reduce((/** @type {number} */ sum, /** @type {any} */ h) => {
  const seconds = secondsOf(h.measuredDuration);
  return sum + (seconds > 0 ? (Number(h.attemptCount ?? 0) - Number(h.failureCount ?? 0)) / seconds : 0);
}, 0);

/** @type {import('../parts/table.js').Column[]} */
export const targetColumns = [
  { title: 'Endpoint', size: 22, cell: (t) => html`<span class="badge idle">${t.transport}</span> <code>${t.endpoint}</code>` },
  { title: 'State', size: 12, cell: (t) => html`<${Badge} of=${targetState(t)} />` },
  { title: 'Under way', wide: true, number: true, cell: (t) => `${count(t.inFlight)} of ${count(t.inFlightMax)}` },
  { title: 'Per second', wide: true, number: true, cell: (t) => deliveredPerSecond(t).toFixed(1) },
  { title: 'Failures', number: true, cell: (t) => (Number(t.attemptCount) ? `${Math.round((t.errorRate ?? 0) * 100)} %` : '–') },
  { title: 'Last error', size: 26, wide: true, cell: (t) => t.lastError && html`<span class="error">${shortText(t.lastError, 200)}</span> <span class="muted">${agoText(t.lastErrorTime)}</span>` },
  { title: 'Next try', wide: true, cell: (t) => (t.nextProbeTime ? agoText(t.nextProbeTime) : '') },
  { title: 'Action', cell: (t) => can('OPERATOR') && t.state !== 'CLOSED' && html`<button onClick=${() => act('Events go to it again within some seconds.', () => post(`/v1/${t.name}:reset`, {}))}>Try now</button>` },
];

/** @param {{tenant: string}} props */
export const Targets = ({ tenant }) => html`<${Head} title="Targets" note="Endpoints that events went to in the last minutes. The values may be half a minute old." />
  <${List} path=${`/v1/tenants/${tenant}/targets`} field="targets" columns=${targetColumns} caption="Targets" noun="targets" every=${3000} empty="No event was delivered in the last minutes." />`;
