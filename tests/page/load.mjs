// Many schedules and events, and how soon a view of them shows data.
import assert from 'node:assert/strict';
import { openPage } from './harness.mjs';

/** Runs `work` for 0…n-1, at most `width` at once. */
async function each(n, width, work) {
  let next = 0;
  await Promise.all(Array.from({ length: width }, async () => {
    while (next < n) await work(next++);
  }));
}

export async function fill(platform, receiver, { schedules, events }) {
  const target = { http: { uri: `${receiver.url}/ok` } };
  await each(schedules, 16, (i) => platform.schedule(`s-${String(i).padStart(6, '0')}`, { cron: `${i % 60} ${Math.floor(i / 60) % 24} * * *`, labels: { team: `t${i % 10}` }, target }));
  const due = new Date(Date.now() + 30 * 86400000).toISOString();
  await each(Math.ceil(events / 1000), 4, (batch) => platform.api('POST', '/tenants/default/events:batchCreate', {
    requests: Array.from({ length: Math.min(1000, events - batch * 1000) }, (_, i) => ({ eventId: `e-${String(batch * 1000 + i).padStart(7, '0')}`, event: { dueTime: due, target } })),
  }));
}

/** For each view: bytes over the network with a cold cache (the page's files, and data), and ms from the navigation to the first data, with a cold
 * cache and with a warm one (medians of five). */
export async function firstViews(browser, platform) {
  const views = { overview: ['', '.tile .figure', '[0-9]'], schedules: ['schedules', 'tbody tr:not(.gap)', '.'], events: ['events', 'tbody tr:not(.gap)', '.'], day: ['day', '.lane-text', 'nothing|completed|to come'] };
  const figures = {};
  const page = await openPage(browser, platform);
  const measure = async (where, selector, text) => {
    await page.goto(`${platform.origin}/ui/default/${where}`, { waitUntil: 'commit' });
    const ms = await page.evaluate(([selector_, text_]) => new Promise((done) => {
      const look = () => ([...document.querySelectorAll(selector_)].some((found) => new RegExp(text_).test(found.textContent)) ? done(Math.round(performance.now())) : requestAnimationFrame(look));
      look();
    }), [selector, text]);
    // So that calls of this view do not delay the next one.
    await page.waitForLoadState('networkidle');
    return ms;
  };
  const median = async (work) => {
    const found = [];
    for (let i = 0; i < 5; i++) found.push(await work());
    return found.sort((a, b) => a - b)[2];
  };
  const cdp = await page.context().newCDPSession(page);
  await cdp.send('Network.enable');
  for (const [name, view] of Object.entries(views)) {
    const bytes = { files: 0, data: 0 };
    const kinds = new Map();
    const onRequest = (event) => kinds.set(event.requestId, /\/(v1|ui\/session|ui\/platform|metrics)/.test(event.request.url) ? 'data' : 'files');
    // Calls of the view before may end only now.
    const onFinish = (event) => void (kinds.has(event.requestId) && (bytes[kinds.get(event.requestId)] += event.encodedDataLength));
    cdp.on('Network.requestWillBeSent', onRequest);
    cdp.on('Network.loadingFinished', onFinish);
    await cdp.send('Network.clearBrowserCache');
    await measure(...view);
    cdp.off('Network.requestWillBeSent', onRequest);
    cdp.off('Network.loadingFinished', onFinish);
    const cold = await median(async () => {
      await cdp.send('Network.clearBrowserCache');
      return measure(...view);
    });
    figures[name] = { ...bytes, cold, warm: await median(() => measure(...view)) };
  }
  assert.deepEqual(page.problems, []);
  await page.context().close();
  return figures;
}
