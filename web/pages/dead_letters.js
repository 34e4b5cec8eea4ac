// Dead letters: events that failed for good. See which fail alike, find them, see why, send them again or purge them.
import { html, useState } from '../parts/view.js';
import { address, Link, setQuery } from '../parts/router.js';
import { ApiError, get, getAll, post, quoted } from '../parts/api.js';
import { can } from '../parts/session.js';
import { Facts, Failure, Head, Loading, TextBox } from '../parts/basics.js';
import { act, ask } from '../parts/dialog.js';
import { useData } from '../parts/data.js';
import { Cell, List } from '../parts/table.js';
import { Attempts, addressOf, OperationProgress, REDRIVE, redriveLetter, ROUND } from '../parts/runs.js';
import { agoText, clockText, count, counted, durationText, idOf, shortText, shownBytes, Time, timeText } from '../parts/format.js';
import { Filters } from './schedules.js';

const DAY_HOURS = 24;
// Groups that are shown before the user asks for all.
const FIRST_GROUPS = 6;

/** Hours that the user has chosen; 0: any time. @param {URLSearchParams} query */
const hoursOf = (query) => Math.max(0, Math.min(Number(query.get('within') || 0), 8760) || 0);

/** The API's filter of the address, without its time and group. @param {URLSearchParams} query */
function wordsFilterOf(query) {
  const text = (query.get('q') ?? '').trim();
  return [
    /(=|<|>| : )/.test(text) ? `(${text})` : text && `reason : ${quoted(text)}`,
    query.get('schedule') && `schedule = ${quoted(query.get('schedule') ?? '')}`,
  ].filter(Boolean).join(' AND ');
}

/** The API's filter of the address. @param {URLSearchParams} query */
function filterOf(query) {
  const hours = hoursOf(query);
  return [
    wordsFilterOf(query),
    query.get('group'),
    // Down to the hour, so that pages stay those of one list.
    hours && `create_time >= "${new Date(Math.floor(Date.now() / 3600000 - hours) * 3600000).toISOString()}"`,
  ].filter(Boolean).join(' AND ');
}

/** How many of a group failed in each part of the time. @param {{group: any, start: number, end: number}} props */
function Spark({ group, start, end }) {
  const counts = group.counts.map(Number);
  const most = Math.max(...counts);
  const part = (end - start) / counts.length;
  const failing = counts.filter(Boolean).length;
  const text = `Failed in ${failing} of ${counts.length} parts of ${durationText(part / 1000)}; most, ${count(most)}, in the part from ${clockText(start + counts.indexOf(most) * part)}`;
  return html`<svg class="spark" viewBox=${`0 0 ${counts.length} 12`} preserveAspectRatio="none" role="img" aria-label=${text}><title>${text}</title>
    <rect class="ground" x="0" y="11.5" width=${counts.length} height="0.5" />
    ${counts.map((/** @type {number} */ number, /** @type {number} */ i) => number > 0 && html`<rect x=${i + 0.1} y=${12 - Math.max(1.5, (number / most) * 12)} width="0.8" height=${Math.max(1.5, (number / most) * 12)} />`)}</svg>`;
}

