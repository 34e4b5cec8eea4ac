// A day as a picture: one row for each schedule, a mark for each run or group of runs. Colours follow the outcome, heights the number
// of events; late runs have an edge on top. Each row also says the same in words.
import { html, useRef } from './view.js';
import { address, Link } from './router.js';
import { call, get } from './api.js';
import { turns, useData } from './data.js';
import { addressOf } from './runs.js';
import { isLate, runKind } from './state.js';
import { clockText, count, dayOf, timeOfInput, zone } from './format.js';
import { previewOf } from '../pages/schedule.js';

const SLOTS = 96; // of a quarter of an hour each
const RUNS_MAX = 2000; // runs of one schedule that are read, the last ones of the day
const PLANNED_PAGES_MAX = 5; // pages of a thousand occurrences to come that are read; beyond, one of each slot

/** "2026-11-26", in the zone in which times are shown. */
export const today = () => dayOf(Date.now());
/** The day so many days later, or "" if there is none. @param {string} day @param {number} days */
export function dayAfter(day, days) {
  const noon = Date.parse(`${day}T12:00:00Z`) + days * 86400000;
  return /^[12]\d{3}-\d\d-\d\d$/.test(day) && noon === noon ? new Date(noon).toISOString().slice(0, 10) : '';
}
/** Begin and end of a day in the zone in which times are shown. A day begins later where the clocks skip midnight. @param {string} day @returns {[number, number]} */
export function dayRange(day) {
  return [timeOfInput(`${day}T00:00`), timeOfInput(`${dayAfter(day, 1)}T00:00`)];
}

const RANK = ['unread', 'idle', 'planned', 'good', 'busy', 'warn', 'bad'];

/** @param {any} schedule @param {number} begin @param {number} end @param {AbortSignal} signal */
async function readRuns(schedule, begin, end, signal) {
  /** @type {any[]} */
  const runs = [];
  let pageToken = '';
  do {
    const page = await get(`/v1/${schedule.name}/runs`, { pageSize: 1000, pageToken, orderBy: 'nominal_time desc', filter: `nominal_time >= "${new Date(begin).toISOString()}" AND nominal_time < "${new Date(end).toISOString()}"` }, signal);
    runs.push(...(page.runs ?? []).filter((/** @type {any} */ run) => run.state !== 'UPCOMING')); // these are still planned
    pageToken = page.nextPageToken ?? '';
  } while (pageToken && runs.length < RUNS_MAX);
  return { runs: runs.reverse(), cut: pageToken !== '' };
}

/** @param {any} schedule @param {number} begin @param {number} end @param {AbortSignal} signal */
async function readPlanned(schedule, begin, end, signal) {
  /** @type {any[]} */
  const planned = [];
  // The server refuses a preview of a schedule that does not fire before the end of its times.
  if (end <= Date.now() || schedule.state !== 'ENABLED' || !(Date.parse(schedule.nextTime) < end)) return { planned, more: false };
  const scheduleEndTime = new Date(Math.min(end, schedule.endTime ? Date.parse(schedule.endTime) : end)).toISOString();
  const tenant = schedule.name.split('/')[1];
  /** Adds the next occurrences of the day; answers whether there were as many. @param {string} fromTime @param {number} n */
  const add = async (fromTime, n) => {
    // It is also refused if its last time has passed since the schedule was read.
    const preview = await call('POST', `/v1/tenants/${tenant}/schedules:preview`, { body: { ...previewOf(schedule), scheduleEndTime, fromTime, count: n }, signal }).catch((error) => {
      if (error.status !== 400) throw error;
    });
    const found = (preview?.occurrences ?? []).filter((/** @type {any} */ each) => Date.parse(each.time) < end);
    planned.push(...found);
    return found.length === n;
  };
  // The preview begins behind this time, and the day with its first instant.
  let fromTime = new Date(Math.max(begin - 1, Date.now())).toISOString();
  for (let pages = 0; pages < PLANNED_PAGES_MAX; pages++) {
    if (!(await add(fromTime, 1000))) return { planned, more: false };
    fromTime = planned.at(-1).time;
  }
  const slot = (end - begin) / SLOTS;
  const next = () => begin + (Math.floor((Date.parse(planned.at(-1).time) - begin) / slot) + 1) * slot;
  while (next() < end && (await add(new Date(next() - 1).toISOString(), 1)));
  return { planned, more: true };
}

// A browser has six connections, a row two calls.
const inTurn = turns(3);

/** @param {any} schedule @param {string} day @param {{of: string, planned: any[], more: boolean}} plan what was read before @param {AbortSignal} signal */
function readDay(schedule, day, plan, signal) {
  const [begin, end] = dayRange(day);
  return inTurn(async () => {
    // The future occurrences of a day stay the same until the schedule changes.
    const of = JSON.stringify([schedule.name, schedule.version, schedule.state, begin, end]);
    const [ran] = await Promise.all([readRuns(schedule, begin, end, signal), plan.of !== of && readPlanned(schedule, begin, end, signal).then((read) => Object.assign(plan, read, { of }))]);
    return { ...ran, planned: plan.planned.filter((each) => Date.parse(each.time) > Date.now()), more: plan.more };
  }, signal);
}

