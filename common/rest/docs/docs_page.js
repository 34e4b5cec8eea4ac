// Shows /openapi.json: services, their operations, and the schemas as trees that open on demand.
'use strict';

let api;

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

function contents(operation) {
  const block = make('div', '', prose(operation.description));
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
      const details = lazy('operation', summary, () => contents(operation));
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
    show();
    status.textContent = '';
  } catch (error) {
    status.textContent = `The API document could not be shown: ${error.message}`;
  }
}

start();
