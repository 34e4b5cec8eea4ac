// One-off events: those that are due, those that have ended, and one event with its attempts.
import { html, useRef, useState } from '../parts/view.js';
import { address, go, Link, setQuery } from '../parts/router.js';
import { call, get, post, quoted, useForm } from '../parts/api.js';
import { can } from '../parts/session.js';
import { Badges, Facts, Failure, Head, Loading, TextBox } from '../parts/basics.js';
import { act, ask } from '../parts/dialog.js';
import { useData, useWhy } from '../parts/data.js';
import { Cell, List } from '../parts/table.js';
import { Attempts, addressOf, deliveredId, REDRIVE, redriveEvent } from '../parts/runs.js';
import { agoText, count, counted, exactText, idOf, isoOfInput, pathText, shortText, shownBytes, targetText, Time, timeText, zone } from '../parts/format.js';
import { eventStates } from '../parts/state.js';
import { Filters } from './schedules.js';
import { answerText } from './run.js';
import { kindText, limitsOf, PayloadFields, PolicyFields, PolicyLinks, TargetFields, targetWords, useDraft, usePolicies } from '../parts/target_fields.js';
import { Field, FieldErrors, typedErrors } from '../parts/fields.js';

/** @param {{tenant: string, query: URLSearchParams}} props */
export function Events({ tenant, query }) {
  const show = query.get('show') || 'pending';
  const ended = show === 'ended';
  const text = (query.get('q') ?? '').trim();
  const parts = [/[=<>:]/.test(text) ? `(${text})` : text && `name:${quoted(text)}`, ended && query.get('outcome') && `outcome = ${query.get('outcome')}`, !ended && query.get('state') && `state = ${query.get('state')}`];
  const filter = parts.filter(Boolean).join(' AND ');
  const columns = [
    { title: 'Event', size: 14, cell: (/** @type {any} */ e) => html`<${Cell} to=${addressOf(e.name)}>${idOf(e.name)}<//>` },
    { title: 'State', size: 14, cell: (/** @type {any} */ e) => html`<${Badges} of=${eventStates(e)} />` },
    { title: 'Due', wide: ended, cell: (/** @type {any} */ e) => html`<time datetime=${e.dueTime} title=${timeText(e.dueTime)}>${agoText(e.dueTime)}</time>` },
    ...(ended ? [
      { title: 'Ended', wide: true, cell: (/** @type {any} */ e) => html`<time datetime=${e.completeTime} title=${timeText(e.completeTime)}>${agoText(e.completeTime)}</time>` },
      { title: 'Attempts', wide: true, number: true, cell: (/** @type {any} */ e) => html`<${Link} to=${addressOf(e.name)}>${count(e.attempts)}<//>` },
      { title: 'Answer or error', size: 26, cell: (/** @type {any} */ e) => html`<span class=${e.outcome === 'SUCCEEDED' ? 'muted' : 'error'}>${answerText(e)}</span>` },
    ] : [
      { title: 'Target', size: 20, wide: true, cell: (/** @type {any} */ e) => html`<span class="muted" title=${targetWords(e.target)}>${pathText(shortText(targetWords(e.target), 60))}</span>` },
      { title: 'Error', size: 20, wide: true, cell: (/** @type {any} */ e) => e.reason && html`<span class="error">${shortText(e.reason, 200)}</span>` },
    ]),
  ];
  const tab = (/** @type {string} */ value, /** @type {string} */ title) => html`<button aria-pressed=${show === value ? 'true' : 'false'} onClick=${() => setQuery({ show: value, outcome: '', state: '', at: '' })}>${title}</button>`;
  return html`<${Head} title="Events" note="One-off events. Those of schedules are with their runs.">${can('EDITOR') && html`<${Link} class="button primary" to=${address(tenant, ['new-event'])}>New event<//>`}<//>
    <div class="tabs" role="group" aria-label="Which events">${tab('pending', 'Not ended')}${tab('ended', 'Ended')}</div>
    <${Filters} key=${show} query=${query} hint='Part of an id, or due_time > "2026-12-01T00:00:00Z"' fields=${[ended
      ? ['outcome', 'Outcome', [['', 'Any'], ['SUCCEEDED', 'Succeeded'], ['FAILED', 'Failed'], ['EXPIRED', 'Expired'], ['CANCELLED', 'Cancelled'], ['SKIPPED', 'Skipped']]]
      : ['state', 'State', [['', 'Any'], ['PENDING', 'Pending'], ['RUNNING', 'Being sent']]]]} />
    <${List} path=${`/v1/tenants/${tenant}/events`} field="events" query=${{ filter, orderBy: ended ? 'complete_time desc' : 'due_time' }} columns=${columns} caption="Events" noun="events" empty=${filter ? 'No event matches.' : ended ? 'No event has ended.' : 'No event is waiting.'} />`;
}

/** An event of a run or a one-off event. @param {{tenant: string, name: string}} props */
export function EventPage({ tenant, name }) {
  const full = `tenants/${tenant}/${name}`;
  const [turn, setTurn] = useState(0);
  const ofRun = name.startsWith('schedules/');
  const { data: e, error, reload } = useData((signal) => (ofRun ? runEvent(full, signal) : get(`/v1/${full}`, {}, signal)), [full, turn], (event) => (event.state === 'ENDED' ? 0 : 2000));
  const why = useWhy(full, [turn, e?.status]);
  if (error && !e) return html`<${Failure} error=${error} retry=${reload} whole />${why.summary && html`<p>${why.summary}</p>`}`;
  if (!e) return html`<${Loading} />`;
  const changed = () => setTurn((t) => t + 1);
  const cancel = async () => {
    if (await ask({ title: 'Cancel 1 event?', text: 'It is not sent.', action: 'Cancel 1', danger: true })) {
      await act('The event is cancelled.', () => post(`/v1/${full}:cancel`));
      changed();
    }
  };
  const [, schedule, , occurrence] = name.split('/');
  const above = ofRun
    ? html`<${Link} to=${address(tenant, ['schedules', schedule])}>${schedule}<//> / <${Link} to=${address(tenant, ['schedules', schedule, 'runs', occurrence])}>Run<//>`
    : html`<${Link} to=${address(tenant, ['events'])}>Events<//>`;
  return html`<${Head} title=${`Event ${idOf(name)}`} above=${above}>
      ${can('OPERATOR') && e.outcome === 'FAILED' && html`<button title=${REDRIVE} onClick=${() => redriveEvent(e, changed)}>Redrive</button>`}
      ${can('OPERATOR') && !ofRun && e.state === 'PENDING' && html`<button onClick=${cancel}>Cancel</button>`}<//>
    <section class="card"><${Facts} items=${[
      ['State', html`<${Badges} of=${eventStates(e, why.gates)} />`], [e.state === 'ENDED' ? 'Where its time went' : 'Why it waits', why.summary], ['Due', html`<${Time} value=${e.dueTime} />`], ['Sent', e.dispatchTime && html`<${Time} value=${e.dispatchTime} />`],
      ['Next try', e.nextAttemptTime && html`<${Time} value=${e.nextAttemptTime} />`], ['Ended', e.completeTime && html`<${Time} value=${e.completeTime} />`], [e.outcome === 'FAILED' || !e.outcome ? 'Error' : 'Reason', e.reason && html`<span class="error">${e.reason}</span>`], ['Attempts', count(e.attempts)],
      ['Redriven', Number(e.redriveCount) > 0 && counted(e.redriveCount, 'time')], ['Id at the consumer', html`<code>${deliveredId(e)}</code>`], ['Target', e.target && html`${kindText(targetText(e.target)[0])} <code>${targetText(e.target)[1]}</code>`],
      ['Policy', limitsOf(e).length > 0 && html`<${PolicyLinks} of=${e} />`], ['Timeout', e.deliveryTimeout && exactText(e.deliveryTimeout)]]} /></section>
    ${e.output && html`<h2>Output</h2><${TextBox} text=${shownBytes(e.output)} label="Output" />`}
    <${Attempts} attempts=${e.recentAttempts} />
    ${e.payload && html`<h2>Payload</h2><${TextBox} text=${shownBytes(e.payload)} label="Payload" />`}`;
}

