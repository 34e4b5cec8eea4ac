// Calendars: named days on which schedules do not fire. A form shows what a change moves before it is saved.
import { html, useEffect, useState } from '../parts/view.js';
import { address, go, Link } from '../parts/router.js';
import { call, get, useForm } from '../parts/api.js';
import { can, session } from '../parts/session.js';
import { Facts, Failure, Head, Loading } from '../parts/basics.js';
import { act, ask, say } from '../parts/dialog.js';
import { useData } from '../parts/data.js';
import { Cell, List } from '../parts/table.js';
import { Field, FieldErrors, Text } from '../parts/fields.js';
import { addressOf } from '../parts/runs.js';
import { count, counted, idOf, Time } from '../parts/format.js';

/** @param {any} c */
const daysText = (c) => [c.dates?.length > 0 && counted(c.dates.length, 'date'), c.rules?.length > 0 && c.rules.join('; '), c.calendars?.length > 0 && c.calendars.map(idOf).join(', '), c.exceptDates?.length > 0 && `without ${counted(c.exceptDates.length, 'date')}`].filter(Boolean).join(', ');

/** @param {{tenant: string}} props */
export function Calendars({ tenant }) {
  const columns = [
    { title: 'Name', cell: (/** @type {any} */ c) => html`<${Cell} to=${address(tenant, ['calendars', idOf(c.name)])}>${idOf(c.name)}<//> <span class="muted">${c.displayName}</span>` },
    { title: 'Days', cell: daysText },
    { title: 'Changed', size: 16, wide: true, cell: (/** @type {any} */ c) => html`<${Time} value=${c.updateTime} />` },
  ];
  return html`<${Head} title="Calendars" note="Days on which schedules do not fire, such as holidays and weekends.">${can('EDITOR') && html`<${Link} class="button primary" to=${address(tenant, ['new-calendar'])}>New calendar<//>`}<//>
    <${List} path=${`/v1/tenants/${tenant}/calendars`} field="calendars" columns=${columns} caption="Calendars" noun="calendars" empty="There is no calendar yet." />`;
}

/** @param {{tenant: string, id: string}} props */
export function CalendarPage({ tenant, id }) {
  const name = `tenants/${tenant}/calendars/${id}`;
  const { data: c, error, reload } = useData((signal) => get(`/v1/${name}`, {}, signal), [name], 5000);
  if (error && !c) return html`<${Failure} error=${error} retry=${reload} whole />`;
  if (!c) return html`<${Loading} />`;
  const remove = async () => {
    if (!(await ask({ title: `Delete ${id}?`, text: 'Possible when no schedule and no other calendar names it.', action: 'Delete', danger: true }))) return;
    if (await act(`${id} is deleted.`, () => call('DELETE', `/v1/${name}`))) go(address(tenant, ['calendars']));
  };
  const outdated = Number(c.outdatedScheduleCount ?? 0);
  return html`<${Head} title=${id} above=${html`<${Link} to=${address(tenant, ['calendars'])}>Calendars<//>`} note=${c.displayName}>
      ${can('EDITOR') && html`<${Link} class="button" to=${address(tenant, ['calendars', id, 'edit'])}>Edit<//><button class="danger" onClick=${remove}>Delete</button>`}<//>
    ${outdated > 0 && html`<p class="note">${counted(outdated, 'schedule')} still ${outdated === 1 ? 'has' : 'have'} former days.</p>`}
    <div class="columns"><section class="card"><h2>Definition</h2><${Facts} items=${[['Dates', c.dates?.length > 0 && c.dates.join(' ')], ['Rules', c.rules?.length > 0 && html`<code>${c.rules.join('; ')}</code>`],
      ['Days of', c.calendars?.length > 0 && c.calendars.map((/** @type {string} */ other) => html`<${Link} to=${address(tenant, ['calendars', idOf(other)])}>${idOf(other)}<//> `)], ['Except', c.exceptDates?.length > 0 && c.exceptDates.join(' ')],
      ['Schedules', html`<${Link} to=${address(tenant, ['schedules'], { q: `calendar = "${id}"` })}>${count(c.scheduleCount)}<//>`], ['Changed', html`<${Time} value=${c.updateTime} />`], ['Version', c.version]]} /></section>
    <section class="card"><h2>Next days</h2>${c.nextDays?.length > 0 ? html`<p>${c.nextDays.join(' ')}</p>` : html`<p class="muted">None in the next ten years.</p>`}</section></div>`;
}

/** What a change moves. @param {{effects: any}} props */
function Moves({ effects }) {
  const moves = effects.moves ?? [];
  const time = (/** @type {string|undefined} */ value) => (value ? html`<${Time} value=${value} />` : '–');
  return html`<section class="card" role="status"><h2>What this changes</h2><p>${counted(effects.scheduleCount ?? 0, 'schedule')} will get other days. ${effects.more ? 'More than ' : ''}${counted(moves.length, 'occurrence')} of the next 366 days would move.</p>
    ${moves.length > 0 && html`<table><caption class="unseen">Occurrences that move</caption><thead><tr><th>Schedule</th><th>From</th><th>To</th></tr></thead>
      <tbody>${moves.slice(0, 100).map((/** @type {any} */ m, /** @type {number} */ i) => html`<tr key=${i}><td><${Link} to=${addressOf(m.schedule)}>${idOf(m.schedule)}<//></td><td>${time(m.fromTime)}</td><td>${time(m.toTime)}</td></tr>`)}</tbody></table>`}</section>`;
}

const FIELDS = ['displayName', 'dates', 'rules', 'calendars', 'exceptDates'];

/** @param {{tenant: string, id?: string}} props */
export function CalendarForm({ tenant, id }) {
  const [draft, setDraft] = useState(/** @type {any} */ (id ? null : { rules: ['* * SAT,SUN'] }));
  const [newId, setNewId] = useState('');
  const [effects, setEffects] = useState(/** @type {any} */ (null));
  const form = useForm();
  const [failure, setFailure] = useState(/** @type {any} */ (null));
  useEffect(() => {
    if (id && !draft) get(`/v1/tenants/${tenant}/calendars/${id}`).then((c) => setDraft(Object.fromEntries([...FIELDS, 'etag'].map((name) => [name, c[name]]))), setFailure);
  }, [id, session.signIns]);
  if (!draft) return failure ? html`<${Failure} error=${failure} whole />` : html`<${Loading} />`;
  const set = (/** @type {any} */ changes) => (setEffects(null), setDraft({ ...draft, ...changes }));
  const save = async (/** @type {boolean} */ validateOnly) => {
    setFailure(null);
    try {
      if (!id) {
        const made = await call('POST', `/v1/tenants/${tenant}/calendars`, { query: { calendarId: newId }, body: draft, form });
        return go(address(tenant, ['calendars', idOf(made.name)]));
      }
      const answer = await call('PATCH', `/v1/tenants/${tenant}/calendars/${id}`, { query: { updateMask: '*', validateOnly: validateOnly || undefined }, body: draft });
      if (validateOnly) return setEffects(answer);
      say(`${id} is saved. Its schedules follow within seconds.`);
      go(address(tenant, ['calendars', id]));
    } catch (error) {
      setFailure(error);
    }
  };
  const submit = (/** @type {Event} */ event) => (event.preventDefault(), save(false));
  const readFile = async (/** @type {any} */ event) => set({ ics: (await event.target.files[0]?.text()) || undefined });
  const lines = (/** @type {string} */ name, /** @type {string} */ path, /** @type {string} */ label, /** @type {string} */ hint, rows = 4) => html`<${Text} path=${path} label=${label} hint=${hint} lines=${rows} error=${failure} value=${(draft[name] ?? []).join('\n')}
    set=${(/** @type {string} */ typed) => set({ [name]: typed ? typed.split('\n') : [] })} />`;
  return html`<${Head} title=${id ? `Edit ${id}` : 'New calendar'} above=${html`<${Link} to=${address(tenant, ['calendars'])}>Calendars<//>`} /><form class="form" onSubmit=${submit} novalidate><${FieldErrors} error=${failure} /><fieldset><legend>Calendar</legend>
    ${!id && html`<${Text} path="calendar_id" label="Name" hint="a–z, 0–9, '-', '_' and '.'" error=${failure} value=${newId} set=${setNewId} />`}
    <${Text} path="display_name" label="Text for people" error=${failure} value=${draft.displayName} set=${(/** @type {string} */ displayName) => set({ displayName })} />
    ${lines('dates', 'dates', 'Dates', 'One on each line: 2026-12-24')}
    <${Field} path="ics" label="Dates of a file" hint="An iCalendar file (.ics), such as a list of holidays. Its days are added to the dates when you save." error=${failure}>${(/** @type {any} */ p) => html`<input ...${p} type="file" accept=".ics,text/calendar" onChange=${readFile} />`}<//>
    ${lines('rules', 'rules', 'Rules', 'Day of month, month, day of week; one on each line: * * SAT,SUN or 25 12 *', 3)}
    ${lines('calendars', 'calendars', 'Days of other calendars', 'Their names, one on each line', 2)}
    ${lines('exceptDates', 'except_dates', 'Except', 'Days that do not belong to it, one on each line', 2)}</fieldset>
    ${effects && html`<${Moves} effects=${effects} />`}
    <div class="actions">${id && html`<button type="button" onClick=${() => save(true)}>Show what moves</button>`}<button class="primary">${id ? 'Save' : 'Create calendar'}</button></div></form>`;
}
