// The schedules of a tenant: find, pause, resume, trigger.
import { html, useEffect, useState } from '../parts/view.js';
import { address, go, Link, setQuery } from '../parts/router.js';
import { post, quoted } from '../parts/api.js';
import { can } from '../parts/session.js';
import { Badge, Head } from '../parts/basics.js';
import { act, ask } from '../parts/dialog.js';
import { Cell, List } from '../parts/table.js';
import { RunBars } from '../parts/run_bars.js';
import { agoText, counted, idOf, targetText, timeText, whenText } from '../parts/format.js';

/** The API's filter of what the user typed. @param {URLSearchParams} query */
export function filterOf(query) {
  const parts = [];
  const text = (query.get('q') ?? '').trim();
  if (/[=<>:]/.test(text)) parts.push(`(${text})`);
  // An index serves the begin of a name; a text of people is looked for in the display name.
  else if (/^[a-z0-9._-]+$/.test(text)) parts.push(`name = ${quoted(`${text}*`)}`);
  else if (text) parts.push(`display_name:${quoted(text)}`);
  if (query.get('state')) parts.push(`state = ${query.get('state')}`);
  if (query.get('target')) parts.push(`target = ${query.get('target')}`);
  return parts.join(' AND ');
}

/** @param {{query: URLSearchParams, fields: any[], hint: string}} props Each field: [parameter, label, options]. */
export function Filters({ query, fields, hint }) {
  const [text, setText] = useState(query.get('q') ?? '');
  useEffect(() => setText(query.get('q') ?? ''), [query.get('q')]);
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    setQuery({ q: text, at: '' });
  };
  return html`<form class="filters" role="search" onSubmit=${submit}>
    <label class="field grow"><span>Find</span><input type="search" value=${text} placeholder=${hint} onInput=${(/** @type {any} */ event) => setText(event.target.value)} /></label>
    ${fields.map(([name, label, options]) => html`<label class="field"><span>${label}</span><select value=${query.get(name) ?? ''} onChange=${(/** @type {any} */ event) => setQuery({ [name]: event.target.value, q: text, at: '' })}>
      ${options.map(([value, title]) => html`<option value=${value}>${title}</option>`)}</select></label>`)}
    <button>Find</button></form>`;
}

/** Changes the state of one schedule; all of them ask first. @param {string} what @param {any} schedule @param {() => void} done */
export async function changeSchedule(what, schedule, done) {
  const id = idOf(schedule.name);
  const path = `/v1/${schedule.name}:${what}`;
  const questions = {
    pause: { title: `Pause ${id}?`, text: 'It does not fire until it is resumed. Its rule for missed runs then decides what happens to those that were due.', action: 'Pause', fields: [{ name: 'reason', label: 'Reason (optional)', hint: 'Shown to others, at most 200 characters.' }] },
    resume: { title: `Resume ${id}?`, text: `It fires again from now on. Missed runs: ${missedWords(schedule)}.`, action: 'Resume' },
    trigger: { title: `Run ${id} now?`, text: `Sends ${counted(schedule.eventCount ?? 1, 'event')} to its target at once, beside its usual times.`, action: 'Run now' },
  };
  const values = await ask(questions[/** @type {'pause'} */ (what)]);
  if (!values) return;
  const body = what === 'pause' && values.reason ? { reason: values.reason } : {};
  const result = await act({ pause: `${id} is paused.`, resume: `${id} is resumed.`, trigger: `${id} runs.` }[what] ?? '', () => post(path, body));
  if (result && what === 'trigger') go(address(schedule.name.split('/')[1], ['schedules', id, 'runs', idOf(result.name)]));
  else if (result) done();
}

/** @param {any} schedule */
function missedWords(schedule) {
  const { action = 'FIRE_ALL', maxCatchUp = 100 } = schedule.misfirePolicy ?? {};
  if (action === 'SKIP') return 'none of them fires';
  if (action === 'FIRE_LATEST') return 'only the latest fires';
  return `the latest ${maxCatchUp} fire`;
}

