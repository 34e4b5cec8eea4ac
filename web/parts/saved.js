// The browser keeps for each tenant views with a name, and recent choices of the palette. If it denies storage, they last as long
// as the page is open.
import { changes, html } from './view.js';
import { Link, readRoute } from './router.js';
import { ask, say } from './dialog.js';

/** @typedef {{title: string, to: string, note?: string, role?: string}} Place an address of this page; role: the one that its action needs */

const VIEWS_MAX = 50; // of a tenant; a further one replaces the oldest
const RECENT_MAX = 8;
const NAME_MAX = 60; // characters of a view's name

/** Lists that could not be stored. @type {Map<string, string>} */
const unstored = new Map();
const stored = changes();
addEventListener('storage', stored.tell);

/** @param {string} kind 'views' or 'recent' @param {string} tenant @returns {Place[]} */
function read(kind, tenant) {
  const name = `${kind}/${tenant}`;
  let text = unstored.get(name);
  try {
    text ??= localStorage.getItem(name) ?? '';
  } catch {} // the browser denies storage
  try {
    const places = JSON.parse(text || '[]');
    return places.filter((/** @type {any} */ each) => typeof each.title === 'string' && String(each.to).startsWith(`/ui/${tenant}`));
  } catch {
    return []; // another program wrote it
  }
}

/** @param {string} kind @param {string} tenant @param {Place[]} places */
function write(kind, tenant, places) {
  const name = `${kind}/${tenant}`;
  const text = JSON.stringify(places);
  unstored.delete(name);
  try {
    localStorage.setItem(name, text);
  } catch {
    unstored.set(name, text);
  }
  stored.tell();
}

/** @param {string} tenant */
export const savedViews = (tenant) => read('views', tenant);
/** @param {string} tenant */
export const recentPlaces = (tenant) => read('recent', tenant);
/** @param {string} tenant @param {Place} place */
export const addRecent = (tenant, place) => write('recent', tenant, [place, ...recentPlaces(tenant).filter((each) => each.to !== place.to)].slice(0, RECENT_MAX));

/** The present view without its place in the list. */
function presentView() {
  const { searchParams, pathname } = new URL(location.href);
  searchParams.delete('at');
  return pathname + (searchParams.size ? `?${searchParams}` : '');
}

/** @param {string} tenant */
async function saveView(tenant) {
  const to = presentView();
  const values = await ask({ title: 'Save this view', text: 'It keeps the filters and the order. This browser keeps it; others get it by its link.', action: 'Save', fields: [{ name: 'name', label: 'Name', value: savedViews(tenant).find((each) => each.to === to)?.title }] });
  const title = values?.name.trim().slice(0, NAME_MAX);
  if (!title) return;
  write('views', tenant, [...savedViews(tenant).filter((each) => each.title !== title && each.to !== to), { title, to }].slice(-VIEWS_MAX));
  say(`The view “${title}” is saved.`);
}

async function copyLink() {
  const link = new URL(presentView(), location.href).href;
  try {
    await navigator.clipboard.writeText(link);
    say('The link is copied.');
  } catch {
    await ask({ title: 'Link of this view', action: 'Done', fields: [{ name: 'link', label: 'Copy it from here', value: link }] });
  }
}

/** The views of this list: open, save, delete, share. */
export function SavedViews() {
  stored.use(() => ({}));
  const { tenant } = readRoute();
  const views = savedViews(tenant).filter((each) => new URL(each.to, location.href).pathname === location.pathname);
  const present = presentView();
  return html`<details class="saved"><summary class="button">Views${views.length > 0 && ` (${views.length})`}</summary>
    ${views.length > 0 && html`<ul class="plain">${views.map((view) => html`<li key=${view.to}><${Link} to=${view.to} aria-current=${view.to === present ? 'true' : undefined}>${view.title}<//>
      <button type="button" class="link" aria-label=${`Delete the view ${view.title}`} onClick=${() => write('views', tenant, savedViews(tenant).filter((each) => each.to !== view.to))}>Delete</button></li>`)}</ul>`}
    <div class="buttons"><button type="button" onClick=${() => saveView(tenant)}>Save this view…</button><button type="button" onClick=${copyLink}>Copy its link</button></div></details>`;
}
