// Fields of forms. The server names the fields that it refuses; each error stands at its field, and all of them at the top.
import { html, useEffect, useRef } from './view.js';

/** @param {string} path */
const idOfPath = (path) => `field-${path.replace(/[^a-zA-Z0-9]/g, '-')}`;

/** True if a violation is of this field: "schedule.target.http.uri" of "target.http.uri". @param {string} field @param {string} path */
function isOf(field, path) {
  const whole = field.replace(/^(schedule|event|policy|override|key|tenant|calendar)\./, '');
  return [whole, whole.replace(/\[.*/, '')].some((each) => each === path || each.startsWith(`${path}.`));
}

/** @type {Set<string>} */
const known = new Set();

/**
 * A label, an input and its errors. The child makes the input from its attributes.
 * @param {{path: string, label: string, hint?: any, error?: any, children: any, wide?: boolean}} props
 */
export function Field({ path, label, hint, error, children, wide }) {
  useEffect(() => {
    known.add(path);
    return () => void known.delete(path);
  }, [path]);
  const id = idOfPath(path);
  const texts = (error?.violations ?? []).filter((/** @type {any} */ v) => isOf(v.field, path)).map((/** @type {any} */ v) => v.description);
  const attributes = { id, 'aria-invalid': texts.length ? 'true' : undefined, 'aria-describedby': [hint && `${id}-hint`, texts.length && `${id}-error`].filter(Boolean).join(' ') || undefined };
  return html`<div class=${wide ? 'field wide' : 'field'}><label for=${id}>${label}</label>${children(attributes)}
    ${hint && html`<small id=${`${id}-hint`}>${hint}</small>`}${texts.length > 0 && html`<p class="error" id=${`${id}-error`}>${texts.join('; ')}</p>`}</div>`;
}

/** @param {{path: string, label: string, value: any, set: (value: string) => void, options: [string, string][], error?: any, hint?: any}} props */
export const Select = ({ path, label, value, set, options, error, hint }) => html`<${Field} path=${path} label=${label} error=${error} hint=${hint}>${(/** @type {any} */ p) => html`<select ...${p} value=${value} onChange=${(/** @type {any} */ e) => set(e.target.value)}>
  ${options.map(([each, title]) => html`<option key=${each} value=${each} selected=${each === value}>${title}</option>`)}</select>`}<//>`;

/** @param {{path: string, label: string, value: any, set: (value: any) => void, error?: any, hint?: any, type?: string, lines?: number, wide?: boolean, rest?: any}} props */
export const Text = ({ path, label, value, set, error, hint, type = 'text', lines, wide, rest = {} }) => html`<${Field} path=${path} label=${label} error=${error} hint=${hint} wide=${wide}>${(/** @type {any} */ p) => (lines
  ? html`<textarea ...${p} rows=${lines} spellcheck="false" value=${value ?? ''} onInput=${(/** @type {any} */ e) => set(e.target.value)} ...${rest}></textarea>`
  : html`<input ...${p} type=${type} autocomplete="off" spellcheck="false" value=${value ?? ''} onInput=${(/** @type {any} */ e) => set(e.target.value)} ...${rest} />`)}<//>`;

/** All errors of an answer, at the top of its form. @param {{error: any}} props */
export function FieldErrors({ error }) {
  const box = useRef(/** @type {HTMLElement|null} */ (null));
  useEffect(() => {
    if (error) box.current?.focus();
  }, [error]);
  if (!error) return null;
  const find = (/** @type {string} */ field) => [...known].filter((path) => isOf(field, path)).sort((a, b) => b.length - a.length)[0];
  const show = (/** @type {Event} */ event, /** @type {string} */ path) => {
    event.preventDefault();
    document.getElementById(idOfPath(path))?.focus();
  };
  return html`<div class="failure" role="alert" tabindex="-1" ref=${box}><strong>This cannot be saved</strong>
    ${error.violations?.length ? html`<ul>${error.violations.map((/** @type {any} */ v) => {
      const path = find(v.field);
      return html`<li>${path ? html`<a href=${`#${idOfPath(path)}`} onClick=${(/** @type {Event} */ event) => show(event, path)}>${v.field}</a>` : html`<code>${v.field}</code>`}: ${v.description}</li>`;
    })}</ul>` : html`<span>${error.message}</span>`}</div>`;
}
