// A table over a list of the server: only the rows near the window are in the document, and further pages are read when the
// end comes near. The address holds the page that one looks at.
import { classes, html, useEffect, useRef, useState } from './view.js';
import { LIST_ROWS_MAX, useList } from './data.js';
import { Link, readRoute, setQuery } from './router.js';
import { Failure, Loading } from './basics.js';
import { count } from './format.js';

export const ROW_PIXELS = 44;
const ROWS_BEYOND = 12; // rows kept above and below the window

/**
 * @typedef {{title: string, cell: (row: any) => any, size?: number, wide?: boolean, number?: boolean, hidden?: boolean}} Column
 * size: its width beside the others, 10 unless given; wide: left out on narrow windows; hidden: its title is for screen readers only
 */

/** The rows that are near the window. @param {{current: HTMLElement|null}} body @param {number} rows */
function useWindow(body, rows) {
  const [range, setRange] = useState([0, 60]);
  useEffect(() => {
    const look = () => {
      if (!body.current) return;
      const top = -body.current.getBoundingClientRect().top;
      const first = Math.max(0, Math.floor(top / ROW_PIXELS) - ROWS_BEYOND);
      const last = Math.ceil((top + innerHeight) / ROW_PIXELS) + ROWS_BEYOND;
      setRange((before) => (before[0] === first && before[1] === last ? before : [first, Math.max(last, 0)]));
    };
    look();
    addEventListener('scroll', look, { passive: true });
    addEventListener('resize', look);
    return () => {
      removeEventListener('scroll', look);
      removeEventListener('resize', look);
    };
  }, [rows]);
  return range;
}

/** The rows themselves. @param {{rows: any[], columns: Column[], caption: string, rowId: (row: any) => string, select?: Set<string>, onSelect?: (id: string, on: boolean) => void, total?: number, onRange?: (first: number, last: number) => void}} props */
export function Rows({ rows, columns, caption, rowId, select, onSelect, total, onRange }) {
  const body = useRef(/** @type {HTMLElement|null} */ (null));
  const [first, last] = useWindow(body, rows.length);
  useEffect(() => onRange?.(first, last), [first, last, rows.length]);
  const part = rows.slice(first, last);
  const sizes = columns.reduce((sum, column) => sum + (column.size ?? 10), 0);
  const span = columns.length + (select ? 1 : 0);
  const gap = (/** @type {number} */ number) => number > 0 && html`<tr aria-hidden="true" class="gap" style=${{ height: `${number * ROW_PIXELS}px` }}><td colspan=${span}></td></tr>`;
  return html`<div class="table"><table aria-rowcount=${total ?? rows.length}>
    <caption class="unseen">${caption}</caption>
    <colgroup>${select && html`<col class="tick" />`}${columns.map((column) => html`<col class=${column.wide ? 'wide' : ''} style=${{ width: `${((column.size ?? 10) * 100) / sizes}%` }} />`)}</colgroup>
    <thead><tr>
      ${select && html`<th class="tick"><span class="unseen">Select</span></th>`}
      ${columns.map((column) => html`<th scope="col" class=${classes(column.wide && 'wide', column.number && 'number')}>${column.hidden ? html`<span class="unseen">${column.title}</span>` : column.title}</th>`)}
    </tr></thead>
    <tbody ref=${body}>
      ${gap(Math.min(first, rows.length))}
      ${part.map((row, i) => html`<tr key=${rowId(row)} aria-rowindex=${first + i + 1}>
        ${select && html`<td class="tick"><input type="checkbox" aria-label=${`Select ${rowId(row)}`} checked=${select.has(rowId(row))}
          onChange=${(/** @type {any} */ event) => onSelect?.(rowId(row), event.target.checked)} /></td>`}
        ${columns.map((column) => html`<td class=${classes(column.wide && 'wide', column.number && 'number')}>${column.cell(row)}</td>`)}
      </tr>`)}
      ${gap(rows.length - last)}
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
