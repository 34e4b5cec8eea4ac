// Shows /openapi.json: services, their operations with an example that can be tried, and the schemas as trees that open on demand.
'use strict';

let api;
// The caller, by the session of the page at /ui: principal, role and tenant. null if the server requires a sign-in.
let caller = null;

const OPTIONS_MAX = 20;  // of a parameter
const ANSWER_MAX = 100000;  // characters of an answer that are shown
// Calls that take something away ask before they are sent; so do all of the method DELETE.
const ASKS_FIRST = /:(batchDelete|purge|revoke|cancel|batchCancel|handOver|override|confirm)$/;

// An element with a class and children; text becomes text, never markup.
function make(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children.filter((child) => child !== undefined && child !== ''));
  return element;
}

// The value that a "$ref" names. Text beside the reference wins.
function resolve(value) {
  if (!value || !value.$ref) return value || {};
  const target = value.$ref.slice(2).split('/').reduce(
      (at, key) => at[key.replace(/~1/g, '/').replace(/~0/g, '~')], api);
  return {...target, ...value};
}

// Text with `code` in it.
function inline(text) {
  return text.split(/`([^`]*)`/).map((part, i) => (i % 2 ? make('code', '', part) : part));
}

// Paragraphs and lists of a description.
function prose(text) {
  const block = make('div', 'prose');
  for (const paragraph of (text || '').split('\n\n').filter(Boolean)) {
    const lines = paragraph.split('\n');
    const plain = lines.filter((line) => !line.startsWith('- '));
    const items = lines.filter((line) => line.startsWith('- '));
    if (plain.length) block.append(make('p', '', ...inline(plain.join(' '))));
    if (items.length)
      block.append(make('ul', '', ...items.map((item) => make('li', '', ...inline(item.slice(2))))));
  }
  return block;
}

const isMap = (schema) => typeof schema.additionalProperties === 'object';

function typeName(value) {
  const schema = resolve(value);
  if (schema.type === 'array') return `list of ${typeName(schema.items)}`;
  if (isMap(schema)) return `map to ${typeName(schema.additionalProperties)}`;
  const format = schema.format || schema.contentEncoding || (schema.examples && `such as ${schema.examples[0]}`);
  const name = value.$ref ? value.$ref.split('/').pop() : schema.type || 'any';
  return format ? `${name} (${format})` : name;
}

// The schema below lists and maps, which has the fields or values to show.
function inner(value) {
  const schema = resolve(value);
  if (schema.type === 'array') return inner(schema.items);
  return isMap(schema) ? inner(schema.additionalProperties) : value;
}

// A <details> whose content is made when it is first opened.
function lazy(className, summary, fill) {
  const details = make('details', className, summary);
  details.addEventListener('toggle', () => {
    if (details.open && details.children.length === 1) details.append(fill());
  });
  return details;
}

function field(name, value, required, place) {
  const schema = resolve(value);
  const notes = [place, required && 'required', schema.readOnly && 'set by the server'].filter(Boolean);
  const item = make('li', '', make('code', 'name', name), make('span', 'type', typeName(value)),
      notes.length ? make('span', 'note', notes.join(', ')) : '', prose(schema.description));
  const below = inner(value);
  // The component's own text, which a field's comment hides.
  const own = below.$ref ? resolve({$ref: below.$ref}) : below;
  if (own.properties && Object.keys(own.properties).length) {
    item.append(lazy('', make('summary', '', `Fields of ${typeName(below)}`), () => tree(below)));
  } else if (own.enum) {
    item.append(lazy('', make('summary', '', `Values of ${typeName(below)}`), () => make('div', '',
        below.$ref && own.description !== schema.description ? prose(own.description) : '',
        make('p', '', ...inline(own.enum.map((name) => `\`${name}\``).join(', '))))));
  }
  return item;
}

function tree(value) {
  const schema = resolve(value);
  const required = schema.required || [];
  const fields = Object.entries(schema.properties || {});
  if (!fields.length) return make('p', 'type', 'An object without fields.');
  return make('ul', 'fields', ...fields.map(([name, of]) => field(name, of, required.includes(name))));
}

