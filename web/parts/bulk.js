// One change of many schedules: counted and asked first, with few calls at once, shown with its progress and what failed. It goes on
// while the user looks at other views, and stops when the user says so.
import { changes, html, useEffect } from './view.js';
import { address, Link } from './router.js';
import { get, post } from './api.js';
import { Progress } from './basics.js';
import { ask, say } from './dialog.js';
import { count, counted, idOf } from './format.js';
import { isAt } from './target_fields.js';

const CALLS_AT_ONCE = 8;
const BATCHES_AT_ONCE = 2;
const BATCH_SIZE = 100; // schedules that one call deletes: progress shows, and a stop comes soon
const MATCHES_MAX = 100000; // schedules of one change
const FAILURES_SHOWN = 100;
const BUSY_TRIES = 5; // of one call while the server has no room for it
const BUSY_MS = 1000;

/** @typedef {{what: string, title: string, done: string, applies: string, text: string, danger?: boolean}} Verb */
/** @type {Record<string, Verb>} applies: the filter of schedules that the change concerns; done: the participle of its report */
export const VERBS = {
  pause: { what: 'pause', title: 'Pause', done: 'paused', applies: 'state = ENABLED', text: 'They do not fire until they are resumed.' },
  resume: { what: 'resume', title: 'Resume', done: 'resumed', applies: 'state = PAUSED', text: 'They fire again from now on. The rule of each for missed runs decides what happens to those that were due.' },
  trigger: { what: 'trigger', title: 'Run now', done: 'run', applies: '', text: 'Each sends its events at once, beside its usual times.' },
  delete: { what: 'delete', title: 'Delete', done: 'deleted', applies: '', text: 'They do not fire any more. Events that are not sent yet end as skipped.', danger: true },
};

/**
 * @typedef {{verb: Verb, tenant: string, state: 'counting'|'running'|'stopping'|'ended', found: number, total: number, done: number,
 *   rest: string[], failed: {name: string, message: string}[]}} Change
 */
/** The present change, or the last one until it is dismissed. @type {{change: Change|null}} */
export const bulk = { change: null };
const steps = changes();
const changed = steps.tell;
const busy = () => bulk.change !== null && bulk.change.state !== 'ended';
addEventListener('beforeunload', (event) => {
  if (busy()) event.preventDefault();
});

const pause = (/** @type {number} */ ms) => new Promise((next) => setTimeout(next, ms));

/** Runs one call, again if the server has no room for it. @template T @param {Change} change @param {() => Promise<T>} work */
async function whileBusy(change, work) {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (/** @type {any} */ (error).status !== 429 || tries === BUSY_TRIES || change.state === 'stopping') throw error;
      await pause(BUSY_MS * tries);
    }
  }
}

/** Changes some schedules, and notes what became of each. @param {Change} change @param {string[]} names */
async function changeSome(change, names) {
  const { verb, tenant } = change;
  /** @type {any[]} */
  let errors;
  try {
    if (verb.what === 'delete') {
      const { results = [] } = await whileBusy(change, () => post(`/v1/tenants/${tenant}/schedules:batchDelete`, { requests: names.map((name) => ({ name })) }));
      errors = names.map((_, i) => results[i]?.error);
    } else {
      await whileBusy(change, () => post(`/v1/${names[0]}:${verb.what}`));
      errors = [undefined];
    }
  } catch (error) {
    // Nobody is signed in any more: the rest waits until somebody is.
    if (/** @type {any} */ (error).status === 401) {
      change.state = 'stopping';
      return void change.rest.unshift(...names);
    }
    errors = names.map(() => error);
  }
  names.forEach((name, i) => {
    if (errors[i]) change.failed.push({ name, message: errors[i].message || 'It failed.' });
    else change.done++;
  });
}

/** @param {Change} change */
async function run(change) {
  change.state = 'running';
  changed();
  const batch = change.verb.what === 'delete';
  await Promise.all(Array.from({ length: batch ? BATCHES_AT_ONCE : CALLS_AT_ONCE }, async () => {
    while (change.state === 'running' && change.rest.length) {
      await changeSome(change, change.rest.splice(0, batch ? BATCH_SIZE : 1));
      changed();
    }
  }));
  change.state = 'ended';
  changed();
  if (!change.failed.length && !change.rest.length) say(`${counted(change.done, 'schedule')} ${change.verb.done}.`);
}

/** All schedules that match, at most MATCHES_MAX. @param {Change} change @param {string} filter @param {string} place '', or where their targets are */
async function readMatches(change, filter, place) {
  const rows = [];
  let pageToken = '';
  do {
    const page = await whileBusy(change, () => get(`/v1/tenants/${change.tenant}/schedules`, { filter, pageSize: 1000, pageToken }));
    rows.push(...(page.schedules ?? []).filter((/** @type {any} */ each) => isAt(each.target, place)).map((/** @type {any} */ each) => ({ name: each.name, eventCount: each.eventCount })));
    change.found = rows.length;
    pageToken = page.nextPageToken ?? '';
    changed();
  } while (pageToken && rows.length < MATCHES_MAX && change.state === 'counting');
  return { rows: rows.slice(0, MATCHES_MAX), cut: pageToken !== '' || rows.length > MATCHES_MAX };
}

