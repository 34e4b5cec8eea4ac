// The state of a tenant at a glance, and of the platform for operators of all tenants. Every figure comes from the server; a
// figure that it does not have is left out.
import { html, useRef } from '../parts/view.js';
import { address, Link } from '../parts/router.js';
import { get, getAll } from '../parts/api.js';
import { isOperatorOfAll } from '../parts/session.js';
import { Badge, Facts, Failure, Head, Loading } from '../parts/basics.js';
import { turns, useData } from '../parts/data.js';
import { Rows } from '../parts/table.js';
import { Chart } from '../parts/chart.js';
import { LoadMap } from '../parts/load_map.js';
import { Pictures, readStatistics, stepText } from '../parts/statistics.js';
import { addressOf, LastBadge } from '../parts/runs.js';
import { agoText, clockText, count, counted, durationText, idOf, secondsOf, shortText, timeText, When } from '../parts/format.js';
import { CLOCK_HELD, inTrouble, replicaState, storeState } from '../parts/state.js';
import { deliveredPerSecond, targetColumns } from './targets.js';

// Rows that are read to count them; beyond, the figure says "200+".
const SOME = 200;
const POLICIES_MAX = 20; // policies whose waiting events are counted
/** "5" or "1,000+" @param {any[]|undefined} rows @param {string|undefined} next */
const atLeast = (rows, next) => `${count(rows?.length ?? 0)}${next ? '+' : ''}`;

/** @param {{title: string, value: any, note?: any, tone?: string, to?: string}} props */
const Tile = ({ title, value, note, tone, to }) => html`<section class=${`tile ${tone ?? ''}`}><h2>${title}</h2><p class="figure">${to ? html`<${Link} to=${to} aria-label=${`${title}: ${value}`}>${value}<//>` : value}</p><p class="muted">${note}</p></section>`;

