// Addresses: /ui/{tenant}/{page}/…?filters. Everything that a view shows follows from its address, so each can be linked.
import { changes, html } from './view.js';

/** @typedef {{tenant: string, parts: string[], query: URLSearchParams}} Route */

/** A part of an address. One that cannot be decoded stands for itself: its view then says that there is no such thing. @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** @returns {Route} */
export function readRoute() {
  const [, , tenant = '', ...parts] = location.pathname.split('/').map(decoded);
  return { tenant, parts: parts.filter(Boolean), query: new URLSearchParams(location.search) };
}

const routes = changes();
/** True from a change of the view until its heading has got the focus. */
export const moved = { pending: false };
/** Asked before the view is left; false keeps it. @type {Set<() => boolean>} */
export const guards = new Set();
addEventListener('popstate', routes.tell);

/**
 * The address of a view.
 * @param {string} tenant
 * @param {string[]} parts
 * @param {Record<string, string|undefined>} [query]
 */
export function address(tenant, parts, query = {}) {
  const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const search = new URLSearchParams(/** @type {string[][]} */ (set)).toString();
  return ['/ui', tenant, ...parts].map((part, i) => (i ? encodeURIComponent(part) : part)).join('/') + (search ? `?${search}` : '');
}

/** @param {string} to @param {{replace?: boolean, quiet?: boolean}} [options] quiet: the view stays as it is. */
export function go(to, { replace = false, quiet = false } = {}) {
  if (!quiet && ![...guards].every((guard) => guard())) return;
  const other = new URL(to, location.href).pathname !== location.pathname;
  if (!quiet && other) moved.pending = true;
  if (replace) history.replaceState(null, '', to);
  else history.pushState(null, '', to);
  if (quiet) return;
  // Other choices in the same view leave the place that one looks at.
  if (!replace && other) scrollTo(0, 0);
  routes.tell();
}

/** Changes parameters of this view's address. @param {Record<string, string|undefined>} changes @param {{replace?: boolean, quiet?: boolean}} [options] */
export function setQuery(changes, options) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  const search = query.toString();
  go(location.pathname + (search ? `?${search}` : ''), options);
}

export const useRoute = () => routes.use(readRoute);

/** A link to a view of this page. @param {any} props */
export function Link({ to, children, ...rest }) {
  const follow = (/** @type {MouseEvent} */ event) => {
    if (event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    go(to);
  };
  return html`<a href=${to} onClick=${follow} ...${rest}>${children}</a>`;
}
