// The events that schedules will fire in the next 24 hours: a row for each hour, or for each policy or target, and a field for each five
// minutes. The more events, the darker. Each row also says the same in words; pointer and arrow keys show the number of a field, and a click or Enter what fires in it.
import { html, useMemo, useRef, useState } from './view.js';
import { address, go, Link, setQuery } from './router.js';
import { get, getAll, quoted } from './api.js';
import { Failure, Loading } from './basics.js';
import { useData } from './data.js';
import { Select } from './fields.js';
import { isAt, placeOf, schedulesAt } from './target_fields.js';
import { clockText, count, counted, dayText, idOf, minuteOf, pathText } from './format.js';

const FIELD_MINUTES = 5; // offsets of zones are multiples of it
const FIELDS = 60 / FIELD_MINUTES;
const SHADES = 5;
const EVERY_MS = 300000;
const WIDTH = 1000;
const NEAR_MINUTES = 30; // the server looks so far before and after a time
const FILTER_MAX = 1850; // bytes of a filter; the API has room for 2,000, and a time is joined to it
const FILTERS_MAX = 20;
const SOURCES_MAX = 5; // as many as the server names
const SCHEDULES_MAX = 10000; // that are read to find those of a target
const AHEAD_MAX_MS = 365 * 86400000;

/** The hours of a forecast by the clocks of the page's zone, each with its fields. An hour that clocks repeat has two rows. @param {number} start the first minute, in ms @param {number[]} minutes events of each */
export function hoursOf(start, minutes) {
  /** @type {{begin: number, title: string, fields: {time: number, events: number, most: number, mostAt: number}[], events: number, most: number, mostAt: number}[]} */
  const hours = [];
  let before = 60;
  minutes.forEach((events, i) => {
    const time = start + i * 60000;
    const ofField = Math.floor(time / 60000) % FIELD_MINUTES;
    if (i === 0 || ofField === 0) {
      const minute = minuteOf(time) - ofField;
      if (minute <= before) hours.push({ begin: time, title: clockText(time - (minuteOf(time) * 60000)), fields: Array.from({ length: FIELDS }, () => ({ time: 0, events: 0, most: 0, mostAt: 0 })), events: 0, most: 0, mostAt: time });
      before = minute;
    }
    const hour = hours[hours.length - 1];
    const field = hour.fields[Math.floor(before / FIELD_MINUTES)];
    field.time ||= time;
    for (const of of [field, hour]) {
      of.events += events;
      if (events > of.most) Object.assign(of, { most: events, mostAt: time });
    }
  });
  return hours;
}

/** From 0 for no event to SHADES for the most. Logarithmic, so that few events are seen beside many. @param {number} events @param {number} most */
export const shadeOf = (events, most) => Math.ceil((SHADES * Math.log1p(events)) / Math.log1p(Math.max(most, 1)));

const FIELD_MS = FIELD_MINUTES * 60000;
/** "23:25–23:30: 1 event" @param {{time: number, events: number}} field */
const fieldText = ({ time, events }) => `${clockText(time)}–${clockText((Math.floor(time / FIELD_MS) + 1) * FIELD_MS)}: ${counted(events, 'event')}`;
/** @param {{events: number, most: number, mostAt: number}} of */
const loadText = ({ events, most, mostAt }) => (events ? `${counted(events, 'event')}, most at ${clockText(mostAt)} (${count(most)})` : 'nothing');
/** @param {number} most events of a field */
const Shades = (most) => html`<p class="legend shades">${Array.from({ length: SHADES + 1 }, (_, shade) => {
  // The fewest events that have this shade.
  const least = Math.ceil(Math.expm1(((shade - 1) * Math.log1p(most)) / SHADES) + 1e-9);
  return shadeOf(shade ? least : 0, most) === shade && html`<span class=${`heat-${shade}`}>${shade ? `from ${count(least)}` : '0'}</span>`;
})} events in five minutes</p>`;

/** The schedules of a busy minute. @param {{tenant: string, minute: any}} props minute: of a forecast */
function Sources({ tenant, minute }) {
  const sources = minute.sources ?? [];
  const more = Number(minute.scheduleCount ?? 0) - sources.length;
  return html`${sources.map((/** @type {any} */ source, /** @type {number} */ i) => html`${i > 0 && ', '}<${Link} to=${address(tenant, ['schedules', idOf(source.schedule)])}>${idOf(source.schedule)}<//> ${count(source.eventCount)}`)}${more > 0 ? ` and ${count(more)} more` : ''}`;
}

