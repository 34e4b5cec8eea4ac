// One run: its events by outcome, and what can be done about them.
import { html, useState } from '../parts/view.js';
import { address, go, Link, setQuery } from '../parts/router.js';
import { get, getAll } from '../parts/api.js';
import { Badges, Facts, Failure, Head, Loading } from '../parts/basics.js';
import { useData, useWhy } from '../parts/data.js';
import { Cell, List } from '../parts/table.js';
import { closesText, addressOf, OperationProgress, OutcomeBar, ratesText, RunActions, RunBadge, RunCounts, RunReport } from '../parts/runs.js';
import { eventStates, isLate, runSeconds, tokenlessCount } from '../parts/state.js';
import { agoText, count, counted, durationText, idOf, shortText, shownBytes, Time, timeText, words } from '../parts/format.js';

/** What the target answered or why it failed, in one line. @param {any} event */
export const answerText = (event) => shortText((event.reason || (event.output ? shownBytes(event.output) : '')).replace(/\s+/g, ' '), 200);

const LAST_OF = 100; // the newest runs, among which is the last one with an event that ended so

/** Goes on to the last run with an event of an outcome. @param {{tenant: string, id: string, query: URLSearchParams}} props */
export function LastRun({ tenant, id, query }) {
  const outcome = query.get('outcome') ?? '';
  const { data, error, reload } = useData(async (signal) => {
    const { runs = [] } = await get(`/v1/tenants/${tenant}/schedules/${id}/runs`, { pageSize: LAST_OF, orderBy: 'nominal_time desc' }, signal);
    const run = runs.find((/** @type {any} */ each) => Number(each[`${outcome.toLowerCase()}Count`]) > 0) ?? runs.find((/** @type {any} */ each) => each.state !== 'UPCOMING');
    go(run ? `${addressOf(run.name)}?outcome=${outcome}` : address(tenant, ['schedules', id]), { replace: true });
    return true;
  }, [tenant, id, outcome]);
  return error && !data ? html`<${Failure} error=${error} retry=${reload} whole />` : html`<${Loading} />`;
}

