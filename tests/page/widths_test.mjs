// Every text is whole: in every view, dialog and menu, with the longest names that there may be, at four widths and in two colour
// schemes.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, openBrowser, openPage, Platform, startReceiver, until } from './harness.mjs';

const WIDTHS = [360, 768, 1024, 1440];
/** A name of 63 characters, as long as names may be. `fill` without "-" gives a browser no place to break it. */
const long = (begin, fill = 'of-the-large-customers-') => (begin + fill.repeat(63)).slice(0, 62) + 'z';
const WHOLE = 'wwwwwwwwww';
const TENANT = long('tenant-');
const WORDS = 'Bills of the customers whose contracts end with the quarter, and those of all others. '.repeat(3).slice(0, 199).trim(); // at most 200 characters
const NAMES = { schedule: long('big-'), other: long('whole', WHOLE), paused: long('paused-'), hourly: long('hourly-'), policy: long('policy-'), calendar: long('holidays-'), event: long('event-', WHOLE), later: long('later-'), subscription: long('oncall', WHOLE), mail: long('mail-') };
let platform, receiver, browser, page, run, operation;

const post = (where, body) => platform.api('POST', `/tenants/${TENANT}/${where}`, body);
before(async () => {
  receiver = await startReceiver();
  receiver.state.error = `${'the disk of the database is full '.repeat(8)}${WHOLE.repeat(30)} `;
  platform = await Platform.start();
  browser = await openBrowser();
  await platform.api('POST', `/tenants?tenantId=${TENANT}`, { displayName: WORDS });
  const target = (where) => ({ http: { uri: `${receiver.url}${where}/${'a-path-of-the-service/'.repeat(12)}${WHOLE.repeat(8)}` } });
  await post(`policies?policyId=${NAMES.policy}`, { maxConcurrent: '2', perKey: { maxConcurrent: '1' }, displayName: WORDS });
  await post(`policies/${NAMES.policy}:override`, { override: { policyKey: WHOLE.repeat(12), maxConcurrent: '1', reason: WORDS, expireTime: new Date(Date.now() + 3600000).toISOString() } });
  await post(`calendars?calendarId=${NAMES.calendar}`, { displayName: WORDS, dates: Array.from({ length: 40 }, (_, i) => `20${40 + i}-12-25`), rules: ['* * SAT,SUN', '25,26 12 *'] });
  const schedule = (id, more) => platform.schedule(id, { timeZone: 'America/Argentina/ComodRivadavia', cron: '0,7,14,21,28,35,42,49,56 0,2,4,6,8,10,12,14,16,18,20,22 1,3,5,7,9,11,13 1,3,5,7,9,11 MON-FRI', displayName: WORDS, labels: { [WHOLE.repeat(6)]: WHOLE.repeat(6), 'team.of.the.large.customers': 'billing' }, calendar: NAMES.calendar, retryPolicy: { maxAttempts: 1 }, target: target('/fail'), ...more }, TENANT);
  await schedule(NAMES.schedule, { eventCount: '12', policy: NAMES.policy, policyKey: WHOLE.repeat(12), completion: 'ON_DELIVERY', window: { duration: '90061.5s' }, onComplete: target('/ok') });
  await schedule(NAMES.other, { eventCount: '3' });
  await schedule(NAMES.paused, { cron: undefined, timeZone: undefined, calendar: undefined, interval: { every: '90061.25s' }, target: target('/ok') });
  await post(`schedules/${NAMES.paused}:pause`, { reason: WORDS });
  await post(`subscriptions?subscriptionId=${NAMES.subscription}`, { displayName: WORDS, filter: `labels.${WHOLE.repeat(6)} = ${WHOLE.repeat(6)} OR name = ${NAMES.other}`, lateBy: '90061.5s', target: target('/ok') });
  await post(`subscriptions?subscriptionId=${NAMES.mail}`, { displayName: WORDS, kinds: ['FAILED', 'LATE', 'MISSED', 'PAUSED', 'AT_RISK'], target: { email: { smtpUri: `smtps://${'mail.'.repeat(30)}example.org`, from: 'escapement@example.org', to: Array.from({ length: 8 }, (_, i) => `${WHOLE.repeat(4)}${i}@example.org`) } } });
  await schedule(NAMES.hourly, { cron: undefined, timeZone: undefined, calendar: undefined, interval: { every: '3600s', anchorTime: new Date(Date.now() + 2000).toISOString() } });
  run = (await platform.run(NAMES.other, {}, TENANT)).name;
  await platform.run(NAMES.schedule, {}, TENANT);
  const event = (id, more) => post(`events?eventId=${id}`, { retryPolicy: { maxAttempts: 1 }, target: target('/fail'), payload: Buffer.from(`{"${WHOLE.repeat(9)}":"${WORDS}"}`).toString('base64'), ...more });
  await event(NAMES.event, {});
  await event(NAMES.later, { dueTime: new Date(Date.now() + 7200000).toISOString() });
  for (let i = 0; i < 3; i++) await event(`${long('held-').slice(0, 60)}-${i}`, { policy: NAMES.policy, policyKey: WHOLE.repeat(12), completion: 'ON_RELEASE', target: target('/ok') });
  await post('keys', { displayName: WORDS.slice(0, 60), role: 'OPERATOR' });
  await platform.ended(run);
  await until(async () => (await platform.api('GET', `/tenants/${TENANT}/deadLetters`)).deadLetters?.length >= 5, 'dead letters');
  await until(async () => Number((await platform.api('GET', `/tenants/${TENANT}/subscriptions/${NAMES.subscription}`)).problemCount ?? 0) > 0, 'a problem', 60);
  await post(`schedules/${NAMES.paused}:trigger`, {});
  operation = (await post(run.split('/').slice(2).join('/') + ':redrive', {})).name.split('/').pop();
  page = await openPage(browser, platform, { where: `/ui/${TENANT}` });
  page.on('dialog', (question) => void question.accept().catch(() => {})); // "Leave without saving?"
}, { timeout: 120000 });
after(async () => {
  await browser?.close();
  await platform?.stop();
  receiver?.close();
});

