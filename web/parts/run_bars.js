// The last runs of a schedule as bars: the height is the time from its due time to its end, the colour how it ended. Each bar leads
// to its run. The arrow keys go from bar to bar.
import { html, useEffect, useRef, useState } from './view.js';
import { Link } from './router.js';
import { get } from './api.js';
import { turns, useData } from './data.js';
import { addressOf, runCounts } from './runs.js';
import { isLate, runKind, runSeconds } from './state.js';
import { count, durationText, idOf, timeText } from './format.js';

const RUNS = 30;
const EVERY_MS = 15000;
const CACHED_MAX = 500; // schedules; those that were read first are read again
const inTurn = turns(4);
/** What was read, by the schedule's name. @type {Map<string, {of: string, runs: any[]}>} */
const cache = new Map();

/** The last runs, the oldest first. They are read again when the schedule has fired or changed, and while one of them is not over. @param {any} schedule @param {AbortSignal} signal @returns {Promise<any[]>} */
async function readRuns(schedule, signal) {
  const of = `${schedule.version} ${schedule.lastTime} ${schedule.state}`;
  const before = cache.get(schedule.name);
  if (before?.of === of && before.runs.every((run) => run.completeTime || run.state === 'SKIPPED')) return before.runs;
  const page = await inTurn(() => get(`/v1/${schedule.name}/runs`, { pageSize: RUNS, orderBy: 'nominal_time desc' }, signal), signal);
  const runs = (page.runs ?? []).filter((/** @type {any} */ run) => run.state !== 'UPCOMING').reverse();
  cache.delete(schedule.name);
  cache.set(schedule.name, { of, runs });
  if (cache.size > CACHED_MAX) cache.delete(cache.keys().next().value ?? '');
  return runs;
}

/** Logarithmic, so that milliseconds are seen beside hours. @param {any} run */
const heightOf = (run) => (run.state === 'SKIPPED' ? 0 : Math.log1p(100 * Math.max(0, runSeconds(run))));

const KINDS = ['completed', 'failed', 'being retried', 'active', 'not delivered'];

/** @param {any} run */
function runText(run) {
  const took = run.state === 'SKIPPED' ? '' : `, ${run.completeTime ? 'took' : 'for'} ${durationText(runSeconds(run))}`;
  return `${timeText(run.nominalTime)}: ${runKind(run).kind}${took}${isLate(run) ? ', late' : ''} (${runCounts(run)})`;
}

/** "Of the last 30 runs 28 completed, 2 failed" @param {any[]} runs */
function summaryText(runs) {
  const parts = KINDS.map((kind) => [runs.filter((run) => runKind(run).kind === kind).length, kind]);
  const late = runs.filter(isLate).length;
  const found = [...parts, [late, 'late']].filter(([number]) => Number(number) > 0).map(([number, word]) => `${count(number)} ${word}`);
  return runs.length === 1 ? `The last run: ${found.map((text) => text.slice(2)).join(', ')}` : `Of the last ${runs.length} runs ${found.join(', ')}`;
}

/** @param {{schedule: any, header?: boolean}} props header: larger, with its summary as a text */
export function RunBars({ schedule, header = false }) {
  const place = useRef(/** @type {HTMLElement|null} */ (null));
  const [seen, setSeen] = useState(false);
  const [at, setAt] = useState(-1);
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) setSeen(true);
    });
    if (place.current) observer.observe(place.current);
    return () => observer.disconnect();
  }, []);
  const { data = cache.get(schedule.name)?.runs } = useData((signal) => (seen ? readRuns(schedule, signal) : Promise.resolve(undefined)), [schedule.name, seen], seen ? EVERY_MS : 0);
  const runs = data ?? [];
  const most = Math.max(...runs.map(heightOf));
  const focus = Math.min(at < 0 ? runs.length - 1 : at, runs.length - 1);
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    const to = { ArrowLeft: focus - 1, ArrowRight: focus + 1, Home: 0, End: runs.length - 1 }[event.key];
    if (to === undefined || !runs[to]) return;
    event.preventDefault();
    setAt(to);
    place.current?.querySelectorAll('a')[to]?.focus();
  };
  const summary = data && (runs.length ? summaryText(runs) : 'It has not run yet');
  // Without runs there are no items, so it is no list.
  const bars = !runs.length ? html`<span class="muted">${data ? '–' : ''}</span>` : html`<ol class="run-bars" aria-label=${`Runs of ${idOf(schedule.name)}. ${summary}`} onKeyDown=${onKey}>${runs.map((run, i) => html`<li key=${run.name}>
    <${Link} to=${addressOf(run.name)} tabindex=${i === focus ? 0 : -1} title=${runText(run)} aria-label=${runText(run)}>
      <span class=${`${runKind(run).tone}${isLate(run) ? ' late' : ''}`} style=${{ height: `${(100 * heightOf(run)) / (most || 1)}%` }}></span><//></li>`)}</ol>`;
  return html`<div ref=${place} class=${header ? 'last-runs' : 'bars'}>${bars}${header && summary && html`<p class="muted">${summary}.</p>`}</div>`;
}
