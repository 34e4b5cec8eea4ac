// The palette: one field that finds schedules, events, policies, targets, calendars, notifications, dead letters, saved views, views and actions.
// The field keeps the focus; the arrow keys move through the list below it (the combobox pattern of ARIA).
import { classes, html, useEffect, useLayoutEffect, useMemo, useRef, useState } from './view.js';
import { address, go } from './router.js';
import { get, quoted } from './api.js';
import { can } from './session.js';
import { act } from './dialog.js';
import { addRecent, recentPlaces, savedViews } from './saved.js';
import { addressOf } from './runs.js';
import { idOf, words } from './format.js';
import { changeSchedule, filterOfText } from '../pages/schedules.js';

const WAIT_MS = 150; // after the last key, before the server is asked
const FOUND_MAX = 6; // of each kind
const NAMED_MAX = 1000; // calendars, and targets, that are read and searched here: the server has no filter for them

/** @typedef {{title: string, note?: string, to?: string, run?: () => void, stays?: boolean, role?: string, kind?: string}} Choice run: for what has no address; stays: the palette stays open; kind: of a resource */
/** @typedef {{title: string, choices: Choice[]}} Group */

/** What one can do with a schedule. @type {[string, string, string][]} */
const VERBS = [['trigger', 'Run now', 'OPERATOR'], ['pause', 'Pause', 'OPERATOR'], ['resume', 'Resume', 'OPERATOR'], ['edit', 'Edit', 'EDITOR'], ['copy', 'Copy', 'EDITOR']];
/** @param {string} verb @param {string} tenant @param {string} id @returns {Choice} */
function scheduleChoice(verb, tenant, id) {
  if (verb === 'edit') return { title: `Edit ${id}`, to: address(tenant, ['schedules', id, 'edit']) };
  if (verb === 'copy') return { title: `Copy ${id}`, to: address(tenant, ['new-schedule'], { copy: id }) };
  const title = VERBS.find(([each]) => each === verb)?.[1] ?? '';
  return { title: `${title} ${id}`, run: async () => {
    const schedule = await act('', () => get(`/v1/tenants/${tenant}/schedules/${id}`));
    if (schedule) await changeSchedule(verb, schedule, () => {});
  } };
}

/** All words of the text begin or stand within the title. @param {string} text @param {string} title */
const fits = (text, title) => text.toLowerCase().split(/\s+/).every((word) => title.toLowerCase().includes(word));

/** Reads one page. @param {string} path @param {string} field @param {Record<string, any>} query @param {AbortSignal} signal */
const readSome = async (path, field, query, signal) => (await get(path, { pageSize: FOUND_MAX, ...query }, signal))[field] ?? [];

/** Joins what two searches found. @param {any[]} first @param {any[]} more */
const joined = (first, more) => [...first, ...more.filter((each) => !first.some((other) => other.name === each.name))].slice(0, FOUND_MAX);