/** What is cut off, in the page: texts outside of the window, of a box that hides them, or of their own box; texts of inputs that nobody can read. */
function cutTexts() {
  const found = [];
  const root = document.documentElement;
  const scope = document.querySelector('dialog[open]') ?? document.body;
  const short = (text) => text.trim().replace(/\s+/g, ' ').slice(0, 60);
  const say = (element, text, what) => found.push(`${element.tagName.toLowerCase()}${element.className && `.${element.className}`} “${short(text)}” ${what}`);
  if (root.scrollWidth > root.clientWidth) found.push(`the page scrolls sideways: ${root.scrollWidth} px`);
  const style = (element) => getComputedStyle(element);
  const width = (element, text) => {
    const pen = document.createElement('canvas').getContext('2d');
    pen.font = style(element).font;
    return pen.measureText(text).width;
  };
  /** What shows of an element that scrolls down in a box of its own. */
  const windowOf = (element) => {
    for (let around = element; around && around !== document.body; around = around.parentElement) {
      if (['auto', 'scroll'].includes(style(around).overflowY) && around.scrollHeight > around.clientHeight + 1) return around.getBoundingClientRect();
    }
    return { top: -Infinity, bottom: Infinity };
  };
  const shown = []; // [element, box] of each line
  const texts = document.createTreeWalker(scope, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest('.unseen, svg, option, .skip, textarea, noscript')) continue;
    if (!element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })) continue;
    const head = element.closest('thead');
    if (head && style(head).position === 'absolute') continue; // titles of a narrow table are for screen readers
    const range = document.createRange();
    range.selectNodeContents(node);
    const boxes = [...range.getClientRects()].filter((box) => box.width > 0);
    if (boxes.length >= 4 && !element.closest('pre') && node.data.trim().length / boxes.length < 4) say(element, node.data, `is squeezed to ${boxes.length} lines`);
    const { top, bottom } = windowOf(element);
    const floats = style(element).position === 'sticky'; // titles over the rows that scroll under them
    if (!floats && !element.closest('header, .toasts')) for (const box of boxes) if (box.top >= top && box.bottom <= bottom) shown.push([element, box]);
    for (let around = element, inline = true; around && around !== document.body; around = around.parentElement) {
      const look = style(around);
      if (look.display === 'inline' || look.display === 'contents') continue;
      const clips = (look.overflowX !== 'visible' || look.overflowY !== 'visible' || look.clipPath !== 'none') && look.position !== 'absolute';
      if (look.textOverflow === 'ellipsis' && around.scrollWidth > around.clientWidth) say(element, node.data, 'ends in an ellipsis');
      if (inline || clips) {
        const outer = around.getBoundingClientRect();
        const scrollsDown = ['auto', 'scroll'].includes(look.overflowY);
        if (boxes.some((box) => box.left < outer.left - 1 || box.right > outer.right + 1)) say(element, node.data, `is wider than ${around.tagName.toLowerCase()}.${around.className}`);
        if (clips && !scrollsDown && boxes.some((box) => box.top < outer.top - 1 || box.bottom > outer.bottom + 1)) say(element, node.data, `is higher than ${around.tagName.toLowerCase()}.${around.className}`);
        if (['auto', 'scroll'].includes(look.overflowX) && around.scrollWidth > around.clientWidth + 1) say(around, node.data, 'scrolls sideways');
      }
      inline = false;
    }
    if (boxes.some((box) => box.left < -1 || box.right > root.clientWidth + 1)) say(element, node.data, 'is outside of the window');
  }
  shown.sort(([, a], [, b]) => a.top - b.top);
  shown.forEach(([element, box], i) => {
    for (let k = i + 1; k < shown.length && shown[k][1].top < box.bottom - 4; k++) {
      const [other, next] = shown[k];
      if (next.left < box.right - 2 && next.right > box.left + 2 && !element.contains(other) && !other.contains(element)) say(element, element.textContent, `lies over “${short(other.textContent)}”`);
    }
  });
  for (const input of scope.querySelectorAll('input, select')) {
    if (!input.checkVisibility({ checkOpacity: true })) continue;
    const look = style(input);
    const room = input.clientWidth - parseFloat(look.paddingLeft) - parseFloat(look.paddingRight);
    const text = input.tagName === 'SELECT' ? input.selectedOptions[0]?.text ?? '' : input.value ? '' : input.placeholder;
    if (width(input, text) > room + 1) say(input, text, 'has no room');
    const box = input.getBoundingClientRect();
    if (box.left < -1 || box.right > root.clientWidth + 1) say(input, input.id, 'is outside of the window');
  }
  return [...new Set(found)];
}

