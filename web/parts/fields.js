// Fields of forms. The server names the fields that it refuses: each error stands at its field in our words, all of them at the
// top, and the first wrong field gets the focus.
import { html, useEffect, useLayoutEffect, useRef, useState } from './view.js';
import { exactText, parseDuration } from './format.js';

/** @param {string} path */
const idOfPath = (path) => `field-${path.replace(/[^a-zA-Z0-9]/g, '-')}`;

/** True if a violation is of this field: "schedule.target.http.uri" of "target.http.uri". @param {string} field @param {string} path */
function isOf(field, path) {
  const whole = field.replace(/^(schedule|event|policy|override|key|tenant|calendar|subscription)\./, '');
  return [whole, whole.replace(/\[.*/, '')].some((each) => each === path || each.startsWith(`${path}.`));
}

/** The fields that are shown, with their labels. @type {Map<string, string>} */
const known = new Map();
/** What is wrong with texts that are no value of their field, by field. @type {Map<string, string>} */
const problems = new Map();
/** The fields with a text that is no value of theirs, as an error for their form; null if there is none. */
export const typedErrors = () => (problems.size ? { violations: [...problems].map(([field, description]) => ({ field, description })) } : null);

/** A bound as people write it: "24h" → "1 d", "262144" → "262,144". @param {string} bound */
const boundText = (bound) => (/^\d+$/.test(bound) ? Number(bound).toLocaleString('en-US') : parseDuration(bound).value ? exactText(parseDuration(bound).value) : bound);
/** The reasons of the server that are common, and what to write for them. @type {[RegExp, (...found: string[]) => string][]} */
const REASONS = [
  [/^(?:is required|must not be empty)$/, () => 'Fill this in.'],
  [/^must be a duration\b/, () => 'Write a time such as 90 s, 1.5 h or 2 d.'],
  [/^must be from (\S+) to (\S+?)(?: \(.*\))?$/, (_, least, most) => `Write a value from ${boundText(least)} to ${boundText(most)}.`],
  [/^must be at least (\S+?)(?: \(.*\))?$/, (_, least) => (/^[\d.]+\w*$/.test(least) ? `Write at least ${boundText(least)}.` : '')],
  [/^must be at most (\S+)$/, (_, most) => `Write at most ${boundText(most)}.`],
  [/^must have at most (\d+) (characters|bytes)$/, (_, most, what) => `Write at most ${boundText(most)} ${what}.`],
  [/^must hold at most (\d+)/, (_, most) => `Write at most ${boundText(most)}.`],
  [/^(?:must be|is not) a(?: valid)? (?:RFC 3339 )?time\b/, () => 'Write a time such as 2026-12-24T18:00:00Z.'],
  [/^must be (?:an integer|a(?: whole)? number)\b/, () => 'Write a number.'],
  [/^must be in the future$/, () => 'Choose a later time: this one has passed.'],
  [/^must be at least min_backoff$/, () => 'Write at least as much as for the first wait.'],
  [/^must not hold control characters$|^is too long or has control characters$/, () => 'Write a shorter text without control characters.'],
];
/** The reason of a violation in our words. @param {{description: string}} violation */
export function reasonText({ description }) {
  for (const [pattern, write] of REASONS) {
    const found = pattern.exec(description);
    const text = found && write(...found);
    if (text) return text;
  }
  return /[.?!]$/.test(description) ? description : `${description.charAt(0).toUpperCase()}${description.slice(1)}.`;
}

/**
 * A label, an input and its errors. The child makes the input from its attributes.
 * @param {{path: string, label: string, hint?: any, error?: any, children: any, wide?: boolean}} props
 */
export function Field({ path, label, hint, error, children, wide }) {
  useEffect(() => {
    known.set(path, label);
    return () => void known.delete(path);
  }, [path, label]);
  const id = idOfPath(path);
  const texts = [...new Set((error?.violations ?? []).filter((/** @type {any} */ v) => isOf(v.field, path)).map(reasonText))];
  const attributes = { id, 'aria-invalid': texts.length ? 'true' : undefined, 'aria-describedby': [hint && `${id}-hint`, texts.length && `${id}-error`].filter(Boolean).join(' ') || undefined };
  return html`<div class=${wide ? 'field wide' : 'field'}><label for=${id}>${label}</label>${children(attributes)}
    ${hint && html`<small id=${`${id}-hint`}>${hint}</small>`}${texts.length > 0 && html`<p class="error" id=${`${id}-error`}>${texts.join(' ')}</p>`}</div>`;
}

/**
 * A choice among options. The chosen text is shown whole, on as many lines as it needs; browsers would cut it off.
 * @param {{value: string, options: [string, string][], set: (value: string) => void, rest?: any}} props rest: attributes of the select
 */
export const Choice = ({ value, options, set, rest = {} }) => html`<span class="choice"><span aria-hidden="true">${(options.find(([each]) => each === value) ?? options[0])?.[1] ?? ''}</span>
  <select ...${rest} value=${value} onChange=${(/** @type {any} */ e) => set(e.target.value)}>${options.map(([each, title]) => html`<option key=${each} value=${each} selected=${each === value}>${title}</option>`)}</select></span>`;

/** @param {{path: string, label: string, value: any, set: (value: string) => void, options: [string, string][], error?: any, hint?: any}} props */
export const Select = ({ path, label, value, set, options, error, hint }) => html`<${Field} path=${path} label=${label} error=${error} hint=${hint}>${(/** @type {any} */ p) => html`<${Choice} value=${value} options=${options} set=${set} rest=${p} />`}<//>`;

/** @param {{path: string, label: string, value: any, set: (value: any) => void, error?: any, hint?: any, type?: string, lines?: number, wide?: boolean, rest?: any}} props */
export const Text = ({ path, label, value, set, error, hint, type = 'text', lines, wide, rest = {} }) => html`<${Field} path=${path} label=${label} error=${error} hint=${hint} wide=${wide}>${(/** @type {any} */ p) => (lines
  ? html`<textarea ...${p} rows=${lines} spellcheck="false" value=${value ?? ''} onInput=${(/** @type {any} */ e) => set(e.target.value)} ...${rest}></textarea>`
  : html`<input ...${p} type=${type} autocomplete="off" spellcheck="false" value=${value ?? ''} onInput=${(/** @type {any} */ e) => set(e.target.value)} ...${rest} />`)}<//>`;

/** What runs after the click that is under way; null while no button of the pointer is down. @type {(() => void)[]|null} */
let afterClick = null;
addEventListener('pointerdown', () => void (afterClick ??= []), true);
for (const end of ['pointerup', 'pointercancel']) {
  addEventListener(end, () => {
    afterClick?.forEach((run) => void setTimeout(run));
    afterClick = null;
  }, true);
}

/**
 * A duration, typed as people type it. Where the field is left, its text is that of exactText.
 * @param {{path: string, label: string, value: string|undefined, set: (value: string|undefined) => void, error?: any, hint?: any}} props value: as the API has it; a text that is no duration is passed on as it is
 */
export function Duration({ path, label, value, set, error, hint }) {
  const [text, setText] = useState(/** @type {string|null} */ (null)); // null: the value in words
  const [left, setLeft] = useState(false);
  const shown = value === undefined || value === '' ? '' : parseDuration(value).value ? exactText(value) : value;
  // The text is kept while the field has the value that it means; the value may also change elsewhere.
  const typed = text !== null && (parseDuration(text).value || text.trim()) === (value ?? '').trim() ? text : shown;
  const { problem } = parseDuration(typed);
  // At once, so that a key that submits the form does not come before.
  useLayoutEffect(() => {
    if (problem) problems.set(path, problem);
    return () => void problems.delete(path);
  }, [path, problem]);
  const type = (/** @type {string} */ next) => (setText(next), setLeft(false), set(next.trim() ? parseDuration(next).value || next : undefined));
  const leave = () => {
    // An error that appears earlier would move the button from under the pointer, and its click would be lost.
    const run = () => (setLeft(true), problem || setText(null));
    if (afterClick) afterClick.push(run);
    else run();
  };
  // An error of the server is of a value that was sent; while another text is typed that is no duration, it says what is wrong with that.
  const wrong = problem ? (left || error?.violations?.some((/** @type {any} */ v) => isOf(v.field, path)) ? { violations: [{ field: path, description: problem }] } : null) : error;
  return html`<${Text} path=${path} label=${label} hint=${hint} error=${wrong} value=${typed} set=${type} rest=${{ onBlur: leave }} />`;
}

/** All errors of an answer, at the top of its form. @param {{error: any}} props */
export function FieldErrors({ error }) {
  const box = useRef(/** @type {HTMLElement|null} */ (null));
  const focus = (/** @type {any} */ field) => {
    const folded = field.closest('details:not([open])');
    if (folded) folded.open = true;
    field.focus();
  };
  useEffect(() => {
    if (error) focus(box.current?.closest('form')?.querySelector('[aria-invalid="true"]') ?? box.current);
  }, [error]);
  if (!error) return null;
  const find = (/** @type {string} */ field) => [...known.keys()].filter((path) => isOf(field, path)).sort((a, b) => b.length - a.length)[0];
  const show = (/** @type {Event} */ event, /** @type {string} */ path) => {
    event.preventDefault();
    focus(document.getElementById(idOfPath(path)));
  };
  return html`<div class="failure" role="alert" tabindex="-1" ref=${box}><strong>This cannot be saved</strong>
    ${error.violations?.length ? html`<ul>${error.violations.map((/** @type {any} */ v) => {
      const path = find(v.field);
      return html`<li>${path ? html`<a href=${`#${idOfPath(path)}`} onClick=${(/** @type {Event} */ event) => show(event, path)}>${known.get(path)}</a>` : html`<code>${v.field}</code>`}: ${reasonText(v)}</li>`;
    })}</ul>` : html`<span>${error.message}</span>`}</div>`;
}
