// Calls of the REST API. The browser sends the session's cookie; the header below shows that the page itself calls.

import { useRef } from './view.js';

/** @typedef {{field: string, description: string}} Violation */

export class ApiError extends Error {
  /** @param {number} status @param {any} body */
  constructor(status, body) {
    const error = body?.error ?? {};
    super(error.message || `The server answered ${status}.`);
    this.status = status;
    /** @type {any[]} */
    const details = error.details ?? [];
    /** @type {string} */
    this.reason = details.find((detail) => detail.reason)?.reason ?? error.status ?? '';
    /** @type {Violation[]} */
    this.violations = details.flatMap((detail) => detail.fieldViolations ?? []);
  }
}

/** When the server no longer knows the caller: `renew` may get the session back, else `run` runs. */
export const onSignedOut = { run: () => {}, renew: async () => false };

const requestId = () => crypto.getRandomValues(new Uint32Array(4)).join('-');
/** The id that all tries of one form have, so that they have one effect whichever answer is lost. */
export const useForm = () => useRef({ id: requestId() }).current;

const LOST_MS = 120000; // for so long a call whose answer was lost counts as tried again
/** The ids of these calls. @type {Map<string, string>} */
const lost = new Map();

/**
 * A change has a request id. A second try has the id of the first one if its answer was lost, so that both have one effect.
 * @param {string} method
 * @param {string} path names of resources as they are, without escapes
 * @param {{query?: Record<string, any>, body?: any, signal?: AbortSignal, form?: {id: string}}} [options]
 * @param {boolean} [renewed] the session was renewed for this call
 * @returns {Promise<any>}
 */
export async function call(method, path, { query = {}, body, signal, form } = {}, renewed = false) {
  const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const search = new URLSearchParams(set.map(([name, value]) => [name, String(value)])).toString();
  // A ":" stands before the verb of a call.
  const where = path.split('/').map((part) => encodeURIComponent(part).replace(/%3A/g, ':')).join('/') + (search ? `?${search}` : '');
  const text = body === undefined ? undefined : JSON.stringify(body);
  const change = `${method} ${where} ${text}`;
  const id = form?.id ?? lost.get(change) ?? requestId();
  let response, answer;
  try {
    response = await fetch(where, {
      method,
      signal,
      credentials: 'same-origin',
      headers: {
        ...(method === 'GET' ? {} : { 'X-Escapement-CSRF': '1', 'Idempotency-Key': id }),
        ...(text === undefined ? {} : { 'Content-Type': 'application/json' }),
      },
      body: text,
    });
    answer = await response.json().catch(() => null);
  } catch (error) {
    if (signal?.aborted) throw error;
  }
  const answered = response && response.status < 500 && (answer !== null || !response.ok);
  if (answered) lost.delete(change);
  else if (method !== 'GET' && !form && !lost.has(change)) {
    lost.set(change, id);
    setTimeout(() => lost.delete(change), LOST_MS);
  }
  if (response?.ok && answered) return answer;
  const failure = response && !response.ok ? new ApiError(response.status, answer) : new ApiError(0, { error: { message: response ? 'The answer of the server was cut off.' : 'The server cannot be reached.' } });
  if (failure.status === 401 && !path.startsWith('/ui/session')) {
    if (!renewed && (await onSignedOut.renew())) return call(method, path, { query, body, signal, form }, true);
    onSignedOut.run();
  }
  if (form && failure.reason === 'REQUEST_ID_REUSED') {
    form.id = requestId();
    failure.violations = [];
    failure.message = 'An earlier try of this form has succeeded, although its answer was lost. What it made is in the list. Try again only to make another one.';
  }
  throw failure;
}

/** @param {string} path @param {Record<string, any>} [query] @param {AbortSignal} [signal] */
export const get = (path, query, signal) => call('GET', path, { query, signal });
/** @param {string} path @param {any} [body] */
export const post = (path, body = {}) => call('POST', path, { body });

/** All pages of a short list. @param {string} path @param {string} field @param {Record<string, any>} [query] @param {number} [max] */
export async function getAll(path, field, query = {}, max = 1000) {
  const found = [];
  let pageToken;
  do {
    const page = await get(path, { ...query, pageSize: 1000, pageToken });
    found.push(...(page[field] ?? []));
    pageToken = page.nextPageToken;
  } while (pageToken && found.length < max);
  return found;
}

/** A value of a filter in quotes. @param {string} text */
export const quoted = (text) => `"${text.replace(/[\\"]/g, '\\$&')}"`;
