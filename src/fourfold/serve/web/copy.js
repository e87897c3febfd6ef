// @ts-check
/** A search in other words: for the command line, for Python, as JSON, for curl. */
import { button, el, replace, announce, byId } from './dom.js';
import { hasToken, inside } from './api.js';
import { givenFilters, options } from './state.js';

/** @typedef {import('./state.js').State} State */

const FLAGS = /** @type {Record<string, string>} */ ({
  kind: '--kind',
  language: '--lang',
  path: '--path',
  created_from: '--from',
  created_to: '--to',
  where: '--where',
});
const SIGNS = /** @type {Record<string, string>} */ ({ lt: '<', gte: '>=', eq: '=' });
const LAST_MOMENT = 'T23:59:59.999999+00:00';

/** @param {string} text */
const quoted = (text) => (/^[\w@%+:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

/** Tests of metadata as triples. @param {any} metadata @returns {[string, string, any][]} */
function tests(metadata) {
  return Object.entries(metadata ?? {}).flatMap(([key, wanted]) => {
    const bounds = wanted && typeof wanted === 'object' && !Array.isArray(wanted) ? Object.entries(wanted) : [];
    const known = bounds.length > 0 && bounds.every(([op]) => op === 'lt' || op === 'gte');
    return known ? bounds.map(([op, value]) => /** @type {[string, string, any]} */ ([key, op, value])) : [/** @type {[string, string, any]} */ ([key, 'eq', wanted])];
  });
}

/** @param {State} state @param {'a' | 'b'} side @returns {any} */
export function body(state, side) {
  const filters = givenFilters(state.filters);
  const form = { query: state.q, top_k: state[side].top_k, ...options(state[side]) };
  return Object.keys(filters).length ? { ...form, filters } : form;
}

/** @param {Record<string, any>} weights */
const weightsText = (weights) => Object.entries(weights).map(([name, weight]) => `${name}=${weight}`).join(',');

/** @param {any} form @param {string} namespace @param {string} origin */
export function cli(form, namespace, origin) {
  const { query, top_k, filters = {}, ...rest } = form;
  const words = ['fourfold', '--store', origin, ...(namespace === 'default' ? [] : ['--namespace', namespace]), 'search', '-k', top_k];
  for (const [name, value] of Object.entries(rest)) words.push(`--${name.replace('_', '-')}`, typeof value === 'object' ? weightsText(value) : value);
  for (const tag of filters.tags ?? []) words.push('--tag', tag);
  if (filters.any_tag) words.push('--any-tag');
  for (const [name, flag] of Object.entries(FLAGS)) if (filters[name]) words.push(flag, filters[name]);
  for (const [key, op, value] of tests(filters.metadata)) words.push('--meta', `${key}${SIGNS[op]}${typeof value === 'string' ? value : JSON.stringify(value)}`);
  return [...words, '--', query].map((word) => quoted(String(word))).join(' ');
}

/** A value as Python writes it. @param {any} value @returns {string} */
function literal(value) {
  if (value === null) return 'None';
  if (value === true) return 'True';
  if (value === false) return 'False';
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`;
  if (typeof value === 'object') return `{${Object.entries(value).map(([name, each]) => `${literal(name)}: ${literal(each)}`).join(', ')}}`;
  return JSON.stringify(value);
}

/** @param {any} form @param {string} namespace @param {string} origin */
export function python(form, namespace, origin) {
  const { query, filters, ...rest } = form;
  const given = Object.entries(rest).map(([name, value]) => `${name}=${literal(value)}`);
  if (filters) given.push(`filters=${pythonFilters(filters)}`);
  const names = [/Filters\(/.test(given.join()) && 'Filters', /MetadataTest\(/.test(given.join()) && 'MetadataTest'].filter(Boolean);
  return [
    /datetime\./.test(given.join()) && 'from datetime import datetime\n',
    'import fourfold',
    names.length > 0 && `from fourfold import ${names.join(', ')}`,
    '',
    `with fourfold.connect(${[literal(origin), hasToken() && 'token=TOKEN', namespace !== 'default' && `namespace=${literal(namespace)}`].filter(Boolean).join(', ')}) as memory:`,
    `    response = memory.search(`,
    ...[literal(query), ...given].map((argument) => `        ${argument},`),
    '    )',
    '    for result in response.results:',
    '        print(result.item.id, result.score, result.item.title)',
  ].filter((line) => line !== false).join('\n');
}

/** @param {any} filters */
function pythonFilters({ tags, metadata, created_from, created_to, ...rest }) {
  const given = Object.entries(rest).map(([name, value]) => `${name}=${literal(value)}`);
  const time = (/** @type {string} */ text) => `datetime.fromisoformat(${literal(text)})`;
  if (tags) given.push(`tags=(${tags.map(literal).join(', ')},)`);
  if (created_from) given.push(`created_from=${time(`${created_from}T00:00:00+00:00`)}`);
  if (created_to) given.push(`created_to=${time(created_to + LAST_MOMENT)}`);
  const tested = tests(metadata).map(([key, op, value]) => `MetadataTest(${literal(key)}, ${literal(op)}, ${literal(value)})`);
  if (tested.length) given.push(`metadata=(${tested.join(', ')},)`);
  return `Filters(${given.join(', ')})`;
}

/** @param {any} form @param {string} namespace @param {string} origin */
export function curl(form, namespace, origin) {
  const token = hasToken() ? ' -H "authorization: Bearer $FOURFOLD_TOKEN"' : '';
  return `curl -sS ${quoted(origin + inside(namespace, '/search'))} -H 'content-type: application/json'${token} -d ${quoted(JSON.stringify(form))}`;
}

/** Opens the dialog with the search in four forms. @param {State} state @param {'a' | 'b'} side */
export function openCopies(state, side) {
  const form = body(state, side);
  const forms = /** @type {Record<string, string>} */ ({
    CLI: cli(form, state.ns, location.origin),
    Python: python(form, state.ns, location.origin),
    JSON: JSON.stringify(form, null, 2),
    curl: curl(form, state.ns, location.origin),
  });
  const dialog = byId('copies');
  const parts = Object.entries(forms).map(([name, text]) => {
    const pre = el('pre', { id: `copy-${name}`, tabindex: '0', dir: 'ltr' }, text);
    return el('section', {}, el('h3', {}, name, button('Copy', () => copy(text, pre, name), { 'aria-label': `Copy as ${name}` })), pre);
  });
  const closing = button('Close', () => dialog.close(), { autofocus: true });
  replace(dialog, el('header', {}, el('h2', {}, 'This search as'), closing), parts, hasToken() && el('p', {}, 'The token is not part of it: set FOURFOLD_TOKEN.'));
  dialog.showModal();
}

/** @param {string} text @param {HTMLElement} shown @param {string} name */
async function copy(text, shown, name) {
  try {
    await navigator.clipboard.writeText(text);
    announce(`Copied as ${name}`);
  } catch {
    getSelection()?.selectAllChildren(shown); // without HTTPS there is no clipboard: the text is selected instead
    announce('Selected: copy it with the keyboard');
  }
}
