// Create and edit a schedule: in plain words on the left, as JSON or YAML below, with the next times live beside it.
import { html, useEffect, useRef, useState } from '../parts/view.js';
import { address, go, guards, Link } from '../parts/router.js';
import { call, get, getAll, useForm } from '../parts/api.js';
import { Failure, Head, Loading } from '../parts/basics.js';
import { session } from '../parts/session.js';
import { useData, useSettled } from '../parts/data.js';
import { say } from '../parts/dialog.js';
import { Duration, Field, FieldErrors, Select, Text, typedErrors } from '../parts/fields.js';
import { PayloadFields, PolicyFields, SendOne, TargetFields, useDraft, usePolicies } from '../parts/target_fields.js';
import { idOf, whenText } from '../parts/format.js';
import { LoadNear } from '../parts/load_map.js';
import { Occurrences, previewOf } from './schedule.js';

const OUTPUT_ONLY = ['state', 'uid', 'version', 'createTime', 'updateTime', 'nextTime', 'pauseReason', 'warnings', 'succeededCount', 'failedCount', 'lastTime', 'lastOutcome'];
/** @type {[string, string][]} */
const EXAMPLES = [['0 9 * * MON-FRI', 'Weekdays at 9'], ['*/15 * * * *', 'Every 15 minutes'], ['30 2 * * *', 'Each night at 2:30'], ['0 8 1 * *', 'First of the month'], ['0 18 L * *', 'Last day of the month']];
const zones = ['UTC', ...(/** @type {any} */ (Intl).supportedValuesOf?.('timeZone') ?? []).filter((/** @type {string} */ zone) => zone !== 'UTC')];

/** Answers have empty texts, lists and maps, which here would be a choice. @param {any} value */
const isEmpty = (value) => value === '' || (typeof value === 'object' && Object.keys(value).length === 0);
/** A schedule as the form edits it. @param {any} schedule */
function editable(schedule) {
  const draft = Object.fromEntries(Object.entries(schedule).filter(([name, value]) => !OUTPUT_ONLY.includes(name) && !isEmpty(value)));
  if (draft.cronFields) {
    draft.cron = whenText(schedule);
    delete draft.cronFields;
  }
  return draft;
}

const kindOf = (/** @type {any} */ draft) => (draft.interval ? 'interval' : draft.times?.length ? 'times' : 'cron');
/** Sets the fields of a part; an empty value leaves the field, and an empty part leaves the schedule. @param {any} part @param {any} changes */
function merged(part, changes) {
  const next = Object.fromEntries(Object.entries({ ...part, ...changes }).filter(([, value]) => value !== '' && value !== undefined));
  return Object.keys(next).length ? next : undefined;
}