/** @typedef {{by: string, key?: string, start: number, minutes: number[]}} Load by: what is grouped; '': nothing. key: of the group; the rest of many groups has none. start: the first minute; minutes: the events of each */
/** The kind and the endpoint of a group of a target. @param {string} key @returns {[string, string]} */
const targetOf = (key) => [key.slice(0, key.indexOf(':')), key.slice(key.indexOf(':') + 1)];

/** Filters of the API that together find the schedules of a load; [] if there are none. @param {string} tenant @param {Pick<Load, 'by'|'key'>} load @returns {Promise<string[]>} */
async function filtersOfGroup(tenant, { by, key }) {
  if (!by) return [''];
  if (key === undefined) return [];
  // An event under several policies is in the group of the first one, but each of them finds it.
  if (by === 'policy') return [`policy = ${quoted(key)}`];
  // The API has no filter of endpoints.
  const [kind, endpoint] = targetOf(key);
  const schedules = await getAll(`/v1/tenants/${tenant}/schedules`, 'schedules', { filter: `state = ENABLED AND target = ${kind}` }, SCHEDULES_MAX);
  /** @type {string[]} */
  const filters = [];
  for (const { name, target } of schedules) {
    if (!isAt(target, placeOf(endpoint))) continue;
    const last = filters.at(-1) ?? '';
    const own = `name = ${quoted(idOf(name))}`;
    if (last && last.length + own.length < FILTER_MAX) filters[filters.length - 1] = `${last} OR ${own}`;
    else filters.push(own);
  }
  return filters.length > FILTERS_MAX ? [] : filters;
}

/** What fires in a minute. @param {string} tenant @param {number} time @param {string} filter @param {AbortSignal} signal @returns {Promise<{scheduleCount: number, sources: any[]}>} */
async function firing(tenant, time, filter, signal) {
  const found = await get(`/v1/tenants/${tenant}/schedules:forecastLoad`, { startTime: time > Date.now() ? new Date(time).toISOString() : '', duration: '60s', filter }, signal);
  const scheduleCount = Number(found.scheduleCount ?? 0);
  if (scheduleCount !== 1) return { scheduleCount, sources: found.busyMinutes?.[0]?.sources ?? [] };
  // The server names only schedules that meet. One alone is found if this is its next time.
  const [from, until] = [time, time + 60000].map((each) => `"${new Date(each).toISOString()}"`);
  const { schedules = [] } = await get(`/v1/tenants/${tenant}/schedules`, { filter: `${filter && `(${filter}) AND `}state = ENABLED AND next_time >= ${from} AND next_time < ${until}`, pageSize: 1 }, signal);
  return { scheduleCount, sources: schedules.map((/** @type {any} */ each) => ({ schedule: each.name, eventCount: found.eventCount })) };
}

/** The minute with the fewest events near one. @param {Load} load @param {number} at */
function quietNear({ minutes }, at) {
  let best = at;
  for (let i = Math.max(0, at - NEAR_MINUTES); i <= Math.min(minutes.length - 1, at + NEAR_MINUTES); i++) {
    if (minutes[i] < minutes[best] || (minutes[i] === minutes[best] && Math.abs(i - at) < Math.abs(best - at))) best = i;
  }
  return best;
}

/** What fires in the busiest minute of a field or of the whole load, and a quieter one near it. @param {{tenant: string, time: number, load: Load, title?: string}} props time: of that minute */
function FieldLoad({ tenant, time, load, title = '' }) {
  const { by, key, start, minutes } = load;
  const { data, error, reload } = useData(async (signal) => {
    const parts = await Promise.all((await filtersOfGroup(tenant, load)).map((filter) => firing(tenant, time, filter, signal)));
    return { scheduleCount: parts.reduce((sum, part) => sum + part.scheduleCount, 0), sources: parts.flatMap(({ sources }) => sources).sort((one, other) => other.eventCount - one.eventCount).slice(0, SOURCES_MAX) };
  }, [tenant, time, by, key]);
  if (!data) return error ? html`<${Failure} error=${error} retry=${reload} />` : html`<${Loading} />`;
  const at = (time - start) / 60000;
  const near = [at, quietNear(load, at)].map((i) => ({ time: start + i * 60000, eventCount: minutes[i] }));
  return html`<p>${title}${clockText(time)}: ${data.sources.length ? html`<${Sources} tenant=${tenant} minute=${data} />` : `${counted(minutes[at], 'event')}${data.scheduleCount > 0 ? ` of ${counted(data.scheduleCount, 'schedule')}` : ''}`}.</p>${by ? nearText(near) : html`<${LoadNear} tenant=${tenant} time=${new Date(time).toISOString()} />`}`;
}

