// A picture of values over time, by uPlot. The pointer and the arrow keys show the values of one step; a table under it has all.
import { html, useEffect, useLayoutEffect, useRef, useState } from './view.js';
import { Link } from './router.js';
import { clockText, inputOf, count, dateText, dayText, durationText, zone } from './format.js';

/**
 * @typedef {{name: string, tone: 'good'|'bad'|'warn'|'busy'|'idle'|'text', kind: 'bar'|'line', values: (number|null)[], total?: number|null, to?: string}} Series
 * bars stand on each other, the first one at the bottom; null: there is no value; total: stands in the legend, and leads to `to`; null: none
 */

const HEIGHT = 170;
const AXIS_PIXELS = 56;
const TICK_PIXELS = 64; // at least between two texts of the time axis
const MINUTE_MS = 60000;
const TICKS_MINUTES = [5, 10, 15, 30, 60, 120, 180, 240, 360, 720, 1440];
const SECONDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 172800];
const COUNTS = Array.from({ length: 13 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** i)).flat();
const short = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });

/** Instants at which the clocks of the page's zone show multiples of an interval. @param {number} begin in ms @param {number} end @param {number} ticks at most so many */
export function ticksOf(begin, end, ticks) {
  const every = TICKS_MINUTES.find((minutes) => (end - begin) / MINUTE_MS / minutes <= ticks) ?? 1440;
  const found = [];
  const step = Math.min(every, 15) * MINUTE_MS; // offsets of zones are multiples of 15 minutes
  for (let time = Math.ceil(begin / step) * step; time <= end; time += step) {
    const [hour, minute] = inputOf(time).slice(11).split(':').map(Number);
    if ((hour * 60 + minute) % every === 0) found.push(time);
  }
  return found;
}

/** The steps as a line: each value for as long as its step. @param {number} step seconds @returns {import('uplot').Series.PathBuilder} */
const steps = (step) => (u, index, first, last) => {
  const stroke = new Path2D();
  const [times, values] = [u.data[0], u.data[index]];
  for (let i = first; i <= last; i++) {
    const value = values[i];
    if (value === null || value === undefined) continue;
    const y = u.valToPos(value, 'y', true);
    const x = u.valToPos(times[i], 'x', true);
    if (i > first && values[i - 1] !== null) stroke.lineTo(x, y);
    else stroke.moveTo(x, y);
    stroke.lineTo(u.valToPos(times[i] + step, 'x', true), y);
  }
  return { stroke, flags: 0 };
};

/** @param {string} tone */
const colourOf = (tone) => getComputedStyle(document.documentElement).getPropertyValue(tone === 'text' || tone === 'muted' || tone === 'line' ? `--${tone}` : `--${tone}-mark`).trim();

/** Runs when the colours change. @param {() => void} run */
function onColours(run) {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const observer = new MutationObserver(run);
  observer.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
  dark.addEventListener('change', run);
  return () => {
    observer.disconnect();
    dark.removeEventListener('change', run);
  };
}

/** The values as uPlot has them: bars on top of each other, the tallest first. @param {number[]} times @param {Series[]} series @returns {import('uplot').AlignedData} */
function dataOf(times, series) {
  const height = times.map(() => 0);
  const data = series.map(({ kind, values }) => (kind === 'line' ? values : values.map((value, i) => (value ? (height[i] += value) : null))));
  return /** @type {any} */ ([times.map((time) => time / 1000), ...data.filter((_, i) => series[i].kind === 'bar').reverse(), ...data.filter((_, i) => series[i].kind === 'line')]);
}

/**
 * @param {any} Plot uPlot @param {HTMLElement} box @param {number[]} times @param {number} step ms @param {Series[]} series @param {boolean} seconds values are durations
 * @param {(index: number|null) => void} onPoint
 */
