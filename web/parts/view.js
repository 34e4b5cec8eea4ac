// The view library: Preact with htm's templates. Text of the API is only ever put into templates as a value, so it is shown as
// text.
import { h, render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import htm from 'htm';

export const html = htm.bind(h);
export { render };
export { useEffect, useLayoutEffect, useMemo, useRef, useState, useCallback } from 'preact/hooks';

/** Changes of what components share: `tell` says that there was one; a component that uses `use` is drawn again after each, with what `read` gives then. */
export function changes() {
  /** @type {Set<() => void>} */
  const listeners = new Set();
  return {
    tell: () => listeners.forEach((listener) => listener()),
    /** @template T @param {() => T} read @returns {T} */
    use(read) {
      const [value, setValue] = useState(read);
      useEffect(() => {
        const listener = () => setValue(read());
        listeners.add(listener);
        return () => void listeners.delete(listener);
      }, []);
      return value;
    },
  };
}

/** Joins the class names that are set. @param {...(string|false|undefined|null)} names */
export const classes = (...names) => names.filter(Boolean).join(' ');