/** The kinds that the server is asked for, in their order. Each asks for one thing after the other. @type {[string, string, (tenant: string, text: string, signal: AbortSignal) => Promise<Choice[]>][]} */
const KINDS = [
  ['Schedules', 'Schedule', async (tenant, text, signal) => {
    const path = `/v1/tenants/${tenant}/schedules`;
    // An index serves the begin of a name; the parts of names are looked for among the first 10,000.
    let found = /^[\w.-]+$/.test(text) ? await readSome(path, 'schedules', { filter: `name = ${quoted(`${text}*`)}` }, signal) : [];
    if (found.length < FOUND_MAX) found = joined(found, await readSome(path, 'schedules', { filter: filterOfText(text) }, signal));
    return found.map((/** @type {any} */ s) => ({ title: idOf(s.name), note: [s.displayName, s.state !== 'ENABLED' && words(s.state)].filter(Boolean).join(' · '), to: address(tenant, ['schedules', idOf(s.name)]) }));
  }],
  ['Events', 'Event', async (tenant, text, signal) => {
    if (!/^[\w.~-]+$/.test(text)) return [];
    const path = `/v1/tenants/${tenant}/events`;
    const whole = await get(`${path}/${text}`, {}, signal).then((event) => [event], (error) => {
      if (signal.aborted) throw error;
      return []; // most texts are no id of an event
    });
    let found = whole;
    for (const orderBy of ['due_time', 'complete_time desc']) {
      if (text.length >= 3 && found.length < FOUND_MAX) found = joined(found, await readSome(path, 'events', { filter: `name:${quoted(text)}`, orderBy }, signal));
    }
    return found.map((/** @type {any} */ e) => ({ title: idOf(e.name), note: words(e.outcome || e.state), to: addressOf(e.name) }));
  }],
  ['Dead letters', 'Dead letter', async (tenant, text, signal) => {
    if (!/^[\w.~:-]{3,}$/.test(text)) return [];
    const found = await readSome(`/v1/tenants/${tenant}/deadLetters`, 'deadLetters', { filter: `event = ${quoted(`tenants/${tenant}/events/${text}*`)} OR event = ${quoted(`tenants/${tenant}/schedules/${text}*`)} OR event_id:${quoted(text)}` }, signal);
    return found.map((/** @type {any} */ d) => ({ title: d.event.split('/').slice(3).join('/'), note: d.reason, to: address(tenant, ['dead-letters', idOf(d.name)]) }));
  }],
  ['Policies', 'Policy', async (tenant, text, signal) => {
    const found = await readSome(`/v1/tenants/${tenant}/policies`, 'policies', { filter: `name:${quoted(text)} OR display_name:${quoted(text)}` }, signal);
    return found.map((/** @type {any} */ p) => ({ title: idOf(p.name), note: p.displayName, to: address(tenant, ['policies', idOf(p.name)]) }));
  }],
  ['Calendars', 'Calendar', async (tenant, text, signal) => {
    const found = await readSome(`/v1/tenants/${tenant}/calendars`, 'calendars', { pageSize: NAMED_MAX }, signal);
    return found.filter((/** @type {any} */ c) => fits(text, `${idOf(c.name)} ${c.displayName}`)).slice(0, FOUND_MAX).map((/** @type {any} */ c) => ({ title: idOf(c.name), note: c.displayName, to: address(tenant, ['calendars', idOf(c.name)]) }));
  }],
  ['Notifications', 'Notification', async (tenant, text, signal) => {
    const found = await readSome(`/v1/tenants/${tenant}/subscriptions`, 'subscriptions', { pageSize: NAMED_MAX }, signal);
    return found.filter((/** @type {any} */ s) => fits(text, `${idOf(s.name)} ${s.displayName}`)).slice(0, FOUND_MAX).map((/** @type {any} */ s) => ({ title: idOf(s.name), note: s.displayName, to: address(tenant, ['notifications', idOf(s.name)]) }));
  }],
  ['Targets', 'Target', async (tenant, text, signal) => {
    const found = await readSome(`/v1/tenants/${tenant}/targets`, 'targets', { pageSize: NAMED_MAX }, signal);
    return found.filter((/** @type {any} */ t) => fits(text, `${t.transport} ${t.endpoint}`)).slice(0, FOUND_MAX).map((/** @type {any} */ t) => ({ title: t.endpoint, note: t.transport, to: address(tenant, ['targets']) }));
  }],
];

/**
 * Asks the server while the user types: after a pause, without the calls of the text before, and one call of each kind at a time.
 * @param {string} tenant @param {string} text @param {number} kinds so many of the first kinds
 */