function body(title, holder) {
  const value = holder.content && Object.values(holder.content)[0].schema;
  const block = make('section', '', make('h3', '', title), prose(holder.description));
  if (value) block.append(make('p', 'type', typeName(value)), prose(resolve({$ref: value.$ref}).description), tree(value));
  return block;
}

function labelled(text, input) {
  return make('label', '', make('span', '', text), input);
}

// The tenant of the examples is the caller's.
const tenantOf = () => (caller && caller.tenant) || 'default';

// The example of a body. Limits that are overridden expire soon: in an hour.
function exampleBody(content) {
  const text = JSON.stringify(content.example || {}, (key, value) => (key === 'expireTime' ?
      new Date(Date.now() + 3600000).toISOString() : value), 2);
  return text.replaceAll('tenants/default/', `tenants/${tenantOf()}/`);
}

// A word of a shell.
const shellWord = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// One call as the form has it.
class Call {
  constructor(path, method, operation) {
    this.path = path;
    this.method = method;
    const parameters = (operation.parameters || []).map(resolve);
    this.fields = new Map();
    for (const parameter of parameters.filter((each) => each.in !== 'header')) {
      const input = make('input');
      input.value = parameter.name === 'tenant' && parameter.example === 'default' ? tenantOf() : parameter.example ?? '';
      input.required = parameter.in === 'path' || Boolean(parameter.required);
      input.autocomplete = 'off';
      input.spellcheck = false;
      this.fields.set(parameter.name, {parameter, input});
    }
    const request = operation.requestBody && resolve(operation.requestBody);
    [this.type, this.content] = request ? Object.entries(request.content)[0] : ['', null];
    if (this.content) {
      this.text = make('textarea');
      this.text.value = exampleBody(this.content);
      if (this.lines()) this.text.value = JSON.stringify(JSON.parse(this.text.value));
      this.text.rows = Math.min(16, this.text.value.split('\n').length + 1);
      this.text.spellcheck = false;
    }
  }

  lines() { return this.type === 'application/x-ndjson'; }

  // The path with the values of its parameters, up to one of them.
  place(path = this.path) {
    return path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(this.fields.get(name).input.value.trim()));
  }

  url() {
    const query = new URLSearchParams();
    for (const {parameter, input} of this.fields.values())
      if (parameter.in === 'query' && input.value.trim()) query.append(parameter.name, input.value.trim());
    return this.place() + (query.size ? `?${query}` : '');
  }

  body() { return this.lines() ? `${this.text.value.trim()}\n` : this.text.value; }

  curl() {
    const parts = [`curl ${this.method === 'get' || (this.content && !this.lines() && this.method === 'post') ? '' : `-X ${this.method.toUpperCase()} `}${shellWord(location.origin + this.url())}`];
    if (!caller || caller.principal !== 'anonymous') parts.push('-H "Authorization: Bearer $ESCAPEMENT_KEY"');
    if (this.lines()) parts.push(`-H ${shellWord(`Content-Type: ${this.type}`)}`, `--data-binary ${shellWord(this.body())}`);
    else if (this.content) parts.push(`--json ${shellWord(this.body())}`);
    return parts.join(' \\\n  ');
  }

  // Offers what the server has for a parameter of the path, if there is a list of it. The first one becomes the value of a call that only
  // reads, unless the example is there.
  async suggest(name) {
    const {input} = this.fields.get(name);
    const above = this.path.slice(0, this.path.indexOf(`{${name}}`) - 1);
    const list = api.paths[above] && api.paths[above].get;
    if (!list || !caller || /\/\//.test(`${this.place(above)}/`)) return;
    const order = (list.parameters || []).find((each) => each.name === 'orderBy' && each.example);
    const query = new URLSearchParams({pageSize: String(OPTIONS_MAX), ...(order && {orderBy: order.example})});
    const response = await fetch(`${this.place(above)}?${query}`);
    if (!response.ok) return;
    const rows = Object.values(await response.json()).find(Array.isArray) || [];
    const ids = rows.slice(0, OPTIONS_MAX).map((row) => row.name.split('/').pop());
    input.list.replaceChildren(...ids.map((id) => Object.assign(make('option'), {value: id})));
    if (this.method === 'get' && ids.length && !ids.includes(input.value)) {
      input.value = ids[0];
      input.dispatchEvent(new Event('input', {bubbles: true}));
    }
  }

  async send() {
    const headers = {};
    // As the page's own calls: other sites cannot send these.
    if (this.method !== 'get') Object.assign(headers, {'X-Escapement-CSRF': '1', 'Idempotency-Key': crypto.getRandomValues(new Uint32Array(4)).join('-')});
    if (this.content) headers['Content-Type'] = this.type;
    const began = performance.now();
    const response = await fetch(this.url(), {method: this.method.toUpperCase(), credentials: 'same-origin', headers, body: this.content ? this.body() : undefined});
    const text = await response.text();
    return {status: response.status, ms: Math.round(performance.now() - began), text};
  }
}

