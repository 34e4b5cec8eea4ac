// One schedule: its definition, what comes next, what ran.
import { html, useState } from '../parts/view.js';
import { address, go, Link, setQuery } from '../parts/router.js';
import { call, get, post, quoted } from '../parts/api.js';
import { can } from '../parts/session.js';
import { Badge, Facts, Failure, Head, Loading, TextBox } from '../parts/basics.js';
import { act, ask, say } from '../parts/dialog.js';
import { useData, useWhy } from '../parts/data.js';
import { Choice } from '../parts/fields.js';
import { List } from '../parts/table.js';
import { addressOf, runColumns } from '../parts/runs.js';
import { RunBars } from '../parts/run_bars.js';
import { kindText, limitsOf, PolicyLinks } from '../parts/target_fields.js';
import { agoText, civilText, count, counted, exactText, idOf, inputOf, isoOfInput, shownBytes, targetText, Time, timeText, whenText, words, zoneName } from '../parts/format.js';
import { isLate, LATE, scheduleState } from '../parts/state.js';
import { ScheduleActions } from './schedules.js';
import { dayAfter, Timeline, today } from '../parts/timeline.js';

/** The request of a preview of these times. @param {any} s */
export const previewOf = (s) => ({
  ...Object.fromEntries(['cron', 'cronFields', 'interval', 'times', 'timeZone', 'dstPolicy', 'exclusions', 'calendar', 'onExcluded'].filter((name) => s[name] !== undefined && s[name] !== null).map((name) => [name, s[name]])),
  ...(s.startTime ? { scheduleStartTime: s.startTime } : {}),
  ...(s.endTime ? { scheduleEndTime: s.endTime } : {}),
});

/** @type {Record<string, string>} */
export const NOTES = {
  GAP_FIRED_AFTER: 'clocks go forward: fires right after the skipped hour',
  GAP_SHIFTED: 'clocks go forward: fires as if they had not',
  OVERLAP_FIRST: 'clocks go back: the first of two equal times',
  OVERLAP_LAST: 'clocks go back: the second of two equal times',
};

/** The times of a preview by the clocks of the page and, if these differ, by those of the schedule. @param {{preview: any, of: any}} props of: the schedule */
export const Occurrences = ({ preview, of }) => html`<ol class="occurrences">${(preview.occurrences ?? []).map((each) => html`<li key=${each.time}>
  <time datetime=${each.time}>${timeText(each.time, true)}</time> <span class="muted">${agoText(each.time)}</span>${each.note && html` <span class="badge warn">${NOTES[each.note] ?? each.note}</span>`}<div class="muted">${ownTime(each, of)}</div></li>`)}</ol>
  ${!(preview.occurrences ?? []).length && html`<p class="muted">It does not fire again.</p>`}
  ${(preview.warnings ?? []).map((text) => html`<p class="note">${text}</p>`)}`;

/** Only times of a calendar have clocks. @param {any} occurrence @param {any} schedule */
function ownTime({ localTime = '' }, { cron, cronFields, timeZone }) {
  const place = timeZone || 'UTC';
  const text = civilText(localTime, place);
  return (cron || cronFields) && text.endsWith(place) ? text : '';
}

/** Fires the occurrences of a past range, call by call, and says how far it is. @param {any} schedule @param {() => void} done */
async function backfill(schedule, done) {
  const id = idOf(schedule.name);
  const values = await ask({
    title: `Backfill ${id}`, action: 'Count them', text: 'Fires the occurrences of a past time that have not fired. Those that have fired are left alone.',
    fields: [{ name: 'from', label: `From (${zoneName()})`, type: 'datetime-local', value: inputOf(Date.now() - 86400000) }, { name: 'to', label: `To (${zoneName()})`, type: 'datetime-local', value: inputOf(Date.now()) }],
  });
  if (!values) return;
  const path = `/v1/${schedule.name}:backfill`;
  const range = { startTime: isoOfInput(values.from), endTime: isoOfInput(values.to), maxOccurrences: 1000 };
  const counted_ = await act('', () => post(path, { ...range, validateOnly: true }));
  if (!counted_) return;
  const some = counted_.nextStartTime ? 'at least ' : '';
  const sure = await ask({ title: `Fire ${some}${counted(counted_.firedCount, 'missed run')}?`, text: `${count(counted_.presentCount)} of this time have fired before and are left alone.`, action: `Backfill ${some}${count(counted_.firedCount)}` });
  if (!sure) return;
  await act('', async () => {
    let fired = 0;
    for (let startTime = range.startTime; startTime;) {
      const step = await post(path, { ...range, startTime });
      fired += Number(step.firedCount ?? 0);
      startTime = step.nextStartTime;
      say(`${counted(fired, 'run')} fired${startTime ? ` up to ${timeText(startTime)}…` : '. The backfill is done.'}`);
    }
    done();
  });
}

