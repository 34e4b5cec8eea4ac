// Dead letters: events that failed for good. Find them, see why, send them again or purge them.
import { html, useState } from '../parts/view.js';
import { address, Link } from '../parts/router.js';
import { get, getAll, post, quoted } from '../parts/api.js';
import { can } from '../parts/session.js';
import { Facts, Failure, Head, Loading, TextBox } from '../parts/basics.js';
import { act, ask } from '../parts/dialog.js';
import { useData } from '../parts/data.js';
import { Cell, List } from '../parts/table.js';
import { Attempts, eventAddress, OperationProgress, redriveLetter } from '../parts/runs.js';
import { agoText, count, counted, idOf, shortText, shownBytes, Time, timeText } from '../parts/format.js';
import { Filters } from './schedules.js';

/** The API's filter of the address. @param {URLSearchParams} query */
function filterOf(query) {
  const text = (query.get('q') ?? '').trim();
  const hours = Math.min(Number(query.get('within') || 0), 100000);
  return [
    /(=|<|>| : )/.test(text) ? `(${text})` : text && `reason : ${quoted(text)}`,
    query.get('schedule') && `schedule = ${quoted(query.get('schedule') ?? '')}`,
    // Down to the hour, so that pages stay those of one list.
    hours && `create_time >= "${new Date(Math.floor(Date.now() / 3600000 - hours) * 3600000).toISOString()}"`,
  ].filter(Boolean).join(' AND ');
}

/** @param {{tenant: string, query: URLSearchParams}} props */
export function DeadLetters({ tenant, query }) {
  const parent = `/v1/tenants/${tenant}`;
  const [selected, setSelected] = useState(/** @type {Set<string>} */ (new Set()));
  const [turn, setTurn] = useState(0);
  const [begun, setBegun] = useState(/** @type {string[]} */ ([]));
  const { data: running } = useData(() => getAll(`${parent}/operations`, 'operations', { filter: 'state = RUNNING' }, 20), [tenant, turn], 5000);
  const filter = filterOf(query);
  const changed = () => (setSelected(new Set()), setTurn((t) => t + 1));

  const redriveMatches = async () => {
    const counted_ = await act('', () => post(`${parent}/deadLetters:redrive`, { filter, validateOnly: true }));
    if (!counted_) return;
    const total = counted_.totalCount ?? 0;
    const values = await ask({ title: `Send ${counted(total, 'event')} again?`, text: filter ? 'These are all dead letters that match the filter now.' : 'These are all dead letters of the tenant.', action: `Redrive ${count(total)}`, fields: [{ name: 'rate', label: 'Events per second (optional)', type: 'number', hint: 'Empty: as fast as possible.' }] });
    if (!values) return;
    const operation = await act('The redrive has begun.', () => post(`${parent}/deadLetters:redrive`, { filter, ...(values.rate ? { maxPerSecond: Number(values.rate) } : {}) }));
    if (operation) setBegun([operation.name, ...begun]);
  };
  const purgeMatches = async () => {
    const counted_ = await act('', () => post(`${parent}/deadLetters:purge`, { filter }));
    if (!counted_) return;
    const total = `${counted_.more ? 'more than ' : ''}${counted(counted_.purgeCount, 'dead letter')}`;
    if (!(await ask({ title: `Delete ${total}?`, text: 'The events keep their outcome and cannot be sent again.', action: `Purge ${count(counted_.purgeCount)}`, danger: true }))) return;
    const answer = await act('The purge has begun.', () => post(`${parent}/deadLetters:purge`, { filter, force: true }));
    if (answer?.operation) setBegun([answer.operation.name, ...begun]);
  };
  const redriveSelected = async () => {
    if (!(await ask({ title: `Send ${counted(selected.size, 'event')} again?`, text: 'Each keeps its id and gets a new round of attempts.', action: `Redrive ${selected.size}` }))) return;
    await act(`${counted(selected.size, 'event')} will be sent again.`, async () => {
      for (const name of selected) await post(`/v1/${name}:redrive`);
    });
    changed();
  };

  const columns = [
    { title: 'Failed', cell: (/** @type {any} */ d) => html`<${Cell} to=${address(tenant, ['dead-letters', idOf(d.name)])}><time datetime=${d.createTime} title=${timeText(d.createTime)}>${agoText(d.createTime)}</time><//>` },
    { title: 'Schedule or event', cell: (/** @type {any} */ d) => (d.schedule ? idOf(d.schedule) : idOf(d.event)) },
    { title: 'Error', size: 26, cell: (/** @type {any} */ d) => html`<span class="error">${shortText(d.reason ?? '', 200)}</span>` },
    { title: 'Attempts', wide: true, number: true, cell: (/** @type {any} */ d) => count(d.attempts) },
    { title: 'Due', size: 14, wide: true, cell: (/** @type {any} */ d) => timeText(d.dueTime) },
  ];
  const operations = [...new Set([...begun, ...(running ?? []).map((/** @type {any} */ operation) => operation.name)])];
  return html`<${Head} title="Dead letters" note="Events that failed for good. They are kept until they are redriven, purged or collected.">
      ${selected.size > 0 && html`<button class="primary" onClick=${redriveSelected}>Redrive ${selected.size} selected</button>`}
      ${can('OPERATOR') && html`<button onClick=${redriveMatches}>Redrive all that match</button>`}
      ${can('EDITOR') && html`<button class="danger" onClick=${purgeMatches}>Purge all that match</button>`}<//>
    <${Filters} query=${query} hint="Part of the error, or schedule = nightly" fields=${[['within', 'Failed within', [['', 'Any time'], ['1', '1 hour'], ['24', '1 day'], ['48', '2 days'], ['168', '7 days']]]]} />
    ${operations.map((name) => html`<${OperationProgress} key=${name} name=${name} onEnd=${changed} />`)}
    <${List} path=${`${parent}/deadLetters`} field="deadLetters" query=${{ filter }} columns=${columns} caption="Dead letters" noun="dead letters" refreshKey=${turn}
      select=${can('OPERATOR') ? selected : undefined} onSelect=${(/** @type {string} */ name, /** @type {boolean} */ on) => setSelected((before) => new Set(on ? [...before, name] : [...before].filter((each) => each !== name)))}
      empty=${filter ? 'No dead letter matches.' : 'No event has failed for good.'} />`;
}

