// The session: the caller, and the actions that the role allows. The server decides; the page only hides those that it would refuse.
import { call, get } from './api.js';

const ROLES = ['VIEWER', 'OPERATOR', 'EDITOR', 'ADMIN', 'SERVICE'];

/** lost: the server no longer knows the caller, who may sign in again. @type {{principal: string, role: string, tenant: string, lost: boolean, signIns: number}} */
export const session = { principal: '', role: '', tenant: '', lost: false, signIns: 0 };

/** True if the caller's role includes this one. @param {string} role */
export const can = (role) => ROLES.indexOf(session.role) >= ROLES.indexOf(role);
/** True for an admin of all tenants. */
export const isOperatorOfAll = () => can('ADMIN') && session.tenant === '';

/** @returns {Promise<void>} */
export async function readSession() {
  Object.assign(session, await get('/ui/session'));
}
/** @param {string} key */
export async function signIn(key) {
  Object.assign(session, await call('POST', '/ui/session', { body: { key } }), { lost: false, signIns: session.signIns + 1 });
}
export const signOut = () => call('DELETE', '/ui/session');
