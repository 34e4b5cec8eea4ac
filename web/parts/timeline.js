// A day as a picture: one row for each schedule, a mark for each run or group of runs. Colours follow the outcome; late runs
// stand higher. Each row also says the same in words.
import { html, useLayoutEffect, useState } from './view.js';
import { address, Link } from './router.js';
import { call, get } from './api.js';
import { isLate, runAddress } from './runs.js';
import { clockText, count, zone } from './format.js';
import { previewOf } from '../pages/schedule.js';

const SLOTS = 96; // of a quarter of an hour each
const RUNS_MAX = 2000; // runs of one schedule that are read

/** Begin and end of a day in the zone in which times are shown. @param {string} day @returns {[number, number]} */
export function dayRange(day) {
  const begin = zone.mode === 'utc' ? Date.parse(`${day}T00:00:00Z`) : new Date(`${day}T00:00:00`).getTime();
  const next = new Date(begin);
  if (zone.mode === 'utc') next.setUTCDate(next.getUTCDate() + 1);
  else next.setDate(next.getDate() + 1);
  return [begin, next.getTime()];
}

const RANK = ['idle', 'planned', 'good', 'busy', 'warn', 'bad'];
/** @param {any} run */
function toneOf(run) {
  if (run.status === 'PERMANENTLY_FAILED') return 'bad';
  if (run.status === 'FAILED') return 'warn';
  if (run.status === 'COMPLETED') return 'good';
  return run.state === 'ACTIVE' ? 'busy' : 'idle';
}

/** @param {any} schedule @param {number} begin @param {number} end @param {AbortSignal} signal */
async function readRuns(schedule, begin, end, signal) {
  const runs = [];
  let pageToken = '';
  do {
    const page = await get(`/v1/${schedule.name}/runs`, { pageSize: 1000, pageToken, filter: `nominal_time >= "${new Date(begin).toISOString()}" AND nominal_time < "${new Date(end).toISOString()}"` }, signal);
    runs.push(...(page.runs ?? []));
    pageToken = page.nextPageToken ?? '';
  } while (pageToken && runs.length < RUNS_MAX);
  return { runs, cut: pageToken !== '' };
}

/** @param {any} schedule @param {number} begin @param {number} end @param {AbortSignal} signal @returns {Promise<any[]>} */
async function readPlanned(schedule, begin, end, signal) {
  if (end <= Date.now() || schedule.state !== 'ENABLED') return [];
  const fromTime = new Date(Math.max(begin, Date.now())).toISOString();
  const scheduleEndTime = new Date(Math.min(end, schedule.endTime ? Date.parse(schedule.endTime) : end)).toISOString();
  // A schedule that does not fire before this end is refused.
  const preview = await call('POST', '/v1/schedules:preview', { body: { ...previewOf(schedule), scheduleEndTime, fromTime, count: 1000 }, signal }).catch(() => null);
  return (preview?.occurrences ?? []).filter((/** @type {any} */ each) => Date.parse(each.time) < end);
}

// Rows wait for their turn, so that the first are shown before the last have called. A browser has six connections, a row two calls.
const ROWS_AT_ONCE = 3;
/** @type {(() => void)[]} */
const waiting = [];
let reading = 0;

/** @param {any} schedule @param {string} day @param {AbortSignal} signal */
async function readDay(schedule, day, signal) {
  const [begin, end] = dayRange(day);
  if (reading === ROWS_AT_ONCE) await new Promise((turn) => void waiting.push(() => turn(null)));
  else reading++;
  try {
    const [ran, planned] = await Promise.all([readRuns(schedule, begin, end, signal), readPlanned(schedule, begin, end, signal)]);
    return { ...ran, planned };
  } finally {
    const next = waiting.shift();
    if (next) next();
    else reading--;
  }
}

/** @param {any} found @param {number} begin @param {number} end */
function slotsOf({ runs, planned }, begin, end) {
  /** @type {{tone: string, late: boolean, runs: any[], planned: number}[]} */
  const slots = Array.from({ length: SLOTS }, () => ({ tone: '', late: false, runs: [], planned: 0 }));
  const at = (/** @type {string} */ time) => slots[Math.min(SLOTS - 1, Math.floor(((Date.parse(time) - begin) / (end - begin)) * SLOTS))];
  const add = (/** @type {any} */ slot, /** @type {string} */ tone) => {
    if (RANK.indexOf(tone) > RANK.indexOf(slot.tone)) slot.tone = tone;
  };
  for (const run of runs) {
    const slot = at(run.nominalTime);
    slot.runs.push(run);
    slot.late ||= isLate(run);
    add(slot, toneOf(run));
  }
  for (const each of planned) {
    const slot = at(each.time);
    slot.planned++;
    add(slot, 'planned');
  }
  return slots;
}

