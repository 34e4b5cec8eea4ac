// Tenants, what they use, and their quotas.
import { html, useState } from '../parts/view.js';
import { address, Link } from '../parts/router.js';
import { call, get } from '../parts/api.js';
import { isOperatorOfAll } from '../parts/session.js';
import { Badge, Failure, Head, Loading } from '../parts/basics.js';
import { act, ask } from '../parts/dialog.js';
import { useData } from '../parts/data.js';
import { List } from '../parts/table.js';
import { Field, FieldErrors } from '../parts/fields.js';
import { count, idOf } from '../parts/format.js';

/** @type {[string, string, string][]} */
const QUOTAS = [
  ['maxSchedules', 'Schedules', 'scheduleCount'], ['maxPolicies', 'Policies', 'policyCount'], ['maxPendingEvents', 'Pending one-off events', 'pendingEventCount'],
  ['maxEventsPerSecond', 'One-off events per second', ''], ['maxEventsPerRun', 'Events per run', ''], ['maxPayloadBytes', 'Bytes of a payload', ''], ['maxRequestsPerSecond', 'Calls per second', ''],
];

/** @param {{tenant: string}} props */
export function Tenants({ tenant }) {
  const [turn, setTurn] = useState(0);
  const changed = () => setTurn((t) => t + 1);
  const create = async () => {
    const values = await ask({ title: 'New tenant', action: 'Create', fields: [{ name: 'id', label: 'Id', hint: 'a–z, 0–9 and -' }, { name: 'displayName', label: 'Text for people' }] });
    if (values && (await act(`${values.id} is created.`, () => call('POST', '/v1/tenants', { query: { tenantId: values.id }, body: { displayName: values.displayName } })))) changed();
  };
  const suspend = async (/** @type {any} */ t) => {
    const to = t.state === 'SUSPENDED' ? 'ACTIVE' : 'SUSPENDED';
    if (to === 'SUSPENDED' && !(await ask({ title: `Suspend ${idOf(t.name)}?`, text: 'Changes are refused; schedules keep firing.', action: 'Suspend', danger: true }))) return;
    if (await act('Changed.', () => call('PATCH', `/v1/${t.name}`, { query: { updateMask: 'state' }, body: { state: to } }))) changed();
  };
  const columns = [
    { title: 'Tenant', cell: (/** @type {any} */ t) => html`<${Link} class="cell" to=${address(idOf(t.name), [])}>${idOf(t.name)}<//> <span class="muted">${t.displayName}</span>` },
    { title: 'State', cell: (/** @type {any} */ t) => html`<${Badge} state=${t.state === 'SUSPENDED' ? 'SUSPENDED' : 'ENABLED'} label=${t.state === 'SUSPENDED' ? 'Suspended' : 'Active'} />` },
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
    ${QUOTAS.map(([name, title, used]) => html`<${Field} path=${`quotas.${name}`} label=${title} hint=${used ? `${count(usage[used])} now` : ''} error=${failure}>${(/** @type {any} */ p) => html`<input ...${p} type="number" min="0" step="any" placeholder="no bound"
      value=${Number(quotas[name]) ? quotas[name] : ''} onInput=${(/** @type {any} */ e) => setDraft({ ...quotas, [name]: e.target.value })} />`}<//>`)}
    ${isOperatorOfAll() && html`<button class="primary" disabled=${!draft}>Save quotas</button>`}</fieldset></form>`;
}
