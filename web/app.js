// The page: signs in, shows the frame with its navigation, and the view that the address names.
import { html, render, useEffect, useLayoutEffect, useState } from './parts/view.js';
import { address, go, Link, setQuery, useRoute } from './parts/router.js';
import { getAll, onSignedOut } from './parts/api.js';
import { can, issuers, readSession, session, signIn, signInAddress, signOut } from './parts/session.js';
import { Failure, Loading } from './parts/basics.js';
import { act, Messages } from './parts/dialog.js';
import { Choice } from './parts/fields.js';
import { idOf, remember, remembered, setZone, words, zone, zoneName } from './parts/format.js';
import { Palette } from './parts/palette.js';
import { Overview } from './pages/overview.js';
import { Day } from './pages/day.js';
import { Schedules } from './pages/schedules.js';
import { Schedule } from './pages/schedule.js';
import { ScheduleForm } from './pages/schedule_form.js';
import { LastRun, Run } from './pages/run.js';
import { EventPage, Events, NewEvent } from './pages/events.js';
import { DeadLetter, DeadLetters } from './pages/dead_letters.js';
import { Operations, OperationPage } from './pages/operations.js';
import { OverrideForm, Policies, Policy, PolicyForm } from './pages/policies.js';
import { CalendarForm, CalendarPage, Calendars } from './pages/calendars.js';
import { NotificationForm, NotificationPage, Notifications } from './pages/notifications.js';
import { Target, Targets } from './pages/targets.js';
import { Keys } from './pages/keys.js';
import { Audit } from './pages/audit.js';
import { Tenants } from './pages/tenants.js';

/** @type {[string, string, () => boolean][]} */
const NAVIGATION = [
  ['', 'Overview', () => true],
  ['day', 'Day', () => true],
  ['schedules', 'Schedules', () => true],
  ['events', 'Events', () => true],
  ['dead-letters', 'Dead letters', () => true],
  ['policies', 'Policies', () => true],
  ['calendars', 'Calendars', () => true],
  ['notifications', 'Notifications', () => true],
  ['targets', 'Targets', () => true],
  ['operations', 'Operations', () => true],
  ['keys', 'Keys', () => can('ADMIN')],
  ['tenants', 'Tenants', () => can('ADMIN')],
  ['audit', 'Audit', () => can('ADMIN')],
];

/** The view of an address. @param {import('./parts/router.js').Route} route */
function viewOf({ tenant, parts, query }) {
  const [page = '', id = '', more = '', occurrence = '', , index = ''] = parts;
  const props = { tenant, query };
  switch (page) {
    case '': return html`<${Overview} ...${props} />`;
    case 'day': return html`<${Day} ...${props} />`;
    case 'new-schedule': return html`<${ScheduleForm} ...${props} key=${query.get('copy')} />`;
    case 'schedules':
      if (!id) return html`<${Schedules} ...${props} />`;
      if (more === 'edit') return html`<${ScheduleForm} ...${props} id=${id} key=${id} />`;
      if (index) return html`<${EventPage} ...${props} name=${`schedules/${id}/runs/${occurrence}/events/${index}`} />`;
      if (occurrence === 'last') return html`<${LastRun} ...${props} id=${id} />`;
      if (occurrence) return html`<${Run} ...${props} id=${id} occurrence=${occurrence} />`;
      return html`<${Schedule} ...${props} id=${id} />`;
    case 'new-event': return html`<${NewEvent} ...${props} />`;
    case 'events': return id ? html`<${EventPage} ...${props} name=${`events/${id}`} />` : html`<${Events} ...${props} />`;
    case 'dead-letters': return id ? html`<${DeadLetter} ...${props} id=${id} />` : html`<${DeadLetters} ...${props} />`;
    case 'new-policy': return html`<${PolicyForm} ...${props} />`;
    case 'policies':
      if (!id) return html`<${Policies} ...${props} />`;
      if (more === 'override') return html`<${OverrideForm} ...${props} id=${id} />`;
      return more === 'edit' ? html`<${PolicyForm} ...${props} id=${id} key=${id} />` : html`<${Policy} ...${props} id=${id} />`;
    case 'new-calendar': return html`<${CalendarForm} ...${props} />`;
    case 'calendars':
      if (!id) return html`<${Calendars} ...${props} />`;
      return more === 'edit' ? html`<${CalendarForm} ...${props} id=${id} key=${id} />` : html`<${CalendarPage} ...${props} id=${id} />`;
    case 'new-notification': return html`<${NotificationForm} ...${props} />`;
    case 'notifications':
    case 'subscriptions': // their name in the API
      if (!id) return html`<${Notifications} ...${props} />`;
      return more === 'edit' ? html`<${NotificationForm} ...${props} id=${id} key=${id} />` : html`<${NotificationPage} ...${props} id=${id} />`;
    case 'targets': return id ? html`<${Target} ...${props} id=${id} />` : html`<${Targets} ...${props} />`;
    case 'operations': return id ? html`<${OperationPage} ...${props} id=${id} />` : html`<${Operations} ...${props} />`;
    case 'keys': return html`<${Keys} ...${props} />`;
    case 'tenants': return html`<${Tenants} ...${props} />`;
    case 'audit': return html`<${Audit} ...${props} />`;
    default: return html`<${Failure} error=${{ status: 404, message: 'This address has no view.' }} whole />`;
  }
}

