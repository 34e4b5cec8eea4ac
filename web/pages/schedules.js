// The schedules of a tenant: find, sort, pause, resume, trigger, one or many.
import { html, useEffect, useRef, useState } from '../parts/view.js';
import { address, go, Link, setQuery } from '../parts/router.js';
import { get, post, quoted } from '../parts/api.js';
import { can } from '../parts/session.js';
import { Badge, Failure, Head, Loading } from '../parts/basics.js';
import { act, ask, say } from '../parts/dialog.js';
import { LIST_ROWS_MAX, useData } from '../parts/data.js';
import { Cell, List, Rows } from '../parts/table.js';
import { BulkProgress, changeMany, VERBS } from '../parts/bulk.js';
import { SavedViews } from '../parts/saved.js';
import { Choice } from '../parts/fields.js';
import { RunBars } from '../parts/run_bars.js';
import { LastBadge } from '../parts/runs.js';
import { isAt, KIND_OPTIONS, targetWords } from '../parts/target_fields.js';
import { scheduleState } from '../parts/state.js';
import { agoText, count, counted, idOf, pathText, shortText, timeText, When } from '../parts/format.js';

/** A text with one of these is a filter of the API. */
const FILTER = /(^|[\s(])(labels[.:]|(name|display_name|state|time_zone|policy|calendar|target|create_time|update_time|next_time)\s*(!=|[=<>:]))/;
const WORDS_MAX = 10;

/** The API's filter of words and labels: all of them match. A word is a part of the id or of the display name, "team=billing" a label, "team:" any
 * value of it. @param {string} text */
export function filterOfText(text) {
  if (FILTER.test(text)) return `(${text})`;
  const parts = (text.match(/(?:[^\s"]|"[^"]*")+/g) ?? []).slice(0, WORDS_MAX).map((each) => {
    const plain = each.replace(/"/g, '');
    const equals = plain.indexOf('=');
    if (equals > 0) return `labels.${quoted(plain.slice(0, equals))} = ${quoted(plain.slice(equals + 1))}`;
    if (/^[^:]+:$/.test(plain)) return `labels:${quoted(plain.slice(0, -1))}`;
    // The server compares letters as they are.
    const lower = plain.toLowerCase();
    const forms = [...new Set([plain, lower, lower.charAt(0).toUpperCase() + lower.slice(1)])].map(quoted);
    return `(${[...forms.slice(0, 2).map((form) => `name:${form}`), ...forms.map((form) => `display_name:${form}`)].join(' OR ')})`;
  });
  return parts.join(' AND ');
}

/** A text may begin with a place of targets: an origin, or a host with its port. */
const PLACE = /^([^\s"=(]+:\/\/[^\s"]+|[\w.-]+:\d+[^\s"]*)(\s+|$)/;

/** The API's filter of the address. @param {URLSearchParams} query @param {string} [text] what is to be found */
export function filterOf(query, text = (query.get('q') ?? '').trim()) {
  const parts = [filterOfText(text)];
  if (query.get('state')) parts.push(`state = ${query.get('state')}`);
  if (query.get('target')) parts.push(`target = ${query.get('target')}`);
  return parts.filter(Boolean).join(' AND ');
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
    <label class="field grow"><span>Find</span><input type="search" value=${text} aria-describedby="filters-hint" onInput=${(/** @type {any} */ event) => setText(event.target.value)} /></label>
    ${fields.map(([name, label, options]) => html`<label class="field"><span>${label}</span><${Choice} value=${query.get(name) ?? ''} options=${options} set=${(/** @type {string} */ value) => setQuery({ [name]: value, q: text, at: '' })} /></label>`)}
    <button>Find</button><${SavedViews} /><small id="filters-hint">${hint}</small></form>`;
}

/** Changes the state of one schedule; all of them ask first. @param {string} what @param {any} schedule @param {() => void} done */
export async function changeSchedule(what, schedule, done) {
  const id = idOf(schedule.name);
  const path = `/v1/${schedule.name}:${what}`;
  const questions = {
    pause: { title: `Pause ${id}?`, text: 'It does not fire until it is resumed. Its rule for missed runs then decides what happens to those that were due.', action: 'Pause', work: (/** @type {Record<string, string>} */ { reason }) => post(path, reason ? { reason } : {}), fields: [{ name: 'reason', label: 'Reason (optional)', hint: 'Shown to others, at most 200 characters.' }] },
    resume: { title: `Resume ${id}?`, text: `It fires again from now on. Missed runs: ${missedWords(schedule)}.`, action: 'Resume' },
    trigger: { title: `Run ${id} now?`, text: `Makes a new run: it sends ${counted(schedule.eventCount ?? 1, 'event')} to its target at once, beside its usual times. To try the failed events of an earlier run again, use “Redrive” at that run.`, action: 'Run now' },
  };
  const values = await ask(questions[/** @type {'pause'} */ (what)]);
  if (!values) return;
  if (what === 'pause') {
    say(`${id} is paused.`);
    return done();
  }
  const result = await act({ resume: `${id} is resumed.`, trigger: `${id} runs.` }[what] ?? '', () => post(path));
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
  const button = (/** @type {string} */ what, /** @type {string} */ text, title = '') => html`<button title=${title} aria-label=${`${text} ${id}`} onClick=${() => changeSchedule(what, schedule, done)}>${text}</button>`;
  return html`<span class="buttons">${button('trigger', 'Run now', 'Makes a new run at once')}${schedule.state === 'PAUSED' ? button('resume', 'Resume') : schedule.state === 'ENABLED' && button('pause', 'Pause')}</span>`;
}

// The server lists schedules by their names. Other orders are made here, of the schedules that were read.
const SORTED_STEP = 10000; // schedules that are read before the user is asked to go on
const SORTED_MAX = 100000;
const OFTEN_MAX = 1000; // so many are read again every five seconds; more only when the user asks

/** @type {Record<string, {title: string, key: (schedule: any) => number}>} Smaller keys come first; schedules without a key come last. */
const ORDERS = {
  next: { title: 'Next time', key: (s) => Date.parse(s.nextTime) },
  last: { title: 'Last run, newest first', key: (s) => -Date.parse(s.lastTime) },
  '-last': { title: 'Last run, oldest first', key: (s) => Date.parse(s.lastTime) },
  failures: { title: 'Failures, most first', key: (s) => -Number(s.failedCount ?? 0) },
};

/** The schedules that come first in an order, of the first `examined` by name. At most as many as a list has are kept. @param {string} path @param {string} filter
 * @param {string} place '', or where their targets are @param {string} order @param {number} examined @param {AbortSignal} signal */
async function readSorted(path, filter, place, order, examined, signal) {
  /** @type {{key: number, row: any}[]} */
  let best = [];
  let read = 0;
  let total = 0;
  let pageToken = '';
  do {
    const page = await get(path, { filter, orderBy: order === '-name' ? 'name desc' : '', pageSize: 1000, pageToken }, signal);
    const rows = page.schedules ?? [];
    read += rows.length;
    for (const row of rows) {
      if (!isAt(row.target, place)) continue;
      total++;
      const key = ORDERS[order]?.key(row) ?? 0;
      best.push({ key: Number.isNaN(key) ? Infinity : key, row });
    }
    if (best.length > 2 * LIST_ROWS_MAX || !page.nextPageToken || read >= examined) {
      // Equal keys stay in the order of names.
      best = best.sort((a, b) => (a.key === b.key ? 0 : a.key - b.key)).slice(0, LIST_ROWS_MAX);
    }
    pageToken = page.nextPageToken ?? '';
  } while (pageToken && read < examined);
  return { rows: best.map((each) => each.row), read, total, more: pageToken !== '' };
}

/** A list in an order, or of a place, that the server does not have. @param {{path: string, filter: string, place: string, order: string, columns: any[], empty: any, refreshKey: any, select?: Set<string>, onSelect: (id: string, on: boolean) => void}} props */
function SortedList({ path, filter, place, order, columns, empty, refreshKey, select, onSelect }) {
  const [examined, setExamined] = useState(SORTED_STEP);
  const { data, error, reload } = useData((signal) => readSorted(path, filter, place, order, examined, signal), [path, filter, place, order, examined, refreshKey], (found) => (found.read <= OFTEN_MAX ? 5000 : 0));
  // The rows stay while they are read again.
  const before = useRef({ of: '', data });
  const of = JSON.stringify([path, filter, place, order]);
  if (data || before.current.of !== of) before.current = { of, data };
  const found = before.current.data;
  if (error && !found) return html`<${Failure} error=${error} retry=${reload} />`;
  const further = () => {
    setExamined(SORTED_MAX);
    scrollTo(0, 0);
  };
  return html`${found?.more && html`<p class="note">Sorted among the first ${count(found.read)} by name; there are more. ${found.read < SORTED_MAX ? html`<button disabled=${!data} onClick=${further}>${data ? `Sort up to ${count(SORTED_MAX)}` : 'Reading…'}</button>` : 'Search for fewer.'}</p>`}
    ${found && found.rows.length > 0 && html`<${Rows} rows=${found.rows} columns=${columns} caption="Schedules" rowId=${(/** @type {any} */ s) => s.name} select=${select} onSelect=${onSelect} />`}
    ${found && !found.rows.length && !found.more && html`<div class="empty">${empty}</div>`}
    <p class="below" role="status">${!data && !error && html`<${Loading} text="Reading…" />`} ${found && html`${found.total > found.rows.length ? `The first ${count(found.rows.length)} of ${count(found.total)} schedules.` : `${counted(found.rows.length, 'schedule')}.`} `}
      ${found && found.read > OFTEN_MAX && html` <button disabled=${!data} onClick=${reload}>Read again</button>`}
      ${found && error && html` ${error.message} <button onClick=${reload}>Try again</button>`}</p>`;
}

/** @param {{tenant: string, query: URLSearchParams}} props */
export function Schedules({ tenant, query }) {
  const [turn, setTurn] = useState(0);
  const [version, setVersion] = useState(0); // of the whole list: a change of many concerns more than the page that one looks at
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const q = (query.get('q') ?? '').trim();
  const [found = '', place = ''] = PLACE.exec(q) ?? [];
  const filter = filterOf(query, q.slice(found.length));
  const order = query.get('sort') ?? '';
  useEffect(() => setSelected(new Set()), [filter, place]);
  const columns = [
    { title: 'Name', size: 17, cell: (/** @type {any} */ s) => html`<${Cell} to=${address(tenant, ['schedules', idOf(s.name)])}>${idOf(s.name)}<//>${s.displayName && html` <span class="muted">${s.displayName}</span>`}` },
    { title: 'State', size: 15.5, cell: (/** @type {any} */ s) => html`<${Badge} of=${scheduleState(s)} />` },
    { title: 'When', wide: true, size: 14, cell: (/** @type {any} */ s) => html`<${When} of=${s} />` },
    { title: 'Next', wide: true, size: 10, cell: (/** @type {any} */ s) => (s.nextTime ? html`<time datetime=${s.nextTime} title=${timeText(s.nextTime)}>${agoText(s.nextTime)}</time>` : html`<span class="muted">${s.pauseReason || '–'}</span>`) },
    { title: 'Last', size: 14, cell: (/** @type {any} */ s) => html`<${LastBadge} schedule=${s} /> <span class="muted">${s.lastTime && agoText(s.lastTime)}</span>` },
    { title: 'Last 30 runs', wide: true, size: 11, cell: (/** @type {any} */ s) => html`<${RunBars} schedule=${s} />` },
    ...(order === 'failures' ? [{ title: 'Failures', number: true, size: 11, cell: (/** @type {any} */ s) => count(s.failedCount) }] : []),
    { title: 'Target', wide: true, size: 17, cell: (/** @type {any} */ s) => html`<span class="muted" title=${targetWords(s.target)}>${pathText(shortText(targetWords(s.target).replace(/ https?:\/\//, ' '), 60))}</span>` },
    { title: 'Actions', hidden: true, wide: true, size: 17.5, cell: (/** @type {any} */ s) => html`<${ScheduleActions} schedule=${s} done=${() => setTurn((t) => t + 1)} short />` },
  ];
  const select = can('OPERATOR') ? selected : undefined;
  const onSelect = (/** @type {string} */ name, /** @type {boolean} */ on) => setSelected((before) => new Set(on ? [...before, name] : [...before].filter((each) => each !== name)));
  const path = `/v1/tenants/${tenant}/schedules`;
  const empty = filter || place ? 'No schedule matches.' : html`There is no schedule yet. ${can('EDITOR') && html`<${Link} to=${address(tenant, ['new-schedule'])}>Make the first one<//>`}`;
  const onEnd = () => {
    setSelected(new Set());
    setVersion((v) => v + 1);
  };
  return html`<${Head} title="Schedules">${can('EDITOR') && html`<${Link} class="button primary" to=${address(tenant, ['new-schedule'])}>New schedule<//>`}<//>
    <${Filters} query=${query} hint="Part of a name, a label (team=billing), or a target (example.org:443)" fields=${[
      ['state', 'State', [['', 'Any'], ['ENABLED', 'Enabled'], ['PAUSED', 'Paused'], ['FINISHED', 'Finished']]],
      ['target', 'Target', [['', 'Any'], ...KIND_OPTIONS]],
      ['sort', 'Sort by', [['', 'Name'], ['-name', 'Name, last first'], ...Object.entries(ORDERS).map(([value, { title }]) => [value, title])]],
    ]} />
    ${can('OPERATOR') && html`<div class="buttons bulk" role="group" aria-label="Change many schedules"><span class="muted">${selected.size ? `${count(selected.size)} selected:` : filter || place ? 'All that match:' : 'All schedules:'}</span>
      ${Object.values(VERBS).map((verb) => (verb.what !== 'delete' || can('EDITOR')) && html`<button class=${verb.danger ? 'danger' : ''} onClick=${() => changeMany(verb, tenant, selected.size ? { chosen: [...selected] } : { filter, place })}>${verb.title}…</button>`)}
      ${selected.size > 0 && html`<button class="link" onClick=${() => setSelected(new Set())}>Select none</button>`}</div>`}
    <${BulkProgress} onEnd=${onEnd} />
    ${ORDERS[order] || place ? html`<${SortedList} key=${`${order} ${filter} ${place}`} path=${path} filter=${filter} place=${place} order=${order} columns=${columns} empty=${empty} refreshKey=${turn + version} select=${select} onSelect=${onSelect} />`
      : html`<${List} key=${version} path=${path} field="schedules" query=${{ filter, orderBy: order === '-name' ? 'name desc' : '' }} columns=${columns} caption="Schedules" noun="schedules" refreshKey=${turn} select=${select} onSelect=${onSelect} empty=${empty} />`}`;
}
