// Statistics of the last hours: the time that the address chooses, and the sums of each of its steps.
import { html } from './view.js';
import { setQuery } from './router.js';
import { get } from './api.js';
import { Failure, Loading } from './basics.js';
import { useData } from './data.js';
import { durationText, secondsOf } from './format.js';

/** @typedef {{seconds: number, step: number}} Range the time up to now, and the length of a step, in seconds */
/** @type {Record<string, Range>} */
const RANGES = { '1h': { seconds: 3600, step: 60 }, '6h': { seconds: 21600, step: 300 }, '24h': { seconds: 86400, step: 900 }, '48h': { seconds: 172800, step: 1800 } };
const EVERY_MS = 10000; // processes write their counts as often

/** The time that the address chooses. @param {URLSearchParams} query @returns {Range} */
const rangeOf = (query) => RANGES[query.get('range') ?? ''] ?? RANGES['1h'];
/** "minute", "5 minutes" @param {Range} range */
export const stepText = ({ step }) => (step === 60 ? 'minute' : `${step / 60} minutes`);
/** "hour", "6 h" @param {Range} range */
const rangeText = ({ seconds }) => (seconds === 3600 ? 'hour' : durationText(seconds).replace('1 d', '24 h').replace('2 d', '48 h'));

/** @param {{query: URLSearchParams}} props */
const RangeChoice = ({ query }) => html`<div class="tabs ranges" role="group" aria-label="Time that the pictures show">${Object.entries(RANGES).map(([id, range]) => html`<button key=${id} aria-pressed=${range === rangeOf(query) ? 'true' : 'false'}
  onClick=${() => setQuery({ range: id === '1h' ? '' : id }, { replace: true })}>${id.replace('h', ' h')}</button>`)}</div>`;

/** @typedef {{time: number, step: number, due: number, succeeded: number, failed: number, others: number, late: number, latenessMax: number|null, attempts: number, errors: number, held: number, limit: number|null, waiting: number}} Point the sums of one step; times in ms, lateness in seconds; null: there was none */

/** @param {any} s of ListStatistics, which leaves out what is zero @param {number} step in ms @returns {Point} */
function pointOf(s, step) {
  const number = (/** @type {string} */ name) => Number(s[name] ?? 0);
  return {
    time: Date.parse(s.startTime), step, due: number('dueCount'), succeeded: number('succeededCount'), failed: number('failedCount'), others: number('otherCount'), late: number('lateCount'),
    latenessMax: secondsOf(s.latenessMax) || null, attempts: number('attemptCount'), errors: number('errorCount'), held: number('heldCount'), limit: number('maxConcurrent') || null, waiting: number('waitingCount'),
  };
}

/** @param {string} tenant @param {string} subject name of a policy or target; '': the whole tenant @param {Range} range @param {AbortSignal} [signal] @returns {Promise<Point[]|null>} null: the server has no statistics */
export async function readStatistics(tenant, subject, range, signal) {
  const step = range.step * 1000;
  const begin = Math.floor(Date.now() / step) * step + step - range.seconds * 1000;
  try {
    const answer = await get(`/v1/tenants/${tenant}/statistics`, { subject, startTime: new Date(begin).toISOString(), endTime: new Date().toISOString(), step: `${range.step}s` }, signal);
    return (answer.statistics ?? []).map((/** @type {any} */ each) => pointOf(each, secondsOf(answer.step) * 1000 || step));
  } catch (error) {
    if ([404, 405, 501].includes(/** @type {any} */ (error).status)) return null;
    throw error;
  }
}

/**
 * A heading with the choice of the time, and pictures of its statistics; nothing if the server has none.
 * @param {{tenant: string, subject?: string, query: URLSearchParams, children: (points: Point[], range: Range) => any}} props
 */
export function Pictures({ tenant, subject = '', query, children }) {
  const range = rangeOf(query);
  const { data: points, error, reload } = useData((signal) => readStatistics(tenant, subject, range, signal), [tenant, subject, range.seconds], EVERY_MS);
  if (points === null || (points && !points.length)) return null;
  return html`<div class="section-head"><h2>The last ${rangeText(range)}</h2><${RangeChoice} query=${query} /></div>
    ${points ? html`<div class="pictures">${children(points, range)}</div>` : html`<div class="picture-wait">${error ? html`<${Failure} error=${error} retry=${reload} />` : html`<${Loading} />`}</div>`}`;
}