// Asks whether a call may be sent.
function confirmed(call) {
  const dialog = make('dialog');
  const form = make('form', '', make('h2', '', 'Send this call?'), make('p', '', 'It may take something away: '),
      make('p', '', make('code', '', `${call.method.toUpperCase()} ${call.url()}`)));
  const keep = Object.assign(make('button', '', 'Cancel'), {value: '', autofocus: true});
  const send = Object.assign(make('button', 'danger', 'Send it'), {value: 'send'});
  form.method = 'dialog';
  form.append(make('p', 'buttons', keep, send));
  dialog.append(form);
  dialog.setAttribute('aria-label', 'Send this call?');
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener('close', () => {
    dialog.remove();
    done(dialog.returnValue === 'send');
  }));
}

// The text of an answer with indents, if it is JSON.
function shown(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;  // lines, or nothing
  }
}

// The example of an operation: its fields, the same as a command, and a button that sends it.
function example(path, method, operation) {
  const call = new Call(path, method, operation);
  const form = make('form', 'example');
  const fields = make('div', 'inputs');
  for (const [name, {parameter, input}] of call.fields) {
    fields.append(labelled(name, input));
    if (parameter.in !== 'path') continue;
    const options = make('datalist');
    options.id = `options-${operation.operationId}-${name}`;
    input.setAttribute('list', options.id);
    input.addEventListener('focus', () => call.suggest(name).catch(() => {}));
    fields.append(options);
  }
  const command = make('pre', 'curl');
  command.tabIndex = 0;
  command.setAttribute('role', 'group');
  command.setAttribute('aria-label', 'The call as a command');
  const draw = () => void (command.textContent = call.curl());
  form.addEventListener('input', draw);
  const answer = make('div', 'answer');
  answer.setAttribute('role', 'status');
  const send = make('button', '', 'Send');
  const copy = Object.assign(make('button', '', 'Copy the command'), {type: 'button'});
  copy.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(command.textContent);
      copy.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(command);  // the browser denies it: the user copies what is selected
    }
  });
  const say = (text, details) => answer.replaceChildren(make('p', '', text), ...(details ? [details] : []));
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    if (!caller || send.disabled) return;
    if (call.content && !call.lines()) {
      try {
        JSON.parse(call.text.value);
      } catch (error) {
        call.text.focus();
        return say(`The body is no JSON: ${error.message}`);
      }
    }
    if ((method === 'delete' || ASKS_FIRST.test(path)) && !(await confirmed(call))) return;
    send.disabled = true;
    say('Sending…');
    try {
      const {status, ms, text} = await call.send();
      if (status === 401) await readCaller();
      const box = make('pre', '', shown(text).slice(0, ANSWER_MAX));
      box.tabIndex = 0;
      box.setAttribute('role', 'group');
      box.setAttribute('aria-label', 'The answer');
      say(`Status ${status}, ${ms} ms${text.length > ANSWER_MAX ? `, the first ${ANSWER_MAX} characters` : ''}`, box);
    } catch (error) {
      say(`The call was not answered: ${error.message}`);
    }
    send.disabled = false;
  });
  form.append(fields);
  if (call.text) form.append(labelled(call.lines() ? 'Body: one event on each line' : 'Body', call.text));
  form.append(make('p', 'buttons', caller ? send : signInNote()), answer, command, make('p', 'buttons', copy));
  draw();
  if (caller && method === 'get') {
    // One after the other: each list is below the one before.
    [...call.fields.values()].filter((each) => each.parameter.in === 'path').reduce(
        (before, each) => before.then(() => call.suggest(each.parameter.name)), Promise.resolve()).catch(() => {});
  }
  return make('section', '', make('h3', '', 'Example'), form);
}

