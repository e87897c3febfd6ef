// @ts-check
/** The page: keeps the state, asks the server, and hands what it answers to the parts. */
import { call, inside, Problem } from './api.js';
import { compare } from './compare.js';
import { Controls } from './controls.js';
import { openCopies } from './copy.js';
import { announce, byId, debounced, el, replace } from './dom.js';
import { Deletions } from './edit.js';
import { Evaluation } from './evaluate.js';
import { FilterPanel } from './filters.js';
import { ItemDialog } from './item.js';
import { Judgements } from './judge.js';
import { Question } from './ranking.js';
import { legend, show } from './results.js';
import { check, stages, told, warnings } from './stages.js';
import { givenFilters, read, written } from './state.js';
import { setTheme } from './theme.js';
import { askForToken, wireToken } from './token.js';
import { openWhyNot } from './why.js';

/** @typedef {import('./ranking.js').Ranked} Ranked */
/** @typedef {import('./state.js').State} State */

const VERIFY_MILLISECONDS = 150;
const NOTHING = new Map();

/** @type {State} */
let state = read(location.hash);
/** @type {Question | null} */
let question = null;
/** @type {{a: Ranked | null, b: Ranked | null}} */
let ranked = { a: null, b: null };
let asking = new AbortController();
/** @type {any} */
let facets = null;

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
  const place = byId('problem');
  replace(place, el('strong', {}, error.message), error.remedy && ` ${error.remedy}`);
  place.hidden = false;
}

// ---------------------------------------------------------------- searching

/** @returns {('a' | 'b')[]} */
const sides = () => (state.view === 'results' ? ['a'] : ['a', 'b']);

/** Drops what belongs to another question. */
function forget() {
  question = null;
  ranked = { a: null, b: null };
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
    if (!running && !verify.waits()) document.body.classList.remove('busy');
  }
}

const ask = () => busy(search);
async function search() {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  byId('problem').hidden = true;
  if (!state.q.trim()) {
    forget();
    return render();
  }
  const asked = new Question(state.ns, state.q, givenFilters(state.filters));
  try {
    const found = { a: /** @type {Ranked | null} */ (null), b: /** @type {Ranked | null} */ (null) };
    for (const side of sides()) found[side] = await asked.checked(state[side], signal);
    [question, ranked] = [asked, found];
    announce(`${found.a?.ids.length ?? 0} results`);
  } catch (error) {
    if (!signal.aborted) forget();
    failed(error);
  }
  if (!signal.aborted) render();
}

/** Asks the server whether it ranks as the page does. */
const verify = debounced(() => busy(compareWithServer), VERIFY_MILLISECONDS);

async function compareWithServer() {
  const asked = question;
  if (asked === null) return;
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  try {
    byId('problem').hidden = true;
    for (const side of sides()) {
      const setting = state[side];
      if (ranked[side]?.status === 'same' && ranked[side]?.setting === setting) continue;
      const found = await asked.checked(setting, signal);
      if (state[side] === setting) ranked[side] = found; // else the page shows a later one already
    }
  } catch (error) {
    failed(error);
  }
  if (!signal.aborted) render();
}

/** @param {Partial<import('./state.js').Setting>} change @param {boolean} done */
function changeSetting(change, done) {
  const { side } = state;
  state[side] = { ...state[side], ...change };
  remember(done ? 'push' : 'replace');
  const preview = question?.preview(state[side], ranked[side]);
  if (preview) ranked[side] = preview;
  render();
  document.body.classList.add('busy');
  verify();
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
  question: () => question,
  go,
  changed: () => ask(),
  remove: (/** @type {any} */ item, /** @type {string | null} */ etag) => deletions.begin(state.ns, item, etag),
  failed,
};
const dialog = new ItemDialog(byId('item'), context);
const evaluation = new Evaluation(byId('view-evaluate'), {
  state: () => state,
  judgements,
  ask: (query) => {
    byId('query').value = state.q = query;
    state.view = 'compare';
    remember('push');
    ask();
  },
});

const actions = {
  open: (/** @type {number} */ id, tab = '') => go({ item: String(id), tab, node: '' }),
  judge: async (/** @type {number} */ id, /** @type {number} */ relevance) => {
    try {
      await judgements.set(state.q, question?.items.get(id), relevance);
    } catch (error) {
      failed(error);
    }
    render();
  },
  judged: (/** @type {number} */ id) => judgements.of(state.q, question?.items.get(id)),
  leaving: (/** @type {number} */ id) => deletions.has(id),
};

function render() {
  controls.show(state[state.side], ranked[state.side]);
  filters.show(state.filters, facets, question?.items ?? NOTHING);
  for (const view of ['results', 'compare', 'evaluate']) byId(`view-${view}`).hidden = state.view !== view;
  press('views', 'view', state.view);
  press('sides', 'side', state.side);
  byId('sides').hidden = state.view === 'results';
  byId('side-name').textContent = state.view === 'results' ? '' : state.side.toUpperCase();
  if (state.view === 'results') renderResults();
  else if (state.view === 'evaluate') evaluation.render();
  else if (question && ranked.a && ranked.b) compare(byId('view-compare'), question, ranked.a, ranked.b, (id) => actions.open(id));
  else replace(byId('view-compare'), el('p', { class: 'note' }, 'Search for something, then change setting A or B.'));
}

/** Marks the chosen one of a group of buttons. @param {string} group @param {string} name @param {string} chosen */
function press(group, name, chosen) {
  for (const each of byId(group).querySelectorAll(`[data-${name}]`)) each.setAttribute('aria-pressed', String(each.dataset[name] === chosen));
}

function renderResults() {
  const [current, asked] = [ranked.a, question];
  byId('stages').hidden = current === null;
  if (current === null || asked === null) {
    for (const id of ['told', 'check', 'warnings', 'legend', 'results']) byId(id).replaceChildren();
    return;
  }
  byId('told').textContent = told(current);
  replace(byId('check'), check(current));
  replace(byId('warnings'), warnings(current));
  replace(byId('legend'), legend(current));
  show(byId('results'), asked, current, actions);
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
  await search();
  await dialog.show();
}

/** The part of a state that decides what is asked and shown behind the dialogs. @param {State} state */
const asks = ({ ns, q, filters, a, b, side, view }) => JSON.stringify([ns, q, filters, a, b, side, view]);

function wire() {
  byId('query').value = state.q;
  byId('search').addEventListener('submit', (/** @type {Event} */ event) => {
    event.preventDefault();
    state.q = byId('query').value;
    remember('push');
    ask();
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
    if (sides().some((side) => ranked[side] === null)) ask();
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
  document.querySelector('.skip')?.addEventListener('click', (event) => {
    event.preventDefault();
    byId('results').focus();
  });
}

if (matchMedia('(max-width: 820px)').matches) for (const panel of document.querySelectorAll('aside .panel')) panel.removeAttribute('open');
setTheme();
wire();
render();
enter();