/** @param {{tenant: string, id: string, occurrence: string, query: URLSearchParams}} props */
export function Run({ tenant, id, occurrence, query }) {
  const name = `tenants/${tenant}/schedules/${id}/runs/${occurrence}`;
  const [turn, setTurn] = useState(0);
  const { data: run, error, reload } = useData((signal) => get(`/v1/${name}`, {}, signal), [name], 2000);
  const { data: operations } = useData(() => getAll(`/v1/tenants/${tenant}/operations`, 'operations', { filter: 'state = RUNNING' }, 100), [name, turn], 4000);
  // A run says nothing of its policy until it has got a token.
  const { data: policy } = useData((signal) => (run && isLate(run) && run.state === 'ACTIVE' ? get(`/v1/tenants/${tenant}/schedules/${id}`, {}, signal).then((schedule) => schedule.policy) : Promise.resolve('')), [name, Boolean(run && isLate(run))]);
  // The last event is the one that waits longest.
  const last = Number(run?.eventCount ?? 0) - 1;
  const why = useWhy(run && !run.completeTime && last >= 0 ? `${name}/events/${last}` : '', [run?.status]);
  if (error && !run) return html`<${Failure} error=${error} retry=${reload} whole />`;
  if (!run) return html`<${Loading} />`;
  const changed = () => (reload(), setTurn((t) => t + 1));
  const outcome = query.get('outcome') ?? '';
  const mine = (operations ?? []).filter((/** @type {any} */ operation) => operation.run === name);
  const columns = [
    { title: 'Event', cell: (/** @type {any} */ e) => html`<${Cell} to=${addressOf(e.name)}>${idOf(e.name)}<//>` },
    { title: 'Result', size: 17, cell: (/** @type {any} */ e) => html`<${Badges} of=${eventStates(e)} />` },
    { title: 'Attempts', wide: true, number: true, cell: (/** @type {any} */ e) => html`<${Link} to=${addressOf(e.name)}>${count(e.attempts)}<//>` },
    { title: 'Answer or error', size: 26, cell: (/** @type {any} */ e) => html`<span class=${e.outcome === 'SUCCEEDED' ? 'muted' : 'error'}>${answerText(e)}</span>` },
    { title: 'Ended', wide: true, cell: (/** @type {any} */ e) => (e.completeTime ? html`<time datetime=${e.completeTime} title=${timeText(e.completeTime)}>${agoText(e.completeTime)}</time>` : '–') },
  ];
  // The list is read after each reading of the run, so that both say the same.
  const totals = [['', 'All', run.eventCount], ['SUCCEEDED', 'Succeeded', run.succeededCount], ['FAILED', 'Failed', run.failedCount], ['EXPIRED', 'Expired', run.expiredCount], ['CANCELLED', 'Cancelled', run.cancelledCount], ['SKIPPED', 'Skipped', run.skippedCount]];
  return html`<${Head} title=${`Run of ${timeText(run.nominalTime)}`} above=${html`<${Link} to=${address(tenant, ['schedules'])}>Schedules<//> / <${Link} to=${address(tenant, ['schedules', id])}>${id}<//>`}>
      <${RunActions} run=${run} done=${changed} /><//>
    <section class="card"><${OutcomeBar} run=${run} /><${Facts} items=${[
      ['Result', html`<${RunBadge} run=${run} gates=${why.gates} />`], ['Events', html`<${RunCounts} run=${run} />`], ['Due', html`<${Time} value=${run.nominalTime} />`],
      ['Ended', run.completeTime && html`<${Time} value=${run.completeTime} /> after ${durationText(runSeconds(run))}`],
      ['Window', run.window && html`${words(run.window.state)}, ${closesText(run)} <${Time} value=${run.window.closeTime} />`], ['Events ended', run.window && ratesText(run)],
      [last > 0 ? 'Why its last event waits' : 'Why its event waits', why.summary], ['Why it is late', isLate(run) && whyLate(run, policy)], ['Tokens held', Number(run.grantedCount) > 0 && `${count(run.runningCount)} now, ${count(run.grantedCount)} of ${count(run.eventCount)} events have had one`],
      ['Expected end', run.eta && html`<${Time} value=${run.eta} />`], ['Definition', Number(run.version) > 0 && `version ${run.version}`], ['Skipped because', run.skipReason]]} />
      ${mine.map((operation) => html`<${OperationProgress} key=${operation.name} name=${operation.name} onEnd=${changed} />`)}</section>
    ${run.report && html`<${RunReport} run=${run} done=${changed} />`}
    <h2>Events</h2>
    <div class="tabs" role="group" aria-label="Outcome">${totals.filter(([kind, , number]) => kind === '' || Number(number) || kind === outcome).map(([kind, title, number]) => html`<button key=${kind} aria-pressed=${outcome === kind ? 'true' : 'false'} onClick=${() => setQuery({ outcome: String(kind), at: '' })}>${title} <span class="muted">${count(number)}</span></button>`)}</div>
    ${run.state === 'ACTIVE' && html`<p class="muted">Listed are events that have ended or wait for a retry, and the only event of a run if its target is down.</p>`}
    <${List} path=${`/v1/${name}/events`} field="events" query=${{ filter: outcome && `outcome=${outcome}` }} columns=${columns} caption="Events of the run" noun="events" every=${0} refreshKey=${run}
      empty=${run.state === 'UPCOMING' ? 'It is not due yet.' : run.state === 'ACTIVE' ? 'No event has ended yet. Events that wait or are being sent are not listed.' : 'No event matches.'} />`;
}

/** @param {any} run @param {string|undefined} policy that of its schedule */
function whyLate(run, policy) {
  const waiting = tokenlessCount(run);
  if (run.state === 'ACTIVE' && waiting > 0 && (policy || Number(run.grantedCount) > 0)) {
    return html`${counted(waiting, 'event')} of it ${waiting === 1 ? 'waits' : 'wait'} for tokens of the throttling policy ${policy && html`<${Link} to=${addressOf(policy)}>${idOf(policy)}<//>`}`;
  }
  if (Number(run.retryCount) > 0) return `${counted(run.retryCount, 'attempt')} failed and ${Number(run.retryCount) === 1 ? 'was' : 'were'} repeated, by retries or by a redrive; open an event to see the errors`;
  if (run.state === 'ACTIVE') return 'its target has not answered, is down (see Targets), or has no room';
  return 'it took long, or the platform reached it late';
}