/** @param {{tenant: string, load: Load}} props */
function Hours({ tenant, load }) {
  const hours = useMemo(() => hoursOf(load.start, load.minutes), [load]);
  const grid = useRef(/** @type {HTMLElement|null} */ (null));
  const fields = hours.flatMap((hour, row) => hour.fields.map((field, at) => ({ ...field, row, at })).filter(({ time }) => time > 0));
  const [chosen, setChosen] = useState(0); // the time of a field
  const [shown, setShown] = useState(0);
  const [opened, setOpened] = useState(0); // the time of a field
  const focus = Math.max(0, fields.findIndex(({ time }) => time === chosen));
  const point = fields.find(({ time }) => time === shown);
  const most = Math.max(...fields.map(({ events }) => events));
  const width = WIDTH / FIELDS;
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    const { row, at, time } = fields[focus];
    if (event.key === 'Enter') return setOpened(time);
    /** The field above or below; in the first and the last hour there may be none. @param {number} rows */
    const beside = (rows) => fields.findIndex((field) => field.row === row + rows && field.at === at);
    const to = { ArrowLeft: focus - 1, ArrowRight: focus + 1, ArrowUp: beside(-1), ArrowDown: beside(1), Home: fields.findIndex((field) => field.row === row), End: fields.findLastIndex((field) => field.row === row) }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    if (!fields[to]) return;
    setChosen(fields[to].time);
    /** @type {SVGElement|null|undefined} */ (grid.current?.querySelector(`[data-time="${fields[to].time}"]`))?.focus();
  };
  return html`${Shades(most)}<p class="map-point" aria-hidden="true">${point ? fieldText(point) : ''}</p>
    <div class="map" role="grid" aria-label="Events of the next 24 hours, by five minutes" ref=${grid} onKeyDown=${onKey} onMouseLeave=${() => setShown(0)}><div class="lane scale" role="row"><div class="lane-name" role="columnheader">Hour</div><div class="lane-picture" role="columnheader">${[0, 15, 30, 45].map((minute) => html`<span>:${String(minute).padStart(2, '0')}</span>`)}<span class="unseen">Picture</span></div><div class="lane-text" role="columnheader"><span class="unseen">Summary</span></div></div>
    ${hours.map((hour, i) => html`<div class="lane" role="row" key=${hour.begin}><div class="lane-name" role="rowheader">${hour.title}${(i === 0 || dayText(hour.begin) !== dayText(hours[i - 1].begin)) && html` <span class="muted">${dayText(hour.begin)}</span>`}</div>
      <div class="lane-picture"><svg viewBox=${`0 0 ${WIDTH} 18`} preserveAspectRatio="none" role="none">${hour.fields.map((field, at) => field.time > 0 && html`<rect class=${`heat-${shadeOf(field.events, most)}`} x=${at * width} y="0" width=${width - 3} height="18"
        role="gridcell" aria-label=${fieldText(field)} data-time=${field.time} tabindex=${field.time === fields[focus].time ? 0 : -1} onFocus=${() => (setChosen(field.time), setShown(field.time))} onMouseEnter=${() => setShown(field.time)} onClick=${() => setOpened(field.time)} />`)}</svg></div>
      <div class="lane-text" role="gridcell">${loadText(hour)}</div></div>${hour.fields.map((field) => opened > 0 && field.time === opened && html`<div class="note" role="row" key=${opened}><div role="gridcell">${field.events ? html`<${FieldLoad} tenant=${tenant} time=${field.mostAt} load=${load} />` : fieldText(field)}</div></div>`)}`)}</div>`;
}