/** @param {{draft: any, set: (changes: any) => void, error: any}} props */
function WhenFields({ draft, set, error }) {
  const [kind, setKind] = useState(kindOf(draft));
  const [times, setTimes] = useState((draft.times ?? []).join('\n'));
  useEffect(() => {
    const now = kindOf(draft);
    if (now !== kind && (draft.cron || draft.interval || draft.times)) setKind(now);
  }, [draft]);
  const choose = (/** @type {string} */ next) => {
    setKind(next);
    set({ cron: next === 'cron' ? draft.cron ?? '0 9 * * *' : undefined, interval: next === 'interval' ? draft.interval ?? { every: '3600s' } : undefined, times: next === 'times' ? draft.times ?? [new Date(Date.now() + 3600000).toISOString()] : undefined, ...(next === 'cron' ? {} : { dstPolicy: undefined, onExcluded: undefined }) });
    if (next === 'times') setTimes((draft.times ?? [new Date(Date.now() + 3600000).toISOString()]).join('\n'));
  };
  const typeTimes = (/** @type {string} */ typed) => (setTimes(typed), set({ times: typed.split('\n').map((line) => line.trim()).filter(Boolean) }));
  return html`<fieldset><legend>When</legend>
    <div class="tabs field wide" role="group" aria-label="Kind of times">${[['cron', 'By the calendar'], ['interval', 'Every so often'], ['times', 'At given times']].map(([value, title]) => html`<button type="button" aria-pressed=${kind === value ? 'true' : 'false'} onClick=${() => choose(value)}>${title}</button>`)}</div>
    ${kind === 'cron' && html`<${Text} path="cron" label="Cron expression" hint="minute hour day-of-month month day-of-week; a sixth field in front is the second" value=${draft.cron} set=${(/** @type {string} */ cron) => set({ cron })} error=${error} wide />
      <p class="field wide examples">${EXAMPLES.map(([cron, title]) => html`<button type="button" class="link" onClick=${() => set({ cron })}>${title}</button> `)}</p>`}
    ${kind === 'interval' && html`<${Duration} path="interval.every" label="Every" hint="Such as 90 s, 15 min or 1.5 h" value=${draft.interval?.every} set=${(/** @type {any} */ every) => set({ interval: { ...draft.interval, every } })} error=${error} />`}
    ${kind === 'times' && html`<${Text} path="times" label="Times" hint="One on each line, such as 2026-12-24T18:00:00Z or …T18:00:00+01:00" lines=${4} value=${times} set=${typeTimes} error=${error} wide />`}
    ${kind === 'cron' && html`<${Field} path="time_zone" label="Time zone" hint="Times are those of clocks there." error=${error}>${(/** @type {any} */ p) => html`<input ...${p} list="zones" value=${draft.timeZone ?? ''} placeholder="UTC" onInput=${(/** @type {any} */ e) => set({ timeZone: e.target.value || undefined })} /><datalist id="zones">${zones.map((zone) => html`<option value=${zone}></option>`)}</datalist>`}<//>`}
    </fieldset>`;
}

/** The next times of what is typed, some tenths of a second after it was typed. @param {{tenant: string, draft: any, onResult: (error: any) => void}} props */
function Preview({ tenant, draft, onResult }) {
  const settled = useSettled(JSON.stringify(previewOf(draft)));
  const { data, error } = useData((signal) => call('POST', `/v1/tenants/${tenant}/schedules:preview`, { body: { ...JSON.parse(settled), count: 10 }, signal }), [settled]);
  useEffect(() => onResult(error), [error]);
  return html`<section class="card preview" aria-live="polite"><h2>Next times</h2>
    ${error ? html`<p class="error">${error.violations?.map((/** @type {any} */ v) => v.description).join('; ') || error.message}</p>` : data ? html`<p class="description">${data.description}</p><${LoadNear} tenant=${tenant} time=${data.occurrences?.[0]?.time} /><${Occurrences} preview=${data} of=${draft} />` : html`<${Loading} />`}</section>`;
}

/** The draft as text, and text as the draft. @param {{draft: any, setDraft: (draft: any) => void}} props */
function TextForm({ draft, setDraft }) {
  const [form, setForm] = useState('json');
  const [text, setText] = useState('');
  const [problem, setProblem] = useState('');
  const yaml = useRef(/** @type {any} */ (null));
  const typing = useRef(false);
  const area = useRef(/** @type {any} */ (null));
  const write = (/** @type {string} */ kind) => (kind === 'json' ? JSON.stringify(draft, null, 2) : yaml.current.dump(JSON.parse(JSON.stringify(draft)), { lineWidth: 100 }));
  useEffect(() => {
    if (!typing.current || document.activeElement !== area.current) {
      setText(write(form));
      setProblem('');
    }
    typing.current = false;
  }, [draft, form]);
  const choose = async (/** @type {string} */ kind) => {
    if (kind === 'yaml') yaml.current ??= await import('../parts/js-yaml.js');
    setForm(kind);
  };
  const type = (/** @type {string} */ typed) => {
    setText(typed);
    try {
      const parsed = form === 'json' ? JSON.parse(typed) : yaml.current.load(typed);
      if (!parsed || typeof parsed !== 'object' || Array.isArray(parsed)) throw new Error('This is no object.');
      setProblem('');
      typing.current = true;
      setDraft(parsed);
    } catch (error) {
      setProblem(/** @type {Error} */ (error).message);
    }
  };
  return html`<details class="card"><summary>The schedule as text</summary><div class="tabs" role="group" aria-label="Form of the text">${[['json', 'JSON'], ['yaml', 'YAML']].map(([kind, title]) => html`<button type="button" aria-pressed=${form === kind ? 'true' : 'false'} onClick=${() => choose(kind)}>${title}</button>`)}</div>
    <label class="field wide"><span class="unseen">The schedule as ${form.toUpperCase()}</span><textarea ref=${area} rows="18" spellcheck="false" class="code" value=${text} aria-invalid=${problem ? 'true' : undefined} onInput=${(/** @type {any} */ e) => type(e.target.value)}></textarea></label>
    <p class="error" role="status">${problem}</p></details>`;
}

/** @param {{tenant: string, id?: string, query: URLSearchParams}} props */
export function ScheduleForm({ tenant, id, query }) {
  const source = id ?? query.get('copy');
  const [draft, set, setDraft] = useDraft(source ? null : { cron: '0 9 * * MON-FRI', timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC', target: { http: { uri: '' } }, payload: '' });
  const [newId, setNewId] = useState('');
  const form = useForm();
  const [failure, setFailure] = useState(/** @type {any} */ (null));
  const [timesFailure, setTimesFailure] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const first = useRef('');
  const saved = useRef(false);
  const latest = useRef(draft);
  latest.current = draft;
  useEffect(() => {
    if (!source) first.current ||= JSON.stringify(draft);
    if (!source || draft) return;
    get(`/v1/tenants/${tenant}/schedules/${source}`).then((schedule) => {
      const begun = editable(schedule);
      if (!id) ['name', 'etag'].forEach((name) => delete begun[name]);
      first.current = JSON.stringify(begun);
      setDraft(begun);
    }, setFailure);
  }, [source, session.signIns]);
  useEffect(() => {
    const changed = () => !saved.current && latest.current && JSON.stringify(latest.current) !== first.current;
    const guard = () => !changed() || confirm('Leave without saving?');
    const unload = (/** @type {BeforeUnloadEvent} */ event) => changed() && event.preventDefault();
    guards.add(guard);
    addEventListener('beforeunload', unload);
    return () => (guards.delete(guard), removeEventListener('beforeunload', unload));
  }, []);
  const throttling = usePolicies(tenant, draft);
  if (!draft) return failure ? html`<${Failure} error=${failure} whole />` : html`<${Loading} />`;

  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const wrong = typedErrors() ?? throttling.failure;
    if (wrong) return setFailure(wrong);
    setBusy(true);
    try {
      const made = id
        ? await call('PATCH', `/v1/tenants/${tenant}/schedules/${id}`, { query: { updateMask: '*' }, body: draft, form })
        : await call('POST', `/v1/tenants/${tenant}/schedules`, { query: { scheduleId: newId }, body: draft, form });
      saved.current = true;
      for (const warning of made.warnings ?? []) say(`Saved, but note: ${warning}`, true);
      if (!made.warnings?.length) say(`${idOf(made.name)} is saved.`);
      go(address(tenant, ['schedules', idOf(made.name)]));
    } catch (error) {
      setFailure(error);
    }
    setBusy(false);
  };
  const error = failure ?? (timesFailure && { violations: timesFailure.violations });
  const part = (/** @type {string} */ name, /** @type {any} */ changes) => set({ [name]: merged(draft[name], changes) });
  const input = (/** @type {string} */ group, /** @type {string} */ name, /** @type {string} */ path, /** @type {string} */ label, /** @type {string} */ hint, type = 'text') => html`<${Text} path=${path} label=${label} hint=${hint} type=${type} error=${error}
    value=${group ? draft[group]?.[name] : draft[name]} set=${(/** @type {string} */ value) => (group ? part(group, { [name]: value }) : set({ [name]: value === '' ? undefined : value }))} rest=${type === 'number' ? { min: 0, step: 'any' } : {}} />`;
  const duration = (/** @type {string} */ group, /** @type {string} */ name, /** @type {string} */ path, /** @type {string} */ label, /** @type {string} */ hint) => html`<${Duration} path=${path} label=${label} hint=${hint} error=${error}
    value=${group ? draft[group]?.[name] : draft[name]} set=${(/** @type {string|undefined} */ value) => (group ? part(group, { [name]: value }) : set({ [name]: value }))} />`;
  return html`<${Head} title=${id ? `Edit ${id}` : 'New schedule'} above=${html`<${Link} to=${address(tenant, ['schedules'])}>Schedules<//>`} />
    <form class="form split" onSubmit=${submit} novalidate><div>
      <${FieldErrors} error=${failure} />
      <fieldset><legend>Name</legend>${!id && html`<${Text} path="schedule_id" label="Name" hint="a–z, 0–9, '-', '_' and '.'; for example nightly-backup" value=${newId} set=${setNewId} error=${error} />`}
        ${input('', 'displayName', 'display_name', 'Text for people', '')}</fieldset>
      <${WhenFields} draft=${draft} set=${set} error=${error} />
      <${TargetFields} draft=${draft} set=${set} error=${error} prefix="schedule"><${SendOne} tenant=${tenant} draft=${draft} onError=${setFailure} /><//>
      <${PayloadFields} draft=${draft} set=${set} error=${error} />
      <fieldset><legend>If it fails</legend>
        ${input('retryPolicy', 'maxAttempts', 'retry_policy.max_attempts', 'Attempts', '25 unless given; 1: no retry', 'number')}
        ${duration('retryPolicy', 'minBackoff', 'retry_policy.min_backoff', 'First wait, up to', '1 s unless given; it grows with each attempt')}
        ${duration('retryPolicy', 'maxBackoff', 'retry_policy.max_backoff', 'Longest wait', '5 min unless given')}
        ${duration('retryPolicy', 'maxAge', 'retry_policy.max_age', 'Give up after', '1 d unless given')}</fieldset>
      <fieldset><legend>If it was missed or is still busy</legend>
        <${Select} path="misfire_policy.action" label="After a downtime or pause" value=${draft.misfirePolicy?.action ?? 'FIRE_ALL'} set=${(/** @type {string} */ action) => part('misfirePolicy', { action })} error=${error} options=${[['FIRE_ALL', 'Run each missed time, the latest 100'], ['FIRE_LATEST', 'Run only the latest missed time'], ['SKIP', 'Run none of them']]} />
        <${Select} path="overlap_policy" label="If the last run is still active" value=${draft.overlapPolicy ?? 'ALLOW'} set=${(/** @type {string} */ overlapPolicy) => set({ overlapPolicy })} error=${error} options=${[['ALLOW', 'Run beside it'], ['SKIP', 'Skip this time'], ['BUFFER_ONE', 'Wait for its end; only one waits'], ['CANCEL_PREVIOUS', 'Cancel the last run']]} /></fieldset>
      <fieldset><legend>How many and how fast</legend>
        ${input('', 'eventCount', 'event_count', 'Events per run', '1 unless given', 'number')}
        <${PolicyFields} throttling=${throttling} draft=${draft} set=${set} error=${error} />
        ${duration('window', 'duration', 'window.duration', 'Deliver all within', 'Such as 90 min; empty: no bound')}
        ${draft.window && html`<${Select} path="window.pacing" label="Spread" value=${draft.window.pacing ?? 'SOONEST'} set=${(/** @type {string} */ pacing) => part('window', { pacing })} error=${error} options=${[['SOONEST', 'As early as possible'], ['EVEN', 'Evenly over this time']]} />
          <${Select} path="window.on_close" label="Events that are late" value=${draft.window.onClose ?? 'FINISH_LATE'} set=${(/** @type {string} */ onClose) => part('window', { onClose })} error=${error} options=${[['FINISH_LATE', 'are still sent'], ['DROP', 'are dropped'], ['CARRY_OVER', 'move to the next run']]} />`}</fieldset>
      <details class="more"><summary>More</summary><fieldset><legend class="unseen">More</legend>
        <${CalendarFields} tenant=${tenant} draft=${draft} set=${set} error=${error} />
        <${Labels} draft=${draft} set=${set} error=${error} />
        <${OnCompleteFields} draft=${draft} set=${set} error=${error} />
        <${Text} path="exclusions" label="Not at these times" hint="Cron expressions, one on each line: * * 25 12 *" lines=${2} value=${(draft.exclusions ?? []).join('\n')} set=${(/** @type {string} */ typed) => set({ exclusions: typed ? typed.split('\n') : undefined })} error=${error} />
        ${input('', 'startTime', 'start_time', 'Not before', '2026-12-01T00:00:00Z')}${input('', 'endTime', 'end_time', 'Not after', '')}
        ${input('', 'maxRuns', 'max_runs', 'Ends after so many runs', 'Empty: never', 'number')}${duration('', 'jitter', 'jitter', 'Random delay, up to', 'Such as 30 s')}
        ${input('', 'priority', 'priority', 'Priority', '0 first, 9 last; 5 unless given', 'number')}
        ${!draft.interval && !draft.times?.length && html`<${Select} path="dst_policy.gap" label="Clocks go forward over a time" value=${draft.dstPolicy?.gap ?? 'AUTO'} set=${(/** @type {string} */ gap) => part('dstPolicy', { gap: gap === 'AUTO' ? undefined : gap })} error=${error} options=${[['AUTO', 'Automatic'], ['SKIP', 'Do not run'], ['FIRE_AFTER', 'Run right after'], ['SHIFT', 'Run as if they had not']]} />
          <${Select} path="dst_policy.overlap" label="Clocks go back over a time" value=${draft.dstPolicy?.overlap ?? 'AUTO'} set=${(/** @type {string} */ overlap) => part('dstPolicy', { overlap: overlap === 'AUTO' ? undefined : overlap })} error=${error} options=${[['AUTO', 'Automatic'], ['FIRST', 'Run the first time'], ['LAST', 'Run the second time'], ['BOTH', 'Run both times']]} />`}</fieldset></details>
      <${TextForm} draft=${draft} setDraft=${setDraft} />
      <div class="actions"><button class="primary" disabled=${busy}>${id ? 'Save' : 'Create schedule'}</button></div></div>
    <aside><${Preview} tenant=${tenant} draft=${draft} onResult=${setTimesFailure} /></aside></form>`;
}

/** Whom the end of each run is told; other kinds than HTTP are edited as text. @param {{draft: any, set: (changes: any) => void, error: any}} props */
function OnCompleteFields({ draft, set, error }) {
  const { onComplete, onCompleteWhen } = draft;
  const type = (/** @type {string} */ uri) => set(uri ? { onComplete: { ...onComplete, http: { ...onComplete?.http, uri } } } : { onComplete: undefined, onCompleteWhen: undefined });
  return html`${(!onComplete || onComplete.http) && html`<${Text} path="on_complete.http.uri" label="Report the end of each run to" hint="A URL; empty: to nobody" value=${onComplete?.http?.uri} set=${type} error=${error} />`}
    ${onComplete && html`<${Select} path="on_complete_when" label="Report" value=${onCompleteWhen ?? 'ALWAYS'} set=${(/** @type {string} */ when) => set({ onCompleteWhen: when })} error=${error} options=${[['ALWAYS', 'The end of every run'], ['ON_FAILURE', 'Only runs with failed or expired events']]} />`}`;
}

/** @param {{tenant: string, draft: any, set: (changes: any) => void, error: any}} props */
function CalendarFields({ tenant, draft, set, error }) {
  const { data } = useData(() => getAll(`/v1/tenants/${tenant}/calendars`, 'calendars'), [tenant]);
  const chosen = draft.calendar ? idOf(draft.calendar) : '';
  const ids = (data ?? []).map((/** @type {any} */ c) => idOf(c.name));
  if (!chosen && ids.length === 0) return null;
  const options = [['', 'None'], ...(chosen && !ids.includes(chosen) ? [chosen, ...ids] : ids).map((/** @type {string} */ id) => [id, id])];
  return html`<${Select} path="calendar" label="Not on the days of" hint="A calendar" value=${chosen} set=${(/** @type {string} */ calendar) => set({ calendar: calendar || undefined, onExcluded: calendar ? draft.onExcluded : undefined })} error=${error} options=${options} />
    ${chosen && !draft.interval && !draft.times?.length && html`<${Select} path="on_excluded" label="On such a day" value=${draft.onExcluded ?? 'SKIP'} set=${(/** @type {string} */ rule) => set({ onExcluded: rule === 'SKIP' ? undefined : rule })} error=${error} options=${[['SKIP', 'Do not run'], ['NEXT', 'Run on the next other day'], ['PREVIOUS', 'Run on the last other day before it']]} />`}`;
}

/** @param {{draft: any, set: (changes: any) => void, error: any}} props */
function Labels({ draft, set, error }) {
  const [text, setText] = useState(Object.entries(draft.labels ?? {}).map(([key, value]) => `${key}: ${value}`).join('\n'));
  const type = (/** @type {string} */ typed) => {
    setText(typed);
    const pairs = typed.split('\n').filter((line) => line.includes(':')).map((line) => [line.slice(0, line.indexOf(':')).trim(), line.slice(line.indexOf(':') + 1).trim()]);
    set({ labels: pairs.length ? Object.fromEntries(pairs) : undefined });
  };
  return html`<${Text} path="labels" label="Labels" hint="One on each line: team: billing" lines=${2} value=${text} set=${type} error=${error} />`;
}