/** Why a sign-in with an issuer failed, by `sign_in` of the address. @type {Record<string, string>} */
const FAILURES = {
  state: 'This sign-in was not begun in this browser, or it took more than 10 minutes. Try again.',
  refused: 'The sign-in was refused. Try again, or ask an admin.',
  no_rights: 'Your account has no role here. Ask an admin for one.',
  invalid: 'The answer to the sign-in is not valid. Ask an admin: the log says more.',
  wait: 'Too many sign-ins from this address have failed. Try again in ten seconds.',
  unavailable: 'The sign-in does not work at the moment. Try again, or ask an admin: the log says more.',
};

/** @param {{onDone: () => void}} props */
function SignIn({ onDone }) {
  const [error, setError] = useState('');
  const [busy, setBusy] = useState(false);
  const [failed] = useState(() => new Map(Object.entries(FAILURES)).get(new URLSearchParams(location.search).get('sign_in') ?? ''));
  const [choices, setChoices] = useState(/** @type {{issuer: string, name: string}[]} */ ([]));
  useEffect(() => {
    issuers().then(setChoices);
    if (failed) setQuery({ sign_in: undefined }, { replace: true, quiet: true });
  }, []);
  useEffect(() => {
    const before = { title: document.title, focus: /** @type {HTMLElement|null} */ (document.activeElement) };
    document.title = 'Sign in · Escapement';
    return () => {
      document.title = before.title;
      requestAnimationFrame(() => { if (document.activeElement === document.body) before.focus?.focus?.(); });
    };
  }, []);
  const submit = async (/** @type {any} */ event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn(event.target.key.value.trim());
      onDone();
    } catch (failure) {
      const { status, message } = /** @type {any} */ (failure);
      setError(status === 401 ? 'This key is not valid: it may be mistyped, revoked or expired.' : message);
    }
    setBusy(false);
  };
  return html`<main class="sign-in"><form onSubmit=${submit}>
    <h1>Escapement</h1>${failed && html`<p class="error" role="alert">${failed}</p>`}
    ${choices.map(({ issuer, name }) => html`<a key=${issuer} class="button primary" href=${signInAddress(issuer)}>Sign in with ${name}</a>`)}
    <p class="muted">${choices.length ? 'Or sign' : 'Sign'} in with an API key. Ask an admin for one, or make it with <code>escctl key create</code>.</p>
    <label class="field"><span>API key</span>
      <input name="key" type="password" required autocomplete="current-password" placeholder="esc_…" autofocus aria-invalid=${error ? 'true' : undefined} aria-describedby="key-error" /></label>
    <p id="key-error" class="error" role="alert">${error}</p>
    <button class=${choices.length ? '' : 'primary'} disabled=${busy}>Sign in</button></form></main>`;
}