/** The whole time of each group in one row. @param {{start: number, groups: any[], by: string, to: (group: any) => string}} props */
function Groups({ start, groups, by, to }) {
  const rows = groups.map((group) => {
    const minutes = /** @type {number[]} */ ((group.eventsPerMinute ?? []).map(Number));
    /** @type {Map<number, number>} */
    const fields = new Map();
    minutes.forEach((events, i) => {
      const field = Math.floor((start + i * 60000) / FIELD_MS) * FIELD_MS;
      if (events) fields.set(field, (fields.get(field) ?? 0) + events);
    });
    const most = Math.max(0, ...minutes);
    return { group, fields, length: minutes.length * 60000, load: { events: Number(group.eventCount), most, mostAt: start + minutes.indexOf(most) * 60000 } };
  });
  const most = Math.max(...rows.flatMap(({ fields }) => [...fields.values()]));
  const length = rows[0].length;
  const x = (/** @type {number} */ time) => (Math.max(0, time - start) / length) * WIDTH;
  return html`${Shades(most)}<div class="map groups" role="table" aria-label=${`Events of the next 24 hours, by ${by}`}><div class="lane scale" role="row"><div class="lane-name" role="columnheader">${by === 'policy' ? 'Policy' : 'Target'}</div><div class="lane-picture" role="columnheader">${[0, 1, 2, 3].map((i) => html`<span>${clockText(start + (i * length) / 4)}</span>`)}<span class="unseen">Picture</span></div><div class="lane-text" role="columnheader"><span class="unseen">Summary</span></div></div>
    ${rows.map(({ group, fields, load }) => html`<div class="lane" role="row" key=${group.id}><div class="lane-name" role="rowheader"><${Link} to=${to(group)} title=${group.name}>${pathText(group.name)}<//></div>
      <div class="lane-picture" role="cell"><svg viewBox=${`0 0 ${WIDTH} 18`} preserveAspectRatio="none" shape-rendering="crispEdges" aria-hidden="true" onClick=${() => go(to(group))}><rect class="heat-0" x="0" y="0" width=${WIDTH} height="18" />${[...fields].map(([time, events]) => html`<rect class=${`heat-${shadeOf(events, most)}`} x=${x(time)} y="0" width=${x(time + FIELD_MS) - x(time)} height="18"><title>${fieldText({ time: Math.max(time, start), events })}</title></rect>`)}</svg></div>
      <div class="lane-text" role="cell">${loadText(load)}</div></div>`)}</div>`;
}