function plotOf(Plot, box, times, step, series, seconds, onPoint) {
  const end = times[times.length - 1] + step;
  const drawn = [...series.filter(({ kind }) => kind === 'bar').reverse(), ...series.filter(({ kind }) => kind === 'line')];
  const axis = { stroke: () => colourOf('muted'), font: '12px system-ui, sans-serif', ticks: { show: false } };
  const bars = Plot.paths.bars({ align: 1, size: [1, 100], gap: 1 });
  return new Plot({
    width: box.clientWidth, height: HEIGHT, legend: { show: false }, padding: [8, 32, 0, 0],
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false }, focus: { prox: -1 } },
    scales: { x: { time: false, range: () => [times[0] / 1000, end / 1000] }, y: { range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ max) => [0, max > 0 ? max * 1.08 : 1] } },
    axes: [
      { ...axis, size: 34, grid: { show: false }, splits: (/** @type {any} */ u) => ticksOf(times[0], end, Math.max(1, u.bbox.width / devicePixelRatio / TICK_PIXELS)).map((time) => time / 1000),
        values: (/** @type {any} */ _, /** @type {number[]} */ splits) => splits.map((time, i) => `${clockText(time * 1000)}${i === 0 || dayText(time * 1000) !== dayText(splits[i - 1] * 1000) ? `\n${dateText(time * 1000)}` : ''}`) },
      { ...axis, size: AXIS_PIXELS, gap: 6, incrs: seconds ? SECONDS : COUNTS, grid: { stroke: () => colourOf('line'), width: 1 },
        values: (/** @type {any} */ _, /** @type {number[]} */ splits) => splits.map((value) => (seconds ? durationText(value) : short.format(value))) },
    ],
    series: [{}, ...drawn.map(({ kind, tone }) => ({
      points: { show: false }, paths: kind === 'line' ? steps(step / 1000) : bars, width: kind === 'line' ? 1.5 : 0, stroke: () => colourOf(tone), fill: kind === 'line' ? undefined : () => colourOf(tone),
    }))],
    hooks: { setCursor: [(/** @type {any} */ u) => {
      const { left } = u.cursor;
      onPoint(left === undefined || left < 0 ? null : Math.min(times.length - 1, Math.max(0, Math.floor((u.posToVal(left, 'x') * 1000 - times[0]) / step))));
    }] },
  }, dataOf(times, series), box);
}

/** @param {number} time @param {number} step @param {boolean} days */
function whenText(time, step, days) {
  const end = step > MINUTE_MS ? `–${clockText(time + step)}` : '';
  return `${days ? `${dayText(time)}, ` : ''}${clockText(time)}${end}`;
}

/**
 * @param {{title: string, points: {time: number, step: number}[], series: Series[], seconds?: boolean, summary?: any}} props
 * points: when each step begins, and how long it is, in ms: equal steps without gaps; not empty. seconds: values are durations
 */
