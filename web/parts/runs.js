// How runs and events look, and what can be done with them, in every view.
import { html, useState } from './view.js';
import { address, Link } from './router.js';
import { get, post } from './api.js';
import { can } from './session.js';
import { Badge, Badges, Facts, Failure, Progress, TextBox } from './basics.js';
import { act, ask } from './dialog.js';
import { useData } from './data.js';
import { endedCount, isOpen, operationState, runSeconds, runStates } from './state.js';
import { Cell } from './table.js';
import { agoText, count, counted, durationText, idOf, secondsOf, shownBytes, Time, timeText, words } from './format.js';

/** The address of what has this name in the API. @param {string} name tenants/t/schedules/s/runs/o */
export const addressOf = (name) => {
  const [, tenant, ...parts] = name.split('/');
  return address(tenant, parts);
};

/** @param {{run: any, gates?: any[]}} props gates: those of the event that waits longest, if they are known */
export const RunBadge = ({ run, gates }) => html`<${Badges} of=${runStates(run, gates)} />`;

/** How the last event of a schedule ended; leads to its run. @param {{schedule: any}} props */
export function LastBadge({ schedule: s }) {
  if (!s.lastTime) return html`<span class="muted">–</span>`;
  return html`<${Link} to=${`${addressOf(s.name)}/runs/last?outcome=${s.lastOutcome}`} title=${`Show the last run: ${timeText(s.lastTime)}`}><${Badge} state=${s.lastOutcome} final /><//>`;
}

/** Events per second, with two digits. @param {any} rate */
const rateText = (rate) => `${Number(Number(rate ?? 0).toPrecision(2))}/s`;
/** How fast a run's events end, and how fast they must. @param {any} run */
export const ratesText = (run) => `${rateText(run.window.actualRate)}${Number(run.window.requiredRate) > 0 ? `, needs ${rateText(run.window.requiredRate)}` : ''}`;
/** @param {any} run */
export const closesText = (run) => (Date.parse(run.window.closeTime) > Date.now() ? 'closes' : 'closed');
/** How a run keeps to its window, in a list. @param {any} run */
function windowText(run) {
  const text = `${words(run.window.state)}, ${ratesText(run)}, ${closesText(run)} ${agoText(run.window.closeTime)}`;
  return html`<span title=${`${text} (${timeText(run.window.closeTime)})`}>${text}</span>`;
}

