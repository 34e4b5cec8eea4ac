// A table over a list of the server: only the rows near the window are in the document, and further pages are read when the
// end comes near. The address holds the page that one looks at.
import { classes, html, useEffect, useLayoutEffect, useRef, useState } from './view.js';
import { LIST_ROWS_MAX, useList } from './data.js';
import { Link, readRoute, setQuery } from './router.js';
import { Failure, Loading } from './basics.js';
import { count } from './format.js';

const ROW_PIXELS = 44; // of a row that has not been measured, until the first ones are
const ROWS_BEYOND = 12; // rows kept above and below the window

/**
 * @typedef {{title: string, cell: (row: any) => any, size?: number, wide?: boolean, number?: boolean, hidden?: boolean, has?: (row: any) => any}} Column
 * size: its width beside the others, 10 unless given; wide: where the table is narrow, it is below the others, with its title;
 * hidden: its title is for screen readers only; has: the column is left out if no row has it
 */

/**
 * The rows that are near the window, and the pixels of those before and behind them. Texts wrap, so each row has its own height: it
 * is measured when the row is in the document, and kept until the width changes.
 * @param {{current: HTMLElement|null}} body @param {number} rows
 */
function useWindow(body, rows) {
  const [range, setRange] = useState([0, 60]);
  const known = useRef({ width: 0, usual: ROW_PIXELS, heights: /** @type {number[]} */ ([]) }).current;
  const height = (/** @type {number} */ row) => known.heights[row] ?? known.usual;
  const pixels = (/** @type {number} */ from, /** @type {number} */ to) => {
    let sum = 0;
    for (let row = from; row < to; row++) sum += height(row);
    return sum;
  };
  const look = () => {
    if (!body.current) return;
    const top = -body.current.getBoundingClientRect().top;
    let row = 0;
    let sum = 0;
    while (row < rows && sum + height(row) <= top) sum += height(row++);
    const first = Math.max(0, row - ROWS_BEYOND);
    while (row < rows && sum < top + innerHeight) sum += height(row++);
    const last = row + ROWS_BEYOND;
    setRange((before) => (before[0] === first && before[1] === last ? before : [first, last]));
  };
  useLayoutEffect(() => {
    if (!body.current) return;
    const shown = [...body.current.children].filter((row) => !row.classList.contains('gap'));
    if (body.current.clientWidth !== known.width) Object.assign(known, { width: body.current.clientWidth, usual: 0, heights: [] });
    shown.forEach((row, i) => void (known.heights[range[0] + i] = row.getBoundingClientRect().height));
    known.usual ||= Math.max(1, pixels(range[0], range[0] + shown.length) / Math.max(1, shown.length)) || ROW_PIXELS;
  });
  useEffect(() => {
    look();
    addEventListener('scroll', look, { passive: true });
    addEventListener('resize', look);
    return () => {
      removeEventListener('scroll', look);
      removeEventListener('resize', look);
    };
  }, [rows]);
  const first = Math.min(range[0], rows);
  return { first, last: range[1], before: pixels(0, first), behind: pixels(range[1], rows) };
}

/** The rows themselves. Roles are said again because browsers forget them where a row is no row of a table any more for CSS. @param {{rows: any[], columns: Column[], caption: string, rowId: (row: any) => string, select?: Set<string>, onSelect?: (id: string, on: boolean) => void, total?: number, onRange?: (first: number, last: number) => void}} props */
export function Rows({ rows, columns: all, caption, rowId, select, onSelect, total, onRange }) {
  const columns = all.filter(({ has }) => !has || rows.some(has));
  const body = useRef(/** @type {HTMLElement|null} */ (null));
  const { first, last, before, behind } = useWindow(body, rows.length);
  useEffect(() => onRange?.(first, last), [first, last, rows.length]);
  const part = rows.slice(first, last);
  const sizes = columns.reduce((sum, column) => sum + (column.size ?? 10), 0);
  const span = columns.length + (select ? 1 : 0);
  const gap = (/** @type {number} */ pixels) => pixels > 0 && html`<tr aria-hidden="true" class="gap" style=${{ height: `${pixels}px` }}><td colspan=${span}></td></tr>`;
  const look = (/** @type {Column} */ column) => classes(column.wide && 'wide', column.number && 'number', column.hidden && 'untitled');
  return html`<div class="table"><table role="table" aria-rowcount=${total ?? rows.length}>
    <caption class="unseen">${caption}</caption>
    <colgroup>${select && html`<col class="tick" />`}${columns.map((column) => html`<col style=${{ width: `${((column.size ?? 10) * 100) / sizes}%` }} />`)}</colgroup>
    <thead role="rowgroup"><tr role="row">
      ${select && html`<th role="columnheader" class="tick"><span class="unseen">Select</span></th>`}
      ${columns.map((column) => html`<th role="columnheader" scope="col" class=${look(column)}>${column.hidden ? html`<span class="unseen">${column.title}</span>` : column.title}</th>`)}
    </tr></thead>
    <tbody role="rowgroup" ref=${body}>
      ${gap(before)}
      ${part.map((row, i) => html`<tr role="row" key=${rowId(row)} aria-rowindex=${first + i + 1}>
        ${select && html`<td role="cell" class="tick"><input type="checkbox" aria-label=${`Select ${rowId(row)}`} checked=${select.has(rowId(row))}
          onChange=${(/** @type {any} */ event) => onSelect?.(rowId(row), event.target.checked)} /></td>`}
        ${columns.map((column) => html`<td role="cell" class=${look(column)} data-title=${column.title}>${column.cell(row)}</td>`)}
      </tr>`)}
      ${gap(behind)}
    </tbody>
  </table></div>`;
}