function useFound(tenant, text, kinds) {
  const [state, setState] = useState(/** @type {{of: string, groups: (Choice[]|string|undefined)[]}} */ ({ of: '', groups: [] }));
  useEffect(() => {
    if (!text) return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      KINDS.slice(0, kinds).forEach(([, kind, find], i) => {
        const set = (/** @type {Choice[]|string} */ found) => void (stop.signal.aborted || setState((before) => ({ of: text, groups: Array.from(KINDS, (_, k) => (k === i ? found : before.of === text ? before.groups[k] : undefined)) })));
        find(tenant, text, stop.signal).then((choices) => set(choices.map((each) => ({ ...each, kind }))), (error) => set(String(error.message)));
      });
    }, WAIT_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [tenant, text, kinds]);
  const groups = state.of === text ? state.groups : [];
  return {
    /** @type {Group[]} */
    groups: KINDS.map(([title], i) => ({ title, choices: Array.isArray(groups[i]) ? groups[i] : [] })),
    busy: text !== '' && KINDS.slice(0, kinds).some((_, i) => groups[i] === undefined),
    error: groups.find((each) => typeof each === 'string'),
  };
}

/** The name of a resource that somebody pasted. @param {string} tenant @param {string} text @returns {Choice[]} */
function pasted(tenant, text) {
  const name = /^(schedules|events|policies|calendars|operations|subscriptions)\/./.test(text) ? `tenants/${tenant}/${text}` : text;
  return name.startsWith(`tenants/${tenant}/`) && !/\s/.test(name) ? [{ title: `Open ${name.split('/').slice(2).join('/')}`, to: addressOf(name) }] : [];
}

/**
 * @param {{tenant: string, views: [string, string][], parts: string[], onClose: () => void}} props views: the views that the caller may
 *   open; parts: of the present address
 */