export function Chart({ title, points, series, seconds = false, summary }) {
  const times = points.map(({ time }) => time);
  const { step } = points[0];
  const box = useRef(/** @type {HTMLElement|null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const [Plot, setPlot] = useState(/** @type {any} */ (null));
  const [at, setAt] = useState(/** @type {number|null} */ (null));
  const [open, setOpen] = useState(false);
  // A picture of other times or series is a new one.
  const shape = JSON.stringify([times.length, step, seconds, zone.mode, series.map(({ kind, tone }) => [kind, tone])]);
  const latest = useRef({ times, step, series });
  latest.current = { times, step, series };
  useEffect(() => {
    let gone = false;
    // Without it, numbers and table remain.
    import('uplot').then((module) => gone || setPlot(() => module.default), () => {});
    return () => void (gone = true);
  }, []);
  useLayoutEffect(() => {
    const place = box.current;
    if (!Plot || !place) return;
    const make = () => {
      plot.current?.destroy();
      plot.current = plotOf(Plot, place, latest.current.times, latest.current.step, latest.current.series, seconds, setAt);
    };
    make();
    const sizes = new ResizeObserver(() => place.clientWidth > 0 && plot.current?.setSize({ width: place.clientWidth, height: HEIGHT }));
    sizes.observe(place);
    const stop = onColours(() => plot.current?.redraw());
    return () => {
      sizes.disconnect();
      stop();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [Plot, shape, times[0]]);
  useLayoutEffect(() => void plot.current?.setData(dataOf(times, series)), [series]);

  const text = (/** @type {number|null|undefined} */ value) => (value === null || value === undefined ? 'none' : seconds ? durationText(value) : count(value));
  const days = dayText(times[0]) !== dayText(times[times.length - 1]);
  const when = (/** @type {number} */ i) => whenText(times[i], step, days);
  const said = (/** @type {number} */ i) => `${when(i)}: ${series.map(({ name, values }) => `${name} ${text(values[i])}`).join(', ')}`;
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    const from = at ?? times.length;
    const to = { ArrowLeft: from - 1, ArrowDown: from - 1, ArrowRight: from + 1, ArrowUp: from + 1, PageUp: from + 10, PageDown: from - 10, Home: 0, End: times.length - 1 }[event.key];
    if (to === undefined || !plot.current) return;
    event.preventDefault();
    const index = Math.min(times.length - 1, Math.max(0, to));
    plot.current.setCursor({ left: plot.current.valToPos((times[index] + step / 2) / 1000, 'x'), top: 0 });
  };
  const left = at !== null && plot.current ? AXIS_PIXELS + plot.current.valToPos((times[at] + step / 2) / 1000, 'x') : 0;
  const right = left > (box.current?.clientWidth ?? 0) / 2;
  const last = times.length - 1;
  return html`<figure class="picture"><figcaption><h3>${title}</h3>
      <ul class="legend">${series.map(({ name, tone, kind, total, to }) => html`<li key=${name}><span class=${kind === 'line' ? `${tone} line` : tone}>${name}</span>${total !== undefined && total !== null && html` <strong>${to ? html`<${Link} to=${to}>${text(total)}<//>` : text(total)}</strong>`}</li>`)}</ul></figcaption>
    <div class="picture-box">
      <div class="picture-plot" ref=${box} role="slider" tabindex="0" aria-label=${`${title}: values by the arrow keys`} aria-valuemin="0" aria-valuemax=${last} aria-valuenow=${Math.min(at ?? last, last)} aria-valuetext=${said(Math.min(at ?? last, last))}
        style=${{ height: `${HEIGHT}px` }} onKeyDown=${onKey} onBlur=${() => plot.current?.setCursor({ left: -10, top: -10 })}></div>
      ${at !== null && at <= last && html`<div class="picture-tip" aria-hidden="true" style=${right ? { right: `calc(100% - ${left - 8}px)` } : { left: `${left + 8}px` }}><strong>${when(at)}</strong>
        ${series.map(({ name, tone, kind, values }) => html`<span key=${name} class=${kind === 'line' ? `${tone} line` : tone}>${name} ${text(values[at])}</span>`)}</div>`}</div>
    ${summary && html`<p class="muted">${summary}</p>`}
    <details onToggle=${(/** @type {any} */ event) => setOpen(event.target.open)}><summary>Values<span class="unseen"> of ${title}</span></summary>
      ${open && html`<div class="picture-values" tabindex="0" role="region" aria-label=${`Values of ${title}`}><table><caption class="unseen">${title}</caption>
        <thead><tr><th scope="col">Time</th>${series.map(({ name }) => html`<th key=${name} scope="col" class="number">${name}</th>`)}</tr></thead>
        <tbody>${times.map((time, i) => html`<tr key=${time}><th scope="row">${when(i)}</th>${series.map(({ name, values }) => html`<td key=${name} class="number">${values[i] === null ? '–' : text(values[i])}</td>`)}</tr>`).reverse()}</tbody></table></div>`}</details></figure>`;
}
