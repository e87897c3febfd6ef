// @ts-check
/** The page: keeps the state, asks the server, and hands what it answers to the parts. */
import { call, inside, Problem } from './api.js';
import { compare } from './compare.js';
import { Controls } from './controls.js';
import { openCopies } from './copy.js';
import { announce, byId, counted, debounced, el, press, replace } from './dom.js';
import { Deletions } from './edit.js';
import { Evaluation } from './evaluate.js';
import { FilterPanel } from './filters.js';
import { ItemDialog } from './item.js';
import { Judgements } from './judge.js';
import { wireKeys } from './keys.js';
import { rank } from './ranking.js';
import { legend, show } from './results.js';
import { stages, told, warnings } from './stages.js';
import { Start } from './start.js';
import { givenFilters, read, written } from './state.js';
import { setTheme } from './theme.js';
import { askForToken, wireToken } from './token.js';
import { openWhyNot } from './why.js';

/** @typedef {import('./ranking.js').Question} Question */
/** @typedef {import('./ranking.js').Ranked} Ranked */
/** @typedef {import('./state.js').State} State */

/** The shortest and the longest time between two requests of a slider. */
const PAUSE_MILLISECONDS = [16, 100];

/** @type {State} */
let state = read(location.hash);
/** The question whose results are shown. @type {Question | null} */
let question = null;
/** The question that was asked last. @type {Question | null} */
let asked = null;
/** What its first answer had to choose from: filters count these. @type {any[]} */
let candidates = [];
/** When it was sent, how long the last answer took (milliseconds), and the timer of the next request. */
let [sent, took, timer] = [0, 0, 0];
/** Whether a slider moves: until it is released, answers are as small as possible. */
let dragging = false;
/** @type {{a: Ranked | null, b: Ranked | null}} */
let ranked = { a: null, b: null };
let asking = new AbortController();
let facets = /** @type {any} */ (null);

/** @param {'push' | 'replace'} how */
function remember(how) {
  const address = `${location.pathname}#${written(state)}`;
  if (how === 'push') history.pushState(null, '', address);
  else history.replaceState(null, '', address);
}

/** Shows what went wrong, with the remedy; asks for a token if that is missing. @param {unknown} error */
export function failed(error) {
  if (error instanceof DOMException && error.name === 'AbortError') return;
  if (!(error instanceof Problem)) throw error;
  if (error.status === 401) askForToken();
  replace(byId('problem'), el('strong', {}, `${error.message}.`), error.remedy && ` ${error.remedy}`);
  byId('problem').hidden = false;
}

// ---------------------------------------------------------------- searching

/** @returns {('a' | 'b')[]} */
const sides = () => (state.view === 'results' ? ['a'] : ['a', 'b']);

/** Drops what belongs to another question. */
function forget() {
  question = null;
  ranked = { a: null, b: null };
  candidates = [];
}

let running = 0;

/** Runs what the page waits for; until then it looks busy. @param {() => Promise<void>} act */
async function busy(act) {
  running += 1;
  document.body.classList.add('busy');
  try {
    await act();
  } finally {
    running -= 1;
    if (!running && !timer) document.body.classList.remove('busy');
  }
}

/** Asks the question of the state. */
const ask = () => busy(() => search({ ns: state.ns, text: state.q, filters: givenFilters(state.filters) }));

/** @param {string} query @param {string} view */
function askFor(query, view) {
  byId('query').value = query;
  state = { ...state, q: query, view };
  remember('push');
  ask();
}

/** Asks for the settings that are not shown yet, and cancels what was asked before. @param {Question} wanted */
async function search(wanted) {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  [asked, sent] = [wanted, performance.now()];
  byId('problem').hidden = true;
  if (!wanted.text.trim()) {
    forget();
    await start.show(wanted, facets, signal).catch(failed);
    return render();
  }
  try {
    const found = wanted === question ? { ...ranked } : { a: null, b: null };
    for (const side of sides()) {
      const whole = !dragging || wanted !== question;
      if (found[side]?.setting !== state[side] || (whole && !found[side]?.answer.candidates)) found[side] = await rank(wanted, state[side], whole, signal);
    }
    if (wanted !== question) candidates = found.a?.answer.candidates?.items ?? [];
    [question, ranked, took] = [wanted, found, performance.now() - sent];
    announce(counted(found.a?.results.size ?? 0, 'result'));
  } catch (error) {
    if (!signal.aborted && wanted !== question) forget();
    failed(error);
  }
  if (!signal.aborted) render();
}

/** Asks for the latest setting as soon as the last answer had time to arrive: a slider that moves must not queue requests. */
function refresh() {
  if (asked === null) return;
  document.body.classList.add('busy');
  const pause = Math.min(Math.max(1.5 * took, PAUSE_MILLISECONDS[0]), PAUSE_MILLISECONDS[1]);
  clearTimeout(timer);
  timer = window.setTimeout(() => {
    timer = 0;
    busy(() => search(/** @type {Question} */ (asked)));
  }, Math.max(0, sent + pause - performance.now()));
}

/** @param {Partial<import('./state.js').Setting>} change @param {boolean} done */
function changeSetting(change, done) {
  state[state.side] = { ...state[state.side], ...change };
  dragging = !done;
  remember(done ? 'push' : 'replace');
  controls.show(state[state.side], ranked[state.side]);
  refresh();
}

// ---------------------------------------------------------------- showing

const controls = new Controls(byId('controls'), changeSetting);
const filters = new FilterPanel(byId('filters'), (changed) => {
  state.filters = changed;
  remember('push');
  ask();
});

