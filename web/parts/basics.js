// Small parts that all views share.
import { html, useEffect, useRef } from './view.js';
import { moved } from './router.js';
import { SIGNS, stateOf } from './state.js';

/** @param {{text?: string}} props */
export const Loading = ({ text = 'Loading…' }) => html`<span class="loading">${text}</span>`;

/** An error of a call; `whole` if the view has nothing else. @param {{error: any, retry?: () => void, whole?: boolean}} props */
export function Failure({ error, retry, whole }) {
  const title = error.status === 404 ? 'Not found' : error.status === 403 ? 'Not allowed' : 'This did not work';
  return html`${whole && html`<${Head} title=${title} />`}<div class="failure" role="alert">${!whole && html`<strong>${title}</strong>`}
    <span>${error.message}</span> ${retry && html`<button onClick=${retry}>Try again</button>`}</div>`;
}

/** A state as words with a colour and a sign. @param {{of?: import('./state.js').State, state?: string, final?: boolean, label?: string, tone?: import('./state.js').Tone}} props of: as parts/state.js decides; state: the API's name of it; label and tone: of what has no state */
export function Badge({ of, state = '', final, label, tone }) {
  const shown = of ?? stateOf(state, final);
  return html`<span class=${`badge ${tone ?? shown.tone}`} data-sign=${tone ? SIGNS[tone] : shown.sign}>${label ?? shown.label}</span>`;
}
/** @param {{of: import('./state.js').State[]}} props */
export const Badges = ({ of }) => of.map((each, i) => html`${i > 0 && ' '}<${Badge} of=${each} />`);

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
  ${items.filter(([, value]) => value !== undefined && value !== null && value !== false && value.length !== 0).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

/** Text of a consumer or a payload, in a box that scrolls. @param {{text: string, label: string}} props */
export const TextBox = ({ text, label }) => html`<pre tabindex="0" role="region" aria-label=${label}>${text}</pre>`;

/** A part of a whole, such as progress. @param {{value: number, max: number, label: string}} props */
export const Progress = ({ value, max, label }) => html`<progress value=${value} max=${Math.max(max, 1)} aria-label=${label}></progress>`;