/** @param {{tenant: string, query: URLSearchParams}} props */
export function Overview({ tenant, query }) {
  const path = `/v1/tenants/${tenant}`;
  const until = new Date(Date.now() + 3600000).toISOString();
  const { data: soon, error, reload } = useData(async (signal) => {
    const page = await get(`${path}/schedules`, { pageSize: SOME, filter: `next_time < "${until}"` }, signal);
    return { rows: (page.schedules ?? []).sort((/** @type {any} */ a, /** @type {any} */ b) => a.nextTime.localeCompare(b.nextTime)), next: page.nextPageToken };
  }, [tenant], 15000);
  const quiet = useRef(/** @type {Map<string, Promise<boolean>>} */ (new Map())).current;
  const { data: targets } = useData(async (signal) => {
    const found = await getAll(`${path}/targets`, 'targets');
    for (const target of found) {
      if (Number(target.attemptCount) || !target.lastErrorTime) quiet.delete(target.name);
      else if (!quiet.has(target.name)) quiet.set(target.name, inTurn(() => failedLast(tenant, target.name), signal).catch(() => false));
      target.failedLast = await quiet.get(target.name);
    }
    return found;
  }, [tenant], 5000);
  const { data: backlog } = useData((signal) => get(`${path}/events`, { pageSize: SOME, filter: `due_time < "${new Date().toISOString()}"` }, signal), [tenant], 5000);
  const { data: waiting } = useData(async (signal) => {
    const page = await get(`${path}/policies`, { pageSize: POLICIES_MAX }, signal);
    const usages = await Promise.all((page.policies ?? []).map((/** @type {any} */ p) => get(`/v1/${p.name}:usage`, { pageSize: 1 }, signal)));
    return {
      usages,
      policies: usages.length,
      number: usages.reduce((sum, u) => sum + Number(u.waitingCount ?? 0), 0),
      more: Boolean(page.nextPageToken) || usages.some((u) => u.waitingTruncated),
      first: usages.map((u) => u.oldestWaiterTime).filter(Boolean).sort()[0],
    };
  }, [tenant], 10000);
  const { data: dead } = useData((signal) => get(`${path}/deadLetters`, { pageSize: SOME, filter: `create_time >= "${new Date(Date.now() - 86400000).toISOString()}"` }, signal), [tenant], 10000);
  const { data: paused } = useData((signal) => get(`${path}/schedules`, { pageSize: SOME, filter: 'state = PAUSED' }, signal), [tenant], 30000);
  const trouble = (targets ?? []).filter(inTrouble);
  const perSecond = (targets ?? []).reduce((/** @type {number} */ sum, /** @type {any} */ t) => sum + deliveredPerSecond(t), 0);
  // Listed by their next attempts: one that waits for a retry may have been due before the first of them.
  const overdue = (backlog?.events ?? []).toSorted((/** @type {any} */ a, /** @type {any} */ b) => Date.parse(a.dueTime) - Date.parse(b.dueTime));
  /** The newest dead letter of each schedule or one-off event, and how many there are. @type {Map<string, any>} */
  const failed = new Map();
  for (const letter of dead?.deadLetters ?? []) {
    const name = letter.schedule || letter.event;
    const { number = 0, newest = letter } = failed.get(name) ?? {};
    failed.set(name, { newest, number: number + 1 });
  }
  const sinceDue = (/** @type {string} */ time) => `the first was due ${durationText((Date.now() - Date.parse(time)) / 1000)} ago`;
  const toneOf = (/** @type {string|undefined} */ time) => (time && Date.now() - Date.parse(time) > 60000 ? 'warn' : '');
  const columns = [
    { title: 'Next', cell: (/** @type {any} */ s) => html`<time datetime=${s.nextTime} title=${timeText(s.nextTime)}>${agoText(s.nextTime)}</time>` },
    { title: 'Schedule', size: 22, cell: (/** @type {any} */ s) => html`<${Link} class="cell" to=${address(tenant, ['schedules', idOf(s.name)])}>${idOf(s.name)}<//>` },
    { title: 'When', wide: true, cell: (/** @type {any} */ s) => html`<${When} of=${s} />` },
    { title: 'Events', number: true, cell: (/** @type {any} */ s) => count(s.eventCount ?? 1) },
    { title: 'Last', cell: (/** @type {any} */ s) => html`<${LastBadge} schedule=${s} />` },
  ];
  return html`<${Head} title="Overview" />
    <div class="tiles">
      <${Tile} title="Due within an hour" to=${address(tenant, ['schedules'], { q: `next_time < "${until}"` })} value=${soon ? atLeast(soon.rows, soon.next) : '…'} note=${paused && html`schedules; <${Link} to=${address(tenant, ['schedules'], { state: 'PAUSED' })}>${atLeast(paused.schedules, paused.nextPageToken)} paused<//>`} />
      <${Tile} title="Overdue one-off events" to=${address(tenant, ['events'], { q: `due_time < "${new Date().toISOString()}"` })} value=${backlog ? atLeast(backlog.events, backlog.nextPageToken) : '…'} note=${backlog && (overdue.length ? sinceDue(overdue[0].dueTime) : 'no one-off event waits behind its time')} tone=${toneOf(overdue[0]?.dueTime)} />
      ${waiting && waiting.policies > 0 && html`<${Tile} title="Waiting for tokens" to=${address(tenant, ['policies'])} value=${`${count(waiting.number)}${waiting.more ? '+' : ''}`} note=${waiting.first ? `events of policies; ${sinceDue(waiting.first)}` : 'no event waits for its policy'} tone=${toneOf(waiting.first)} />`}
      <${Tile} title="Delivered" to=${address(tenant, ['targets'])} value=${targets ? `${perSecond.toFixed(1)}/s` : '…'} note="by handlers, over the last minute" />
      <${Tile} title="Dead letters of a day" to=${address(tenant, ['dead-letters'], { within: '24' })} value=${dead ? atLeast(dead.deadLetters, dead.nextPageToken) : '…'} tone=${dead?.deadLetters?.length ? 'bad' : ''} note=${dead?.deadLetters?.length ? `the last ${agoText(dead.deadLetters[0].createTime)}` : dead && 'nothing failed for good'} />
      <${Tile} title="Targets in trouble" to=${address(tenant, ['targets'])} value=${targets ? count(trouble.length) : '…'} tone=${trouble.length ? 'bad' : ''} note=${targets && html`of <${Link} to=${address(tenant, ['targets'])}>${counted(targets.length, 'target')}<//> in use`} /></div>
    ${/* The calls of the figures above go first. */ (soon || error) && html`<${Pictures} tenant=${tenant} query=${query}>${(/** @type {Point[]} */ points, /** @type {Range} */ range) => html`<${Outcomes} tenant=${tenant} points=${points} range=${range} />
      ${waiting && waiting.policies > 0 && html`<${Backlog} tenant=${tenant} policies=${waiting.usages.map((u) => u.policy.name)} points=${points} range=${range} />`}`}<//>`}
    <${Waiting} tenant=${tenant} usages=${waiting?.usages} />
    ${trouble.length > 0 && html`<h2>Targets in trouble</h2><${Rows} rows=${trouble} columns=${targetColumns} caption="Targets in trouble" rowId=${(/** @type {any} */ t) => t.name} />`}
    ${failed.size > 0 && html`<h2>Failed for good within a day</h2><ul class="plain card">${[...failed].slice(0, 10).map(([name, { newest, number }]) => html`<li key=${name}><${Link} to=${`${addressOf(name)}${newest.schedule ? '/runs/last?outcome=FAILED' : ''}`}>${idOf(name)}<//> ${counted(number, 'event')}, the last ${agoText(newest.createTime)} <span class="error">${shortText(newest.reason, 200)}</span></li>`)}</ul>`}
    ${overdue.length > 0 && html`<h2>Overdue one-off events</h2><ul class="plain card">${overdue.slice(0, 5).map((/** @type {any} */ e) => html`<li key=${e.name}><${Link} to=${addressOf(e.name)}>${idOf(e.name)}<//> was due ${agoText(e.dueTime)}${e.policy && html`, under the policy <${Link} to=${addressOf(e.policy)}>${idOf(e.policy)}<//>`} <span class="error">${e.reason ?? ''}</span></li>`)}</ul>`}
    <h2>Due within an hour</h2>
    ${error && !soon && html`<${Failure} error=${error} retry=${reload} />`}${!soon && !error && html`<${Loading} />`}
    ${soon && (soon.rows.length ? html`<${Rows} rows=${soon.rows} columns=${columns} caption="Due within an hour" rowId=${(/** @type {any} */ s) => s.name} />` : html`<div class="empty">No schedule is due within an hour${soon.next ? ', among those examined' : ''}.</div>`)}
    ${soon?.next && html`<p class="note">There are more schedules than were examined. <${Link} to=${address(tenant, ['day'])}>The day<//> shows them page by page.</p>`}
    <${LoadMap} tenant=${tenant} query=${query} />
    ${isOperatorOfAll() && html`<${Platform} />`}`;
}

const sumOf = (/** @type {number[]} */ numbers) => numbers.reduce((sum, number) => sum + number, 0);
const inTurn = turns(4);
/** True if all of the last attempts failed that a target has had within an hour. @param {string} tenant @param {string} target */
async function failedLast(tenant, target) {
  const last = (await readStatistics(tenant, target, { seconds: 3600, step: 60 }))?.findLast(({ attempts }) => attempts > 0);
  return last !== undefined && last.errors === last.attempts;
}

/** @typedef {import('../parts/statistics.js').Point} Point @typedef {import('../parts/statistics.js').Range} Range */

/** What was due and how it ended, step by step. @param {{tenant: string, points: Point[], range: Range}} props */
function Outcomes({ tenant, points, range }) {
  const series = (/** @type {string} */ name, /** @type {any} */ tone, /** @type {'bar'|'line'} */ kind, /** @type {'due'|'succeeded'|'failed'|'others'|'late'} */ field, /** @type {string} */ to) => {
    const values = points.map((point) => point[field]);
    return { name, tone, kind, to, values, total: sumOf(values) };
  };
  const day = address(tenant, ['day']);
  const worst = points.reduce((most, point) => ((point.latenessMax ?? -1) > (most.latenessMax ?? -1) ? point : most), points[0]);
  return html`<${Chart} title=${`Events of each ${stepText(range)}`} points=${points} series=${[
    series('Delivered', 'good', 'bar', 'succeeded', address(tenant, ['targets'])), series('Failed', 'bad', 'bar', 'failed', address(tenant, ['dead-letters'], { within: String(range.seconds / 3600) })), series('Ended otherwise', 'idle', 'bar', 'others', day),
    series('Due', 'text', 'line', 'due', day), series('Late', 'warn', 'line', 'late', day)]}
    summary=${worst.latenessMax === null ? 'No event was sent.' : `Late: sent more than a second after its time. The most was ${durationText(worst.latenessMax)}, at ${clockText(worst.time)}.`} />`;
}

const BACKLOG_MS = 30000; // one call for each policy

/** What waited in all policies. @param {{tenant: string, policies: string[], points: Point[], range: Range}} props */
function Backlog({ tenant, policies, points, range }) {
  const { data } = useData(async (signal) => {
    const found = await Promise.all(policies.map((policy) => inTurn(() => readStatistics(tenant, policy, range, signal), signal)));
    /** @type {Map<number, number>} */
    const of = new Map();
    for (const point of found.flatMap((each) => each ?? [])) of.set(point.time, (of.get(point.time) ?? 0) + point.waiting);
    return of;
  }, [tenant, policies, range.seconds], BACKLOG_MS);
  if (!data) return null;
  const values = points.map(({ time }) => data.get(time) ?? null); // a step that began since is not known yet
  return html`<${Chart} title="Events that waited for tokens" points=${points} series=${[{ name: 'Waiting', tone: 'warn', kind: 'bar', values }]} summary=${`The most of each ${stepText(range)}, of ${policies.length === POLICIES_MAX ? `the first ${POLICIES_MAX}` : 'all'} policies.`} />`;
}

/** The policies for which events wait, and whose events they are. @param {{tenant: string, usages: any[]|undefined}} props */
function Waiting({ tenant, usages }) {
  const rows = (usages ?? []).filter((u) => Number(u.waitingCount ?? 0) > 0).sort((a, b) => Number(b.waitingCount) - Number(a.waitingCount));
  if (!rows.length) return null;
  const to = (/** @type {any} */ u) => address(tenant, ['policies', idOf(u.policy.name)]);
  const columns = [
    { title: 'Policy', size: 16, cell: (/** @type {any} */ u) => html`<${Link} class="cell" to=${to(u)}>${idOf(u.policy.name)}<//>` },
    { title: 'Waiting', number: true, cell: (/** @type {any} */ u) => html`<${Link} to=${to(u)}>${count(u.waitingCount)}${u.waitingTruncated ? '+' : ''}<//>` },
    { title: 'Oldest', size: 14, cell: (/** @type {any} */ u) => (u.oldestWaiterTime ? html`due <time datetime=${u.oldestWaiterTime} title=${timeText(u.oldestWaiterTime)}>${agoText(u.oldestWaiterTime)}</time>` : '') },
    { title: 'Held', wide: true, number: true, cell: (/** @type {any} */ u) => `${count(u.heldCount)}${Number(u.policy.maxConcurrent) > 0 ? ` of ${count(u.policy.maxConcurrent)}` : ''}` },
    { title: 'Events of', wide: true, size: 30, cell: (/** @type {any} */ u) => (u.waiters ?? []).slice(0, 3).map((/** @type {any} */ w, /** @type {number} */ i) => html`${i > 0 && ', '}${w.schedule ? html`<${Link} to=${addressOf(w.schedule)}>${idOf(w.schedule)}<//>` : 'one-off events'} ${count(w.waitingCount)}`) },
  ];
  return html`<h2>What waits for whom</h2><${Rows} rows=${rows} columns=${columns} caption="What waits for whom" rowId=${(/** @type {any} */ u) => u.policy.name} />`;
}

/** Who owns which part of the work, and the state of the store. */
function Platform() {
  const { data } = useData(async () => {
    const [platform, store, clock] = await Promise.all([get('/ui/platform'), get('/v1/store/status'), get('/v1/store/clock')]);
    return { platform, store, clock };
  }, ['platform'], 5000);
  if (!data) return null;
  const titles = { partition: ['Emitters', 'partitions of schedules'], queue_shard: ['Handlers', 'queue shards'], policy_shard: ['Token managers', 'policy shards'] };
  const { store, clock } = data;
  return html`<h2>Platform</h2><div class="columns">
    ${Object.entries(titles).map(([kind, [title, parts]]) => {
      const leases = data.platform.leases?.[kind] ?? [];
      const owners = [...new Set([...(data.platform.members?.[kind] ?? []), ...leases.map((/** @type {any} */ l) => l.owner)])].filter(Boolean).sort();
      const free = leases.filter((/** @type {any} */ l) => !l.owner);
      return html`<section class="card" key=${kind}><h3>${title}</h3><ul class="plain">${owners.map((owner) => html`<li key=${owner}><code>${owner}</code> owns ${counted(leases.filter((/** @type {any} */ l) => l.owner === owner).length, 'part')}</li>`)}</ul>
        ${free.length > 0 && html`<p class="error">${count(free.length)} ${parts} have no owner: their work waits.</p>`}<p class="muted">${count(leases.length)} ${parts}</p></section>`;
    })}
    <section class="card"><h3>Store</h3><${Facts} items=${[['Commits', html`<${Badge} of=${storeState(store)} />`], ['Last commit', count(store.commitSeq)],
      ['Clock', clock.held ? html`<${Badge} of=${CLOCK_HELD} />` : `differs by ${durationText(secondsOf(clock.disagreement))}`],
      ...(store.replication?.replicas ?? []).map((/** @type {any} */ r) => [r.storeId, html`<${Badge} of=${replicaState(r)} /> ${r.problem}`])]} /></section></div>`;
}