/** @param {any} found */
function summary({ runs, planned, cut }) {
  const of = (/** @type {(run: any) => boolean} */ test) => runs.filter(test).length;
  const parts = [
    [of((run) => toneOf(run) === 'good'), 'completed'], [of((run) => toneOf(run) === 'bad'), 'failed'], [of((run) => toneOf(run) === 'warn'), 'being retried'],
    [of((run) => toneOf(run) === 'busy'), 'active'], [of((run) => toneOf(run) === 'idle'), 'not delivered'], [of(isLate), 'late'], [planned.length, 'to come'],
  ];
  const text = parts.filter(([number]) => Number(number) > 0).map(([number, word]) => `${count(number)}${word === 'to come' && number === 1000 ? '+' : ''} ${word}`).join(', ') || 'nothing';
  return cut ? `${text} (of the first ${count(runs.length)} runs)` : text;
}

/** @param {{schedule: any, day: string}} props */
function Row({ schedule, day }) {
  const [found, setFound] = useState(/** @type {any} */ (null));
  const [begin, end] = dayRange(day);
  // Before the first paint, so that the calls do not wait for it.
  useLayoutEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    const run = async () => {
      if (!document.hidden) await readDay(schedule, day, stop.signal).then(setFound, () => {});
      if (!stop.signal.aborted && end > Date.now()) timer = setTimeout(run, 10000);
    };
    run();
    return () => (stop.abort(), clearTimeout(timer));
  }, [schedule.name, schedule.version, day, zone.mode]);
  const [, tenant, , id] = schedule.name.split('/');
  const width = 1000 / SLOTS;
  const now = ((Date.now() - begin) / (end - begin)) * 1000;
  return html`<div class="lane" role="row"><div class="lane-name" role="rowheader"><${Link} to=${address(tenant, ['schedules', id])}>${id}<//></div>
    <div class="lane-picture" role="cell"><svg viewBox="0 0 1000 28" preserveAspectRatio="none" aria-hidden="true">
      <rect class="ground" x="0" y="22" width="1000" height="1" />
      ${found && slotsOf(found, begin, end).map((slot, i) => slot.tone && html`<rect class=${slot.tone} x=${i * width} width=${width - 1} y=${slot.late ? 1 : 9} height=${slot.late ? 26 : 13}>
        <title>${`${clockText(begin + (i * (end - begin)) / SLOTS)}: ${summary({ ...slot, planned: Array(slot.planned) })}`}</title></rect>`)}
      ${now > 0 && now < 1000 && html`<rect class="now" x=${now} y="0" width="1.5" height="28" />`}</svg></div>
    <div class="lane-text" role="cell">${found ? summary(found) : '…'}${found && Problem(found.runs)}</div></div>`;
}

/** A link to the first run that failed, else to the first that was late. @param {any[]} runs */
function Problem(runs) {
  const bad = runs.find((run) => toneOf(run) === 'bad');
  const run = bad ?? runs.find(isLate);
  return run && html` <${Link} to=${runAddress(run.name)}>${bad ? 'failed' : 'late'} at ${clockText(run.nominalTime)}<//>`;
}

/** @param {{schedules: any[], day: string}} props day: "2026-11-26" */
export function Timeline({ schedules, day }) {
  const [begin, end] = dayRange(day);
  const hours = [0, 6, 12, 18].map((hour) => begin + ((end - begin) * hour) / 24);
  return html`<div class="timeline" role="table" aria-label=${`Runs of ${day}`}>
    <div class="lane scale" role="row"><div role="columnheader" class="lane-name"><span class="unseen">Schedule</span></div><div role="columnheader" class="lane-picture">${hours.map((time) => html`<span>${clockText(time)}</span>`)}<span class="unseen">Picture</span></div><div role="columnheader" class="lane-text"><span class="unseen">Summary</span></div></div>
    ${schedules.map((schedule) => html`<${Row} key=${schedule.name} schedule=${schedule} day=${day} />`)}
  </div>`;
}