/** @type {[string, string][]} */
const RUN_STATES = [['', 'Any'], ['UPCOMING', 'Upcoming'], ['ACTIVE', 'Active'], ['COMPLETED', 'Ended'], ['SKIPPED', 'Skipped'], ['CANCELLED', 'Cancelled']];

/** @param {any} policy */
function retryText(policy = {}) {
  const { maxAttempts = 25, minBackoff = '1s', maxBackoff = '300s' } = policy;
  return Number(maxAttempts) === 1 ? 'one attempt' : `up to ${maxAttempts} attempts, first wait up to ${exactText(minBackoff)}, at most ${exactText(maxBackoff)}`;
}

/** The error of the last failure, and what a late run waits for. @param {{tenant: string, schedule: any}} props */
function Trouble({ tenant, schedule: { name, lastOutcome, lastTime } }) {
  const failed = lastOutcome === 'FAILED';
  const { data } = useData(async (signal) => {
    const [{ runs }, letters] = await Promise.all([
      get(`/v1/${name}/runs`, { pageSize: 1, filter: 'state = ACTIVE', orderBy: 'nominal_time' }, signal),
      failed ? get(`/v1/tenants/${tenant}/deadLetters`, { pageSize: 1, filter: `schedule = ${quoted(idOf(name))}` }, signal) : /** @type {any} */ ({})]);
    return { run: runs?.find(isLate), letter: letters.deadLetters?.[0] };
  }, [name, failed, lastTime], 5000);
  const { run, letter } = data ?? {};
  // The last event is the one that waits longest.
  const why = useWhy(run ? `${run.name}/events/${Number(run.eventCount ?? 1) - 1}` : '', []);
  return html`${letter && html`<p><${Badge} state="FAILED" final /> <${Link} to=${addressOf(letter.event)}>${timeText(letter.dueTime)}<//> <span class="error">${letter.reason}</span></p>`}
    ${run && html`<p><${Badge} of=${LATE} /> <${Link} to=${addressOf(run.name)}>${timeText(run.nominalTime)}<//> ${why.summary}</p>`}`;
}

/** @param {{tenant: string, id: string, query: URLSearchParams}} props */
export function Schedule({ tenant, id, query }) {
  const name = `tenants/${tenant}/schedules/${id}`;
  const [turn, setTurn] = useState(0);
  const { data: s, error, reload } = useData((signal) => get(`/v1/${name}`, {}, signal), [name], 5000);
  const { data: next } = useData(async (signal) => (s ? call('POST', `/v1/tenants/${tenant}/schedules:preview`, { body: { ...previewOf(s), count: 10 }, signal }) : undefined), [name, s?.version, s?.nextTime]);
  const why = useWhy(name, [turn, s?.version, s?.state]);
  if (error && !s) return html`<${Failure} error=${error} retry=${reload} whole />`;
  if (!s) return html`<${Loading} />`;
  const changed = () => (reload(), setTurn((t) => t + 1));
  const remove = async () => {
    const sure = await ask({ title: `Delete ${id}?`, text: 'It does not fire any more. Events that are not sent yet end as skipped.', action: 'Delete', danger: true });
    if (sure && (await act(`${id} is deleted.`, () => call('DELETE', `/v1/${name}`)))) go(address(tenant, ['schedules']));
  };
  const state = query.get('state') ?? '';
  const from = dayAfter(query.get('from') ?? '', 0);
  const until = dayAfter(query.get('until') ?? '', 0);
  const filter = [state && `state = ${state}`, from && `nominal_time >= "${isoOfInput(`${from}T00:00`)}"`, until && `nominal_time < "${isoOfInput(`${dayAfter(until, 1)}T00:00`)}"`].filter(Boolean).join(' AND ');
  const [kind, place] = targetText(s.target);
  return html`<${Head} title=${id} above=${html`<${Link} to=${address(tenant, ['schedules'])}>Schedules<//>`} note=${s.displayName}>
      <${ScheduleActions} schedule=${s} done=${changed} />
      ${can('OPERATOR') && html`<button onClick=${() => backfill(s, changed)}>Backfill</button>`}
      ${can('EDITOR') && html`<${Link} class="button" to=${address(tenant, ['schedules', id, 'edit'])}>Edit<//><${Link} class="button" to=${address(tenant, ['new-schedule'], { copy: id })}>Copy<//><${Link} class="button" to=${address(tenant, ['new-notification'], { schedule: id })}>Notify me when this fails<//><button class="danger" onClick=${remove}>Delete</button>`}<//>
    <${RunBars} schedule=${s} header /><${Trouble} tenant=${tenant} schedule=${s} />
    <div class="columns"><section class="card"><h2>Definition</h2><${Facts} items=${[
      ['State', html`<${Badge} of=${scheduleState(s, why.gates)} /> ${s.pauseReason}`],
      ['When', html`<code>${whenText(s)}</code> ${next?.description ?? ''}`],
      ['Time zone', s.timeZone],
      ['Not on the days of', s.calendar && html`<${Link} to=${address(tenant, ['calendars', idOf(s.calendar)])}>${idOf(s.calendar)}<//>${{ NEXT: ', but on the next other day', PREVIOUS: ', but on the last other day before it' }[/** @type {string} */ (s.onExcluded)] ?? ''}`],
      ['Target', html`${kindText(kind)} <code>${place}</code>`],
      ['Events per run', s.eventCount && count(s.eventCount)],
      ['Policy', limitsOf(s).length > 0 && html`<${PolicyLinks} of=${s} />`],
      ['Window', s.window && `${exactText(s.window.duration)}, ${words(s.window.pacing || 'SOONEST').toLowerCase()}`],
      ['Ends of runs', s.onComplete && html`${s.onCompleteWhen === 'ON_FAILURE' ? 'after failures, ' : ''}told to <code>${targetText(s.onComplete)[1]}</code>`],
      ['Retries', retryText(s.retryPolicy)],
      ['Missed runs', words(s.misfirePolicy?.action || 'FIRE_ALL')],
      ['If the last run is active', words(s.overlapPolicy || 'ALLOW')],
      ['Labels', Object.entries(s.labels ?? {}).map(([key, value]) => html`<span class="badge idle">${key}: ${value}</span> `)],
      ['Since its creation', html`<${Link} to=${address(tenant, ['schedules', id], { state: 'COMPLETED' })}>${count(s.succeededCount)} succeeded<//>, <${Link} to=${address(tenant, ['dead-letters'], { schedule: id })}>${count(s.failedCount)} failed<//>`],
      ['Changed', html`<${Time} value=${s.updateTime} />`]]} />
      ${s.payload && html`<details><summary>Payload</summary><${TextBox} text=${shownBytes(s.payload)} label="Payload" /></details>`}</section>
    <section class="card"><h2>Next</h2>${why.summary && html`<p>${why.summary}</p>`}${s.state === 'PAUSED' ? html`<p class="muted">It is paused. It would fire at:</p>` : ''}${next ? html`<${Occurrences} preview=${next} of=${s} />` : html`<${Loading} />`}</section></div>
    <section class="card"><h2>Today</h2><${Timeline} schedules=${[s]} day=${today()} /></section>
    <h2>Runs</h2>
    <form class="filters" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}><label class="field"><span>State</span><${Choice} value=${state} set=${(/** @type {string} */ next) => setQuery({ state: next, at: '' })} options=${RUN_STATES} /></label>
      <label class="field"><span>Since</span><input type="date" value=${from} onChange=${(/** @type {any} */ event) => setQuery({ from: event.target.value, at: '' })} /></label>
      <label class="field"><span>Until</span><input type="date" value=${until} onChange=${(/** @type {any} */ event) => setQuery({ until: event.target.value, at: '' })} /></label></form>
    <${List} path=${`/v1/${name}/runs`} field="runs" query=${{ orderBy: 'nominal_time desc', filter }} columns=${runColumns(changed, Boolean(s.window))} caption=${`Runs of ${id}`} noun="runs" every=${3000} refreshKey=${turn}
      rowId=${(/** @type {any} */ run) => run.name} empty=${filter ? 'No run matches.' : 'It has not run yet.'} />`;
}