export function Palette({ tenant, views, parts, onClose }) {
  const dialog = useRef(/** @type {HTMLDialogElement|null} */ (null));
  const [typed, setText] = useState('');
  const [active, setActive] = useState(0);
  const text = typed.trim();
  // "pause nightly": a verb, and a schedule.
  const verb = VERBS.find(([, title, role]) => can(role) && text.toLowerCase().startsWith(`${title.toLowerCase()} `));
  const object = verb ? text.slice(verb[1].length + 1).trim() : '';
  const found = useFound(tenant, verb ? object : text, verb ? 1 : KINDS.length);
  // At once, so that no key is lost that follows.
  useLayoutEffect(() => dialog.current?.showModal(), []);

  const fixed = useMemo(() => {
    const here = parts[0] === 'schedules' ? parts[1] : '';
    const verbs = VERBS.filter(([, , role]) => can(role));
    /** @type {Choice[]} */
    const all = [
      ...(here ? verbs.map(([each]) => scheduleChoice(each, tenant, here)) : []),
      ...(here ? [{ title: `Notify me when ${here} fails`, role: 'EDITOR', to: address(tenant, ['new-notification'], { schedule: here }) }] : []),
      .../** @type {[string, string][]} */ ([['new-schedule', 'New schedule'], ['new-event', 'New event'], ['new-policy', 'New policy'], ['new-calendar', 'New calendar'], ['new-notification', 'New notification']]).map(([part, title]) => ({ title, role: 'EDITOR', to: address(tenant, [part]) })),
      ...verbs.map(([, title]) => ({ title: `${title}: choose a schedule…`, stays: true, run: () => setText(`${title} `) })),
    ];
    /** @type {Choice[]} */
    const places = [...views.map(([part, title]) => ({ title, note: 'View', to: address(tenant, part ? [part] : []) })), { title: 'API reference', note: 'Try the calls', run: () => location.assign('/docs') }];
    return { actions: all.filter((each) => !each.role || can(each.role)), views: places };
  }, [tenant, parts.join('/'), views.length]);

  const recent = recentPlaces(tenant).filter((each) => (!each.role || can(each.role)) && (each.note !== 'View' || fixed.views.some((view) => view.to === each.to)));
  const saved = savedViews(tenant).map((each) => ({ ...each, note: 'Saved view' }));
  /** @type {Group[]} */
  const local = [{ title: 'Recent', choices: recent }, { title: 'Saved views', choices: saved }, { title: 'Actions', choices: fixed.actions }, { title: 'Views', choices: fixed.views }]
    .map((group) => ({ ...group, choices: text ? group.choices.filter((each) => fits(text, each.title)) : group.choices }));
  const shown = verb ? [{ title: verb[1], choices: found.groups[0].choices.map((each) => scheduleChoice(verb[0], tenant, each.title)) }, ...local] : text
    ? [{ title: 'Resources', choices: pasted(tenant, text) }, ...local, ...found.groups,
      { title: 'Further', choices: [{ title: `All schedules with “${text}”`, to: address(tenant, ['schedules'], { q: text }) }, { title: `All events with “${text}”`, to: address(tenant, ['events'], { q: text }) }, { title: `All dead letters with “${text}”`, to: address(tenant, ['dead-letters'], { q: text }) }] }]
    : local;
  // A choice stands once, in the first group that has it.
  const seen = new Set();
  const groups = shown.map((group) => ({ ...group, choices: group.choices.filter((each) => !each.to || (!seen.has(each.to) && seen.add(each.to))) })).filter((group) => group.choices.length);
  const choices = groups.flatMap((group) => group.choices);
  const at = Math.min(active, choices.length - 1);
  useEffect(() => setActive(0), [text]);
  useEffect(() => void document.getElementById(`choice-${at}`)?.scrollIntoView({ block: 'nearest' }), [at]);

  const choose = (/** @type {Choice|undefined} */ choice) => {
    if (!choice) return;
    if (!choice.stays) {
      dialog.current?.close();
      onClose();
    }
    if (choice.to) {
      const { title, to, note, role, kind } = choice;
      // Searches are not places to come back to. What the server said of a resource is not kept.
      if (!title.startsWith('All ')) addRecent(tenant, { title, to, note: kind ?? note, role });
      go(to);
    } else choice.run?.();
  };
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (step && choices.length) {
      event.preventDefault();
      const to = at + step;
      setActive(Math.abs(step) > 1 ? Math.max(0, Math.min(choices.length - 1, to)) : (to + choices.length) % choices.length);
    } else if (event.key === 'Enter' && !event.isComposing) {
      event.preventDefault();
      choose(choices[at]);
    }
  };
  let number = 0;
  return html`<dialog ref=${dialog} class="palette" aria-label="Find" onClose=${onClose} onClick=${(/** @type {MouseEvent} */ event) => event.target === dialog.current && dialog.current?.close()}>
    <input type="search" role="combobox" aria-label="Find schedules, events, policies, targets, views and actions" aria-autocomplete="list" aria-expanded="true" aria-controls="choices" aria-activedescendant=${choices.length ? `choice-${at}` : undefined}
      autocomplete="off" autocapitalize="off" spellcheck="false" autofocus placeholder="A name, an id, a label, an action…" value=${typed} onInput=${(/** @type {any} */ event) => setText(event.target.value)} onKeyDown=${onKey} />
    <div id="choices" role="listbox" aria-label="Choices">${groups.map((group) => html`<div role="group" key=${group.title} aria-label=${group.title}><div class="group-title" aria-hidden="true">${group.title}</div>
      ${group.choices.map((choice) => {
        const index = number++;
        return html`<div role="option" id=${`choice-${index}`} key=${choice.to ?? choice.title} aria-selected=${index === at ? 'true' : 'false'} class=${classes('choice', index === at && 'active')} onMouseDown=${(/** @type {Event} */ event) => event.preventDefault()} onClick=${() => choose(choice)}>
          <span class="choice-title">${choice.title}</span> ${choice.note && html`<span class="muted">${choice.note}</span>`}</div>`;
      })}</div>`)}</div>
    <div class="palette-foot"><p class="muted" role="status">${found.busy ? 'Searching…' : found.error ? found.error : `${choices.length} choices`}</p><button type="button" onClick=${() => dialog.current?.close()}>Close</button></div></dialog>`;
}
