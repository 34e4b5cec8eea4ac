// The parts of a form that schedules and one-off events share: where to, what is sent, and under which policy.
import { html, useCallback, useRef, useState } from './view.js';
import { call, get, getAll } from './api.js';
import { Badge, TextBox } from './basics.js';
import { useData } from './data.js';
import { Duration, Select, Text } from './fields.js';
import { base64Of, idOf, shownBytes, targetText, textOf } from './format.js';
import { address, Link } from './router.js';
import { testState } from './state.js';

/** @param {any} first @returns {[any, (changes: any) => void, (draft: any) => void]} */
export function useDraft(first) {
  const [draft, setDraft] = useState(first);
  const set = useCallback((/** @type {any} */ changes) => setDraft((/** @type {any} */ before) => ({ ...before, ...changes })), []);
  return [draft, set, setDraft];
}

/** "A: b" lines of a map, and back. */
const linesOf = (/** @type {any} */ map) => Object.entries(map ?? {}).map(([name, value]) => `${name}: ${value}`).join('\n');
const mapOf = (/** @type {string} */ text) => Object.fromEntries(text.split('\n').filter((line) => line.trim()).map((line) => {
  const colon = line.indexOf(':');
  return colon < 0 ? [line.trim(), ''] : [line.slice(0, colon).trim(), line.slice(colon + 1).trim()];
}));
const listOf = (/** @type {string} */ text) => text.split(/[\n,]/).map((each) => each.trim()).filter(Boolean);