/** The version of the schedule that was made last before the group began to fail, in words. @param {{group: any}} props */
function WhatChanged({ group }) {
  const { data, error, reload } = useData(async (signal) => {
    // The group's letters of any time: it may have begun to fail before the time that is shown.
    const alike = group.filter.replace(/ AND create_time >= "[^"]*" AND create_time < "[^"]*"$/, '');
    const [{ versions = [] }, { deadLetters = [], nextPageToken = '' }] = await Promise.all([
      get(`/v1/${group.schedule}/versions`, {}, signal),
      get(`/v1/${group.schedule.split('/').slice(0, 2).join('/')}/deadLetters`, { filter: alike, orderBy: 'create_time', pageSize: 1 }, signal),
    ]);
    return { versions, began: deadLetters[0]?.createTime ?? group.firstTime, earlier: !deadLetters.length && nextPageToken };
  }, [group.schedule, group.error, group.firstTime]);
  if (error instanceof ApiError && error.status === 404) return html`<p>The schedule has been deleted, and its versions with it.</p>`;
  if (error && !data) return html`<${Failure} error=${error} retry=${reload} />`;
  if (!data) return html`<${Loading} />`;
  const began = Date.parse(data.began);
  const before = data.versions.filter((/** @type {any} */ version) => Date.parse(version.createTime) < began);
  // A version without changed fields has another name or other labels only.
  const version = before.find((/** @type {any} */ each) => each.changedFields?.length) ?? before[0];
  return html`<p>${data.earlier ? 'First failure of the time shown; it may have begun earlier: ' : 'First failure: '}<${Time} value=${data.began} /></p>
    <p>${version ? changeText(version, version === data.versions.at(-1), (began - Date.parse(version.createTime)) / 1000) : 'No version from before the first failure is kept.'}</p>`;
}
/** "Version 7, 12 min before the first failure: target, retry policy" @param {any} version @param {boolean} oldest @param {number} seconds */
function changeText(version, oldest, seconds) {
  const fields = (version.changedFields ?? []).map((/** @type {string} */ field) => field.replaceAll('_', ' ')).join(', ');
  const what = fields || (Number(version.version) === 1 ? 'the schedule was created' : oldest ? 'the oldest version that is kept' : 'only its name or labels');
  return `Version ${version.version}, ${durationText(seconds)} before the first failure: ${what}`;
}

