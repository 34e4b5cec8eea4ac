// The session: the caller, and the actions that the role allows. The server decides; the page only hides those that it would refuse.
import { call, get, onSignedOut } from './api.js';

const ROLES = ['VIEWER', 'OPERATOR', 'EDITOR', 'ADMIN', 'SERVICE'];

/** lost: the server no longer knows the caller, who may sign in again. renewAfter: seconds until the session should be renewed, if it can be. @type {{principal: string, role: string, tenant: string, renewAfter?: number, lost: boolean, signIns: number}} */
export const session = { principal: '', role: '', tenant: '', lost: false, signIns: 0 };

/** True if the caller's role includes this one. @param {string} role */
export const can = (role) => ROLES.indexOf(session.role) >= ROLES.indexOf(role);
/** True for an admin of all tenants. */
export const isOperatorOfAll = () => can('ADMIN') && session.tenant === '';

const RENEWALS_APART_S = 10; // also if the issuer's tokens are good for less
/** @type {ReturnType<typeof setTimeout>|undefined} */
let timer;

/** What the server says of the session. @param {any} found */
function adopt(found) {
  Object.assign(session, { renewAfter: undefined }, found);
  clearTimeout(timer);
  if (session.renewAfter !== undefined) timer = setTimeout(renew, Math.max(session.renewAfter, RENEWALS_APART_S) * 1000);
}

/** The issuers with which people sign in. @type {Promise<{issuer: string, name: string}[]>|undefined} */
let known;
export const issuers = () => (known ??= get('/ui/issuers').then((answer) => answer.issuers, () => ((known = undefined), [])));
/** Begins a sign-in, and comes back to this view. @param {string} issuer */
export const signInAddress = (issuer) => `/ui/sign-in?${new URLSearchParams({ issuer, return: location.pathname + location.search })}`;

/** One tab at a time: an issuer takes the second use of a refresh token as theft, and a renewal under way would bring back a session that was ended. @template T @param {() => Promise<T>} work @returns {Promise<T>} */
const alone = (work) => (navigator.locks ? navigator.locks.request('escapement-session', work) : work());
/** @type {Promise<boolean>|null} */
let renewing = null;
/** False: the session cannot be renewed. */
export function renew() {
  renewing ??= alone(async () => {
    try {
      // Another tab may have renewed it.
      const found = await get('/ui/session').catch(() => null);
      adopt(found && found.renewAfter !== 0 ? found : await call('POST', '/ui/session/renewal'));
      return true;
    } catch {
      return false;
    }
  }).finally(() => (renewing = null));
  return renewing;
}
onSignedOut.renew = async () => session.renewAfter !== undefined && renew();

/** @returns {Promise<void>} */
export async function readSession() {
  try {
    adopt(await get('/ui/session'));
  } catch (error) {
    // The session may have ended while the page was closed.
    if (/** @type {any} */ (error).status !== 401 || !(await issuers()).length || !(await renew())) throw error;
  }
}
/** @param {string} key */
export async function signIn(key) {
  adopt({ ...(await alone(() => call('POST', '/ui/session', { body: { key } }))), lost: false, signIns: session.signIns + 1 });
}
/** Where the session of the issuer ends; undefined: nowhere else. @returns {Promise<string|undefined>} */
export async function signOut() {
  const { next } = await alone(() => call('DELETE', '/ui/session'));
  adopt({});
  return next;
}
