// @ts-check
/**
 * The state of the page, all of it in the fragment of the URL: a link shares a ranking. A fragment is not sent to servers.
 *
 * @typedef {{preset: string, fusion: string | null, weights: number[] | null, alpha: number | null, recency: number | null,
 *   rerank: string | null, sources: string | null, top_k: number}} Setting `weights`: positions of the sliders, 0 to 100, in the order of
 *   the retrievers; `sources`: such as agent=0.8,import=0.5
 * @typedef {{tags: string[], any_tag: boolean, kind: string, language: string, path: string, created_from: string,
 *   created_to: string, metadata: string, where: string}} Filters `metadata`: JSON
 * @typedef {{ns: string, q: string, filters: Filters, a: Setting, b: Setting, side: 'a' | 'b', view: string, item: string,
 *   tab: string, node: string}} State
 */

/** The retrievers in the order of the sliders, with the name of each one's own score. */
export const RETRIEVERS = Object.freeze({ semantic: 'cosine', keyword: 'BM25', graph: 'score', tags: 'score' });
const NAMES = Object.keys(RETRIEVERS);
export const PRESETS = ['auto', 'insights-basic', 'insights', 'wiki', 'files', 'memories'];
export const FUSIONS = ['auto', 'rrf', 'weighted'];
export const RERANKERS = ['off', 'auto', 'ms-marco', 'endpoint'];
const TEXTS = /** @type {const} */ (['kind', 'language', 'path', 'created_from', 'created_to', 'metadata', 'where']);
const PLACES = /** @type {const} */ (['item', 'tab', 'node']);

/** @returns {Setting} */
export const noSetting = () => ({ preset: 'auto', fusion: null, weights: null, alpha: null, recency: null, rerank: null, sources: null, top_k: 10 });

/** B begins with what many systems do, reciprocal rank fusion with equal weights: Compare shows a difference at once. @returns {Setting} */
const noOther = () => ({ ...noSetting(), fusion: 'rrf' });

/** @returns {Filters} */
export const noFilters = () => ({ tags: [], any_tag: false, kind: '', language: '', path: '', created_from: '', created_to: '', metadata: '', where: '' });

/** @param {string} fragment @returns {State} */
export function read(fragment) {
  const given = new URLSearchParams(fragment.replace(/^#/, ''));
  const filters = noFilters();
  filters.tags = given.getAll('tag');
  filters.any_tag = given.get('any_tag') === '1';
  for (const name of TEXTS) filters[name] = given.get(name) ?? '';
  const view = given.get('view') ?? '';
  /** @type {any} */
  const places = Object.fromEntries(PLACES.map((name) => [name, given.get(name) ?? '']));
  return {
    ns: given.get('ns') ?? '',
    q: given.get('q') ?? '',
    filters,
    a: setting(given, ''),
    b: [...given.keys()].some((name) => name.startsWith('b.')) ? setting(given, 'b.') : noOther(),
    side: given.get('side') === 'b' ? 'b' : 'a',
    view: ['results', 'compare', 'evaluate'].includes(view) ? view : 'results',
    ...places,
  };
}

/** @param {State} state */
export function written(state) {
  const found = new URLSearchParams();
  const put = (/** @type {string} */ name, /** @type {any} */ value) => value !== '' && value !== null && found.append(name, String(value));
  put('q', state.q);
  put('ns', state.ns === 'default' ? '' : state.ns);
  for (const tag of state.filters.tags) put('tag', tag);
  put('any_tag', state.filters.any_tag ? '1' : '');
  for (const name of TEXTS) put(name, state.filters[name]);
  putSetting(put, state.a, '');
  if (JSON.stringify(state.b) !== JSON.stringify(noOther())) putSetting(put, state.b, 'b.');
  put('side', state.side === 'b' ? 'b' : '');
  put('view', state.view === 'results' ? '' : state.view);
  for (const name of PLACES) put(name, state[name]);
  return String(found);
}

/** @param {URLSearchParams} given @param {string} prefix @returns {Setting} */
function setting(given, prefix) {
  const text = (/** @type {string} */ name) => given.get(prefix + name) ?? '';
  const number = (/** @type {string} */ name, /** @type {number} */ most) => {
    const value = text(name) === '' ? NaN : Number(text(name));
    return value >= 0 && value <= most ? value : null;
  };
  const weights = text('weights').split(',').map(Number);
  const valid = text('weights') !== '' && weights.length === NAMES.length && weights.every((w) => w >= 0 && w <= 100);
  return {
    preset: PRESETS.includes(text('preset')) ? text('preset') : 'auto',
    fusion: FUSIONS.includes(text('fusion')) ? text('fusion') : null,
    weights: valid && weights.some((w) => w > 0) ? weights : null,
    alpha: number('alpha', 1),
    recency: number('recency', 1),
    rerank: RERANKERS.includes(text('rerank')) ? text('rerank') : null,
    sources: text('sources') || null,
    top_k: Math.round(Math.max(1, number('top_k', 100) ?? 10)),
  };
}

/** @param {(name: string, value: any) => any} put @param {Setting} setting @param {string} prefix */
function putSetting(put, setting, prefix) {
  const plain = /** @type {any} */ (noSetting());
  for (const [name, value] of Object.entries(setting)) {
    if (value !== plain[name] || (prefix && name === 'preset')) put(prefix + name, Array.isArray(value) ? value.join(',') : value);
  }
}

/** The weights that the sliders mean: they sum to 1. @param {number[]} sliders @returns {Record<string, number>} */
export function weightsOf(sliders) {
  const total = sliders.reduce((sum, each) => sum + each, 0);
  return Object.fromEntries(NAMES.map((name, place) => [name, sliders[place] / total]));
}

/** What a setting asks of a search, by the names of its options. @param {Setting} setting @returns {Record<string, any>} */
export function options(setting) {
  /** @type {Record<string, any>} */
  const found = { preset: setting.preset };
  if (setting.fusion !== null) found.fusion = setting.fusion;
  if (setting.weights !== null) found.weights = weightsOf(setting.weights);
  else if (setting.alpha !== null && setting.preset === 'memories') found.alpha = setting.alpha;
  if (setting.recency !== null) found.recency = setting.recency;
  if (setting.rerank) found.rerank = setting.rerank;
  if (setting.sources) found.source_weights = sourceWeights(setting);
  return found;
}

/** The weights of sources; the server refuses those that are not numbers. @param {Setting} setting @returns {Record<string, any> | null} */
export function sourceWeights({ sources }) {
  if (!sources) return null;
  const pairs = sources.split(',').map((pair) => pair.split('=').map((each) => each.trim()));
  return Object.fromEntries(pairs.map(([name, value]) => [name, value === undefined || value === '' || Number.isNaN(Number(value)) ? null : Number(value)]));
}

/** The filters that are set, as the API takes them. @param {Filters} filters @returns {Record<string, any>} */
export function givenFilters(filters) {
  /** @type {Record<string, any>} */
  const found = {};
  if (filters.tags.length) found.tags = filters.tags;
  if (filters.tags.length > 1 && filters.any_tag) found.any_tag = true;
  for (const name of TEXTS) if (filters[name] !== '') found[name] = name === 'metadata' ? metadata(filters.metadata) : filters[name];
  return found;
}

/** @param {string} text */
function metadata(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text; // refused by the server, with the remedy
  }
}