/** Chooses light, dark, or as the system has it. */
function useTheme() {
  const [theme, setTheme] = useState(() => remembered('theme', 'system'));
  useEffect(() => {
    remember('theme', theme);
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  return /** @type {[string, (theme: string) => void]} */ ([theme, setTheme]);
}

/** @param {{tenant: string}} props */
function TenantChoice({ tenant }) {
  const [tenants, setTenants] = useState([tenant]);
  useEffect(() => {
    getAll('/v1/tenants', 'tenants').then((found) => setTenants(found.map((each) => idOf(each.name))), () => {});
  }, [session.signIns]);
  if (session.tenant) return html`<span class="tenant">${tenant}</span>`;
  const all = tenants.includes(tenant) ? tenants : [tenant, ...tenants];
  return html`<label class="tenant"><span class="unseen">Tenant</span><${Choice} value=${tenant} options=${all.map((each) => [each, each])} set=${(/** @type {string} */ next) => go(address(next, []))} /></label>`;
}

function App() {
  const route = useRoute();
  // "again": the server no longer knows the caller. The views stay behind the sign-in with what was typed.
  const [state, setState] = useState(/** @type {'begin'|'in'|'again'|'out'|{error: any}} */ ('begin'));
  const [theme, setTheme] = useTheme();
  const [, redraw] = useState(0);
  const [open, setOpen] = useState(false);
  const [finding, setFinding] = useState(false);
  const begin = (session_ = readSession()) => session_.then(() => setState('in'), (error) => setState(error.status === 401 ? 'out' : { error }));
  useLayoutEffect(() => {
    onSignedOut.run = () => setState((before) => {
      session.lost = before === 'in' || before === 'again';
      return session.lost ? 'again' : 'out';
    });
    begin(begun);
  }, []);
  const tenant = route.tenant;
  useEffect(() => {
    if (state === 'in' && !tenant) go(address(session.tenant || 'default', []), { replace: true });
  }, [state, tenant]);
  const path = route.parts.join('/');
  useEffect(() => setOpen(false), [tenant, path]);
  useLayoutEffect(() => {
    if (state !== 'in') return setFinding(false);
    const listener = (/** @type {KeyboardEvent} */ event) => {
      const slash = event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey && !/** @type {HTMLElement} */ (event.target).closest?.('input, textarea, select, [contenteditable]');
      const k = event.key.toLowerCase() === 'k' && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
      if (!slash && !k) return;
      event.preventDefault();
      // A question goes before.
      if (!document.querySelector('dialog[open]')) setFinding(true);
    };
    addEventListener('keydown', listener);
    return () => removeEventListener('keydown', listener);
  }, [state]);

  if (state === 'begin') return html`<main class="sign-in"><${Loading} /></main>`;
  if (state === 'out') return html`<${SignIn} onDone=${() => setState('in')} /><${Messages} />`;
  if (typeof state === 'object') return html`<main class="sign-in"><${Failure} error=${state.error} retry=${() => begin()} /></main>`;
  if (!tenant) return null;
  const page = route.parts[0]?.replace(/^new-(schedule|event|calendar|notification)$/, '$1s').replace('new-policy', 'policies') ?? '';
  const leave = async () => {
    const next = await act('', signOut);
    if (next) location.assign(next);
    setState('out');
  };
  const signedIn = session.principal !== 'anonymous';
  return html`${state === 'again' && html`<${SignIn} onDone=${() => setState('in')} />`}
    <div class="frame" hidden=${state === 'again'}><a class="skip" href="#main">Skip to the content</a>
    <header><button class="menu" aria-expanded=${open ? 'true' : 'false'} aria-controls="navigation" onClick=${() => setOpen(!open)}>Menu</button>
      <${Link} to=${address(tenant, [])} class="brand"><svg viewBox="0 0 24 24" aria-hidden="true"><circle cx="12" cy="12" r="9" /><path d="M12 7v5l3.5 2" /></svg>Escapement<//>
      <${TenantChoice} tenant=${tenant} />
      <button class="find" aria-label="Find anything" aria-haspopup="dialog" aria-keyshortcuts="/ Control+K Meta+K" title="Find schedules, events, policies and actions: / or Ctrl+K" onClick=${() => setFinding(true)}><svg viewBox="0 0 24 24" aria-hidden="true"><circle cx="10.5" cy="10.5" r="6.5" /><path d="M15.5 15.5 21 21" /></svg><span>Find</span><kbd aria-hidden="true">/</kbd></button>
      <span class="space"></span>
      <label><span class="unseen">Times</span><${Choice} value=${zone.mode} set=${(/** @type {string} */ mode) => (setZone(mode), redraw((turn) => turn + 1))} options=${[['local', zone.mode === 'local' ? zoneName() : 'Local time'], ['utc', 'UTC']]} /></label>
      <label><span class="unseen">Colours</span><${Choice} value=${theme} set=${setTheme} options=${[['system', 'Auto'], ['light', 'Light'], ['dark', 'Dark']]} /></label>
      ${signedIn && html`<span class="who" title=${session.principal}>${words(session.role)}</span><button onClick=${leave}>Sign out</button>`}</header>
    <nav id="navigation" aria-label="Views" class=${open ? 'open' : ''}><ul>${NAVIGATION.filter(([, , may]) => may()).map(([part, title]) => html`<li key=${part}>
      <${Link} to=${address(tenant, part ? [part] : [])} aria-current=${page === part ? 'page' : undefined}>${title}<//></li>`)}
      <li class="last"><a href="/docs">API reference</a></li></ul></nav>
    <main id="main" tabindex="-1"><div key=${`${tenant}/${path}/${session.principal}`}>${viewOf(route)}</div></main></div>
    ${finding && html`<${Palette} tenant=${tenant} parts=${route.parts} views=${NAVIGATION.filter(([, , may]) => may())} onClose=${() => setFinding(false)} />`}<${Messages} />`;
}

// The first call goes out before anything is drawn.
const begun = readSession();
document.documentElement.dataset.theme = remembered('theme', 'system');
render(html`<${App} />`, /** @type {Element} */ (document.getElementById('app')));