/** @typedef {[name: string, label: string, hint?: string, form?: 'lines'|'map'|'list'|'password'|'method']} KindField */
/** @type {Record<string, {title: string, note: string, fields: KindField[]}>} */
const KINDS = {
  http: { title: 'HTTP (webhook)', note: 'Your service gets a request with the payload as its body. Any 2xx answer means delivered.', fields: [['uri', 'URL', 'https://… with a host'], ['method', 'Method', '', 'method'], ['headers', 'Headers', 'One on each line: Name: value', 'map'], ['secretHeaders', 'Secret headers', 'Such as Authorization: Bearer …; they are encrypted and not shown again.', 'map'], ['signingSecrets', 'Signing secrets', 'whsec_…, one on each line', 'list']] },
  grpc: { title: 'gRPC', note: 'A server of escapement.v1.TriggerReceiver.', fields: [['uri', 'Address', 'dns:///host:port']] },
  sqs: { title: 'SQS', note: 'A queue of Amazon SQS.', fields: [['queueUrl', 'Queue URL'], ['region', 'Region', 'Empty: from the URL'], ['endpoint', 'Endpoint', 'Empty: that of the URL'], ['credentials', 'Credentials', 'access key id:secret access key', 'password'], ['messageGroupId', 'Message group', 'For FIFO queues']] },
  kafka: { title: 'Kafka', note: 'A topic. TLS and SASL can be given as JSON below.', fields: [['brokers', 'Brokers', 'host:port, separated by commas'], ['topic', 'Topic'], ['key', 'Key', "Empty: the event's id"]] },
  slack: { title: 'Slack', note: 'A channel, by an incoming webhook.', fields: [['webhookUrl', 'Webhook URL', 'A secret: it is not shown again.', 'password'], ['text', 'Message', 'A template: {{payload.field}}', 'lines']] },
  email: { title: 'E-mail', note: 'People, by a mail server.', fields: [['smtpUri', 'Mail server', 'smtps://host:port'], ['username', 'User'], ['password', 'Password', '', 'password'], ['from', 'From'], ['to', 'To', 'Addresses, separated by commas', 'list'], ['subject', 'Subject'], ['text', 'Text', 'A template: {{payload.field}}', 'lines']] },
  ping: { title: 'Ping', note: 'A URL that is called with GET, for monitors.', fields: [['uri', 'URL']] },
};
/** @type {[string, string][]} */
export const KIND_OPTIONS = Object.entries(KINDS).map(([kind, { title }]) => [kind, title]);
/** "HTTP" @param {string} kind */
export const kindText = (kind) => KINDS[kind]?.title.replace(' (webhook)', '') ?? kind;
const snake = (/** @type {string} */ name) => name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`);

/** @param {{kind: string, field: KindField, value: any, set: (value: any) => void, error: any}} props */
function KindInput({ kind, field: [name, label, hint, form], value, set, error }) {
  const path = `target.${kind}.${snake(name)}`;
  // Maps and lists are typed as lines; the text is kept while it is typed.
  const [text, setText] = useState(form === 'map' ? linesOf(value) : form === 'list' ? (value ?? []).join('\n') : '');
  if (form === 'method') return html`<${Select} path=${path} label=${label} value=${value || 'POST'} set=${set} options=${['POST', 'PUT', 'PATCH'].map((each) => [each, each])} error=${error} />`;
  const type = (/** @type {string} */ typed) => (setText(typed), set(form === 'map' ? mapOf(typed) : listOf(typed)));
  if (form === 'map' || form === 'list') return html`<${Text} path=${path} label=${label} hint=${hint} lines=${2} value=${text} set=${type} error=${error} />`;
  return html`<${Text} path=${path} label=${label} hint=${hint} lines=${form === 'lines' ? 3 : 0} type=${form === 'password' ? 'password' : 'text'} value=${value} set=${set} error=${error} wide=${name === 'uri' || name === 'queueUrl'} />`;
}

/** True if a target is at a place: its origin, or a part of its address. A place that is '' is everywhere. @param {any} target @param {string} place */
export function isAt(target, place) {
  const { topic, brokers, ...fields } = /** @type {any} */ (Object.values(target ?? {})[0] ?? {});
  // Another port is another origin.
  return !place || [...Object.values(fields), `${brokers}/${topic}`].some((text) => typeof text === 'string' && (place.includes('://') ? text.startsWith(place) && /^([/?#]|$)/.test(text.slice(place.length)) : text.includes(place)));
}
/** The list of the schedules of a target. @param {string} tenant @param {string} kind @param {string} endpoint as the API names it @param {string} [filter] @param {string} [state] */
export const schedulesAt = (tenant, kind, endpoint, filter = '', state = '') => address(tenant, ['schedules'], { q: `${placeOf(endpoint)} ${filter}`.trim(), target: kind, state });
/** The address in an endpoint, which has a mark behind its "#" for gRPC with TLS, and a host before it for SQS. @param {string} endpoint */
export const placeOf = (endpoint) => endpoint.replace(/#tls-.*/, '').replace(/^.*#/, '');

/** A target in words: "E-mail to ada@example.org". @param {any} target */
export function targetWords(target) {
  const [kind, place] = targetText(target);
  return [kindText(kind), place].filter(Boolean).join(kind === 'email' ? ' to ' : ' ');
}

/** @param {{draft: any, set: (changes: any) => void, error: any, prefix: string, first?: string[], children?: any}} props first: kinds that stand before the others */
export function TargetFields({ draft, set, error, first = [], children }) {
  const kind = Object.keys(draft.target ?? {})[0] ?? 'http';
  const fields = draft.target?.[kind] ?? {};
  const choose = (/** @type {string} */ next) => set({ target: { [next]: next === kind ? fields : fields.uri !== undefined && (next === 'ping' || next === 'http') ? { uri: fields.uri } : {} } });
  const { note, fields: shown } = KINDS[kind] ?? { note: '', fields: [] };
  return html`<fieldset><legend>Where to</legend>
    <${Select} path="target" label="Target" value=${kind} set=${choose} options=${[...new Set([...first, ...Object.keys(KINDS)])].map((each) => [each, KINDS[each].title])} error=${null} hint=${note} />
    ${shown.map((field) => html`<${KindInput} key=${`${kind}-${field[0]}`} kind=${kind} field=${field} value=${fields[field[0]]} error=${error}
      set=${(/** @type {any} */ value) => {
        const next = { ...fields, [field[0]]: value };
        if (value === '' || (Array.isArray(value) && !value.length) || (value && typeof value === 'object' && !Array.isArray(value) && !Object.keys(value).length)) delete next[field[0]];
        set({ target: { [kind]: next } });
      }} />`)}${children}</fieldset>`;
}

/** @param {{draft: any, set: (changes: any) => void, error: any}} props */
export function PayloadFields({ draft, set, error }) {
  const text = textOf(draft.payload);
  return html`<fieldset><legend>What is sent</legend>
    ${text === null ? html`<p class="note">The payload is no text; it can be changed as JSON (base64).</p>`
      : html`<${Text} path="payload" label="Payload" hint="Text or JSON; the same for every event." lines=${5} value=${text} set=${(/** @type {string} */ typed) => set({ payload: base64Of(typed) })} error=${error} wide />`}
    <${Text} path="content_type" label="Media type" hint="Empty: application/json" value=${draft.contentType} set=${(/** @type {string} */ contentType) => set({ contentType })} error=${error} />
    <${Duration} path="delivery_timeout" label="Time for an answer" hint="10 s unless given" value=${draft.deliveryTimeout} set=${(/** @type {any} */ deliveryTimeout) => set({ deliveryTimeout })} error=${error} /></fieldset>`;
}

/** The limits of a schedule or event: its policy, or several. @param {any} of @returns {any[]} */
export const limitsOf = (of) => (Array.isArray(of?.limits) && of.limits.length ? of.limits : of?.policy ? [{ policy: of.policy, policyKey: of.policyKey }] : []);

/** @param {{of: any}} props */
export const PolicyLinks = ({ of }) => html`${limitsOf(of).map((limit) => {
  const [, tenant, , id] = limit.policy.split('/');
  return html`<div key=${id}><${Link} to=${address(tenant, ['policies', id])}>${id}<//>${limit.policyKey ? `, key ${limit.policyKey}` : ''}${Number(limit.weight) > 1 ? `, ${limit.weight} tokens for each event` : ''}</div>`;
})}`;

/** The policies of the tenant, and what those of the draft ask for. @param {string} tenant @param {any} draft */
export function usePolicies(tenant, draft) {
  const { data } = useData(() => getAll(`/v1/tenants/${tenant}/policies`, 'policies'), [tenant]);
  const policies = data ?? [];
  const named = limitsOf(draft).map((limit) => policies.find((/** @type {any} */ p) => p.name === limit?.policy || idOf(p.name) === limit?.policy));
  // Policies that limit only rates ask nothing of the consumer.
  const rateOnly = named.length > 0 && named.every((policy) => policy && !(Number(policy.maxConcurrent) > 0) && !(Number(policy.perKey?.maxConcurrent) > 0));
  const undecided = named.length > 0 && !draft.completion && !rateOnly;
  return { policies, rateOnly, failure: undecided && { violations: [{ field: 'completion', description: 'say whether your service gives tokens back' }] } };
}

const LIMITS_MAX = 4;

/** Several limits, or one with a weight. @param {{policies: any[], limits: any[], set: (changes: any) => void, error: any}} props */
function LimitRows({ policies, limits, set, error }) {
  const change = (/** @type {number} */ i, /** @type {any} */ changes) => set({ limits: limits.map((limit, k) => (k === i ? { ...limit, ...changes } : limit)) });
  const remove = (/** @type {number} */ i) => {
    const left = limits.filter((_, k) => k !== i);
    if (left.length > 1 || Number(left[0]?.weight) > 1) return set({ limits: left });
    set({ limits: undefined, policy: left[0]?.policy || undefined, policyKey: left[0]?.policyKey || undefined, ...(left[0]?.policy ? {} : { completion: undefined }) });
  };
  return html`${limits.map((limit, i) => html`<${Select} key=${`policy ${i}`} path=${`limits[${i}].policy`} label=${`Throttling policy ${i + 1}`} value=${limit?.policy ?? ''} set=${(/** @type {string} */ policy) => change(i, { policy })} error=${error} options=${[['', 'Choose one'], ...policies.map((/** @type {any} */ p) => [p.name, idOf(p.name)])]} />
    <${Text} key=${`key ${i}`} path=${`limits[${i}].policy_key`} label=${`Policy key ${i + 1}`} value=${limit?.policyKey ?? ''} set=${(/** @type {string} */ policyKey) => change(i, { policyKey: policyKey || undefined })} error=${error} rest=${{ maxlength: 128 }} />
    <${Text} key=${`weight ${i}`} path=${`limits[${i}].weight`} label=${`Tokens for each event ${i + 1}`} hint="1 unless given" type="number" value=${limit?.weight ?? ''} set=${(/** @type {string} */ weight) => change(i, { weight: weight || undefined })} error=${error} rest=${{ min: 1 }} />
    <div class="field wide" key=${`remove ${i}`}><div><button type="button" onClick=${() => remove(i)}>Remove limit ${i + 1}</button></div></div>`)}`;
}

/** @param {{throttling: ReturnType<typeof usePolicies>, draft: any, set: (changes: any) => void, error: any}} props */
export function PolicyFields({ throttling: { policies, rateOnly }, draft, set, error }) {
  const limits = limitsOf(draft);
  const add = () => set({ policy: undefined, policyKey: undefined, limits: [...limits, { policy: '' }] });
  return html`${Array.isArray(draft.limits) && draft.limits.length > 0 ? html`<${LimitRows} policies=${policies} limits=${draft.limits} set=${set} error=${error} />` : html`<${Select} path="policy" label="Throttling policy" hint="Limits how many events your service has at once." value=${draft.policy ?? ''} set=${(/** @type {string} */ policy) => set(policy ? { policy } : { policy: undefined, policyKey: undefined, completion: undefined })} error=${error} options=${[['', 'None: as fast as possible'], ...policies.map((/** @type {any} */ p) => [p.name, idOf(p.name)])]} />
    ${draft.policy && html`<${Text} path="policy_key" label="Policy key" hint="Such as a customer, if the policy limits each key." value=${draft.policyKey ?? ''} set=${(/** @type {string} */ policyKey) => set({ policyKey: policyKey || undefined })} error=${error} rest=${{ maxlength: 128 }} />`}`}
    ${limits.length > 0 && limits.length < LIMITS_MAX && policies.length > limits.length && html`<div class="field wide"><div><button type="button" onClick=${add}>Add a limit</button> <small>An event goes out when each of its policies has room for it.</small></div></div>`}
    ${limits.length > 0 && html`<${Select} path="completion" label="An event holds its token" hint=${draft.completion === 'ON_RELEASE' && 'Your service must give each token back. An event whose token is not back within the hold time of the policy has failed.'} value=${draft.completion ?? (rateOnly ? 'ON_DELIVERY' : '')} set=${(/** @type {string} */ completion) => set({ completion: completion || undefined })} error=${error}
      options=${[...(draft.completion || rateOnly ? [] : [/** @type {[string, string]} */ (['', 'Choose one'])]), ['ON_DELIVERY', 'until your service has accepted it'], ['ON_RELEASE', 'until your service gives it back']]} />`}`;
}

/** Sends one event to the target at once, with one attempt, and shows what came back. @param {{tenant: string, draft: any, onError: (error: any) => void}} props */
export function SendOne({ tenant, draft, onError }) {
  const [event, setEvent] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const due = useRef(''); // stays while no answer has come: the next try is for the same event
  const send = async () => {
    setBusy(true);
    setEvent(null);
    onError(null);
    try {
      const { target, payload, contentType, deliveryTimeout } = draft;
      due.current ||= new Date().toISOString();
      let made = await call('POST', `/v1/tenants/${tenant}/events`, { body: { target, payload, contentType, deliveryTimeout, dueTime: due.current, retryPolicy: { maxAttempts: 1 } } });
      due.current = '';
      for (let wait = 200; made.state !== 'ENDED'; wait = Math.min(wait * 1.5, 2000)) {
        setEvent(made);
        await new Promise((next) => setTimeout(next, wait));
        made = await get(`/v1/${made.name}`);
      }
      setEvent(made);
    } catch (error) {
      onError(error);
    }
    setBusy(false);
  };
  const attempt = event?.recentAttempts?.at(-1);
  return html`<div class="field wide"><div><button type="button" disabled=${busy} onClick=${send}>Send one now</button> <small>Sends the payload to this target once, as a one-off event.</small></div>
    <div role="status">${event && html`<p><${Badge} of=${testState(event)} />
      ${attempt?.statusCode ? ` status ${attempt.statusCode}` : ''} <span class="error">${event.reason ?? ''}</span></p>${(event.output || attempt?.answer) && html`<${TextBox} text=${shownBytes(event.output || attempt.answer)} label="The target's answer" />`}`}</div></div>`;
}
