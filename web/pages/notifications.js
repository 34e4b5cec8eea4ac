// Notifications: subscriptions, which send messages when schedules do not do what they should.
import { html, useEffect, useState } from '../parts/view.js';
import { address, go, Link } from '../parts/router.js';
import { call, get, post, quoted, useForm } from '../parts/api.js';
import { can, session } from '../parts/session.js';
import { Badge, Badges, Facts, Failure, Head, Loading } from '../parts/basics.js';
import { act, ask, say } from '../parts/dialog.js';
import { useData, useSettled } from '../parts/data.js';
import { Cell, List, Rows } from '../parts/table.js';
import { Duration, Field, FieldErrors, Select, Text, typedErrors } from '../parts/fields.js';
import { TargetFields, targetWords, useDraft } from '../parts/target_fields.js';
import { addressOf } from '../parts/runs.js';
import { eventStates, problemState, subscriptionState } from '../parts/state.js';
import { filterOfScope, scopeOf, scopeProblem, scopeText } from '../parts/scope.js';
import { agoText, count, counted, exactText, idOf, Time, timeText, words } from '../parts/format.js';

/** The kinds of problems. @type {[kind: string, meaning: string][]} */
const KINDS = [
  ['FAILED', 'An event has failed for good.'],
  ['LATE', 'A run waits longer than the time below.'],
  ['MISSED', 'A run was left out, or an event was not sent in its time.'],
  ['PAUSED', 'The platform has paused the schedule, because its target is gone for good.'],
  ['AT_RISK', 'A run will not keep to its window.'],
];
/** @param {any} s */
const kindsText = (s) => (s.kinds?.length ? words(s.kinds.join(', ')) : 'All kinds');