/** @param {any} found @param {number} begin @param {number} end */
function slotsOf({ runs, planned, cut }, begin, end) {
  /** @type {{tone: string, late: boolean, runs: any[], planned: any[]}[]} */
  const slots = Array.from({ length: SLOTS }, () => ({ tone: '', late: false, runs: [], planned: [] }));
  const at = (/** @type {string} */ time) => slots[Math.min(SLOTS - 1, Math.floor(((Date.parse(time) - begin) / (end - begin)) * SLOTS))];
  const add = (/** @type {any} */ slot, /** @type {string} */ tone) => {
    if (RANK.indexOf(tone) > RANK.indexOf(slot.tone)) slot.tone = tone;
  };
  if (cut) slots.slice(0, slots.indexOf(at(runs[0].nominalTime))).forEach((slot) => add(slot, 'unread'));
  for (const run of runs) {
    const slot = at(run.nominalTime);
    slot.runs.push(run);
    slot.late ||= isLate(run);
    add(slot, runKind(run).tone);
  }
  for (const each of planned) {
    const slot = at(each.time);
    slot.planned.push(each);
    add(slot, 'planned');
  }
  return slots;
}

/** The height of a mark: from 7 for one event to 20 for 10,000 and more, on a logarithmic scale. @param {number} events */
const heightOf = (events) => 7 + 3.25 * Math.min(4, Math.log10(Math.max(1, events)));
/** The events of runs and of occurrences to come. @param {any} found @param {any} schedule */
const eventsOf = ({ runs, planned }, schedule) => runs.reduce((/** @type {number} */ sum, /** @type {any} */ run) => sum + Number(run.eventCount ?? 0), planned.length * Number(schedule.eventCount ?? 1));

/** @param {any} found @param {any} schedule */
function summary({ runs, planned, cut, more }, schedule) {
  const of = (/** @type {(run: any) => boolean} */ test) => runs.filter(test).length;
  const parts = [
    ...['completed', 'failed', 'being retried', 'active', 'not delivered'].map((kind) => [of((run) => runKind(run).kind === kind), kind]), [of(isLate), 'late'], [planned.length, 'to come'],
  ];
  const text = parts.filter(([number]) => Number(number) > 0).map(([number, word]) => `${count(number)}${word === 'to come' && more ? '+' : ''} ${word}`).join(', ') || 'nothing';
  const events = eventsOf({ runs, planned }, schedule);
  const whole = events > runs.length + planned.length ? `${text}: ${count(events)}${more ? '+' : ''} events` : text;
  return cut ? `${whole} (of the last ${count(runs.length)} runs)` : whole;
}

/** @param {{schedule: any, day: string}} props */
function Row({ schedule, day }) {
  const [begin, end] = dayRange(day);
  const plan = useRef({ of: '', planned: [], more: false });
  const { data: found, error, reload } = useData((signal) => readDay(schedule, day, plan.current, signal), [schedule.name, schedule.version, schedule.state, day, zone.mode], end > Date.now() ? 10000 : 0);
  const [, tenant, , id] = schedule.name.split('/');
  const width = 1000 / SLOTS;
  const now = ((Date.now() - begin) / (end - begin)) * 1000;
  return html`<div class="lane" role="row"><div class="lane-name" role="rowheader"><${Link} to=${address(tenant, ['schedules', id])}>${id}<//></div>
    <div class="lane-picture" role="cell"><svg viewBox="0 0 1000 28" preserveAspectRatio="none" aria-hidden="true">
      <rect class="ground" x="0" y="26" width="1000" height="1" />
      ${found && slotsOf(found, begin, end).map((slot, i) => {
        const height = heightOf(eventsOf(slot, schedule));
        return slot.tone && html`<rect class=${slot.tone} x=${i * width} width=${width - 1} y=${26 - height} height=${height}>
        <title>${`${clockText(begin + (i * (end - begin)) / SLOTS)}: ${slot.tone === 'unread' ? 'not read' : summary({ ...slot, more: slot.planned.length && found.more }, schedule)}`}</title></rect>${slot.late && html`<rect class="late" x=${i * width} width=${width - 1} y=${22 - height} height="3" />`}`;
      })}
      ${now > 0 && now < 1000 && html`<rect class="now" x=${now} y="0" width="1.5" height="28" />`}</svg></div>
    <div class="lane-text" role="cell">${found ? html`<${Link} to=${address(tenant, ['schedules', id], { from: day, until: day })}>${summary(found, schedule)}<//>` : error ? html`<span class="error">${error.message}</span> <button class="link" onClick=${reload}>Try again</button>` : '…'}${found && Problem(found.runs)}</div></div>`;
}

/** A link to the first run that failed, else to the first that was late. @param {any[]} runs */
function Problem(runs) {
  const bad = runs.find((run) => runKind(run).kind === 'failed');
  const run = bad ?? runs.find(isLate);
  return run && html` <${Link} to=${addressOf(run.name)}>${bad ? 'failed' : 'late'} at ${clockText(run.nominalTime)}<//>`;
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