/** @param {{tenant: string, query: URLSearchParams, only?: string}} props only: the key of a target; the map has nothing else */
export function LoadMap({ tenant, query, only }) {
  const by = only ? 'target' : ['policy', 'target'].find((known) => known === query.get('by')) ?? '';
  const { data: fresh, error, reload } = useData(async (signal) => {
    const [filter, more] = only ? await filtersOfGroup(tenant, { by, key: only }) : [];
    const own = filter && !more;
    const answer = await get(`/v1/tenants/${tenant}/schedules:forecastLoad`, own ? { filter } : { groupBy: by }, signal);
    return { ...answer, by, ...(own ? { groups: [{ ...answer, key: only }] } : {}) };
  }, [tenant, by, only], EVERY_MS);
  // The map before stays until the next one is there, so that the page keeps its height.
  const before = useRef(fresh);
  const data = (before.current = fresh ?? before.current);
  const grouped = data?.by ?? '';
  const groups = (data?.groups ?? []).map((/** @type {any} */ group, /** @type {number} */ i) => {
    const other = data.other && i === data.groups.length - 1;
    return { ...group, own: other ? undefined : group.key ?? '', id: other ? '…' : group.key || '-', name: other ? 'all others' : group.key?.replace(/^http:(?=http)/, '') || `no ${grouped}` };
  });
  const group = groups.find((/** @type {any} */ each) => each.id === (only ?? query.get('group')));
  const shown = group ?? (only ? {} : data);
  const minutes = (shown?.eventsPerMinute ?? []).map(Number);
  const busy = group ? undefined : data?.busyMinutes?.[0];
  const start = data && Date.parse(data.startTime);
  const load = { by: group ? grouped : '', key: group?.own, start, minutes };
  const to = (/** @type {any} */ each) => address(tenant, [], { ...Object.fromEntries(query), group: each.id });
  const schedules = shown && counted(shown.scheduleCount ?? 0, 'schedule');
  const most = Math.max(0, ...minutes);
  const peak = start + minutes.indexOf(most) * 60000;
  const soon = data && `next_time < "${new Date(start + minutes.length * 60000).toISOString()}"`; // exactly those that fire
  const list = () => {
    if (!group) return address(tenant, ['schedules'], { q: soon, state: 'ENABLED' });
    if (grouped === 'policy') return address(tenant, ['schedules'], { q: `policy = ${quoted(group.own)} AND ${soon}`, state: 'ENABLED' });
    return schedulesAt(tenant, ...targetOf(group.own), soon, 'ENABLED');
  };
  return html`<h2>Load of the next 24 hours</h2><section class="card">
    ${!only && html`<div class="filters"><${Select} path="load.by" label="Group by" value=${by} options=${[['', 'Nothing'], ['policy', 'Policy'], ['target', 'Target']]} set=${(/** @type {string} */ next) => setQuery({ by: next, group: '' })} error=${null} />
      ${groups.length > 0 && html`<${Select} path="load.group" label=${grouped === 'policy' ? 'Policy' : 'Target'} value=${group?.id ?? ''} options=${[['', 'All'], ...groups.map((/** @type {any} */ each) => [each.id, `${each.name}: ${count(each.eventCount)}`])]} set=${(/** @type {string} */ next) => setQuery({ group: next })} error=${null} />`}</div>`}
    ${error && !data && html`<${Failure} error=${error} retry=${reload} />`}${!data && !error && html`<${Loading} />`}
    ${data && (Number(shown.eventCount ?? 0) > 0 ? html`<p class="muted">${counted(shown.eventCount, 'event')} of ${group && group.own === undefined ? schedules : html`<${Link} to=${list()}>${schedules}<//>`}${group && html` of ${group.key ? `the ${grouped} ` : ''}${grouped === 'policy' && group.key ? html`<${Link} to=${address(tenant, ['policies', group.key])}>${group.key}<//>` : group.name}`}, as their definitions say. One-off events and retries are not in it.${!group && Date.parse(busy?.time) !== peak && ` The busiest minute is ${clockText(peak)}: ${counted(most, 'event')}.`}${busy && html` The busiest minute in which several schedules meet is ${clockText(busy.time)}: <${Sources} tenant=${tenant} minute=${busy} />.`}</p>${busy && html`<${LoadNear} tenant=${tenant} time=${busy.time} />`}
      ${group && html`<${FieldLoad} tenant=${tenant} time=${peak} load=${load} title=${`The busiest minute of ${group.name} is `} />`}
      ${groups.length > 0 && !group ? html`<${Groups} start=${start} groups=${groups} by=${grouped} to=${to} />` : html`<${Hours} tenant=${tenant} load=${load} />`}` : html`<div class="empty">No schedule fires within 24 hours.</div>`)}</section>`;
}

/** What fires near the time that is typed: "02:00 has 41,000 events, 02:07 has 900." @param {{tenant: string, time: string|undefined}} props */
export function LoadNear({ tenant, time }) {
  const near = time ? Math.floor(Date.parse(time) / 60000) * 60000 : 0;
  const { data } = useData(async (signal) => {
    if (near < Date.now() || near > Date.now() + AHEAD_MAX_MS) return null;
    // The server refuses a start before its present minute; its clock may be another than this one.
    const later = near - NEAR_MINUTES * 60000 > Date.now() + 60000;
    const minutes = later ? 61 : Math.ceil((near - Date.now()) / 60000) + NEAR_MINUTES + 2;
    return get(`/v1/tenants/${tenant}/schedules:forecastLoad`, { startTime: later ? new Date(near - NEAR_MINUTES * 60000).toISOString() : '', duration: `${minutes * 60}s`, nearTime: new Date(near).toISOString() }, signal);
  }, [tenant, near]);
  return nearText(data?.quietMinutes ?? []);
}
/** @param {{time: string|number, eventCount: string|number}[]} minutes the chosen one, and maybe a quieter one near it */
function nearText([own, quiet]) {
  if (!own) return null;
  const has = (/** @type {any} */ minute) => `${clockText(minute.time)} has ${counted(minute.eventCount, 'event')}`;
  return html`<p class="muted">${quiet && quiet.time !== own.time ? `${has(own)}, ${clockText(quiet.time)} has ${count(quiet.eventCount)}.` : `${has(own)} so far.`}</p>`;
}