const judgements = new Judgements();
const deletions = new Deletions(() => ask(), failed);

/** Changes where the page is, and adds that to the history. @param {Partial<State>} change */
function go(change) {
  state = { ...state, ...change };
  remember('push');
  busy(() => dialog.show());
}

const context = {
  state: () => state,
  ranked: () => ranked.a,
  go,
  changed: () => ask(),
  remove: (/** @type {any} */ item, /** @type {string | null} */ etag) => deletions.begin(state.ns, item, etag),
  failed,
};
const dialog = new ItemDialog(byId('item'), context);
const evaluation = new Evaluation(byId('view-evaluate'), {
  state: () => state,
  judgements,
  ask: (query) => askFor(query, 'compare'),
});
const start = new Start(byId('start'), context, judgements, { ask: (query) => askFor(query, state.view), open: (id) => go({ item: String(id) }), changed: () => ask(), failed });

const resultOf = (/** @type {number} */ id) => ranked.a?.results.get(id);
const actions = {
  open: (/** @type {number} */ id, tab = '') => go({ item: String(id), tab, node: '' }),
  judge: async (/** @type {number} */ id, /** @type {number} */ relevance) => {
    try {
      await judgements.set(state.q, resultOf(id), relevance);
    } catch (error) {
      failed(error);
    }
    render();
  },
  judged: (/** @type {number} */ id) => judgements.of(state.q, resultOf(id)),
  leaving: (/** @type {number} */ id) => deletions.has(id),
};

function render() {
  controls.show(state[state.side], ranked[state.side]);
  filters.show(state.filters, facets, candidates);
  for (const view of ['results', 'compare', 'evaluate']) byId(`view-${view}`).hidden = state.view !== view;
  press('views', 'view', state.view);
  press('sides', 'side', state.side);
  byId('sides').hidden = state.view === 'results';
  byId('side-name').textContent = state.view === 'results' ? '' : state.side.toUpperCase();
  if (state.view === 'results') renderResults();
  else if (state.view === 'evaluate') evaluation.render();
  else if (ranked.a && ranked.b) compare(byId('view-compare'), ranked.a, ranked.b, (id) => actions.open(id));
  else replace(byId('view-compare'), el('p', { class: 'note' }, 'Ask something, to see how settings A and B rank it.'), start.asking());
}

function renderResults() {
  const current = ranked.a;
  if (current !== null) byId('start').replaceChildren();
  byId('stages').hidden = current === null;
  if (current === null || question === null) {
    for (const id of ['told', 'warnings', 'legend', 'results']) byId(id).replaceChildren();
    return;
  }
  byId('told').textContent = told(current);
  replace(byId('warnings'), warnings(current));
  replace(byId('legend'), legend(current));
  show(byId('results'), question, current, actions);
  replace(byId('stages').lastElementChild, stages(current));
}

// ---------------------------------------------------------------- beginning

const enter = () => busy(load);

async function load() {
  try {
    const { namespaces } = await call('GET', '/v1/namespaces');
    const names = namespaces.map((/** @type {any} */ each) => each.name);
    state.ns ||= names.includes('default') || !names.length ? 'default' : names[0];
    if (!names.includes(state.ns)) names.push(state.ns);
    replace(byId('namespace'), names.map((/** @type {string} */ name) => el('option', { value: name }, name)));
    byId('namespace').value = state.ns;
    if (judgements.ns !== state.ns) evaluation.clear();
    [facets] = await Promise.all([call('GET', inside(state.ns, '/facets')), judgements.load(state.ns)]);
  } catch (error) {
    facets = null;
    forget();
    failed(error);
    return render();
  }
  await ask();
  await dialog.show();
}

/** The part of a state that decides what is asked and shown behind the dialogs. @param {State} state */
const asks = ({ ns, q, filters, a, b, side, view }) => JSON.stringify([ns, q, filters, a, b, side, view]);

function wire() {
  byId('query').value = state.q;
  byId('search').addEventListener('submit', (/** @type {Event} */ event) => {
    event.preventDefault();
    askFor(byId('query').value, state.view);
  });
  byId('namespace').addEventListener('change', () => {
    state = { ...state, ns: byId('namespace').value, filters: read('').filters, item: '' };
    remember('push');
    enter();
  });
  byId('views').addEventListener('click', (/** @type {any} */ event) => {
    const { view } = event.target.dataset;
    if (!view) return;
    state = { ...state, view, side: view === 'results' ? 'a' : state.side };
    remember('push');
    render();
    if (sides().some((side) => ranked[side]?.setting !== state[side])) refresh();
  });
  byId('sides').addEventListener('click', (/** @type {any} */ event) => {
    state.side = event.target.dataset.side ?? state.side;
    remember('replace');
    render();
  });
  addEventListener('resize', debounced(render, 100));
  byId('whynot-button').addEventListener('click', () => openWhyNot(context));
  byId('copy-button').addEventListener('click', () => openCopies(state, state.side));
  wireToken(enter);
  addEventListener('popstate', () => {
    const [before, ns] = [asks(state), state.ns];
    state = { ...read(location.hash) };
    state.ns ||= ns;
    byId('query').value = state.q;
    if (asks(state) === before) busy(() => dialog.show());
    else enter();
  });
}

if (matchMedia('(max-width: 820px)').matches) for (const panel of document.querySelectorAll('aside .panel')) panel.removeAttribute('open');
setTheme();
wire();
wireKeys();
render();
enter();
