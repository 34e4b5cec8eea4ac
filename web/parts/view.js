// The view library: Preact with htm's templates. Text of the API is only ever put into templates as a value, so it is shown as
// text.
import { h, render } from 'preact';
import htm from 'htm';

export const html = htm.bind(h);
export { render };
export { useEffect, useLayoutEffect, useMemo, useRef, useState, useCallback } from 'preact/hooks';

/** Joins the class names that are set. @param {...(string|false|undefined|null)} names */
export const classes = (...names) => names.filter(Boolean).join(' ');
