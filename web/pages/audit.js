// The audit: who changed what, and who was refused.
import { html } from '../parts/view.js';
import { setQuery } from '../parts/router.js';
import { quoted } from '../parts/api.js';
import { session } from '../parts/session.js';
import { Badge, Head } from '../parts/basics.js';
import { List } from '../parts/table.js';
import { timeText, words } from '../parts/format.js';
import { callState } from '../parts/state.js';
import { Filters } from './schedules.js';

/** @param {{tenant: string, query: URLSearchParams}} props */
export function Audit({ tenant, query }) {
  const all = query.get('of') === 'all' && !session.tenant;
  const text = (query.get('q') ?? '').trim();
  const filter = [/[=<>]/.test(text) ? `(${text})` : text && `(principal = ${quoted(`${text}*`)} OR method = ${quoted(`${text}*`)} OR resource = ${quoted(`${text}*`)})`,
    query.get('result') === 'refused' ? 'result != OK' : query.get('result') && 'result = OK'].filter(Boolean).join(' AND ');
  const columns = [
    { title: 'Time', size: 13, cell: (/** @type {any} */ a) => timeText(a.time) },
    { title: 'Who', size: 18, cell: (/** @type {any} */ a) => html`<code>${a.principal}</code> <span class="muted">${words(a.role)}</span>` },
    { title: 'Call', size: 14, cell: (/** @type {any} */ a) => a.method },
    { title: 'Resource', size: 27, wide: true, cell: (/** @type {any} */ a) => html`<code>${(a.resource ?? '').split('/').slice(2).join('/') || a.resource}</code>` },
    { title: 'Version', wide: true, cell: (/** @type {any} */ a) => (Number(a.versionBefore) || Number(a.versionAfter) ? `${Number(a.versionBefore) || '–'} → ${Number(a.versionAfter) || '–'}` : '') },
    { title: 'Result', size: 12, cell: (/** @type {any} */ a) => html`<${Badge} of=${callState(a)} />` },
    { title: 'From', size: 14, wide: true, cell: (/** @type {any} */ a) => html`<span class="muted">${a.source}</span>` },
  ];
  return html`<${Head} title="Audit" note="Kept for 90 days." />
    ${!session.tenant && html`<div class="tabs" role="group" aria-label="Whose entries"><button aria-pressed=${all ? 'false' : 'true'} onClick=${() => setQuery({ of: '', at: '' })}>Of ${tenant}</button><button aria-pressed=${all ? 'true' : 'false'} onClick=${() => setQuery({ of: 'all', at: '' })}>Of all tenants</button></div>`}
    <${Filters} query=${query} hint="Begin of a caller, call or full resource name" fields=${[['result', 'Result', [['', 'Any'], ['ok', 'Done'], ['refused', 'Refused']]]]} />
    <${List} path=${`/v1/tenants/${all ? '-' : tenant}/auditEntries`} field="auditEntries" query=${{ filter }} columns=${columns} caption="Audit entries" noun="entries" empty="No entry matches." />`;
}
