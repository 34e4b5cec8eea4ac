// Throttling policies: what is held, what waits, who holds for how long, and limits that are overridden for a time.
import { html, useEffect, useState } from '../parts/view.js';
import { address, go, Link, setQuery } from '../parts/router.js';
import { call, get, post, useForm } from '../parts/api.js';
import { can, session } from '../parts/session.js';
import { Badge, Facts, Failure, Head, Loading, Progress } from '../parts/basics.js';
import { act, ask, say } from '../parts/dialog.js';
import { useData } from '../parts/data.js';
import { Cell, List } from '../parts/table.js';
import { Duration, Field, FieldErrors, Select, Text, typedErrors } from '../parts/fields.js';
import { Chart } from '../parts/chart.js';
import { Pictures, stepText } from '../parts/statistics.js';
import { addressOf } from '../parts/runs.js';
import { OVERDUE, OVERRIDE } from '../parts/state.js';
import { Filters } from './schedules.js';
import { agoText, count, counted, durationText, exactText, idOf, occurrenceText, secondsOf, Time, timeAfter, timeText } from '../parts/format.js';

/** @param {any} limits of a policy, or of each of its keys @param {string} of */
const limitTexts = (limits, of) => [Number(limits?.maxConcurrent) > 0 && `${count(limits.maxConcurrent)}${of} at once`, Number(limits?.maxPerSecond) > 0 && `${limits.maxPerSecond}${of} per second`];
/** @param {any} p */
const limitText = (p) => [...limitTexts(p, ''), ...limitTexts(p.perKey, ' of a key')].filter(Boolean).join(', ');

/** An override with a policy key, also the empty one, is of that key; the fields of an override are `optional`. @param {any} o */
const isOfKey = (o) => o.policyKey !== undefined;

/** A rate keeps all its digits. @param {any} limit @param {string} none */
const limitNumber = (limit, none) => (Number(limit) > 0 ? (Number(limit) < 1000 ? String(Number(limit)) : count(limit)) : none);

/** The limits of an override. @param {any} o @param {any} [replaced] those that it replaces, if they are named as well */
function overrideText(o, replaced) {
  const parts = [];
  const instead = (/** @type {any} */ limit, /** @type {string} */ none) => (replaced ? ` instead of ${limitNumber(limit, none)}` : '');
  if (o.maxConcurrent !== undefined) parts.push(`${Number(o.maxConcurrent) === 0 ? 'nothing goes out' : `${count(o.maxConcurrent)} at once`}${instead(replaced?.maxConcurrent, 'any number')}`);
  if (o.maxPerSecond !== undefined) parts.push(`${o.maxPerSecond} per second${Number(o.burst ?? 1) > 1 ? ` in bursts of ${count(o.burst)}` : ''}${instead(replaced?.maxPerSecond, 'any rate')}`);
  return parts.join(', ');
}

/** A policy key with all its spaces. @param {{value?: string}} props */
const Key = ({ value }) => (value ? html`<bdi class="key" title=${value}>${value}</bdi>` : html`<span class="muted">(empty)</span>`);

/** The event that holds a token: its schedule and when it was due, with a number if its run has several. @param {string} name tenants/t/events/e or tenants/t/schedules/s/runs/o/events/i */
function holderText(name) {
  const [, , kind, id, , occurrence, , index] = name.split('/');
  return kind === 'events' ? id : `${id}, ${occurrenceText(occurrence)}${Number(index) > 0 ? `, event ${index}` : ''}`;
}

/** @param {{tenant: string}} props */
export function Policies({ tenant }) {
  const columns = [
    { title: 'Name', cell: (/** @type {any} */ p) => html`<${Cell} to=${address(tenant, ['policies', idOf(p.name)])}>${idOf(p.name)}<//> <span class="muted">${p.displayName}</span>` },
    { title: 'State', size: 12, cell: (/** @type {any} */ p) => html`<${Badge} state=${p.state} />` },
    { title: 'Limit', cell: (/** @type {any} */ p) => html`${p.overrides?.length > 0 && html`<${Badge} of=${OVERRIDE} /> `}${limitText(p)}` },
    { title: 'Held and waiting', size: 16, wide: true, cell: (/** @type {any} */ p) => html`<${Usage} policy=${p} />` },
    { title: 'Hold time', wide: true, cell: (/** @type {any} */ p) => exactText(p.holdTimeout) },
  ];
  return html`<${Head} title="Policies" note="How many events may be out at once, over all schedules and one-off events of a policy.">${can('EDITOR') && html`<${Link} class="button primary" to=${address(tenant, ['new-policy'])}>New policy<//>`}<//>
    <${List} path=${`/v1/tenants/${tenant}/policies`} field="policies" columns=${columns} caption="Policies" noun="policies" empty="There is no policy yet." />`;
}

/** @param {{policy: any}} props */
function Usage({ policy: { name, perKey } }) {
  const { data: u } = useData((signal) => get(`/v1/${name}:usage`, { pageSize: 1 }, signal), [name], 5000);
  const [, tenant, , id] = name.split('/');
  if (!u) return html`<span class="muted">…</span>`;
  return html`<${Link} to=${address(tenant, ['policies', id])}>${count(u.heldCount)} held<//>, <${Link} to=${address(tenant, ['policies', id], { show: perKey ? 'keys' : '' })}>${count(u.waitingCount)}${u.waitingTruncated ? '+' : ''} waiting<//>`;
}

