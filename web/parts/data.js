// Data of the server in a view: loaded, kept current, and freed with the view.
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from './view.js';
import { get } from './api.js';
import { session } from './session.js';
import { withTimes } from './format.js';

export const PAGE_ROWS = 200;
// A list keeps at most so many rows; then it goes on in a new view.
export const LIST_ROWS_MAX = 20000;
// Pages in a row that may be empty before the user is asked to go on.
const EMPTY_PAGES_MAX = 10;

/**
 * Loads when the view begins or `keys` change, and again every `every` ms while the page is visible.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @param {any[]} keys
 * @param {number|((data: T) => number)} [every] 0: only once
 * @returns {{data: T|undefined, error: any, reload: () => void}}
 */
export function useData(load, keys, every = 0) {
  const [state, setState] = useState(/** @type {{key: string, data?: T, error?: any}} */ ({ key: '' }));
  const [turn, setTurn] = useState(0);
  const key = JSON.stringify(keys);
  const current = useRef(load);
  current.current = load;
  // Before the first paint, so that the call does not wait for it.
  useLayoutEffect(() => {
    const stop = new AbortController();
    let timer = 0;
    let begun = false;
    const again = (/** @type {T|undefined} */ data) => {
      const wait = typeof every === 'number' ? every : data === undefined ? 2000 : every(data);
      if (wait && !stop.signal.aborted) timer = setTimeout(run, wait);
    };
    const run = () => {
      // A view that opens in the background loads once.
      if ((document.hidden && begun) || session.lost) return again(undefined);
      begun = true;
      return current.current(stop.signal).then(
        (data) => {
          if (stop.signal.aborted) return;
          setState({ key, data });
          again(data);
        },
        (error) => {
          if (stop.signal.aborted) return;
          setState((before) => ({ key, data: before.key === key ? before.data : undefined, error }));
          again(undefined);
        });
    };
    run();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key, typeof every === 'number' ? every : -1, turn, session.signIns]);
  const reload = useCallback(() => setTurn((before) => before + 1), []);
  // The state of other keys is another view's.
  return state.key === key ? { data: state.data, error: state.error, reload } : { data: undefined, error: undefined, reload };
}

/**
 * Why an event waits or where its time went, or when a schedule fires: one sentence, '' until it is known, and the gates that are shut.
 * @param {string} name '': of nothing
 * @param {any[]} keys asked again when they change
 * @returns {{summary: string, gates: any[]|undefined}}
 */
export function useWhy(name, keys) {
  const { data } = useData((signal) => (name ? get(`/v1/${name}:explain`, {}, signal) : Promise.resolve({})), [name, ...keys], name ? 5000 : 0);
  return { summary: withTimes(String(data?.summary ?? '')), gates: data?.gates };
}

/**
 * Calls that wait for their turn, so that the first are shown before the last have begun.
 * @param {number} most so many are under way at once
 * @returns {<T>(call: () => Promise<T>, signal: AbortSignal) => Promise<T>}
 */
export function turns(most) {
  /** @type {(() => void)[]} */
  const waiting = [];
  let under = 0;
  return async (call, signal) => {
    if (under === most) await new Promise((turn) => void waiting.push(() => turn(null)));
    else under++;
    try {
      signal.throwIfAborted();
      return await call();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else under--;
    }
  };
}

/** A value some tenths of a second after it was typed. @template T @param {T} value @returns {T} */
export function useSettled(value) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), 250);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

/** @typedef {{token: string, rows: any[], next: string, truncated: boolean}} ListPage_ */

/**
 * A list of the API, page by page.
 * @param {{path: string, field: string, query: Record<string, any>, at: string, every?: number}} options
 */
export function useList({ path, field, query, at, every = 5000 }) {
  const key = JSON.stringify([path, query, at, session.signIns]);
  const [state, setState] = useState({ key, pages: /** @type {ListPage_[]} */ ([]), loading: true, error: /** @type {any} */ (null), paused: false });
  const work = useRef({ key: '', busy: false, stop: new AbortController() });
  const shown = state.key === key ? state : { key, pages: [], loading: true, error: null, paused: false };
  const latest = useRef(shown);
  latest.current = shown;

  const fetchPage = async (/** @type {string} */ token) => {
    const answer = await get(path, { pageSize: PAGE_ROWS, ...query, pageToken: token }, work.current.stop.signal);
    return { token, rows: answer[field] ?? [], next: answer.nextPageToken ?? '', truncated: Boolean(answer.truncated) };
  };

  const more = useCallback(async () => {
    const mine = work.current;
    if (mine.busy) return;
    mine.busy = true;
    try {
      let pages = latest.current.pages;
      for (let empty = 0; empty < EMPTY_PAGES_MAX;) {
        const last = pages.at(-1);
        if (last && !last.next) break;
        const page = await fetchPage(last ? last.next : at);
        if (work.current !== mine) return;
        pages = [...pages, page];
        const paused = !page.rows.length && page.next !== '' && ++empty === EMPTY_PAGES_MAX;
        setState({ key, pages, loading: !page.rows.length && page.next !== '' && !paused, error: null, paused });
        if (page.rows.length) break;
      }
    } catch (error) {
      if (work.current === mine) setState({ key, pages: latest.current.pages, loading: false, error, paused: true });
    } finally {
      mine.busy = false;
    }
  }, [key]);

  useLayoutEffect(() => {
    work.current = { key, busy: false, stop: new AbortController() };
    const mine = work.current;
    setState({ key, pages: [], loading: true, error: null, paused: false });
    latest.current = { key, pages: [], loading: true, error: null, paused: false };
    more();
    return () => mine.stop.abort();
  }, [key]);

  // Reads the page with this row again.
  const refresh = useCallback(async (/** @type {number} */ row) => {
    const mine = work.current;
    const { pages } = latest.current;
    let begin = 0;
    const index = pages.findIndex((page) => (begin += page.rows.length) > row);
    const page = pages[index < 0 ? pages.length - 1 : index];
    if (!page || mine.busy) return;
    const fresh = await fetchPage(page.token).catch(() => null);
    if (!fresh || work.current !== mine || mine.busy) return;
    const now = latest.current.pages;
    const at_ = now.findIndex((other) => other.token === page.token);
    if (at_ < 0) return;
    // Later pages were read behind the old end, which therefore stays.
    const next = at_ === now.length - 1 ? fresh.next : now[at_].next;
    setState({ ...latest.current, pages: now.with(at_, { ...fresh, next }), error: null });
  }, [key]);

  const visible = useRef(0);
  useEffect(() => {
    if (!every) return;
    const timer = setInterval(() => void (document.hidden || session.lost || refresh(visible.current)), every);
    return () => clearInterval(timer);
  }, [key, every]);

  const rows = shown.pages.flatMap((page) => page.rows);
  const next = shown.pages.at(-1)?.next ?? '';
  return {
    rows,
    pages: shown.pages,
    loading: shown.loading,
    error: shown.error,
    paused: shown.paused,
    /** The server has not read all rows that a page is made of. */
    truncated: shown.pages.some((page) => page.truncated),
    more: next !== '' || !shown.pages.length,
    next,
    loadMore: more,
    refresh: () => refresh(visible.current),
    /** Says which row is the first that is visible. @param {number} row */
    setVisible: (row) => void (visible.current = row),
  };
}
