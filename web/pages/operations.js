// Long work: redrives, purges and cancellations, with their progress.
import { html } from '../parts/view.js';
import { address, Link } from '../parts/router.js';
import { get } from '../parts/api.js';
import { Badge, Facts, Failure, Head, Loading } from '../parts/basics.js';
import { useData } from '../parts/data.js';
import { Cell, List } from '../parts/table.js';
import { OperationProgress, addressOf } from '../parts/runs.js';
import { operationState } from '../parts/state.js';
import { agoText, count, idOf, Time, words } from '../parts/format.js';

/** @param {{tenant: string}} props */
export function Operations({ tenant }) {
  const columns = [
    { title: 'Work', cell: (/** @type {any} */ o) => html`<${Cell} to=${address(tenant, ['operations', idOf(o.name)])}>${words(o.kind)}<//>` },
    { title: 'State', cell: (/** @type {any} */ o) => html`<${Badge} of=${operationState(o)} />` },
    { title: 'Done', number: true, cell: (/** @type {any} */ o) => `${count(Number(o.doneCount ?? 0) + Number(o.failedCount ?? 0))} of ${count(o.totalCount)}` },
    { title: 'What', wide: true, cell: (/** @type {any} */ o) => html`<code>${o.run ? o.run.split('/').slice(2).join('/') : o.filter || (o.kind === 'CANCEL_EVENTS' ? 'events by name' : 'all dead letters')}</code>` },
    { title: 'Begun', wide: true, cell: (/** @type {any} */ o) => agoText(o.createTime) },
  ];
  return html`<${Head} title="Operations" note="Redrives and purges of many dead letters, and cancellations of many events." /><${List} path=${`/v1/tenants/${tenant}/operations`} field="operations" columns=${columns} caption="Operations" noun="operations" every=${2000} empty="There is no long work." />`;
}

/** @param {{tenant: string, id: string}} props */
export function OperationPage({ tenant, id }) {
  const name = `tenants/${tenant}/operations/${id}`;
  const { data: o, error, reload } = useData((signal) => get(`/v1/${name}`, {}, signal), [name], 2000);
  if (error && !o) return html`<${Failure} error=${error} retry=${reload} whole />`;
  if (!o) return html`<${Loading} />`;
  return html`<${Head} title=${words(o.kind)} above=${html`<${Link} to=${address(tenant, ['operations'])}>Operations<//>`} /><section class="card"><${OperationProgress} name=${name} onEnd=${reload} />
    <${Facts} items=${[['Run', o.run && html`<${Link} to=${addressOf(o.run)}>${o.run}<//>`], ['Filter', o.filter && html`<code>${o.filter}</code>`], ['Rate', Number(o.maxPerSecond) > 0 && `${o.maxPerSecond} per second`],
      ['Begun', html`<${Time} value=${o.createTime} />`], ['Ended', o.endTime && html`<${Time} value=${o.endTime} />`], ['Last failure', o.lastFailure]]} /></section>`;
}