const go = async (where) => {
  await page.goto(`${platform.origin}/ui/${TENANT}${where && `/${where}`}`);
  await page.locator('main h1').waitFor();
};
const settled = () => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
/** Looks at the page at every width in both schemes. */
async function look(name, found) {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: 900 });
      await settled();
      for (const each of await page.evaluate(cutTexts)) found.push(`${name} at ${width} px, ${colorScheme}: ${each}`);
      const shots = process.env.SHOTS;
      if (shots) await page.screenshot({ path: `${shots}/${name} ${colorScheme} ${width}.png` });
      if ((width === 360) === (colorScheme === 'dark') && (width === 360 || width === 768)) for (const violation of await axe(page)) found.push(`${name} at ${width} px, ${colorScheme}: ${violation}`);
    }
  }
}

/** [name, address, a text that it shows] */
const views = () => [
  ['overview', '', 'most at'],
  ['map by target', '?by=target', 'most at'],
  ['day', 'day', '1 failed'],
  ['schedules', 'schedules', NAMES.other],
  ['schedule', `schedules/${NAMES.schedule}`, NAMES.policy],
  ['schedule that is paused', `schedules/${NAMES.paused}`, 'It is paused'],
  ['run', run.split('/').slice(2).join('/'), 'failed'],
  ['run event', `${run.split('/').slice(2).join('/')}/events/0`, 'the disk of the database'],
  ['events', 'events', NAMES.later],
  ['ended events', 'events?show=ended', NAMES.event],
  ['event', `events/${NAMES.event}`, 'the disk of the database'],
  ['dead letters', 'dead-letters', 'the disk of the database'],
  ['policies', 'policies', NAMES.policy],
  ['policy', `policies/${NAMES.policy}`, 'Overrides in force'],
  ['keys of the policy', `policies/${NAMES.policy}?show=keys`, '1 at once'],
  ['override', `policies/${NAMES.policy}/override?of=key&key=${WHOLE.repeat(12)}`, 'It replaces an override'],
  ['edit policy', `policies/${NAMES.policy}/edit`, 'Hold time'],
  ['calendars', 'calendars', NAMES.calendar],
  ['calendar', `calendars/${NAMES.calendar}`, '2040-12-25'],
  ['edit calendar', `calendars/${NAMES.calendar}/edit`, 'Dates of a file'],
  ['notifications', 'notifications', NAMES.subscription],
  ['notification', `notifications/${NAMES.subscription}`, 'the disk of the database'],
  ['notification by mail', `notifications/${NAMES.mail}`, 'Late is'],
  ['edit notification', `notifications/${NAMES.mail}/edit`, 'Which problems'],
  ['targets', 'targets', receiver.url],
  ['operations', 'operations', 'Redrive'],
  ['operation', `operations/${operation}`, 'Begun'],
  ['keys', 'keys', 'Expires after'],
  ['tenants', 'tenants', 'Quotas of'],
  ['audit', 'audit', 'RedriveRun'],
  ['edit schedule', `schedules/${NAMES.schedule}/edit`, 'Save'],
  ['new event', 'new-event', 'Create event'],
  ['no view', 'nonsense', 'This address has no view'],
];

