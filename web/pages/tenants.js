// Tenants, what they use, and their quotas.
import { html, useState } from '../parts/view.js';
import { address, Link } from '../parts/router.js';
import { call, get } from '../parts/api.js';
import { isOperatorOfAll } from '../parts/session.js';
import { Badge, Failure, Head, Loading } from '../parts/basics.js';
import { act, ask, say } from '../parts/dialog.js';
import { useData } from '../parts/data.js';
import { List } from '../parts/table.js';
import { Field, FieldErrors } from '../parts/fields.js';
import { tenantState } from '../parts/state.js';
import { count, idOf } from '../parts/format.js';

/** Each with the count of what there is, and the view that lists it. @type {[name: string, title: string, used: string, view: string][]} */
const QUOTAS = [
  ['maxSchedules', 'Schedules', 'scheduleCount', 'schedules'], ['maxPolicies', 'Policies', 'policyCount', 'policies'], ['maxPendingEvents', 'Pending one-off events', 'pendingEventCount', 'events'],
  ['maxEventsPerSecond', 'One-off events per second', '', ''], ['maxEventsPerRun', 'Events per run', '', ''], ['maxPayloadBytes', 'Bytes of a payload', '', ''], ['maxRequestsPerSecond', 'Calls per second', '', ''],
];

/** @param {{tenant: string}} props */
export function Tenants({ tenant }) {
  const [turn, setTurn] = useState(0);
  const changed = () => setTurn((t) => t + 1);
  const create = async () => {
    const work = (/** @type {Record<string, string>} */ { id, displayName }) => call('POST', '/v1/tenants', { query: { tenantId: id }, body: { displayName } });
    const values = await ask({ title: 'New tenant', action: 'Create', work, fields: [{ name: 'id', label: 'Id', hint: 'a–z, 0–9 and -', path: 'tenant_id' }, { name: 'displayName', label: 'Text for people', path: 'display_name' }] });
    if (!values) return;
    say(`${values.id} is created.`);
    changed();
  };
  const suspend = async (/** @type {any} */ t) => {
    const to = t.state === 'SUSPENDED' ? 'ACTIVE' : 'SUSPENDED';
    if (to === 'SUSPENDED' && !(await ask({ title: `Suspend ${idOf(t.name)}?`, text: 'Changes are refused; schedules keep firing.', action: 'Suspend', danger: true }))) return;
    if (await act('Changed.', () => call('PATCH', `/v1/${t.name}`, { query: { updateMask: 'state' }, body: { state: to } }))) changed();
  };
  const columns = [
    { title: 'Tenant', cell: (/** @type {any} */ t) => html`<${Link} class="cell" to=${address(idOf(t.name), [])}>${idOf(t.name)}<//> <span class="muted">${t.displayName}</span>` },
    { title: 'State', cell: (/** @type {any} */ t) => html`<${Badge} of=${tenantState(t)} />` },
    { title: 'Actions', hidden: true, cell: (/** @type {any} */ t) => isOperatorOfAll() && html`<button onClick=${() => suspend(t)} aria-label=${`${t.state === 'SUSPENDED' ? 'Activate' : 'Suspend'} ${idOf(t.name)}`}>${t.state === 'SUSPENDED' ? 'Activate' : 'Suspend'}</button>` },
  ];
  return html`<${Head} title="Tenants">${isOperatorOfAll() && html`<button class="primary" onClick=${create}>New tenant</button>`}<//>
    <${List} path="/v1/tenants" field="tenants" columns=${columns} caption="Tenants" noun="tenants" refreshKey=${turn} empty="There is no tenant." />
    <${Quotas} key=${tenant} tenant=${tenant} />`;
}

/** @param {{tenant: string}} props */
function Quotas({ tenant }) {
  const [draft, setDraft] = useState(/** @type {any} */ (null));
  const [failure, setFailure] = useState(/** @type {any} */ (null));
  // Counted once: with many rows the server needs seconds for it.
  const { data: usage, error, reload } = useData((signal) => get(`/v1/tenants/${tenant}:usage`, {}, signal), [tenant]);
  if (error && !usage) return html`<${Failure} error=${error} />`;
  if (!usage) return html`<${Loading} />`;
  const quotas = draft ?? usage.quotas ?? {};
  const save = async (/** @type {Event} */ event) => {
    event.preventDefault();
    setFailure(null);
    const numbers = Object.fromEntries(QUOTAS.map(([name]) => [name, Number(quotas[name] || 0)]));
    await call('PATCH', `/v1/tenants/${tenant}`, { query: { updateMask: 'quotas' }, body: { quotas: numbers } }).then(() => (setDraft(null), act('The quotas are saved.', async () => {})), setFailure);
    reload();
  };
  return html`<form class="form inline" onSubmit=${save} novalidate><${FieldErrors} error=${failure} /><fieldset disabled=${!isOperatorOfAll()}><legend>Quotas of ${tenant}</legend>
    ${QUOTAS.map(([name, title, used, view]) => html`<${Field} path=${`quotas.${name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`)}`} label=${title} hint=${used && html`<${Link} to=${address(tenant, [view])}>${count(usage[used])} now<//>`} error=${failure}>${(/** @type {any} */ p) => html`<input ...${p} type="number" min="0" step="any" placeholder="no bound"
      value=${Number(quotas[name]) ? quotas[name] : ''} onInput=${(/** @type {any} */ e) => setDraft({ ...quotas, [name]: e.target.value })} />`}<//>`)}
    ${isOperatorOfAll() && html`<button class="primary" disabled=${!draft}>Save quotas</button>`}</fieldset></form>`;
}
