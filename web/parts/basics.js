// Small parts that all views share.
import { classes, html, useEffect, useRef } from './view.js';
import { moved } from './router.js';
import { words } from './format.js';

/** @param {{text?: string}} props */
export const Loading = ({ text = 'Loading…' }) => html`<span class="loading">${text}</span>`;

/** An error of a call; `whole` if the view has nothing else. @param {{error: any, retry?: () => void, whole?: boolean}} props */
export function Failure({ error, retry, whole }) {
  const title = error.status === 404 ? 'Not found' : error.status === 403 ? 'Not allowed' : 'This did not work';
  return html`${whole && html`<${Head} title=${title} />`}<div class="failure" role="alert">${!whole && html`<strong>${title}</strong>`}
    <span>${error.message}</span> ${retry && html`<button onClick=${retry}>Try again</button>`}</div>`;
}

/** @type {Record<string, string>} */
const TONES = {
  ENABLED: 'good', COMPLETED: 'good', SUCCEEDED: 'good', ACTIVE: 'busy', CLOSED: 'good', ACCEPTED: 'good', OK: 'good',
  IN_PROGRESS: 'busy', RUNNING: 'busy', SCHEDULED: 'idle', UPCOMING: 'idle', PENDING: 'idle', FINISHED: 'idle', NOT_DELIVERED: 'idle', SKIPPED: 'idle', CANCELLED: 'idle', EXPIRED: 'warn',
  PAUSED: 'warn', TARGET_DOWN: 'warn', HALF_OPEN: 'warn', FAILED: 'bad', PERMANENTLY_FAILED: 'bad', OPEN: 'bad', REJECTED: 'bad', UNKNOWN: 'warn', SUSPENDED: 'warn', REVOKED: 'idle', EXPIRED_KEY: 'idle',
};
/** @type {Record<string, string>} */
const LABELS = { FAILED: 'Failed, will be retried', TARGET_DOWN: 'Waits, target is down', CLOSED: 'Works', OPEN: 'Down', HALF_OPEN: 'Probing' };
/** A state as a word with a colour. @param {{state?: string, label?: string, tone?: string, final?: boolean}} props */
export function Badge({ state = '', label, tone, final }) {
  const text = label ?? (final ? words(state) : LABELS[state] ?? words(state));
  return html`<span class=${classes('badge', tone ?? TONES[state] ?? 'idle')}>${text}</span>`;
}

/** The heading of a view, with its actions. @param {{title: string, above?: any, children?: any, note?: any}} props */
export function Head({ title, above, children, note }) {
  const heading = useRef(/** @type {HTMLElement|null} */ (null));
  useEffect(() => void (document.title = `${title} · Escapement`), [title]);
  useEffect(() => {
    // A new view is read from its heading on.
    if (moved.pending) heading.current?.focus({ preventScroll: true });
    moved.pending = false;
  }, []);
  return html`<div class="head"><div>${above && html`<p class="above">${above}</p>`}<h1 tabindex="-1" ref=${heading}>${title}</h1>${note && html`<p class="muted">${note}</p>`}</div>
    <div class="actions">${children}</div></div>`;
}

/** Names and values. @param {{items: [string, any][]}} props */
export const Facts = ({ items }) => html`<dl class="facts">
  ${items.filter(([, value]) => value !== undefined && value !== null && value !== false && value !== '').map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

/** Text of a consumer or a payload, in a box that scrolls. @param {{text: string, label: string}} props */
export const TextBox = ({ text, label }) => html`<pre tabindex="0" role="region" aria-label=${label}>${text}</pre>`;

/** A part of a whole, such as progress. @param {{value: number, max: number, label: string}} props */
export const Progress = ({ value, max, label }) => html`<progress value=${value} max=${Math.max(max, 1)} aria-label=${label}></progress>`;