/** Ends an override, after a question. @param {string} name of the policy @param {any} o @param {() => void} done */
async function endOverride(name, o, done) {
  const text = html`The limits of the policy apply again${isOfKey(o) && html` to the key <${Key} value=${o.policyKey} />`}.`;
  if (!(await ask({ title: 'End this override?', text, action: 'End' }))) return;
  if (await act('The override has ended.', () => post(`/v1/${name}:clearOverride`, isOfKey(o) ? { policyKey: o.policyKey } : {}))) done();
}

/** @param {{policy: any, changed: () => void}} props */
function Overrides({ policy, changed }) {
  if (!policy.overrides?.length) return null;
  return html`<section class="card overrides"><h2>Overrides in force</h2><ul class="plain">${policy.overrides.map((/** @type {any} */ o) => html`<li key=${isOfKey(o) ? `of ${o.policyKey}` : ''}>
    <strong>${isOfKey(o) ? html`Key <${Key} value=${o.policyKey} />` : 'The whole policy'}</strong>: ${overrideText(o, (isOfKey(o) ? policy.perKey : policy) ?? {})}, until <${Time} value=${o.expireTime} />.${' '}
    <span class="muted">Made ${agoText(o.createTime)}: ${o.reason}</span>${' '}
    ${can('OPERATOR') && html`<button aria-label=${isOfKey(o) ? `End the override of the key ${o.policyKey}` : 'End the override of the whole policy'} onClick=${() => endOverride(policy.name, o, changed)}>End</button>`}</li>`)}</ul></section>`;
}

const KEYS_EVERY_MS = 15000; // the server reads all that waits for a page of keys

/** The keys of which events wait or hold tokens. @param {{policy: any, query: URLSearchParams, turn: number, changed: () => void}} props */
function PolicyKeys({ policy, query, turn, changed }) {
  const [, tenant, , id] = policy.name.split('/');
  const prefix = query.get('q') ?? '';
  const columns = [
    { title: 'Key', size: 13, cell: (/** @type {any} */ k) => html`<${Key} value=${k.policyKey} />` },
    { title: 'Held', size: 9, number: true, cell: (/** @type {any} */ k) => count(k.heldCount) },
    { title: 'Waiting', size: 13, number: true, cell: (/** @type {any} */ k) => html`<span title=${Number(k.laterCount ?? 0) > 0 ? `and ${counted(k.laterCount, 'event')} not due yet` : undefined}>${count(k.waitingCount)}</span>` },
    { title: 'Oldest', size: 14, wide: true, cell: (/** @type {any} */ k) => (k.oldestDueTime ? html`due ${agoText(k.oldestDueTime)}` : html`<span class="muted">–</span>`) },
    { title: 'Override', size: 16, cell: (/** @type {any} */ k) => (k.override
      ? html`${can('OPERATOR') && html`<button aria-label=${`End the override of the key ${k.policyKey ?? ''}`} onClick=${() => endOverride(policy.name, { policyKey: k.policyKey ?? '' }, changed)}>End</button> `}<span title=${`${overrideText(k.override)}, until ${timeText(k.override.expireTime)}: ${k.override.reason}`}>${overrideText(k.override)}</span>`
      : can('OPERATOR') && html`<${Link} class="button" aria-label=${`Set an override of the key ${k.policyKey ?? ''}`} to=${address(tenant, ['policies', id, 'override'], { of: 'key', key: k.policyKey })}>Set<//>`) },
  ];
  return html`<${Filters} query=${query} hint="Begin of a key" fields=${[]} />
    <${List} path=${`/v1/${policy.name}:keys`} field="keys" query=${{ prefix }} columns=${columns} caption="Keys" noun="keys" every=${KEYS_EVERY_MS} refreshKey=${turn} rowId=${(/** @type {any} */ k) => k.policyKey ?? ''}
      empty=${prefix ? 'No event of a key that begins so waits or holds a token.' : 'No event waits or holds a token.'} />`;
}

