// The events that schedules will fire in the next 24 hours: a row for each hour, a field for each five minutes. The more events, the
// darker. Each row also says the same in words.
import { html } from './view.js';
import { setQuery } from './router.js';
import { get } from './api.js';
import { Failure, Loading } from './basics.js';
import { useData } from './data.js';
import { Select } from './fields.js';
import { clockText, count, counted, dayText, minuteOf } from './format.js';

const FIELD_MINUTES = 5; // offsets of zones are multiples of it
const FIELDS = 60 / FIELD_MINUTES;
const SHADES = 5;
const EVERY_MS = 300000;
const WIDTH = 1000;
const NEAR_MS = 30 * 60000; // the server looks so far before and after a time
const AHEAD_MAX_MS = 365 * 86400000;

/** The hours of a forecast by the clocks of the page's zone, each with its fields. An hour that clocks repeat has two rows. @param {number} start the first minute, in ms @param {number[]} minutes events of each */
export function hoursOf(start, minutes) {
  /** @type {{begin: number, title: string, fields: {time: number, events: number}[], events: number, most: number, mostAt: number}[]} */
  const hours = [];
  let before = 60;
  minutes.forEach((events, i) => {
    const time = start + i * 60000;
    const ofField = Math.floor(time / 60000) % FIELD_MINUTES;
    if (i === 0 || ofField === 0) {
      const minute = minuteOf(time) - ofField;
      if (minute <= before) hours.push({ begin: time, title: clockText(time - (minuteOf(time) * 60000)), fields: Array.from({ length: FIELDS }, () => ({ time: 0, events: 0 })), events: 0, most: 0, mostAt: time });
      before = minute;
    }
    const hour = hours[hours.length - 1];
    const field = hour.fields[Math.floor(before / FIELD_MINUTES)];
    field.time ||= time;
    field.events += events;
    hour.events += events;
    if (events > hour.most) Object.assign(hour, { most: events, mostAt: time });
  });
  return hours;
}

/** From 0 for no event to SHADES for the most. Logarithmic, so that few events are seen beside many. @param {number} events @param {number} most */
export const shadeOf = (events, most) => Math.ceil((SHADES * Math.log1p(events)) / Math.log1p(Math.max(most, 1)));

/** @param {{hours: ReturnType<typeof hoursOf>}} props */
function Hours({ hours }) {
  const most = Math.max(...hours.flatMap((hour) => hour.fields.map((field) => field.events)));
  const width = WIDTH / FIELDS;
  return html`<div class="map" role="table" aria-label="Events of the next 24 hours"><div class="lane scale" role="row"><div class="lane-name" role="columnheader">Hour</div><div class="lane-picture" role="columnheader">${[0, 15, 30, 45].map((minute) => html`<span>:${String(minute).padStart(2, '0')}</span>`)}<span class="unseen">Picture</span></div><div class="lane-text" role="columnheader"><span class="unseen">Summary</span></div></div>
    ${hours.map((hour, i) => html`<div class="lane" role="row" key=${hour.begin}><div class="lane-name" role="rowheader">${hour.title}${(i === 0 || dayText(hour.begin) !== dayText(hours[i - 1].begin)) && html` <span class="muted">${dayText(hour.begin)}</span>`}</div>
      <div class="lane-picture" role="cell"><svg viewBox=${`0 0 ${WIDTH} 18`} preserveAspectRatio="none" aria-hidden="true">${hour.fields.map((field, at) => field.time > 0 && html`<rect class=${`heat-${shadeOf(field.events, most)}`} x=${at * width} y="0" width=${width - 3} height="18"><title>${`${clockText(field.time)}: ${counted(field.events, 'event')}`}</title></rect>`)}</svg></div>
      <div class="lane-text" role="cell">${hour.events ? `${counted(hour.events, 'event')}, most at ${clockText(hour.mostAt)} (${count(hour.most)})` : 'nothing'}</div></div>`)}</div>`;
}

