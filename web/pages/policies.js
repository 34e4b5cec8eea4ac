// Throttling policies: what is held, what waits, who holds for how long.
import { html, useEffect, useState } from '../parts/view.js';
import { address, go, Link } from '../parts/router.js';
import { call, get, post, useForm } from '../parts/api.js';
import { can, session } from '../parts/session.js';
import { Badge, Facts, Failure, Head, Loading, Progress } from '../parts/basics.js';
import { act, ask } from '../parts/dialog.js';
import { useData } from '../parts/data.js';
import { Cell, List } from '../parts/table.js';
import { Field, FieldErrors, Select } from '../parts/fields.js';
import { eventAddress } from '../parts/runs.js';
import { agoText, count, counted, durationText, exactText, idOf, secondsOf, Time } from '../parts/format.js';

/** @param {any} p */
const limitText = (p) => [Number(p.maxConcurrent) > 0 && `${count(p.maxConcurrent)} at once`, Number(p.perKey?.maxConcurrent) > 0 && `${count(p.perKey.maxConcurrent)} of a key at once`, Number(p.maxPerSecond) > 0 && `${p.maxPerSecond} per second`].filter(Boolean).join(', ');

/** An event of a run has the name of its schedule before its own. @param {string} name tenants/t/events/e or tenants/t/schedules/s/… */
const isOneOff = (name) => name.split('/')[2] === 'events';

