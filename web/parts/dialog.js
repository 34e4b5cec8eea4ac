// Questions and short messages. A question is a modal dialog of the browser, which keeps the focus and closes with Escape.
import { html, useEffect, useRef, useState } from './view.js';
import { reasonText } from './fields.js';

/**
 * @typedef {{title: string, text?: any, action: string, danger?: boolean, fields?: {name: string, label: string, value?: string, type?: string, hint?: string, path?: string}[], work?: (values: Record<string, string>) => Promise<any>}} Question
 * path: the server's name of the field, if it is another one. work: runs with the fields' values before the question closes; if it
 * fails, the errors stand at their fields and the question stays.
 */

const shown = {
  question: /** @type {(Question & {answer: (values: Record<string, string>|null) => void})|null} */ (null),
  toasts: /** @type {{id: number, text: string, bad: boolean}[]} */ ([]),
  changed: () => {},
};
let nextId = 1;

/** Resolves to the fields' values, or null if the user declines. @param {Question} question @returns {Promise<Record<string, string>|null>} */
export function ask(question) {
  return new Promise((resolve) => {
    shown.question = {
      ...question,
      answer: (values) => {
        shown.question = null;
        shown.changed();
        resolve(values);
      },
    };
    shown.changed();
  });
}

/** @param {string} text @param {boolean} [bad] errors stay until they are dismissed */
export function say(text, bad = false) {
  const toast = { id: nextId++, text, bad };
  shown.toasts = [...shown.toasts.slice(-3), toast];
  shown.changed();
  if (!bad) setTimeout(() => dismiss(toast.id), 6000);
}
/** @param {number} id */
function dismiss(id) {
  shown.toasts = shown.toasts.filter((toast) => toast.id !== id);
  shown.changed();
}

/** Runs a change, and says its end. @template T @param {string} done @param {() => Promise<T>} work @returns {Promise<T|undefined>} */
export async function act(done, work) {
  try {
    const result = await work();
    if (done) say(done);
    return result;
  } catch (error) {
    say(/** @type {Error} */ (error).message, true);
    return undefined;
  }
}

/** @param {{question: NonNullable<typeof shown.question>}} props */
function QuestionDialog({ question }) {
  const dialog = useRef(/** @type {HTMLDialogElement|null} */ (null));
  useEffect(() => {
    const before = /** @type {HTMLElement|null} */ (document.activeElement);
    dialog.current?.showModal();
    return () => {
      before?.focus?.();
      // The browser refuses that while the dialog is still open, or the button not yet enabled again.
      requestAnimationFrame(() => { if (document.activeElement === document.body) before?.focus?.(); });
    };
  }, []);
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  useEffect(() => void (error && /** @type {any} */ (dialog.current?.querySelector('[aria-invalid="true"]'))?.focus()), [error]);
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    const values = Object.fromEntries(/** @type {any} */ (new FormData(event.target)));
    setBusy(true);
    try {
      await question.work?.(values);
      question.answer(values);
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  const errorOf = (/** @type {{name: string, path?: string}} */ field) => (error?.violations ?? []).filter((/** @type {any} */ v) => v.field.split('.').pop() === (field.path ?? field.name)).map(reasonText).join(' ');
  const placed = question.fields?.some(errorOf);
  return html`<dialog ref=${dialog} aria-labelledby="question" onCancel=${(/** @type {Event} */ event) => (event.preventDefault(), question.answer(null))}>
    <form onSubmit=${submit}>
      <h2 id="question">${question.title}</h2>
      ${question.text && html`<div class="text">${question.text}</div>`}
      ${error && !placed && html`<p class="error" role="alert">${error.message}</p>`}
      ${question.fields?.map((field) => html`<div class="field"><label for=${`ask-${field.name}`}>${field.label}</label>
        <input id=${`ask-${field.name}`} name=${field.name} type=${field.type ?? 'text'} defaultValue=${field.value ?? ''} autocomplete="off" aria-invalid=${errorOf(field) ? 'true' : undefined} aria-describedby=${`ask-${field.name}-note`} />
        <span id=${`ask-${field.name}-note`}>${field.hint && html`<small>${field.hint}</small>`}${errorOf(field) && html`<p class="error">${errorOf(field)}</p>`}</span></div>`)}
      <div class="actions"><button type="button" onClick=${() => question.answer(null)}>Cancel</button>
        <button type="submit" disabled=${busy} class=${question.danger ? 'primary danger' : 'primary'}>${question.action}</button></div>
    </form></dialog>`;
}

export function Messages() {
  const [, redraw] = useState(0);
  useEffect(() => {
    shown.changed = () => redraw((turn) => turn + 1);
  }, []);
  return html`${shown.question && html`<${QuestionDialog} key=${shown.question} question=${shown.question} />`}
    <div class="toasts" role="status" aria-live="polite">${shown.toasts.map((toast) => html`<div key=${toast.id} class=${toast.bad ? 'toast bad' : 'toast'}>
      <span>${toast.text}</span><button class="link" aria-label="Dismiss this message" onClick=${() => dismiss(toast.id)}>✕</button></div>`)}</div>`;
}