/** @param {{schedule: any, done: () => void, short?: boolean}} props */
export function ScheduleActions({ schedule, done, short }) {
  if (!can('OPERATOR')) return null;
  const id = idOf(schedule.name);
  const button = (/** @type {string} */ what, /** @type {string} */ text) => html`<button aria-label=${`${text} ${id}`} onClick=${() => changeSchedule(what, schedule, done)}>${text}</button>`;
  return html`<span class="buttons">${button('trigger', 'Run now')}${schedule.state === 'PAUSED' ? button('resume', 'Resume') : schedule.state === 'ENABLED' && button('pause', 'Pause')}</span>`;
}

/** @param {{tenant: string, query: URLSearchParams}} props */
export function Schedules({ tenant, query }) {
  const [turn, setTurn] = useState(0);
  const filter = filterOf(query);
  const columns = [
    { title: 'Name', size: 21, cell: (/** @type {any} */ s) => html`<${Cell} to=${address(tenant, ['schedules', idOf(s.name)])}>${idOf(s.name)}<//>${s.displayName && html` <span class="muted">${s.displayName}</span>`}` },
    { title: 'State', size: 13, cell: (/** @type {any} */ s) => html`<${Badge} state=${s.state} />` },
    { title: 'When', wide: true, size: 16, cell: (/** @type {any} */ s) => html`<code>${whenText(s)}</code> <span class="muted">${s.timeZone === 'UTC' ? '' : s.timeZone}</span>` },
    { title: 'Next', wide: true, size: 12, cell: (/** @type {any} */ s) => (s.nextTime ? html`<time datetime=${s.nextTime} title=${timeText(s.nextTime)}>${agoText(s.nextTime)}</time>` : html`<span class="muted">${s.pauseReason || '–'}</span>`) },
    { title: 'Last', size: 18, cell: (/** @type {any} */ s) => (s.lastTime ? html`<${Badge} state=${s.lastOutcome} final /> <span class="muted wide">${agoText(s.lastTime)}</span>` : html`<span class="muted">–</span>`) },
    { title: 'Last 30 runs', wide: true, size: 14, cell: (/** @type {any} */ s) => html`<${RunBars} schedule=${s} />` },
    { title: 'Target', wide: true, size: 12, cell: (/** @type {any} */ s) => html`<span class="muted" title=${targetText(s.target).join(' ')}>${targetText(s.target)[1].replace(/^https?:\/\//, '') || targetText(s.target)[0]}</span>` },
    { title: 'Actions', hidden: true, wide: true, size: 23, cell: (/** @type {any} */ s) => html`<${ScheduleActions} schedule=${s} done=${() => setTurn((t) => t + 1)} short />` },
  ];
  return html`<${Head} title="Schedules">${can('EDITOR') && html`<${Link} class="button primary" to=${address(tenant, ['new-schedule'])}>New schedule<//>`}<//>
    <${Filters} query=${query} hint='Begin of a name, or labels.team = "billing"' fields=${[
      ['state', 'State', [['', 'Any'], ['ENABLED', 'Enabled'], ['PAUSED', 'Paused'], ['FINISHED', 'Finished']]],
      ['target', 'Target', [['', 'Any'], ...['http', 'grpc', 'sqs', 'kafka', 'slack', 'email', 'ping'].map((kind) => [kind, kind])]],
    ]} />
    <${List} path=${`/v1/tenants/${tenant}/schedules`} field="schedules" query=${{ filter }} columns=${columns} caption="Schedules" noun="schedules" refreshKey=${turn}
      empty=${filter ? 'No schedule matches.' : html`There is no schedule yet. ${can('EDITOR') && html`<${Link} to=${address(tenant, ['new-schedule'])}>Make the first one<//>`}`} />`;
}