test('no text is cut off in any view', { timeout: 480000 }, async () => {
  const found = [];
  for (const [name, where, text] of views()) {
    await go(where);
    await page.locator('main').getByText(text).first().waitFor({ state: 'attached' });
    await page.evaluate(() => document.querySelectorAll('main details').forEach((each) => void (each.open = true)));
    await look(name, found);
  }
  assert.deepEqual(found, []);
  page.check();
});

test('no text is cut off in dialogs, menus, messages and errors', { timeout: 300000 }, async () => {
  const found = [];
  const inDialog = async (name, where, open) => {
    await page.setViewportSize({ width: 1440, height: 900 });
    await go(where);
    await open();
    await page.getByRole('dialog').waitFor();
    await look(`dialog: ${name}`, found);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'hidden' });
  };
  const press = (name) => () => page.getByRole('button', { name }).first().click();
  await inDialog('pause', `schedules/${NAMES.schedule}`, press(/^Pause/));
  await inDialog('run now', `schedules/${NAMES.schedule}`, press(/^Run now/));
  await inDialog('resume', `schedules/${NAMES.paused}`, press(/^Resume/));
  await inDialog('delete', `schedules/${NAMES.schedule}`, press('Delete'));
  await inDialog('backfill', `schedules/${NAMES.schedule}`, press('Backfill'));
  await inDialog('redrive of a letter', `events/${NAMES.event}`, press('Redrive'));
  await inDialog('redrive', 'dead-letters', press('Redrive all that match'));
  await inDialog('purge', 'dead-letters', press('Purge all that match'));
  await inDialog('end of an override', `policies/${NAMES.policy}`, press(/^End the override/));
  await inDialog('release', `policies/${NAMES.policy}`, press(/^Release the token/));
  await inDialog('deletion of a notification', `notifications/${NAMES.subscription}`, press('Delete'));
  await inDialog('revoke', 'keys', press(/^Revoke/));
  await inDialog('new tenant', 'tenants', press('New tenant'));
  await inDialog('suspend', 'tenants', press(`Suspend ${TENANT}`));

  // A message with a long error, over the view.
  await page.setViewportSize({ width: 1440, height: 900 });
  await go(`calendars/${NAMES.calendar}`);
  await press('Delete')();
  await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click();
  await page.locator('.toast.bad').waitFor();
  await look('message', found);

  // Errors at their fields.
  await go('new-schedule');
  await page.getByLabel('URL').fill('');
  await page.getByLabel('Attempts', { exact: true }).fill('1000');
  await page.getByLabel('Name', { exact: true }).fill(WHOLE.repeat(12));
  await page.getByRole('button', { name: 'Create schedule' }).click();
  await page.getByText('This cannot be saved').waitFor();
  await look('errors', found);

  await go('new-notification');
  await page.getByLabel('Which schedules').selectOption('one');
  await page.getByLabel('Schedule', { exact: true }).fill(WHOLE.repeat(12));
  await page.getByText('No schedule matches at present.').waitFor();
  await page.getByRole('button', { name: 'Create notification' }).click();
  await page.getByText('This cannot be saved').waitFor();
  await look('errors of a notification', found);

  // The menu of views, on phones.
  await page.setViewportSize({ width: 360, height: 900 });
  await go('');
  await page.getByRole('button', { name: 'Menu' }).click();
  await page.locator('nav.open').waitFor();
  for (const each of await page.evaluate(cutTexts)) found.push(`menu: ${each}`);
  for (const violation of await axe(page)) found.push(`menu: ${violation}`);

  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('API key').waitFor();
  await page.getByLabel('API key').fill('esc_wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('This key is not valid').waitFor();
  await look('sign-in', found);
  assert.deepEqual(found, []);
  page.check();
});
