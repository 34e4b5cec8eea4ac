// The schedules that a subscription covers, as people choose them. The API has a filter for it. Pure.
import { quoted } from './api.js';
import { idOf } from './format.js';

/** @typedef {{kind: 'all'|'one'|'label'|'own', text: string}} Scope text: the schedule's id, "team=billing", or the filter itself */

const WORD = String.raw`[\w-]+(?:\.[\w-]+)*`;
const QUOTED = String.raw`"((?:[^"\\]|\\.)*)"`;
const ONE = new RegExp(`^name\\s*=\\s*(?:${QUOTED}|(${WORD}))$`);
const LABEL = new RegExp(`^labels\\.(?:${QUOTED}|(${WORD}))\\s*=\\s*(?:${QUOTED}|(${WORD}))$`);
/** The text in quotes, or the word. @param {string|undefined} inQuotes @param {string|undefined} word */
const valueOf = (inQuotes, word) => inQuotes?.replace(/\\(.)/g, '$1') ?? word ?? '';

/** @param {string|undefined} filter of a subscription @returns {Scope} */
export function scopeOf(filter = '') {
  const text = filter.trim();
  if (!text) return { kind: 'all', text };
  const one = ONE.exec(text);
  const id = one ? idOf(valueOf(one[1], one[2])) : '';
  if (id && !id.includes('*')) return { kind: 'one', text: id };
  const label = LABEL.exec(text);
  const [key, value] = label ? [valueOf(label[1], label[2]), valueOf(label[3], label[4])] : ['', ''];
  // As a text "key=value", it must mean the same label again.
  const plain = key !== '' && !key.includes('=') && [key, value].every((each) => each.trim() === each);
  return plain ? { kind: 'label', text: `${key}=${value}` } : { kind: 'own', text };
}

/** @param {Scope} scope */
export function filterOfScope({ kind, text }) {
  if (kind === 'all') return '';
  if (kind === 'one') return `name = ${quoted(text.trim())}`;
  if (kind === 'own') return text.trim();
  const equals = text.indexOf('=');
  const key = text.slice(0, Math.max(equals, 0)).trim();
  return `labels.${new RegExp(`^${WORD}$`).test(key) ? key : quoted(key)} = ${quoted(text.slice(equals + 1).trim())}`;
}

/** Why this is no choice yet, as the server would say it; '' if it is one. @param {Scope} scope */
export function scopeProblem({ kind, text }) {
  if (kind === 'label') return /^\s*[^=\s][^=]*=/.test(text) ? '' : 'Write a label and its value, such as team=billing.';
  return kind === 'all' || text.trim() ? '' : 'must not be empty';
}

/** @param {string|undefined} filter of a subscription */
export function scopeText(filter) {
  const { kind, text } = scopeOf(filter);
  return { all: 'All schedules', one: `The schedule ${text}`, label: `Schedules with the label ${text}`, own: `Schedules that match ${text}` }[kind];
}