/** @param {{tenant: string}} props */
export function Policies({ tenant }) {
  const columns = [
    { title: 'Name', cell: (/** @type {any} */ p) => html`<${Cell} to=${address(tenant, ['policies', idOf(p.name)])}>${idOf(p.name)}<//> <span class="muted">${p.displayName}</span>` },
    { title: 'State', size: 12, cell: (/** @type {any} */ p) => html`<${Badge} state=${p.state} />` },
    { title: 'Limit', cell: limitText },
    { title: 'Held and waiting', wide: true, cell: (/** @type {any} */ p) => html`<${Usage} name=${p.name} />` },
    { title: 'Hold time', wide: true, cell: (/** @type {any} */ p) => exactText(p.holdTimeout) },
  ];
  return html`<${Head} title="Policies" note="How many events may be out at once, over all schedules and one-off events of a policy.">${can('EDITOR') && html`<${Link} class="button primary" to=${address(tenant, ['new-policy'])}>New policy<//>`}<//>
    <${List} path=${`/v1/tenants/${tenant}/policies`} field="policies" columns=${columns} caption="Policies" noun="policies" empty="There is no policy yet." />`;
}

/** @param {{name: string}} props */
function Usage({ name }) {
  const { data: u } = useData((signal) => get(`/v1/${name}:usage`, { pageSize: 1 }, signal), [name], 5000);
  if (!u) return html`<span class="muted">…</span>`;
  return html`${count(u.heldCount)} held, ${count(u.waitingCount)}${u.waitingTruncated ? '+' : ''} waiting`;
}

/** @param {{tenant: string, id: string}} props */
export function Policy({ tenant, id }) {
  const name = `tenants/${tenant}/policies/${id}`;
  const [turn, setTurn] = useState(0);
  const { data: u, error, reload } = useData((signal) => get(`/v1/${name}:usage`, { pageSize: 1 }, signal), [name, turn], 2000);
  if (error && !u) return html`<${Failure} error=${error} retry=${reload} whole />`;
  if (!u) return html`<${Loading} />`;
  const p = u.policy;
  const changed = () => setTurn((t) => t + 1);
  const pause = async () => {
    const values = await ask({ title: `Pause ${id}?`, text: 'No further event of it goes out. Consumers can still give tokens back.', action: 'Pause', fields: [{ name: 'reason', label: 'Reason (optional)' }] });
    if (values && (await act(`${id} is paused.`, () => post(`/v1/${name}:pause`, { reason: values.reason })))) changed();
  };
  const resume = async () => {
    if (await act(`${id} is resumed.`, () => post(`/v1/${name}:resume`))) changed();
  };
  const remove = async () => {
    if (!(await ask({ title: `Delete ${id}?`, text: 'Possible when no schedule names it and nothing waits or is held.', action: 'Delete', danger: true }))) return;
    if (await act(`${id} is deleted.`, () => call('DELETE', `/v1/${name}`))) go(address(tenant, ['policies']));
  };
  const release = async (/** @type {any} */ holder) => {
    if (!(await ask({ title: 'Release 1 token?', text: html`<code>${holder.event}</code> ends as succeeded, and a waiting event may go. Its consumer is not asked.`, action: 'Release', danger: true }))) return;
    if (await act('The token is released.', () => post('/v1/tokens:release', { tokens: [holder.token] }))) changed();
  };
  const columns = [
    { title: 'Event', size: 24, cell: (/** @type {any} */ h) => html`<${Cell} to=${eventAddress(isOneOff(h.event) ? h.event : h.event.split('/').slice(0, -2).join('/'))}>${h.event.split('/').slice(3).filter((/** @type {any} */ _, /** @type {number} */ i) => i % 2 === 0).join(' / ')}<//>` },
    { title: 'Key', wide: true, cell: (/** @type {any} */ h) => h.policyKey ?? '' },
    { title: 'Held for', cell: (/** @type {any} */ h) => html`${durationText(secondsOf(h.age))} ${h.overdue && html`<${Badge} label="Overdue" tone="warn" />`}` },
    { title: 'Accepted', wide: true, cell: (/** @type {any} */ h) => (h.deliveredTime ? agoText(h.deliveredTime) : html`<span class="muted">not yet</span>`) },
    { title: 'Expires', wide: true, cell: (/** @type {any} */ h) => (h.expireTime ? agoText(h.expireTime) : '–') },
    { title: 'Actions', hidden: true, cell: (/** @type {any} */ h) => can('OPERATOR') && html`<button aria-label=${`Release the token of ${h.event}`} onClick=${() => release(h)}>Release</button>` },
  ];
  const limit = Number(p.maxConcurrent ?? 0);
  return html`<${Head} title=${id} above=${html`<${Link} to=${address(tenant, ['policies'])}>Policies<//>`} note=${p.displayName}>
      ${can('OPERATOR') && (p.state === 'PAUSED' ? html`<button onClick=${resume}>Resume</button>` : html`<button onClick=${pause}>Pause</button>`)}
      ${can('EDITOR') && html`<${Link} class="button" to=${address(tenant, ['policies', id, 'edit'])}>Edit<//><button class="danger" onClick=${remove}>Delete</button>`}<//>
    ${u.neverGivenBack && html`<p class="note">No token was ever given back, although hold times have ended. Let the consumer give tokens back, or let schedules and one-off events of this policy hold them only until the consumer has accepted an event.</p>`}
    <div class="columns"><section class="card"><h2>Now</h2>${limit > 0 && html`<${Progress} value=${Number(u.heldCount ?? 0)} max=${limit} label="Tokens held" />`}
      <${Facts} items=${[['State', html`<${Badge} state=${p.state} /> ${p.pauseReason}`], ['Held', `${count(u.heldCount)}${limit ? ` of ${count(limit)}` : ''}`], ['Waiting', `${count(u.waitingCount)}${u.waitingTruncated ? ' or more' : ''}`],
        ['Longest waiting since', u.oldestWaiterTime && html`<${Time} value=${u.oldestWaiterTime} />`], ['Granted', `${(u.grantsPerSecond ?? 0).toFixed(1)} per second, ${count(u.grantedCount)} in all`],
        ['Given back', `${(u.releasesPerSecond ?? 0).toFixed(1)} per second, ${count(u.releasedCount)} in all`], ['Hold times that ended', Number(u.expiredCount) > 0 && count(u.expiredCount)]]} /></section>
    <section class="card"><h2>Definition</h2><${Facts} items=${[['Limit', limitText(p)], ['Burst', Number(p.burst) > 0 && count(p.burst)], ['Hold time', exactText(p.holdTimeout)], ['When it ends', p.onExpiry === 'HOLD' ? 'the consumer keeps the token' : 'the token is taken back'],
        ['Order', p.fairness === 'FIFO' ? 'the event that was due first' : 'schedules take turns'], ['Version', p.version]]} /></section></div>
    ${(u.waiters ?? []).length > 0 && html`<h2>Waiting</h2><section class="card"><ul class="plain">${u.waiters.map((/** @type {any} */ w) => html`<li key=${w.schedule}>${w.schedule ? html`<${Link} to=${eventAddress(w.schedule)}>${idOf(w.schedule)}<//>` : 'one-off events:'} ${counted(w.waitingCount, 'event')}, the first was due ${agoText(w.oldestDueTime)}</li>`)}</ul></section>`}
    <h2>Holders</h2><${List} path=${`/v1/${name}:usage`} field="holders" columns=${columns} caption="Holders of tokens" noun="holders" every=${2000} refreshKey=${turn} rowId=${(/** @type {any} */ h) => h.event} empty="No event holds a token." />`;
}

/** @param {{tenant: string, id?: string}} props */
export function PolicyForm({ tenant, id }) {
  const [draft, setDraft] = useState(/** @type {any} */ (id ? null : { maxConcurrent: '10', holdTimeout: '3600s' }));
  const [newId, setNewId] = useState('');
  const form = useForm();
  const [failure, setFailure] = useState(/** @type {any} */ (null));
  useEffect(() => {
    if (id && !draft) get(`/v1/tenants/${tenant}/policies/${id}`).then(setDraft, setFailure);
  }, [id, session.signIns]);
  if (!draft) return failure ? html`<${Failure} error=${failure} whole />` : html`<${Loading} />`;
  const set = (/** @type {any} */ changes) => setDraft({ ...draft, ...changes });
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const made = id
        ? await call('PATCH', `/v1/${draft.name}`, { query: { updateMask: 'displayName,maxConcurrent,perKey,maxPerSecond,burst,holdTimeout,onExpiry,fairness' }, body: draft })
        : await call('POST', `/v1/tenants/${tenant}/policies`, { query: { policyId: newId }, body: draft, form });
      go(address(tenant, ['policies', idOf(made.name)]));
    } catch (error) {
      setFailure(error);
    }
  };
  const input = (/** @type {string} */ name, /** @type {string} */ path, /** @type {string} */ label, /** @type {string} */ hint, type = 'text') => html`<${Field} path=${path} label=${label} hint=${hint} error=${failure}>${(/** @type {any} */ p) => html`<input ...${p} type=${type} step="any" min="0" value=${draft[name] ?? ''} onInput=${(/** @type {any} */ e) => set({ [name]: e.target.value === '' ? undefined : type === 'number' && name === 'maxPerSecond' ? Number(e.target.value) : e.target.value })} />`}<//>`;
  return html`<${Head} title=${id ? `Edit ${id}` : 'New policy'} above=${html`<${Link} to=${address(tenant, ['policies'])}>Policies<//>`} /><form class="form" onSubmit=${submit} novalidate><${FieldErrors} error=${failure} /><fieldset><legend>Policy</legend>
    ${!id && html`<${Field} path="policy_id" label="Name" hint="a–z, 0–9, '-', '_' and '.'" error=${failure}>${(/** @type {any} */ p) => html`<input ...${p} value=${newId} onInput=${(/** @type {any} */ e) => setNewId(e.target.value)} />`}<//>`}
    ${input('displayName', 'display_name', 'Text for people', '')}
    ${input('maxConcurrent', 'max_concurrent', 'Events out at once', 'Over all that name the policy. 0: no limit.', 'number')}
    <${Field} path="per_key.max_concurrent" label="Events of one key out at once" hint="For each policy key, such as a customer. Empty: no limit." error=${failure}>${(/** @type {any} */ p) => html`<input ...${p} type="number" min="1" value=${draft.perKey?.maxConcurrent ?? ''} onInput=${(/** @type {any} */ e) => set({ perKey: e.target.value === '' ? undefined : { maxConcurrent: e.target.value } })} />`}<//>
    ${input('maxPerSecond', 'max_per_second', 'Events per second', '0: no limit.', 'number')}
    ${input('burst', 'burst', 'Burst', 'Events that may go at once after a pause, on top of the rate.', 'number')}
    ${input('holdTimeout', 'hold_timeout', 'Hold time', 'How long a consumer may work on an event: 3600s')}
    <${Select} path="on_expiry" label="When the hold time ends" error=${failure} value=${draft.onExpiry ?? 'RECLAIM'} set=${(/** @type {string} */ v) => set({ onExpiry: v })} options=${[['RECLAIM', 'Take the token back; the attempt has failed'], ['HOLD', 'The consumer keeps it, shown as overdue']]} />
    <${Select} path="fairness" label="Who goes first" error=${failure} value=${draft.fairness ?? 'BY_SCHEDULE'} set=${(/** @type {string} */ v) => set({ fairness: v })} options=${[['BY_SCHEDULE', 'Schedules take turns'], ['FIFO', 'The event that was due first']]} /></fieldset>
    <div class="actions"><button class="primary">${id ? 'Save' : 'Create policy'}</button></div></form>`;
}