/**
 * @param {{path: string, field: string, query?: Record<string, any>, columns: Column[], caption: string, noun: string, rowId?: (row: any) => string,
 *   empty: any, every?: number, select?: Set<string>, onSelect?: (id: string, on: boolean) => void, refreshKey?: any, derive?: (row: any) => any}} props
 */
export function List({ path, field, query = {}, columns, caption, noun, rowId = (row) => row.name, empty, every, select, onSelect, refreshKey }) {
  const [at, setAt] = useState(readRoute().query.get('at') ?? '');
  const key = JSON.stringify([path, query]);
  const before = useRef(key);
  let from = at;
  if (before.current !== key) {
    before.current = key;
    from = readRoute().query.get('at') ?? '';
  }
  useEffect(() => {
    if (from !== at) setAt(from);
  }, [key]);
  const list = useList({ path, field, query, at: from, every });
  useEffect(() => {
    if (refreshKey) list.refresh();
  }, [refreshKey]);

  const onRange = (/** @type {number} */ first, /** @type {number} */ last) => {
    const visible = Math.max(0, first + ROWS_BEYOND);
    list.setVisible(visible);
    if (last + 40 > list.rows.length && list.more && !list.paused && list.rows.length < LIST_ROWS_MAX) list.loadMore();
    // The page of the first visible row stands in the address.
    let end = 0;
    const page = list.pages.find((each) => (end += each.rows.length) > visible);
    const now = readRoute().query.get('at') ?? '';
    if (page && page.token !== now && list.pages.length > 1) setQuery({ at: page.token }, { replace: true, quiet: true });
  };
  const startAgain = () => {
    setQuery({ at: '' }, { replace: true, quiet: true });
    setAt('');
    scrollTo(0, 0);
  };
  const goOn = () => {
    setQuery({ at: list.next }, { quiet: true });
    setAt(list.next);
    scrollTo(0, 0);
  };

  if (list.error && !list.rows.length) return html`<${Failure} error=${list.error} retry=${list.loadMore} />`;
  const full = list.rows.length >= LIST_ROWS_MAX && list.more;
  return html`
    ${from && html`<p class="note">The list begins in the middle. <button class="link" onClick=${startAgain}>Go to its start</button></p>`}
    ${list.rows.length > 0 && html`<${Rows} rows=${list.rows} columns=${columns} caption=${caption} rowId=${rowId} select=${select} onSelect=${onSelect}
      total=${list.more ? -1 : list.rows.length} onRange=${onRange} />`}
    ${!list.rows.length && !list.loading && !list.paused && html`<div class="empty">${empty}</div>`}
    <p class="below" role="status">
      ${list.loading && html`<${Loading} text=${list.pages.length > 1 ? 'Searching: nothing found yet among the first rows…' : 'Loading…'} />`}
      ${list.rows.length > 0 && !list.loading && `${count(list.rows.length)}${list.more ? '+' : ''} ${list.rows.length === 1 && !list.more ? noun.replace(/ies\b/, 'y').replace(/s\b/, '') : noun}`}
      ${list.truncated && ` There is more than the server reads for one page: counts are too small, and some ${noun} are missing.`}
      ${list.paused && !list.error && html` Many rows were examined. <button onClick=${list.loadMore}>Search further</button>`}
      ${list.error && list.rows.length > 0 && html` ${list.error.message} <button onClick=${list.loadMore}>Try again</button>`}
      ${full && html` <button onClick=${goOn}>Go on behind these</button>`}
    </p>`;
}

/** A cell that links to a resource. @param {{to: string, children?: any}} props */
export const Cell = ({ to, children }) => html`<${Link} to=${to} class="cell">${children}<//>`;