/**
 * Asks, then changes the chosen schedules, or else all that match.
 * @param {Verb} verb @param {string} tenant @param {{chosen?: string[], filter?: string, place?: string}} which @returns {Promise<void>}
 */
export async function changeMany(verb, tenant, { chosen, filter = '', place = '' }) {
  if (busy()) return say('Another change of many schedules is under way.', true);
  /** @type {Change} */
  const change = { verb, tenant, state: 'counting', found: 0, total: 0, done: 0, rest: [], failed: [] };
  bulk.change = change;
  changed();
  let found;
  try {
    found = chosen ? { rows: chosen.map((name) => ({ name, eventCount: undefined })), cut: false } : await readMatches(change, [filter, verb.applies].filter(Boolean).join(' AND '), place);
  } catch (error) {
    say(/** @type {Error} */ (error).message, true);
  }
  const names = found?.rows.map((each) => each.name) ?? [];
  const none = found && !names.length && change.state === 'counting';
  const events = found?.rows.reduce((sum, each) => sum + Number(each.eventCount ?? 1), 0) ?? 0;
  const which = chosen ? 'These are the selected ones.' : `${found?.cut ? `These are the first ${count(MATCHES_MAX)} of those` : 'These are all'} that ${filter || place ? 'match' : 'the tenant has'}${verb.applies ? ` and are ${verb.what === 'pause' ? 'enabled' : 'paused'}` : ''}.`;
  if (none) say(`No schedule that ${filter || place ? 'matches' : 'the tenant has'} can be ${verb.done}.`);
  const sure = names.length > 0 && change.state === 'counting' && await ask({
    title: `${verb.title}: ${counted(names.length, 'schedule')}?`,
    text: html`<p>${which} ${verb.text} ${verb.what === 'trigger' && !chosen && `That is ${counted(events, 'event')}.`}</p><p class="muted">${names.slice(0, 5).map(idOf).join(', ')}${names.length > 5 && ` and ${count(names.length - 5)} more`}</p>`,
    action: `${verb.title} ${count(names.length)}`, danger: verb.danger,
  });
  if (!sure) {
    bulk.change = null;
    return changed();
  }
  change.total = names.length;
  change.rest = names;
  await run(change);
}

const stop = () => {
  if (bulk.change) bulk.change.state = 'stopping';
  changed();
};
const dismiss = () => {
  bulk.change = null;
  changed();
};

/** The progress of the change, and afterwards what failed. @param {{onEnd: () => void}} props */
export function BulkProgress({ onEnd }) {
  steps.use(() => ({}));
  const change = bulk.change;
  const ended = change?.state === 'ended';
  useEffect(() => {
    if (ended) onEnd();
  }, [ended, change]);
  if (!change) return null;
  const { verb, tenant, failed, rest, total, done } = change;
  const again = () => {
    const names = failed.map((each) => each.name);
    change.failed = [];
    change.rest.push(...names);
    run(change);
  };
  const figures = `${count(done)} of ${counted(total, 'schedule')} ${verb.done}${failed.length ? `, ${count(failed.length)} failed` : ''}${rest.length && ended ? `, ${count(rest.length)} left alone` : ''}`;
  return html`<section class="card bulk-progress" aria-label="Change of many schedules">
    ${change.state === 'counting' ? html`<p>Counting the schedules that match: ${count(change.found)} so far…</p>`
      : html`<p role=${ended ? 'status' : undefined}>${verb.title}: ${figures}.</p><${Progress} value=${done + failed.length} max=${total} label=${`${verb.title}: progress`} />`}
    ${ended && failed.length > 0 && html`<ul class="plain failures">${failed.slice(0, FAILURES_SHOWN).map((each) => html`<li key=${each.name}><${Link} to=${address(tenant, ['schedules', idOf(each.name)])}>${idOf(each.name)}<//>: <span class="error">${each.message}</span></li>`)}
      ${failed.length > FAILURES_SHOWN && html`<li class="muted">and ${count(failed.length - FAILURES_SHOWN)} more</li>`}</ul>`}
    <div class="buttons">${!ended && html`<button disabled=${change.state === 'stopping'} onClick=${stop}>${change.state === 'stopping' ? 'Stopping…' : 'Stop'}</button>`}
      ${ended && failed.length > 0 && html`<button onClick=${again}>Try ${failed.length === 1 ? 'it' : `the ${count(failed.length)}`} again</button>`}
      ${ended && rest.length > 0 && html`<button onClick=${() => run(change)}>Go on with ${count(rest.length)}</button>`}
      ${ended && html`<button onClick=${dismiss}>Close this report</button>`}</div></section>`;
}