/** @param {{tenant: string, query: URLSearchParams}} props */
export function LoadMap({ tenant, query }) {
  const by = ['policy', 'target'].find((known) => known === query.get('by')) ?? '';
  const { data, error, reload } = useData((signal) => get(`/v1/tenants/${tenant}/schedules:forecastLoad`, { groupBy: by }, signal), [tenant, by], EVERY_MS);
  const groups = (data?.groups ?? []).map((/** @type {any} */ group, /** @type {number} */ i) => {
    const other = data.other && i === data.groups.length - 1;
    return { ...group, id: other ? '…' : group.key || '-', name: other ? 'all others' : group.key || `no ${by}` };
  });
  const group = groups.find((/** @type {any} */ each) => each.id === query.get('group'));
  const shown = group ?? data;
  const minutes = (shown?.eventsPerMinute ?? []).map(Number);
  const busy = group ? undefined : data?.busyMinutes?.[0];
  const names = (busy?.sources ?? []).map((/** @type {any} */ source) => `${source.schedule.split('/').pop()} ${count(source.eventCount)}`).join(', ');
  return html`<h2>Load of the next 24 hours</h2><section class="card">
    <div class="filters"><${Select} path="load.by" label="Group by" value=${by} options=${[['', 'Nothing'], ['policy', 'Policy'], ['target', 'Target']]} set=${(/** @type {string} */ next) => setQuery({ by: next, group: '' })} error=${null} />
      ${groups.length > 0 && html`<${Select} path="load.group" label=${by === 'policy' ? 'Policy' : 'Target'} value=${group?.id ?? ''} options=${[['', 'All'], ...groups.map((/** @type {any} */ each) => [each.id, `${each.name}: ${count(each.eventCount)}`])]} set=${(/** @type {string} */ next) => setQuery({ group: next })} error=${null} />`}</div>
    ${error && !data && html`<${Failure} error=${error} retry=${reload} />`}${!data && !error && html`<${Loading} />`}
    ${data && (Number(shown.eventCount ?? 0) > 0 ? html`<p class="muted">${counted(shown.eventCount, 'event')} of ${counted(shown.scheduleCount, 'schedule')}, as their definitions say. One-off events and retries are not in it.${busy && ` The busiest minute in which several schedules meet is ${clockText(busy.time)}: ${names}${Number(busy.scheduleCount) > busy.sources.length ? ` and ${count(busy.scheduleCount - busy.sources.length)} more` : ''}.`}</p>
      <${Hours} hours=${hoursOf(Date.parse(data.startTime), minutes)} />` : html`<div class="empty">No schedule fires within 24 hours.</div>`)}</section>`;
}

/** What fires near the time that is typed: "02:00 has 41,000 events, 02:07 has 900." @param {{tenant: string, time: string|undefined}} props */
export function LoadNear({ tenant, time }) {
  const near = time ? Math.floor(Date.parse(time) / 60000) * 60000 : 0;
  const { data } = useData(async (signal) => {
    if (near < Date.now() || near > Date.now() + AHEAD_MAX_MS) return null;
    // The server refuses a start before its present minute; its clock may be another than this one.
    const later = near - NEAR_MS > Date.now() + 60000;
    const minutes = later ? 61 : Math.ceil((near + NEAR_MS - Date.now()) / 60000) + 2;
    return get(`/v1/tenants/${tenant}/schedules:forecastLoad`, { startTime: later ? new Date(near - NEAR_MS).toISOString() : '', duration: `${minutes * 60}s`, nearTime: new Date(near).toISOString() }, signal);
  }, [tenant, near]);
  const [own, quiet] = data?.quietMinutes ?? [];
  if (!own) return null;
  const has = (/** @type {any} */ minute) => `${clockText(minute.time)} has ${counted(minute.eventCount, 'event')}`;
  return html`<p class="muted">${quiet ? `${has(own)}, ${clockText(quiet.time)} has ${count(quiet.eventCount)}.` : `${has(own)} so far.`}</p>`;
}