function signInNote() {
  const link = make('a', '', 'Sign in on the page');
  link.href = '/ui';
  return make('span', 'type', link, ' to send calls from here.');
}

async function readCaller() {
  const response = await fetch('/ui/session').catch(() => null);
  caller = response && response.ok ? await response.json() : null;
  document.getElementById('caller').replaceChildren(...(!caller ? [signInNote()] : caller.principal === 'anonymous' ?
      ['No credentials are required. Send calls this server.'] : [`Signed in as ${caller.principal} (${caller.role.toLowerCase()}). Send calls this server in your name.`]));
}

function contents(path, method, operation) {
  const block = make('div', '', prose(operation.description), example(path, method, operation));
  const parameters = (operation.parameters || []).map(resolve);
  if (parameters.length) {
    block.append(make('h3', '', 'Parameters'), make('ul', 'fields', ...parameters.map(
        (p) => field(p.name, {...p.schema, description: p.description}, p.required, `in the ${p.in}`))));
  }
  const request = operation.requestBody && resolve(operation.requestBody);
  if (request) block.append(body(request.required ? 'Request (required)' : 'Request', request));
  for (const [status, response] of Object.entries(operation.responses))
    block.append(body(status === 'default' ? 'Errors' : `Response ${status}`, resolve(response)));
  return block;
}

function show() {
  document.title = `${api.info.title} API`;
  document.getElementById('title').textContent = document.title;
  document.getElementById('about').append(prose(api.info.description));
  const main = document.getElementById('main');
  const operations = Object.entries(api.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({path, method, operation})));
  for (const tag of api.tags) {
    const heading = make('h2', '', tag.name);
    heading.id = `tag-${tag.name}`;
    const section = make('section', 'tag', heading, prose(tag.description));
    for (const {path, method, operation} of operations.filter((o) => o.operation.tags.includes(tag.name))) {
      const summary = make('summary', '', make('span', `method ${method}`, method), make('span', 'path', path),
          make('span', 'note', operation.summary));
      const details = lazy('operation', summary, () => contents(path, method, operation));
      details.id = operation.operationId;
      details.dataset.text = `${method} ${path} ${operation.operationId} ${operation.summary} ${operation.description}`.toLowerCase();
      section.append(details);
    }
    main.append(section);
    const link = make('a', '', tag.name);
    link.href = `#${heading.id}`;
    document.getElementById('tags').append(make('li', '', link));
  }
  document.getElementById('filter').addEventListener('input', (event) => filter(event.target.value.toLowerCase()));
  window.addEventListener('hashchange', openLinked);
  openLinked();
}

function filter(text) {
  let count = 0;
  for (const section of document.querySelectorAll('.tag')) {
    const all = [...section.querySelectorAll('.operation')];
    for (const details of all) details.hidden = !details.dataset.text.includes(text);
    const shown = all.filter((details) => !details.hidden).length;
    section.hidden = shown === 0;
    count += shown;
  }
  document.getElementById('status').textContent = text ? `${count} operations` : '';
}

// "/docs#createSchedule" opens that operation.
function openLinked() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target || !target.matches('.operation')) return;
  target.open = true;
  target.scrollIntoView();
}

async function start() {
  const status = document.getElementById('status');
  try {
    const response = await fetch('/openapi.json');
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    api = await response.json();
    await readCaller();
    show();
    status.textContent = '';
  } catch (error) {
    status.textContent = `The API document could not be shown: ${error.message}`;
  }
}

start();