/** @param {{tenant: string}} props */
export function Notifications({ tenant }) {
  const columns = [
    { title: 'Name', size: 14, cell: (/** @type {any} */ s) => html`<${Cell} to=${address(tenant, ['notifications', idOf(s.name)])}>${idOf(s.name)}<//> <span class="muted">${s.displayName}</span>` },
    { title: 'State', size: 12, cell: (/** @type {any} */ s) => html`<${Badge} of=${subscriptionState(s)} />` },
    { title: 'Covers', size: 16, wide: true, cell: (/** @type {any} */ s) => scopeText(s.filter) },
    { title: 'Problems', size: 12, wide: true, cell: kindsText },
    { title: 'Where to', size: 16, wide: true, cell: (/** @type {any} */ s) => targetWords(s.target) },
  ];
  return html`<${Head} title="Notifications" note="Messages to people or services when schedules fail, are late, are left out or are paused.">${can('EDITOR') && html`<${Link} class="button primary" to=${address(tenant, ['new-notification'])}>New notification<//>`}<//>
    <${List} path=${`/v1/tenants/${tenant}/subscriptions`} field="subscriptions" columns=${columns} caption="Notifications" noun="notifications" empty=${html`Nobody gets messages yet. ${can('EDITOR') && html`<${Link} to=${address(tenant, ['new-notification'])}>Make the first notification<//>`}`} />`;
}

/** The event of a message, and what became of it. @param {{name: string}} props */
function Message({ name }) {
  const read = (/** @type {AbortSignal} */ signal) => get(`/v1/${name}`, {}, signal).catch((error) => {
    if (error.status !== 404) throw error;
    return { state: 'ENDED', gone: true };
  });
  const { data: e } = useData(read, [name], (event) => (event.state === 'ENDED' ? 0 : 2000));
  if (e?.gone) return html`<span class="muted">Its event is no longer kept.</span>`;
  return html`<${Link} to=${addressOf(name)}>Its event<//> ${e && html`<${Badges} of=${eventStates(e)} />`}`;
}

/** @type {import('../parts/table.js').Column[]} */
const PROBLEM_COLUMNS = [
  { title: 'Problem', size: 9, cell: (p) => html`<${Badge} of=${problemState(p)} />` },
  { title: 'Schedule', size: 14, cell: (p) => (p.schedule ? html`<${Cell} to=${addressOf(p.schedule)}>${idOf(p.schedule)}<//>` : 'One-off events') },
  { title: 'Since', size: 13, cell: (p) => html`<${Time} value=${p.beginTime} />` },
  { title: 'Last', size: 13, wide: true, cell: (p) => (p.resource ? html`<${Link} to=${addressOf(p.resource)}><${Time} value=${p.lastTime} /><//>` : html`<${Time} value=${p.lastTime} />`) },
  { title: 'Count', size: 8, cell: (p) => p.kind !== 'PAUSED' && counted(p.count, p.schedule ? 'run' : 'event') },
  { title: 'Detail', size: 20, wide: true, cell: (p) => p.detail && html`<span class="error">${p.detail}</span>` },
  { title: 'Notified', size: 9, wide: true, cell: (p) => (p.notifyTime ? html`<time datetime=${p.notifyTime} title=${timeText(p.notifyTime)}>${agoText(p.notifyTime)}</time>` : 'with the next message') },
];

/** @param {{subscription: any}} props */
function Problems({ subscription: s }) {
  const problems = s.problems ?? [];
  const all = Number(s.problemCount ?? 0);
  if (all === 0) return html`<div class="empty">${s.checkTime ? 'All is well: no problem lasts.' : 'It has not been checked yet. The first check comes within seconds.'}</div>`;
  return html`${all > problems.length && html`<p class="note">The first ${count(problems.length)} of ${count(all)} problems.</p>`}
    <${Rows} rows=${problems} columns=${PROBLEM_COLUMNS} caption="Problems" rowId=${(/** @type {any} */ p) => `${p.kind} ${p.schedule ?? ''}`} />`;
}

/** @param {{tenant: string, id: string}} props */
export function NotificationPage({ tenant, id }) {
  const name = `tenants/${tenant}/subscriptions/${id}`;
  const [test, setTest] = useState('');
  const { data: s, error, reload } = useData((signal) => get(`/v1/${name}`, {}, signal), [name], 5000);
  if (error && !s) return html`<${Failure} error=${error} retry=${reload} whole />`;
  if (!s) return html`<${Loading} />`;
  const sendTest = async () => {
    const made = await act('', () => post(`/v1/${name}:test`));
    if (made) setTest(made.event);
  };
  const remove = async () => {
    if (!(await ask({ title: `Delete ${id}?`, text: 'It sends no further messages. Those that are under way still go out.', action: 'Delete', danger: true }))) return;
    if (await act(`${id} is deleted.`, () => call('DELETE', `/v1/${name}`))) go(address(tenant, ['notifications']));
  };
  const scope = scopeOf(s.filter);
  const covered = scope.kind === 'one' ? address(tenant, ['schedules', scope.text]) : address(tenant, ['schedules'], { q: s.filter });
  return html`<${Head} title=${id} above=${html`<${Link} to=${address(tenant, ['notifications'])}>Notifications<//>`} note=${s.displayName}>
      ${can('OPERATOR') && html`<button onClick=${sendTest}>Send a test</button>`}
      ${can('EDITOR') && html`<${Link} class="button" to=${address(tenant, ['notifications', id, 'edit'])}>Edit<//><button class="danger" onClick=${remove}>Delete</button>`}<//>
    <div role="status">${test && html`<p>The test is sent. <${Message} key=${test} name=${test} /></p>`}</div>
    <div class="columns"><section class="card"><h2>Now</h2><${Facts} items=${[['State', html`<${Badge} of=${subscriptionState(s)} />`], ['Checked', s.checkTime && html`<${Time} value=${s.checkTime} />`],
      ['Last message', s.lastEvent ? html`<${Time} value=${s.lastEventTime} /> <${Message} key=${s.lastEvent} name=${s.lastEvent} />` : html`<span class="muted">There was none.</span>`]]} /></section>
    <section class="card"><h2>Definition</h2><${Facts} items=${[['Covers', html`<${Link} to=${covered}>${scopeText(s.filter)}<//>`], ['Problems', kindsText(s)],
      ['Late is', (!s.kinds?.length || s.kinds.includes('LATE')) && `${exactText(s.lateBy || '300s')} after its time`], ['Where to', targetWords(s.target)], ['Changed', html`<${Time} value=${s.updateTime} />`], ['Version', s.version]]} /></section></div>
    <h2>Problems that last</h2><${Problems} subscription=${s} />`;
}

/** Which schedules, by name, by label or by a filter; with a note if there are none. @param {{tenant: string, scope: import('../parts/scope.js').Scope, set: (scope: import('../parts/scope.js').Scope) => void, error: any}} props */
function ScopeFields({ tenant, scope, set, error }) {
  const { kind, text } = scope;
  const filter = useSettled(scopeProblem(scope) ? '' : filterOfScope(scope));
  const one = scopeOf(filter).kind === 'one' ? scopeOf(filter).text : '';
  // Schedules are listed by their names, so that this very name comes before those that it begins.
  const { data } = useData((signal) => (filter ? get(`/v1/tenants/${tenant}/schedules`, one ? { filter: `name = ${quoted(`${one}*`)}`, pageSize: 20 } : { filter, pageSize: 1 }, signal) : Promise.resolve(undefined)), [tenant, filter]);
  const ids = (data?.schedules ?? []).map((/** @type {any} */ s) => idOf(s.name));
  const none = data && (one ? !ids.includes(one) : !ids.length && !data.nextPageToken);
  const hint = (/** @type {string} */ usual) => (none ? html`<span class="note">No schedule matches at present.</span>` : usual);
  const choose = (/** @type {any} */ next) => {
    const now = filterOfScope(scope);
    set({ kind: next, text: next === 'own' ? now : scopeOf(now).kind === next ? scopeOf(now).text : '' });
  };
  const type = (/** @type {string} */ typed) => set({ kind, text: typed });
  return html`<${Select} path="scope" label="Which schedules" value=${kind} set=${choose} options=${[['all', 'All of the tenant'], ['one', 'One schedule'], ['label', 'Those with a label'], ['own', 'Those that a filter finds']]} error=${null} hint=${kind === 'all' && 'Also one-off events that fail.'} />
    ${kind === 'one' && html`<${Field} path="filter" label="Schedule" hint=${hint('Its name')} error=${error}>${(/** @type {any} */ p) => html`<input ...${p} list="schedule-ids" autocomplete="off" spellcheck="false" value=${text} onInput=${(/** @type {any} */ e) => type(e.target.value)} />
      <datalist id="schedule-ids">${ids.map((/** @type {string} */ id) => html`<option key=${id} value=${id}></option>`)}</datalist>`}<//>`}
    ${kind === 'label' && html`<${Text} path="filter" label="Label" hint=${hint('Such as team=billing')} value=${text} set=${type} error=${error} />`}
    ${kind === 'own' && html`<${Text} path="filter" label="Filter" hint=${hint('Such as policy = gentle AND name = "nightly-*"')} value=${text} set=${type} error=${error} lines=${2} wide />`}`;
}

const NAME_MAX = 63; // characters of a name
const FIELDS = ['displayName', 'filter', 'kinds', 'lateBy', 'target', 'etag'];

/** @param {{tenant: string, id?: string, query: URLSearchParams}} props query: "schedule" names the only schedule whose failures are meant */
export function NotificationForm({ tenant, id, query }) {
  const only = query.get('schedule') ?? '';
  const [draft, set, setDraft] = useDraft(id ? null : { target: { email: {} }, ...(only && { kinds: ['FAILED'], displayName: `${only} fails` }) });
  const [newId, setNewId] = useState(only && `${only.slice(0, NAME_MAX - 6)}-fails`);
  const [scope, setScope] = useState(/** @type {import('../parts/scope.js').Scope} */ (only ? { kind: 'one', text: only } : { kind: 'all', text: '' }));
  const form = useForm();
  const [failure, setFailure] = useState(/** @type {any} */ (null));
  useEffect(() => {
    if (!id || draft) return;
    get(`/v1/tenants/${tenant}/subscriptions/${id}`).then((s) => {
      setScope(scopeOf(s.filter));
      setDraft(Object.fromEntries(FIELDS.map((name) => [name, s[name]])));
    }, setFailure);
  }, [id, session.signIns]);
  if (!draft) return failure ? html`<${Failure} error=${failure} whole />` : html`<${Loading} />`;
  /** @type {string[]} */
  const kinds = draft.kinds ?? [];
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const problem = scopeProblem(scope);
    const wrong = [...(problem ? [{ field: 'filter', description: problem }] : []), ...(typedErrors()?.violations ?? [])];
    if (wrong.length) return setFailure({ violations: wrong });
    const body = { ...draft, filter: filterOfScope(scope) };
    try {
      const made = id
        ? await call('PATCH', `/v1/tenants/${tenant}/subscriptions/${id}`, { query: { updateMask: '*' }, body, form })
        : await call('POST', `/v1/tenants/${tenant}/subscriptions`, { query: { subscriptionId: newId }, body, form });
      say(`${idOf(made.name)} is saved.`);
      go(address(tenant, ['notifications', idOf(made.name)]));
    } catch (error) {
      setFailure(error);
    }
  };
  const choose = (/** @type {string} */ kind, /** @type {boolean} */ on) => set({ kinds: KINDS.map(([each]) => each).filter((each) => (each === kind ? on : kinds.includes(each))) });
  return html`<${Head} title=${id ? `Edit ${id}` : 'New notification'} above=${html`<${Link} to=${address(tenant, ['notifications'])}>Notifications<//>`} />
    <form class="form" onSubmit=${submit} novalidate><${FieldErrors} error=${failure} />
      <fieldset><legend>Name</legend>${!id && html`<${Text} path="subscription_id" label="Name" hint="a–z, 0–9, '-', '_' and '.'; empty: the server makes one" value=${newId} set=${setNewId} error=${failure} />`}
        <${Text} path="display_name" label="Text for people" value=${draft.displayName} set=${(/** @type {string} */ displayName) => set({ displayName })} error=${failure} /></fieldset>
      <fieldset><legend>What it covers</legend><${ScopeFields} tenant=${tenant} scope=${scope} set=${setScope} error=${failure} /></fieldset>
      <fieldset><legend>Which problems</legend><p class="field wide muted">Choose none to get messages of all kinds. A message goes out when a problem begins, after an hour if further runs have it, and when it has ended.</p>
        ${KINDS.map(([kind, meaning]) => html`<label key=${kind} class="check"><input type="checkbox" checked=${kinds.includes(kind)} onChange=${(/** @type {any} */ e) => choose(kind, e.target.checked)} /><span>${words(kind)} <small>${meaning}</small></span></label>`)}
        ${(!kinds.length || kinds.includes('LATE')) && html`<${Duration} path="late_by" label="Late after" hint="Such as 90 s or 15 min; 5 min unless given. With a window, after its end." value=${draft.lateBy} set=${(/** @type {string|undefined} */ lateBy) => set({ lateBy })} error=${failure} />`}</fieldset>
      <${TargetFields} draft=${draft} set=${set} error=${failure} prefix="subscription" first=${['email', 'slack']}>${(draft.target?.email || draft.target?.slack) && html`<p class="field wide muted">The message says what is wrong. Give a text of your own only to change it.</p>`}<//>
      <div class="actions"><button class="primary">${id ? 'Save' : 'Create notification'}</button></div></form>`;
}