/** One group. @param {{tenant: string, group: any, start: number, end: number, redrive: (filter: string, what: string) => void}} props */
function Group({ tenant, group, start, end, redrive }) {
  const [open, setOpen] = useState(false);
  const name = group.schedule ? idOf(group.schedule) : 'One-off events';
  const list = address(tenant, ['dead-letters'], { group: group.filter });
  // A group has "#" for digits; people look for the error itself.
  const { data: last } = useData((signal) => (group.error.includes('#') ? get(`/v1/${group.latest}`, {}, signal) : Promise.resolve({})), [group.schedule, group.error], 15000);
  const error = shortText(last?.reason ?? group.error, 200);
  return html`<li>
    <div class="words"><strong>${group.schedule ? html`<${Link} to=${address(tenant, ['schedules', name])}>${name}<//>` : name}</strong> <span class="error">${error}</span></div>
    <${Spark} group=${group} start=${start} end=${end} />
    <div><${Link} to=${list} aria-label=${`${counted(group.count, 'event')} of ${name}: ${error}`}>${counted(group.count, 'event')}<//> <small>last <time datetime=${group.lastTime} title=${timeText(group.lastTime)}>${agoText(group.lastTime)}</time></small></div>
    ${can('OPERATOR') && html`<div class="buttons"><button title=${REDRIVE} aria-label=${`Redrive ${count(group.count)} of ${name}: ${error}`} onClick=${() => redrive(group.filter, 'These are all dead letters of the group.')}>Redrive ${count(group.count)}</button></div>`}
    ${group.schedule && html`<details onToggle=${(/** @type {any} */ event) => setOpen(event.currentTarget.open)}><summary>What changed before it began to fail?</summary>${open && html`<${WhatChanged} group=${group} />`}</details>`}</li>`;
}

/** The groups of the chosen time, or of the last day. @param {{tenant: string, query: URLSearchParams, turn: number, redrive: (filter: string, what: string) => void}} props */
function Groups({ tenant, query, turn, redrive }) {
  const hours = hoursOf(query) || DAY_HOURS;
  const filter = wordsFilterOf(query);
  const { data, error, reload } = useData((signal) => get(`/v1/tenants/${tenant}/deadLetterGroups`, { filter, ...(hours === DAY_HOURS ? {} : { startTime: new Date(Date.now() - hours * 3600000).toISOString() }) }, signal),
    [tenant, filter, hours, turn], (answer) => (answer?.more || (answer?.groups ?? []).reduce((/** @type {number} */ sum, /** @type {any} */ group) => sum + Number(group.count), 0) > 10000 ? 60000 : 15000));
  // The list below says what is wrong with the filter.
  if (error && !data && error.status !== 400) return html`<${Failure} error=${error} retry=${reload} />`;
  if (!data?.groups) return null;
  const all = query.get('groups') === 'all';
  const shown = all ? data.groups : data.groups.slice(0, FIRST_GROUPS);
  return html`<section class="card" aria-labelledby="groups"><h2 id="groups">What failed alike in the last ${hours === DAY_HOURS ? '24 h' : durationText(hours * 3600)}</h2>
    <ul class="plain groups">${shown.map((/** @type {any} */ group) => html`<${Group} key=${`${group.schedule ?? ''} ${group.error}`} tenant=${tenant} group=${group} start=${Date.parse(data.startTime)} end=${Date.parse(data.endTime)} redrive=${redrive} />`)}</ul>
    ${shown.length < data.groups.length && html`<p><button class="link" onClick=${() => setQuery({ groups: 'all' }, { replace: true })}>Show all ${data.groups.length} groups</button></p>`}
    ${data.more && html`<p class="note">Not everything was counted: only the newest failures and the largest groups are shown.</p>`}</section>`;
}

/** @param {{tenant: string, query: URLSearchParams}} props */
export function DeadLetters({ tenant, query }) {
  const parent = `/v1/tenants/${tenant}`;
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const [turn, setTurn] = useState(0);
  const [begun, setBegun] = useState(/** @type {string[]} */ ([]));
  const { data: running } = useData(() => getAll(`${parent}/operations`, 'operations', { filter: 'state = RUNNING' }, 20), [tenant, turn], 5000);
  const filter = filterOf(query);
  const changed = () => (setSelected(new Set()), setTurn((t) => t + 1));

  const redriveMatches = async (/** @type {string} */ filter, /** @type {string} */ what) => {
    const counted_ = await act('', () => post(`${parent}/deadLetters:redrive`, { filter, validateOnly: true }));
    if (!counted_) return;
    const total = counted_.totalCount ?? 0;
    const values = await ask({ title: `Redrive ${counted(total, 'event')}?`, text: `${what} ${ROUND}`, action: `Redrive ${count(total)}`, fields: [{ name: 'rate', label: 'Events per second (optional)', type: 'number', hint: 'Empty: as fast as possible.' }] });
    if (!values) return;
    const operation = await act('The redrive has begun.', () => post(`${parent}/deadLetters:redrive`, { filter, ...(values.rate ? { maxPerSecond: Number(values.rate) } : {}) }));
    if (operation) setBegun((before) => [operation.name, ...before]);
  };
  const purgeMatches = async () => {
    const counted_ = await act('', () => post(`${parent}/deadLetters:purge`, { filter }));
    if (!counted_) return;
    const total = `${counted_.more ? 'more than ' : ''}${counted(counted_.purgeCount, 'dead letter')}`;
    if (!(await ask({ title: `Delete ${total}?`, text: 'The events keep their outcome and cannot be sent again.', action: `Purge ${count(counted_.purgeCount)}`, danger: true }))) return;
    const answer = await act('The purge has begun.', () => post(`${parent}/deadLetters:purge`, { filter, force: true }));
    if (answer?.operation) setBegun([answer.operation.name, ...begun]);
  };
  const redriveSelected = async () => {
    if (!(await ask({ title: `Redrive ${counted(selected.size, 'event')}?`, text: ROUND, action: `Redrive ${selected.size}` }))) return;
    await act(`${counted(selected.size, 'event')} redriven.`, async () => {
      for (const name of selected) await post(`/v1/${name}:redrive`);
    });
    changed();
  };

  const columns = [
    { title: 'Failed', cell: (/** @type {any} */ d) => html`<${Cell} to=${address(tenant, ['dead-letters', idOf(d.name)])}><time datetime=${d.createTime} title=${timeText(d.createTime)}>${agoText(d.createTime)}</time><//>` },
    { title: 'Schedule or event', cell: (/** @type {any} */ d) => (d.schedule ? idOf(d.schedule) : idOf(d.event)) },
    { title: 'Error', size: 26, cell: (/** @type {any} */ d) => html`<span class="error">${shortText(d.reason ?? '', 200)}</span>` },
    { title: 'Attempts', wide: true, number: true, cell: (/** @type {any} */ d) => count(d.attempts) },
    { title: 'Due', size: 14, wide: true, cell: (/** @type {any} */ d) => timeText(d.dueTime) },
  ];
  const operations = [...new Set([...begun, ...(running ?? []).map((/** @type {any} */ operation) => operation.name)])];
  return html`<${Head} title="Dead letters" note="Events that failed for good. They are kept until they are redriven, purged or collected.">
      ${selected.size > 0 && html`<button class="primary" title=${REDRIVE} onClick=${redriveSelected}>Redrive ${selected.size} selected</button>`}
      ${can('OPERATOR') && html`<button title=${REDRIVE} onClick=${() => redriveMatches(filter, filter ? 'These are all dead letters that match the filter now.' : 'These are all dead letters of the tenant.')}>Redrive all that match</button>`}
      ${can('EDITOR') && html`<button class="danger" onClick=${purgeMatches}>Purge all that match</button>`}<//>
    <${Filters} query=${query} hint="Part of the error, or schedule = nightly" fields=${[['within', 'Failed within', [['', 'Any time'], ['1', '1 hour'], ['24', '1 day'], ['48', '2 days'], ['168', '7 days']]]]} />
    ${query.get('group') ? html`<p class="note">The list has one group only: <code>${query.get('group')}</code> <${Link} to=${address(tenant, ['dead-letters'])}>Show all dead letters<//></p>`
      : html`<${Groups} tenant=${tenant} query=${query} turn=${turn} redrive=${redriveMatches} />`}
    ${operations.map((name) => html`<${OperationProgress} key=${name} name=${name} onEnd=${changed} />`)}
    <${List} path=${`${parent}/deadLetters`} field="deadLetters" query=${{ filter }} columns=${columns} caption="Dead letters" noun="dead letters" refreshKey=${turn}
      select=${can('OPERATOR') ? selected : undefined} onSelect=${(/** @type {string} */ name, /** @type {boolean} */ on) => setSelected((before) => new Set(on ? [...before, name] : [...before].filter((each) => each !== name)))}
      empty=${filter ? 'No dead letter matches.' : 'No event has failed for good.'} />`;
}

/** @param {{tenant: string, id: string}} props */
export function DeadLetter({ tenant, id }) {
  const { data: d, error, reload } = useData((signal) => get(`/v1/tenants/${tenant}/deadLetters/${id}`, {}, signal), [tenant, id]);
  if (error && !d) return html`<${Failure} error=${error} retry=${reload} whole />`;
  if (!d) return html`<${Loading} />`;
  return html`<${Head} title="Dead letter" above=${html`<${Link} to=${address(tenant, ['dead-letters'])}>Dead letters<//>`}>
      ${can('OPERATOR') && html`<button class="primary" title=${REDRIVE} onClick=${() => redriveLetter(d, reload)}>Redrive</button>`}<//>
    <section class="card"><${Facts} items=${[['Error', html`<span class="error">${d.reason}</span>`], ['Event', html`<${Link} to=${addressOf(d.event)}>${d.event}<//>`], ['Id at the consumer', html`<code>${d.eventId}</code>`],
      ['Failed', html`<${Time} value=${d.createTime} />`], ['Due', html`<${Time} value=${d.dueTime} />`], ['Attempts', count(d.attempts)], ['Redriven', Number(d.redriveCount) > 0 && counted(d.redriveCount, 'time')],
      ['Policy', d.policy && html`<${Link} to=${addressOf(d.policy)}>${idOf(d.policy)}<//>`], ['Kept until', html`<${Time} value=${d.expireTime} />`]]} /></section>
    <${Attempts} attempts=${d.recentAttempts} />${d.payload && html`<h2>Payload</h2><${TextBox} text=${shownBytes(d.payload)} label="Payload" />`}`;
}