/** @param {{tenant: string, id: string}} props */
export function DeadLetter({ tenant, id }) {
  const { data: d, error, reload } = useData((signal) => get(`/v1/tenants/${tenant}/deadLetters/${id}`, {}, signal), [tenant, id]);
  if (error && !d) return html`<${Failure} error=${error} retry=${reload} whole />`;
  if (!d) return html`<${Loading} />`;
  return html`<${Head} title="Dead letter" above=${html`<${Link} to=${address(tenant, ['dead-letters'])}>Dead letters<//>`}>
      ${can('OPERATOR') && html`<button class="primary" onClick=${() => redriveLetter(d, reload)}>Redrive</button>`}<//>
    <section class="card"><${Facts} items=${[['Error', html`<span class="error">${d.reason}</span>`], ['Event', html`<${Link} to=${eventAddress(d.event)}>${d.event}<//>`], ['Id at the consumer', html`<code>${d.eventId}</code>`],
      ['Failed', html`<${Time} value=${d.createTime} />`], ['Due', html`<${Time} value=${d.dueTime} />`], ['Attempts', count(d.attempts)], ['Redriven', Number(d.redriveCount) > 0 && `${d.redriveCount} times`],
      ['Policy', d.policy && html`<${Link} to=${eventAddress(d.policy)}>${idOf(d.policy)}<//>`], ['Kept until', html`<${Time} value=${d.expireTime} />`]]} /></section>
    <${Attempts} attempts=${d.recentAttempts} />${d.payload && html`<h2>Payload</h2><${TextBox} text=${shownBytes(d.payload)} label="Payload" />`}`;
}