/** The API lists the events of a run in the order of their index; it has no call for one of them. @param {string} name @param {AbortSignal} signal */
async function runEvent(name, signal) {
  const run = name.split('/').slice(0, -2).join('/');
  let pageToken = '';
  for (let pages = 0; pages < 200; pages++) {
    const page = await get(`/v1/${run}/events`, { pageSize: 1000, pageToken }, signal);
    const found = (page.events ?? []).find((/** @type {any} */ event) => event.name === name);
    if (found) return found;
    pageToken = page.nextPageToken;
    if (!pageToken) break;
  }
  throw { status: 404, message: 'The event has not ended and waits neither for a retry nor for a target that is down, so the run does not list it.' };
}

/** @param {{tenant: string}} props */
export function NewEvent({ tenant }) {
  const [draft, set] = useDraft({ target: { http: { uri: '' } }, payload: '' });
  const [id, setId] = useState('');
  const [due, setDue] = useState('');
  const throttling = usePolicies(tenant, draft);
  const form = useForm();
  const first = useRef(''); // the time of the first try: a later one asks for the same event
  const [failure, setFailure] = useState(/** @type {any} */ (null));
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const wrong = typedErrors() ?? throttling.failure;
    if (wrong) return setFailure(wrong);
    try {
      first.current ||= new Date().toISOString();
      const dueTime = due ? isoOfInput(due) : first.current;
      const made = await call('POST', `/v1/tenants/${tenant}/events`, { query: { eventId: id }, body: { ...draft, dueTime }, form });
      go(addressOf(made.name));
    } catch (error) {
      setFailure(error);
    }
  };
  return html`<${Head} title="New event" above=${html`<${Link} to=${address(tenant, ['events'])}>Events<//>`} /><form class="form" onSubmit=${submit} novalidate>
    <${FieldErrors} error=${failure} />
    <fieldset><legend>When</legend>
      <${Field} path="due_time" label=${zone.mode === 'utc' ? 'Due (UTC)' : 'Due (local time)'} hint="Empty: at once." error=${failure}>${(/** @type {any} */ p) => html`<input ...${p} type="datetime-local" value=${due} onInput=${(/** @type {any} */ e) => setDue(e.target.value)} />`}<//>
      <${Field} path="event_id" label="Id" hint="Empty: the server makes one." error=${failure}>${(/** @type {any} */ p) => html`<input ...${p} value=${id} onInput=${(/** @type {any} */ e) => setId(e.target.value)} />`}<//></fieldset>
    <${TargetFields} draft=${draft} set=${set} error=${failure} prefix="event" /><${PayloadFields} draft=${draft} set=${set} error=${failure} />
    <fieldset><legend>How fast</legend><${PolicyFields} throttling=${throttling} draft=${draft} set=${set} error=${failure} /></fieldset>
    <div class="actions"><button class="primary">Create event</button></div></form>`;
}