/** What an ended run's report says beside its counts. @param {{run: any, done: () => void}} props */
export function RunReport({ run, done }) {
  const failed = Number(run.failedCount ?? 0);
  const slowest = run.report.slowest ?? [];
  return html`<section class="card"><h2>Report</h2><${Facts} items=${[
    ['Never started', counted(run.report.neverStartedCount ?? 0, 'event')], ['Tokens taken', Number(run.report.tokenCount) > 0 && count(run.report.tokenCount)],
    ['Failed', failed > 0 && html`<${Link} to=${`${addressOf(run.name)}?outcome=FAILED`}>${counted(failed, 'event')}<//> ${can('OPERATOR') && html`<button title=${REDRIVE} onClick=${() => redriveRun(run, done)}>Redrive</button>`}`],
    ['Slowest events', slowest.length > 0 && html`<ol class="slowest">${slowest.map((/** @type {any} */ each) => html`<li key=${each.event}><${Link} to=${addressOf(each.event)}>${idOf(each.event)}<//> ${durationText(secondsOf(each.duration))}</li>`)}</ol>`]]} /></section>`;
}

/** The counts of a run in words, each with the outcome of its events. @param {any} run @returns {[text: string, outcome: string][]} */
function countsOf(run) {
  if (run.state === 'SKIPPED') return [[`skipped: ${run.skipReason ?? ''}${Number(run.occurrenceCount) > 1 ? ` (${counted(run.occurrenceCount, 'occurrence')})` : ''}`, '']];
  const all = Number(run.eventCount ?? 0);
  /** @type {[string, string][]} */
  const parts = [];
  for (const kind of ['succeeded', 'failed', 'cancelled', 'expired', 'skipped']) {
    if (Number(run[`${kind}Count`])) parts.push([`${count(run[`${kind}Count`])} ${kind}`, kind.toUpperCase()]);
  }
  const open = all - endedCount(run);
  if (open > 0 && isOpen(run)) parts.push([`${count(open)} open`, '']);
  if (Number(run.retryCount)) parts.push([counted(run.retryCount, 'retry'), '']);
  return parts.length ? parts : [[counted(all, 'event'), '']];
}
/** @param {any} run */
export const runCounts = (run) => countsOf(run).map(([text]) => text).join(', ');
/** The counts of a run; each that the run can list leads to its events. @param {{run: any}} props */
export const RunCounts = ({ run }) => countsOf(run).map(([text, outcome], i) => html`${i > 0 && ', '}${outcome || text.endsWith(' open') ? html`<${Link} to=${`${addressOf(run.name)}${outcome && `?outcome=${outcome}`}`}>${text}<//>` : text}`);

/** What the buttons do, beside "Run now". */
export const REDRIVE = 'Tries the failed events again: the same events, and no new run';
export const ROUND = 'Each keeps its id and gets a new round of attempts.';
/** Redrives the failed events of a run, after the server has said how many there are. @param {any} run @param {() => void} done */
export async function redriveRun(run, done) {
  const path = `/v1/${run.name}:redrive`;
  const begun = await act('', () => post(path, { validateOnly: true }));
  if (!begun) return;
  const total = begun.totalCount ?? 0;
  const values = await ask({ title: `Redrive ${counted(total, 'failed event')}?`, text: `Only the failed events of this run are tried again, in the same run, by the definition that the schedule has now. ${ROUND} “Run now” would make a new run.`, action: `Redrive ${count(total)}` });
  if (!values) return;
  const operation = await act(`${counted(total, 'event')} redriven.`, () => post(path));
  if (operation) done();
}

/** @param {any} run @param {() => void} done */
export async function cancelRun(run, done) {
  const open = Number(run.eventCount ?? 0) - endedCount(run);
  const values = await ask({ title: `Cancel ${counted(open, 'open event')}?`, text: 'Events that are not sent yet end as cancelled. An attempt that is on its way goes on; it is not repeated.', action: `Cancel ${count(open)}`, danger: true });
  if (values && (await act('The run is cancelled.', () => post(`/v1/${run.name}:cancel`)))) done();
}

/** @param {{run: any, done: () => void}} props */
export function RunActions({ run, done }) {
  if (!can('OPERATOR')) return null;
  const when = timeText(run.nominalTime);
  return html`<span class="buttons">${Number(run.failedCount) > 0 && html`<button title=${REDRIVE} aria-label=${`Redrive the failed events of ${when}`} onClick=${() => redriveRun(run, done)}>Redrive</button>`}
    ${isOpen(run) && !run.awaitsLaunch && html`<button aria-label=${`Cancel the run of ${when}`} onClick=${() => cancelRun(run, done)}>Cancel</button>`}</span>`;
}

/** @param {() => void} done @param {boolean} windowed the schedule has a window @returns {import('./table.js').Column[]} */
export const runColumns = (done, windowed) => [
  { title: 'Time', size: 16, cell: (run) => html`<${Cell} to=${addressOf(run.name)}>${timeText(run.nominalTime)}<//>` },
  { title: 'Result', size: 18, cell: (run) => html`<${RunBadge} run=${run} />` },
  { title: 'Events', size: windowed ? 14 : 22, wide: true, cell: (run) => html`<${RunCounts} run=${run} />` },
  ...(windowed ? [{ title: 'Window', size: 27, wide: true, cell: (/** @type {any} */ run) => (run.window ? windowText(run) : html`<span class="muted">–</span>`) }] : []),
  { title: 'Took', wide: true, number: true, cell: (run) => (run.completeTime ? durationText(runSeconds(run)) : html`<span class="muted">–</span>`) },
  { title: 'Actions', hidden: true, size: 14, cell: (run) => html`<${RunActions} run=${run} done=${done} />` },
];

/** The attempts of an event, the newest last. @param {{attempts: any[]}} props */
export function Attempts({ attempts }) {
  if (!attempts?.length) return null;
  return html`<h2>Attempts</h2><ol class="attempts">${attempts.map((attempt) => html`<li key=${attempt.number}>
    <p><strong>${attempt.number}</strong> <${Badge} state=${attempt.result} final /> ${attempt.statusCode ? html`<span>status ${attempt.statusCode}</span>, ` : ''}
      <${Time} value=${attempt.startTime} /> ${attempt.duration && html`<span class="muted">took ${durationText(secondsOf(attempt.duration))}</span>`}</p>
    ${attempt.error && html`<p class="error">${attempt.error}</p>`}
    ${attempt.answer && html`<${TextBox} text=${shownBytes(attempt.answer)} label=${`The target's answer to attempt ${attempt.number}`} />`}</li>`)}</ol>`;
}

/** The id as the consumer receives it. @param {any} event */
export const deliveredId = (event) => (Number(event.generation) > 0 ? `${event.eventId}#${event.generation}` : event.eventId);
/** Sends an event's dead letter again; finds it by the event's name. @param {any} event @param {() => void} done */
export async function redriveEvent(event, done) {
  const tenant = event.name.split('/').slice(0, 2).join('/');
  const found = await act('', () => get(`/v1/${tenant}/deadLetters`, { filter: `event_id = "${deliveredId(event)}"`, pageSize: 1 }));
  if (!found) return;
  const letter = found.deadLetters?.[0];
  if (!letter) return void (await ask({ title: 'The dead letter is gone', text: 'It was redriven, purged or collected before.', action: 'Close' }));
  await redriveLetter(letter, done);
}
/** @param {any} letter @param {() => void} done */
export async function redriveLetter(letter, done) {
  const values = await ask({ title: 'Redrive 1 event?', text: html`<code>${letter.event}</code> is tried again. It keeps its id and gets a new round of attempts.`, action: 'Redrive 1' });
  if (values && (await act('1 event redriven.', () => post(`/v1/${letter.name}:redrive`)))) done();
}

/** Progress of long work, followed until it ends. @param {{name: string, onEnd?: () => void}} props */
export function OperationProgress({ name, onEnd }) {
  const [ended, setEnded] = useState(false);
  const { data, error, reload } = useData(async (signal) => {
    const operation = await get(`/v1/${name}`, {}, signal);
    if (operation.state !== 'RUNNING' && !ended) {
      setEnded(true);
      onEnd?.();
    }
    return operation;
  }, [name], ended ? 0 : 1000);
  if (error && !data) return html`<${Failure} error=${error} />`;
  if (!data) return null;
  const done = Number(data.doneCount ?? 0) + Number(data.failedCount ?? 0);
  const cancel = async () => {
    if (await ask({ title: 'Stop this work?', text: 'What is done stays.', action: 'Stop', danger: true })) {
      await act('The work is stopped.', () => post(`/v1/${name}:cancel`));
      reload();
    }
  };
  const [, tenant, , id] = name.split('/');
  return html`<div class="operation"><p><${Link} to=${address(tenant, ['operations', id])}>${words(data.kind)}<//> <${Badge} of=${operationState(data)} />
    ${data.run ? html`<${Link} to=${addressOf(data.run)}>${count(done)} of ${count(data.totalCount)}<//>` : `${count(done)} of ${count(data.totalCount)}`}${Number(data.failedCount) ? `, ${count(data.failedCount)} could not be done: ${data.lastFailure}` : ''}
    ${data.state === 'RUNNING' && can('OPERATOR') && html` <button onClick=${cancel}>Stop</button>`}</p>
    <${Progress} value=${done} max=${Number(data.totalCount ?? 0)} label="Progress" />${data.error && html`<p class="error">${data.error}</p>`}</div>`;
}

/** A bar of how a run's events ended. @param {{run: any}} props */
export function OutcomeBar({ run }) {
  const all = Number(run.eventCount ?? 0) || 1;
  const kinds = [['succeeded', 'good'], ['failed', 'bad'], ['expired', 'warn'], ['cancelled', 'idle'], ['skipped', 'idle']];
  const text = runCounts(run);
  return html`<div class="bar" role="img" aria-label=${text} title=${text}>${kinds.map(([kind, tone]) => {
    const share = Number(run[`${kind}Count`] ?? 0) / all;
    return share > 0 && html`<span class=${tone} style=${{ width: `${Math.max(share * 100, 0.5)}%` }}></span>`;
  })}</div>`;
}
