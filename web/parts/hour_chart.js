// The last hour of a policy: how many tokens were held, with the limit as a line, and how many events waited.
import { html } from './view.js';
import { clockText, count } from './format.js';

const HOUR_MS = 3600000;
// A sample stands for the time until the next one, at most so long: samples come once a minute, and minutes in which nothing
// waited and nothing was held have none.
const SAMPLE_MS = 90000;
const WIDTH = 1000;
const HEIGHT = 64;
const LINE = 2;

/** "5", "2 to 10" @param {number[]} numbers not empty */
const rangeText = (numbers) => [...new Set([Math.min(...numbers), Math.max(...numbers)])].map(count).join(' to ');

/** @param {{samples: any[]}} props of PolicyUsage.history */
export function HourChart({ samples }) {
  const points = samples.map((s) => ({ time: Date.parse(s.time), held: Number(s.heldCount ?? 0), waiting: Number(s.waitingCount ?? 0), limit: Number(s.maxConcurrent ?? 0) }));
  const end = Math.max(Date.now(), points.at(-1)?.time ?? 0); // this clock may be behind the server's
  const begin = end - HOUR_MS;
  const parts = points
    .map((point, i) => ({ ...point, from: Math.max(point.time, begin), until: Math.min(points[i + 1]?.time ?? end, point.time + SAMPLE_MS) }))
    .filter((part) => part.until > part.from);
  if (!parts.length) return html`<p class="muted">Nothing waited and nothing was held, as far as samples tell. They are taken once a minute.</p>`;
  const limits = parts.map((part) => part.limit).filter((limit) => limit > 0);
  const lane = (/** @type {string} */ title, /** @type {'held'|'waiting'} */ field, /** @type {string} */ tone, /** @type {string} */ more) => {
    const most = Math.max(...parts.map((part) => part[field]));
    const top = Math.max(1, most, ...(field === 'held' ? limits : []));
    const bar = (/** @type {any} */ part, /** @type {number} */ height, /** @type {number} */ y, /** @type {string} */ class_) => html`<rect class=${class_} x=${((part.from - begin) / HOUR_MS) * WIDTH} width=${((part.until - part.from) / HOUR_MS) * WIDTH} y=${y} height=${height}>
      <title>${`${clockText(part.time)}: ${count(part.held)} held, ${count(part.waiting)} waiting${part.limit ? `, limit ${count(part.limit)}` : ''}`}</title></rect>`;
    const high = (/** @type {number} */ number) => Math.max(LINE, (number / top) * (HEIGHT - LINE));
    return html`<div class="lane"><div class="lane-name">${title}</div>
      <div class="lane-picture"><svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true"><rect class="ground" x="0" y=${HEIGHT - 1} width=${WIDTH} height="1" />
        ${parts.map((part) => part[field] > 0 && bar(part, high(part[field]), HEIGHT - high(part[field]), tone))}
        ${field === 'held' && parts.map((part) => part.limit > 0 && bar(part, LINE, HEIGHT - LINE - (part.limit / top) * (HEIGHT - LINE), 'limit'))}</svg></div>
      <div class="lane-text">at most ${count(most)}${more}</div></div>`;
  };
  return html`<div class="chart">
    <div class="lane scale"><div class="lane-name"></div><div class="lane-picture" aria-hidden="true">${[0, 1, 2, 3].map((i) => html`<span>${clockText(begin + (i * HOUR_MS) / 4)}</span>`)}</div><div class="lane-text"></div></div>
    ${lane('Held', 'held', 'busy', limits.length ? `; the line is the limit, ${rangeText(limits)}` : '')}${lane('Waiting', 'waiting', 'warn', '')}</div>`;
}
