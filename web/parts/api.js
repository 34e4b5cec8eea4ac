// Calls of the REST API. The browser sends the session's cookie; the header below shows that the page itself calls.

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

/** Runs when the server no longer knows the caller. */
export const onSignedOut = { run: () => {} };

/**
 * @param {string} method
 * @param {string} path
 * @param {{query?: Record<string, any>, body?: any, signal?: AbortSignal, headers?: Record<string, string>}} [options]
 * @returns {Promise<any>}
 */
export async function call(method, path, { query = {}, body, signal, headers = {} } = {}) {
  const set = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const search = new URLSearchParams(set.map(([name, value]) => [name, String(value)])).toString();
  let response;
  try {
    response = await fetch(path + (search ? `?${search}` : ''), {
      method,
      signal,
      credentials: 'same-origin',
      headers: {
        ...(method === 'GET' ? {} : { 'X-Escapement-CSRF': '1' }),
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, { error: { message: 'The server cannot be reached.' } });
  }
  const answer = await response.json().catch(() => null);
  if (response.ok) return answer;
  const failure = new ApiError(response.status, answer);
  if (response.status === 401 && !path.startsWith('/ui/session')) onSignedOut.run();
  throw failure;
}

/** @param {string} path @param {Record<string, any>} [query] @param {AbortSignal} [signal] */
export const get = (path, query, signal) => call('GET', path, { query, signal });
/** @param {string} path @param {any} [body] */
export const post = (path, body = {}) => call('POST', path, { body });

/** A new id for Idempotency-Key, so that a repeated call has one effect. */
export const requestId = () => crypto.getRandomValues(new Uint32Array(4)).join('-');

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