/** @param {{tenant: string, id: string, query: URLSearchParams}} props */
export function Policy({ tenant, id, query }) {
  const name = `tenants/${tenant}/policies/${id}`;
  const [turn, setTurn] = useState(0);
  const { data: u, error, reload } = useData((signal) => get(`/v1/${name}:usage`, { pageSize: 1 }, signal), [name, turn], 2000);
  if (error && !u) return html`<${Failure} error=${error} retry=${reload} whole />`;
  if (!u) return html`<${Loading} />`;
  const p = u.policy;
  const changed = () => setTurn((t) => t + 1);
  const pause = async () => {
    const values = await ask({ title: `Pause ${id}?`, text: 'No further event of it goes out. Consumers can still give tokens back.', action: 'Pause', work: ({ reason }) => post(`/v1/${name}:pause`, { reason }), fields: [{ name: 'reason', label: 'Reason (optional)' }] });
    if (!values) return;
    say(`${id} is paused.`);
    changed();
  };
  const resume = async () => {
    if (await act(`${id} is resumed.`, () => post(`/v1/${name}:resume`))) changed();
  };
  const remove = async () => {
    if (!(await ask({ title: `Delete ${id}?`, text: 'Possible when no schedule names it and nothing waits or is held.', action: 'Delete', danger: true }))) return;
    if (await act(`${id} is deleted.`, () => call('DELETE', `/v1/${name}`))) go(address(tenant, ['policies']));
  };
  const release = async (/** @type {any} */ holder) => {
    if (!(await ask({ title: 'Release 1 token?', text: html`<strong>${holderText(holder.event)}</strong> ends as succeeded, and a waiting event may go. Its consumer is not asked.`, action: 'Release', danger: true }))) return;
    if (await act('The token is released.', () => post('/v1/tokens:release', { tokens: [holder.token] }))) changed();
  };
  const columns = [
    { title: 'Event', size: 24, cell: (/** @type {any} */ h) => html`<${Cell} to=${addressOf(h.event.replace(/(\/runs\/.*)\/events\/.*/, '$1'))}>${holderText(h.event)}<//>` },
    { title: 'Key', wide: true, cell: (/** @type {any} */ h) => (h.policyKey || p.perKey ? html`<${Key} value=${h.policyKey} />` : '') },
    { title: 'Held for', cell: (/** @type {any} */ h) => html`${durationText(secondsOf(h.age))} ${h.overdue && html`<${Badge} of=${OVERDUE} />`}` },
    { title: 'Accepted', wide: true, cell: (/** @type {any} */ h) => (h.deliveredTime ? agoText(h.deliveredTime) : html`<span class="muted">not yet</span>`) },
    { title: 'Expires', wide: true, cell: (/** @type {any} */ h) => (h.expireTime ? agoText(h.expireTime) : '–') },
    { title: 'Actions', hidden: true, cell: (/** @type {any} */ h) => can('OPERATOR') && html`<button aria-label=${`Release the token of ${h.event}`} onClick=${() => release(h)}>Release</button>` },
  ];
  const override = (p.overrides ?? []).find((/** @type {any} */ o) => !isOfKey(o));
  const limit = override?.maxConcurrent !== undefined ? Number(override.maxConcurrent) : Number(p.maxConcurrent ?? 0) || null;
  const show = p.perKey && query.get('show') === 'keys' ? 'keys' : 'holders';
  const tab = (/** @type {string} */ value, /** @type {string} */ title) => html`<button aria-pressed=${show === value ? 'true' : 'false'} onClick=${() => setQuery({ show: value, q: '', at: '' })}>${title}</button>`;
  return html`<${Head} title=${id} above=${html`<${Link} to=${address(tenant, ['policies'])}>Policies<//>`} note=${p.displayName}>
      ${can('OPERATOR') && (p.state === 'PAUSED' ? html`<button onClick=${resume}>Resume</button>` : html`<button onClick=${pause}>Pause</button>`)}
      ${can('OPERATOR') && html`<${Link} class="button" to=${address(tenant, ['policies', id, 'override'])}>Override limits<//>`}
      ${can('EDITOR') && html`<${Link} class="button" to=${address(tenant, ['policies', id, 'edit'])}>Edit<//><button class="danger" onClick=${remove}>Delete</button>`}<//>
    ${u.neverGivenBack && html`<p class="note">No token was ever given back, although hold times have ended. Let the consumer give tokens back, or let schedules and one-off events of this policy hold them only until the consumer has accepted an event.</p>`}
    <${Overrides} policy=${p} changed=${changed} />
    <div class="columns"><section class="card"><h2>Now</h2>${limit !== null && html`<${Progress} value=${Number(u.heldCount ?? 0)} max=${limit} label="Tokens held" />`}
      <${Facts} items=${[['State', html`<${Badge} state=${p.state} /> ${p.pauseReason}`], ['Held', `${count(u.heldCount)}${limit === null ? '' : ` of ${count(limit)}`}`], ['Waiting', `${count(u.waitingCount)}${u.waitingTruncated ? ' or more' : ''}`],
        ['Longest waiting since', u.oldestWaiterTime && html`<${Time} value=${u.oldestWaiterTime} />`], ['Granted', `${(u.grantsPerSecond ?? 0).toFixed(1)} per second, ${count(u.grantedCount)} in all`],
        ['Given back', `${(u.releasesPerSecond ?? 0).toFixed(1)} per second, ${count(u.releasedCount)} in all`], ['Hold times that ended', Number(u.expiredCount) > 0 && count(u.expiredCount)]]} /></section>
    <section class="card"><h2>Definition</h2><${Facts} items=${[['Limit', limitText(p)], ['Burst', Number(p.burst) > 0 && count(p.burst)], ['Burst of a key', Number(p.perKey?.burst) > 0 && count(p.perKey.burst)], ['Hold time', exactText(p.holdTimeout)], ['When it ends', p.onExpiry === 'HOLD' ? 'the consumer keeps the token' : 'the token is taken back'],
        ['Order', { FIFO: 'the event that was due first', BY_KEY: 'keys take turns' }[/** @type {string} */ (p.fairness)] ?? 'schedules take turns'], ['After a failed attempt', p.retries === 'KEEP_TOKEN' ? 'the event keeps its token' : 'the token is free for other events'], ['Version', p.version]]} /></section></div>
    <${Pictures} tenant=${tenant} subject=${name} query=${query}>${(/** @type {import('../parts/statistics.js').Point[]} */ points, /** @type {import('../parts/statistics.js').Range} */ range) => {
      const chart = (/** @type {string} */ title, /** @type {any[]} */ series) => html`<${Chart} title=${title} points=${points} series=${series} summary=${`The most of each ${stepText(range)}, by samples of each ten seconds.`} />`;
      return [chart('Tokens held', [{ name: 'Held', tone: 'busy', kind: 'bar', values: points.map((point) => point.held) }, { name: 'Limit', tone: 'text', kind: 'line', values: points.map((point) => point.limit) }]),
        chart('Events that waited', [{ name: 'Waiting', tone: 'warn', kind: 'bar', values: points.map((point) => point.waiting) }])];
    }}<//>
    ${(u.waiters ?? []).length > 0 && html`<h2>Waiting</h2><section class="card"><ul class="plain">${u.waiters.map((/** @type {any} */ w) => html`<li key=${w.schedule}>${w.schedule ? html`<${Link} to=${addressOf(w.schedule)}>${idOf(w.schedule)}<//>` : 'one-off events:'} ${counted(w.waitingCount, 'event')}, the first was due ${agoText(w.oldestDueTime)}</li>`)}</ul></section>`}
    ${p.perKey ? html`<div class="tabs" role="group" aria-label="Holders or keys">${tab('holders', 'Holders')}${tab('keys', 'Keys')}</div>` : html`<h2>Holders</h2>`}
    ${show === 'keys' ? html`<${PolicyKeys} key="keys" policy=${p} query=${query} turn=${turn} changed=${changed} />` : html`<${List} key="holders" path=${`/v1/${name}:usage`} field="holders" columns=${columns} caption="Holders of tokens" noun="holders" every=${2000} refreshKey=${turn} rowId=${(/** @type {any} */ h) => h.event} empty="No event holds a token." />`}`;
}

const NUMBER = { step: 'any', min: '0' };
/**
 * The limits of a form. A field of numbers keeps the text that was typed: "0.0" on the way to "0.05". The server gives each rate a
 * burst of 1, which goes with the rate.
 * @param {any} limits
 */
const limitsOf = (limits) => {
  const rate = Number(limits.maxPerSecond ?? 0);
  return { ...limits, maxPerSecond: limits.maxPerSecond === undefined ? undefined : rate, burst: rate === 0 && Number(limits.burst) === 1 ? undefined : limits.burst };
};

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
  const setKey = (/** @type {any} */ changes) => set({ perKey: { ...draft.perKey, ...changes } });
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const wrong = typedErrors();
    if (wrong) return setFailure(wrong);
    // Without a value in any of its fields there are no limits for keys.
    const ofKeys = limitsOf(draft.perKey ?? {});
    const body = { ...limitsOf(draft), perKey: Object.values(ofKeys).some((value) => Number(value ?? 0) !== 0) ? ofKeys : undefined };
    try {
      const made = id
        ? await call('PATCH', `/v1/${draft.name}`, { query: { updateMask: 'displayName,maxConcurrent,perKey,maxPerSecond,burst,retries,holdTimeout,onExpiry,fairness' }, body })
        : await call('POST', `/v1/tenants/${tenant}/policies`, { query: { policyId: newId }, body, form });
      go(address(tenant, ['policies', idOf(made.name)]));
    } catch (error) {
      setFailure(error);
    }
  };
  const input = (/** @type {string} */ name, /** @type {string} */ path, /** @type {string} */ label, /** @type {string} */ hint, type = 'text', of = draft, change = set) => html`<${Text} path=${path} label=${label} hint=${hint} type=${type} error=${failure} value=${of?.[name]} set=${(/** @type {string} */ v) => change({ [name]: v === '' ? undefined : v })} rest=${type === 'number' ? NUMBER : {}} />`;
  const keyInput = (/** @type {string} */ name, /** @type {string} */ path, /** @type {string} */ label, /** @type {string} */ hint) => input(name, `per_key.${path}`, label, hint, 'number', draft.perKey, setKey);
  return html`<${Head} title=${id ? `Edit ${id}` : 'New policy'} above=${html`<${Link} to=${address(tenant, ['policies'])}>Policies<//>`} /><form class="form" onSubmit=${submit} novalidate><${FieldErrors} error=${failure} /><fieldset><legend>Policy</legend>
    ${!id && html`<${Field} path="policy_id" label="Name" hint="a–z, 0–9, '-', '_' and '.'" error=${failure}>${(/** @type {any} */ p) => html`<input ...${p} value=${newId} onInput=${(/** @type {any} */ e) => setNewId(e.target.value)} />`}<//>`}
    ${input('displayName', 'display_name', 'Text for people', '')}
    ${input('maxConcurrent', 'max_concurrent', 'Events out at once', 'Over all that name the policy. 0: no limit.', 'number')}
    ${input('maxPerSecond', 'max_per_second', 'Events per second', '0: no limit.', 'number')}
    ${input('burst', 'burst', 'Burst', 'Events that may go at once after a pause, on top of the rate.', 'number')}
    ${keyInput('maxConcurrent', 'max_concurrent', 'Events of one key out at once', 'For each policy key, such as a customer, beside the limits above. Empty or 0: no limit.')}
    ${keyInput('maxPerSecond', 'max_per_second', 'Events of one key per second', 'For each policy key. Empty or 0: no limit.')}
    ${keyInput('burst', 'burst', 'Burst of one key', 'Events of one key that may go at once after a pause, on top of its rate.')}
    <${Duration} path="hold_timeout" label="Hold time" hint="How long a consumer may work on an event, such as 1 h" error=${failure} value=${draft.holdTimeout} set=${(/** @type {any} */ holdTimeout) => set({ holdTimeout })} />
    <${Select} path="on_expiry" label="When the hold time ends" error=${failure} value=${draft.onExpiry ?? 'RECLAIM'} set=${(/** @type {string} */ v) => set({ onExpiry: v })} options=${[['RECLAIM', 'Take the token back; the attempt has failed'], ['HOLD', 'The consumer keeps it, shown as overdue']]} />
    <${Select} path="fairness" label="Who goes first" error=${failure} value=${draft.fairness ?? 'BY_SCHEDULE'} set=${(/** @type {string} */ v) => set({ fairness: v })} options=${[['BY_SCHEDULE', 'Schedules take turns'], ['FIFO', 'The event that was due first'], ['BY_KEY', 'Keys take turns']]} hint="Keys take turns only if the policy limits each key." />
    <${Select} path="retries" label="After a failed attempt" error=${failure} value=${draft.retries ?? 'FREE_TOKEN'} set=${(/** @type {string} */ v) => set({ retries: v })} options=${[['FREE_TOKEN', 'The token is free for other events'], ['KEEP_TOKEN', 'The event keeps its token']]} hint="If it keeps the token and 1 event of one key may be out at once, the events of a key go out one at a time, and none overtakes one that is retried." /></fieldset>
    <div class="actions"><button class="primary">${id ? 'Save' : 'Create policy'}</button></div></form>`;
}

/** Other limits for a time. @param {{tenant: string, id: string, query: URLSearchParams}} props */
export function OverrideForm({ tenant, id, query }) {
  const name = `tenants/${tenant}/policies/${id}`;
  const [draft, setDraft] = useState(/** @type {any} */ ({}));
  const [ofKey, setOfKey] = useState(query.get('of') === 'key');
  const [policyKey, setPolicyKey] = useState(query.get('key') ?? '');
  const [length, setLength] = useState(/** @type {string|undefined} */ ('3600s'));
  const [failure, setFailure] = useState(/** @type {any} */ (null));
  const { data: p, error, reload } = useData((signal) => get(`/v1/${name}`, {}, signal), [name]);
  if (error && !p) return html`<${Failure} error=${error} retry=${reload} whole />`;
  if (!p) return html`<${Loading} />`;
  const limits = (ofKey ? p.perKey : p) ?? {};
  const before = (p.overrides ?? []).find((/** @type {any} */ o) => (ofKey ? o.policyKey === policyKey : !isOfKey(o)));
  const now = (/** @type {any} */ limit) => `Otherwise ${limitNumber(limit, 'no limit')}.`;
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const wrong = typedErrors();
    if (wrong) return setFailure(wrong);
    const override = { ...limitsOf(draft), policyKey: ofKey ? policyKey : undefined, expireTime: timeAfter(length) };
    try {
      await post(`/v1/${name}:override`, { override });
      say('The override is in force.');
      go(address(tenant, ['policies', id], { show: ofKey ? 'keys' : undefined }));
    } catch (error) {
      setFailure(error);
    }
  };
  const input = (/** @type {string} */ field, /** @type {string} */ path, /** @type {string} */ label, /** @type {string} */ hint, type = 'number') => html`<${Text} path=${path} label=${label} hint=${hint} type=${type} error=${failure} value=${draft[field]}
    set=${(/** @type {string} */ v) => setDraft({ ...draft, [field]: v === '' ? undefined : v })} rest=${type === 'number' ? NUMBER : {}} />`;
  return html`<${Head} title=${`Override limits of ${id}`} above=${html`<${Link} to=${address(tenant, ['policies', id])}>${id}<//>`} note="Other limits for a time. They apply at once, and end by themselves." />
    <form class="form" onSubmit=${submit} novalidate><${FieldErrors} error=${failure} /><fieldset><legend>Override</legend>
    ${(p.perKey || ofKey) && html`<${Select} path="override_of" label="Limits of" value=${ofKey ? 'key' : 'policy'} set=${(/** @type {string} */ v) => setOfKey(v === 'key')} options=${[['policy', 'The whole policy'], ['key', 'One key']]} />`}
    ${ofKey && html`<${Text} path="policy_key" label="Key" hint="Such as a customer. Empty: events without a key." error=${failure} value=${policyKey} set=${setPolicyKey} />`}
    ${input('maxConcurrent', 'max_concurrent', 'Events out at once', `${now(limits.maxConcurrent)} Empty: stays so. 0: nothing goes out.`)}
    ${input('maxPerSecond', 'max_per_second', 'Events per second', `${now(limits.maxPerSecond)} Empty: stays so.`)}
    ${input('burst', 'burst', 'Burst', 'Events that may go at once after a pause, on top of the rate.')}
    ${input('reason', 'reason', 'Reason', 'Shown to others, at most 200 characters.', 'text')}
    <${Duration} path="expire_time" label="For how long" hint="Such as 90 min. Then it ends by itself. At most 30 d." error=${failure} value=${length} set=${setLength} /></fieldset>
    ${before && html`<p class="note">It replaces an override that is in force: ${overrideText(before)}, until ${timeText(before.expireTime)}: ${before.reason}</p>`}
    <div class="actions"><button class="primary">Override limits</button></div></form>`;
}
