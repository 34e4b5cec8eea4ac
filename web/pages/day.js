// The day of all schedules: what ran, what failed or was late, what is to come.
import { html } from '../parts/view.js';
import { Link, address, setQuery } from '../parts/router.js';
import { get } from '../parts/api.js';
import { Failure, Head, Loading } from '../parts/basics.js';
import { useData } from '../parts/data.js';
import { dayAfter, Timeline, today } from '../parts/timeline.js';
import { KIND_OPTIONS } from '../parts/target_fields.js';
import { filterOf, Filters } from './schedules.js';

const LANES = 25;

/** @param {{tenant: string, query: URLSearchParams}} props */
export function Day({ tenant, query }) {
  const day = dayAfter(query.get('day') ?? '', 0) || today();
  const filter = filterOf(query);
  const at = query.get('at') ?? '';
  const { data, error, reload } = useData((signal) => get(`/v1/tenants/${tenant}/schedules`, { pageSize: LANES, filter, pageToken: at }, signal), [tenant, filter, at], 15000);
  const shift = (/** @type {number} */ days) => setQuery({ day: dayAfter(day, days) });
  const schedules = data?.schedules ?? [];
  return html`<${Head} title="Day" note="One row for each schedule. The higher a mark, the more events: from 1 to 10,000 and more.">
      <button onClick=${() => shift(-1)}>Day before</button><label><span class="unseen">Day</span><input type="date" value=${day} onChange=${(/** @type {any} */ event) => setQuery({ day: event.target.value })} /></label><button onClick=${() => shift(1)}>Day after</button><//>
    <${Filters} query=${query} hint="Part of a name, or a label: team=billing" fields=${[['target', 'Target', [['', 'Any'], ...KIND_OPTIONS]]]} />
    <p class="legend"><span class="good">completed</span><span class="bad">failed</span><span class="warn">being retried</span><span class="busy">active</span><span class="idle">not delivered</span><span class="planned">to come</span><span class="late">late: not ended one minute after their time</span></p>
    ${error && !data && html`<${Failure} error=${error} retry=${reload} />`}${!data && !error && html`<${Loading} />`}
    ${data && !schedules.length && html`<div class="empty">${filter ? 'No schedule matches.' : 'There is no schedule yet.'}</div>`}
    ${schedules.length > 0 && html`<section class="card"><${Timeline} schedules=${schedules} day=${day} /></section>`}
    <p class="below">${at && html`<${Link} to=${address(tenant, ['day'], { day, q: query.get('q') ?? '', target: query.get('target') ?? '' })}>First schedules<//> `}
      ${data?.nextPageToken && html`<${Link} to=${address(tenant, ['day'], { day, q: query.get('q') ?? '', target: query.get('target') ?? '', at: data.nextPageToken })}>Next ${LANES} schedules<//>`}</p>`;
}
