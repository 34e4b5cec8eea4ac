// API keys of a tenant, or of all tenants.
import { html, useState } from '../parts/view.js';
import { setQuery } from '../parts/router.js';
import { call, post } from '../parts/api.js';
import { session } from '../parts/session.js';
import { Badge, Head } from '../parts/basics.js';
import { act, ask } from '../parts/dialog.js';
import { List } from '../parts/table.js';
import { Duration, Field, FieldErrors, Select, typedErrors } from '../parts/fields.js';
import { keyState } from '../parts/state.js';
import { agoText, idOf, timeAfter, timeText, words } from '../parts/format.js';

/** @param {{tenant: string, query: URLSearchParams}} props */
export function Keys({ tenant, query }) {
  const all = query.get('of') === 'all' && !session.tenant;
  const parent = `/v1/tenants/${all ? '-' : tenant}`;
  const [turn, setTurn] = useState(0);
  const [draft, setDraft] = useState({ displayName: '', role: 'VIEWER', lasts: /** @type {string|undefined} */ ('7776000s') });
  const [made, setMade] = useState(/** @type {any} */ (null));
  const [failure, setFailure] = useState(/** @type {any} */ (null));
  const create = async (/** @type {Event} */ event) => {
    event.preventDefault();
    const wrong = typedErrors();
    if (wrong) return setFailure(wrong);
    try {
      setMade(await call('POST', `${parent}/keys`, { body: { displayName: draft.displayName, role: draft.role, expireTime: timeAfter(draft.lasts) } }));
      setFailure(null);
      setTurn((t) => t + 1);
    } catch (error) {
      setFailure(error);
    }
  };
  const revoke = async (/** @type {any} */ key) => {
    if (!(await ask({ title: `Revoke ${key.displayName || idOf(key.name)}?`, text: 'Programs and people that use it are refused within five seconds. It cannot be restored.', action: 'Revoke', danger: true }))) return;
    if (await act('The key is revoked.', () => post(`/v1/${key.name}:revoke`))) setTurn((t) => t + 1);
  };
  const columns = [
    { title: 'Key', size: 22, cell: (/** @type {any} */ k) => html`<code>${idOf(k.name)}</code> ${k.displayName}` },
    { title: 'Role', cell: (/** @type {any} */ k) => words(k.role) },
    { title: 'State', cell: (/** @type {any} */ k) => html`<${Badge} of=${keyState(k)} />` },
    { title: 'Last used', wide: true, cell: (/** @type {any} */ k) => (k.lastUseTime ? agoText(k.lastUseTime) : 'never') },
    { title: 'Expires', wide: true, cell: (/** @type {any} */ k) => (k.expireTime ? timeText(k.expireTime) : 'never') },
    { title: 'Actions', hidden: true, cell: (/** @type {any} */ k) => !k.revokeTime && html`<button aria-label=${`Revoke ${k.displayName || idOf(k.name)}`} onClick=${() => revoke(k)}>Revoke</button>` },
  ];
  return html`<${Head} title="Keys" />
    ${!session.tenant && html`<div class="tabs" role="group" aria-label="Whose keys"><button aria-pressed=${all ? 'false' : 'true'} onClick=${() => setQuery({ of: '', at: '' })}>Of ${tenant}</button><button aria-pressed=${all ? 'true' : 'false'} onClick=${() => setQuery({ of: 'all', at: '' })}>Of all tenants</button></div>`}
    <form class="form inline" onSubmit=${create} novalidate><${FieldErrors} error=${failure} /><fieldset><legend>New key</legend>
      <${Field} path="display_name" label="For whom" hint="" error=${failure}>${(/** @type {any} */ p) => html`<input ...${p} value=${draft.displayName} onInput=${(/** @type {any} */ e) => setDraft({ ...draft, displayName: e.target.value })} />`}<//>
      <${Select} path="role" label="Role" error=${failure} value=${draft.role} set=${(/** @type {string} */ role) => setDraft({ ...draft, role })} options=${[['VIEWER', 'Viewer: reads'], ['OPERATOR', 'Operator: also pauses, triggers, redrives'], ['EDITOR', 'Editor: also creates and changes'], ['ADMIN', 'Admin: also keys and audit']]} />
      <${Duration} path="expire_time" label="Expires after" hint="Such as 90 d. Empty: never." error=${failure} value=${draft.lasts} set=${(/** @type {string|undefined} */ lasts) => setDraft({ ...draft, lasts })} />
      <button class="primary">Create key</button></fieldset></form>
    ${made && html`<section class="card" role="status"><h2>The new key</h2><p>It is shown only now. Keep it where only its owner can read it.</p><p><code class="secret">${made.secret}</code></p>
      <button onClick=${() => act('Copied.', () => navigator.clipboard.writeText(made.secret))}>Copy</button> <button onClick=${() => setMade(null)}>Hide</button></section>`}
    <${List} path=${`${parent}/keys`} field="keys" columns=${columns} caption="Keys" noun="keys" refreshKey=${turn} empty="There is no key." />`;
}
