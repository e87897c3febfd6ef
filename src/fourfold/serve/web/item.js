// @ts-check
/** The view of an item: text, chunks, links, sources, its place in the ranking; edit and delete. */
import { inside, itemPath, Problem, tagged } from './api.js';
import { bdi, button, counted, el, keepingFocus, longText, replace } from './dom.js';
import { editor } from './edit.js';
import { GraphView } from './graph.js';
import { rendered } from './markdown.js';
import { whyView } from './why.js';

/**
 * @typedef {{state: () => import('./state.js').State, ranked: () => import('./ranking.js').Ranked | null,
 *   go: (change: Record<string, string>) => void, changed: () => void,
 *   remove: (item: any, etag: string | null) => Promise<void>, failed: (error: unknown) => void}} Context
 */

const TABS = /** @type {Record<string, string>} */ ({ text: 'Text', chunks: 'Chunks', graph: 'Graph', sources: 'Sources', why: 'Why' });

export class ItemDialog {
  /** @param {HTMLDialogElement} dialog @param {Context} context */
  constructor(dialog, context) {
    this.dialog = dialog;
    this.context = context;
    this.shown = '';
    /** @type {any} */
    this.item = null;
    this.etag = /** @type {string | null} */ (null);
    dialog.addEventListener('close', () => {
      if (this.shown) context.go({ item: '', tab: '', node: '' });
      this.shown = '';
    });
  }

  /** Opens, changes or closes the view, as the state says. */
  async show() {
    const { ns, item, tab, node } = this.context.state();
    if (!item) {
      this.shown = '';
      if (this.dialog.open) this.dialog.close();
      return;
    }
    const wanted = [ns, item, tab, node].join('\n');
    if (this.shown === wanted) return;
    const same = this.shown.split('\n').slice(0, 2).join('\n') === [ns, item].join('\n');
    this.shown = wanted;
    try {
      if (!same || this.item === null) await this._load(ns, item);
      if (this.shown === wanted) this._render(tab || 'text');
    } catch (error) {
      this._missing(error);
    }
    if (!this.dialog.open) this.dialog.showModal();
  }

  /** @param {string} ns @param {string} item */
  async _load(ns, item) {
    this.item = null;
    const include = ['chunks', 'sources', 'vector', 'nodes'];
    const { form, etag } = await tagged(inside(ns, itemPath(item)), { query: { include } });
    [this.item, this.etag] = [form, etag];
  }

  /** @param {unknown} error */
  _missing(error) {
    if (!(error instanceof Problem)) throw error;
    replace(this.dialog, el('header', {}, el('h2', {}, 'Item'), button('Close', () => this.dialog.close())), el('p', { class: 'warning' }, error.message));
  }

  /** Reads the item again. */
  async reload() {
    this.shown = '';
    this.item = null;
    await this.show();
  }

  /** @param {string} tab */
  _render(tab) {
    const { item } = this;
    const { go } = this.context;
    const tabs = Object.entries(TABS).map(([name, label]) => {
      const number = name === 'chunks' ? item.chunks.length : name === 'sources' ? item.sources.length : name === 'graph' ? item.nodes.length : 0;
      const shown = number > (name === 'chunks' ? 1 : 0) ? `${label} ${number}` : label;
      return button(shown, () => go({ tab: name, node: '' }), { role: 'tab', id: `tab-${name}`, tabindex: name === tab ? '0' : '-1', 'aria-selected': String(name === tab), 'aria-controls': 'tab-body' });
    });
    const body = el('div', { id: 'tab-body', role: 'tabpanel', 'aria-labelledby': `tab-${tab}` });
    const walking = this.dialog.querySelector('.graph-view :focus') !== null;
    const title = el('h2', {}, bdi(item.title || `item ${item.id}`));
    const header = el('header', {}, title, button('Close', () => this.dialog.close()));
    keepingFocus(this.dialog, () => replace(this.dialog, header, this._facts(), el('div', { class: 'tabs', role: 'tablist' }, tabs), body));
    this._fill(tab, body, walking);
  }

  _facts() {
    const { item } = this;
    const facts = [
      `id ${item.id}`,
      item.key && ['key ', bdi(item.key)],
      item.kind && bdi(item.kind),
      item.language,
      item.source && `source ${item.source}`,
      item.location && bdi(item.location),
      `created ${item.created_at.slice(0, 10)}`,
      `changed ${item.updated_at.slice(0, 10)}`,
      el('span', { class: `vector ${item.vector}` }, item.vector === 'ready' ? 'vector ready' : 'waits for its vector'),
    ].filter(Boolean);
    return el('p', { class: 'meta' }, facts.map((each) => el('span', {}, each)));
  }

  /** @param {string} tab @param {HTMLElement} body @param {boolean} walking */
  _fill(tab, body, walking) {
    if (tab === 'chunks') replace(body, this._chunks());
    else if (tab === 'sources') replace(body, this._sources());
    else if (tab === 'why') whyView(body, this.context, this.item);
    else if (tab === 'graph') this._graph(body, walking);
    else replace(body, this._text(body));
  }

  /** @param {HTMLElement} body */
  _text(body) {
    const { item, context } = this;
    const edit = () => replace(body, editor(item, this.etag, context.state().ns, () => this._changed(), () => replace(body, this._text(body))));
    const erase = async () => {
      try {
        await context.remove(item, this.etag);
        this.dialog.close();
      } catch (error) {
        context.failed(error);
        this.dialog.close();
      }
    };
    const metadata = Object.entries(item.metadata);
    return [
      item.tags.length > 0 && el('p', {}, item.tags.map((/** @type {string} */ tag) => el('span', { class: 'tag' }, bdi(tag)))),
      longText(item.content),
      metadata.length > 0 && el('dl', {}, metadata.flatMap(([name, value]) => [el('dt', {}, bdi(name)), el('dd', {}, bdi(typeof value === 'string' ? value : JSON.stringify(value)))])),
      el('menu', {}, button('Edit', edit), button('Delete', erase, { class: 'danger' })),
    ];
  }

  async _changed() {
    await this.reload();
    this.context.changed();
  }

  _chunks() {
    const { item, context } = this;
    if (item.chunks.length < 2) return el('p', { class: 'note' }, item.file_path ? 'The file has one chunk.' : 'The item is not part of a file.');
    return el(
      'ol',
      { class: 'chunks' },
      item.chunks.map((/** @type {any} */ chunk) =>
        el(
          'li',
          { class: chunk.id === item.id ? 'current' : '' },
          button([String(chunk.chunk_index ?? ''), ' ', bdi(chunk.location ?? chunk.title)], () => context.go({ item: String(chunk.id), tab: 'chunks' }), { class: 'link', 'aria-current': chunk.id === item.id ? 'true' : null }),
          el('p', { class: 'snippet', dir: 'auto' }, rendered(chunk.content.slice(0, 300))),
        ),
      ),
    );
  }

  _sources() {
    const { sources } = this.item;
    if (!sources.length) return el('p', { class: 'note' }, 'The item is not drawn from raw records.');
    return sources.map((/** @type {any} */ source) =>
      el(
        'section',
        {},
        el('p', { class: 'meta' }, el('span', {}, `raw record ${source.id}`), source.speaker && el('span', {}, bdi(source.speaker)), source.session_id && el('span', {}, bdi(source.session_id)), el('span', {}, source.created_at.slice(0, 10))),
        longText(source.content),
      ),
    );
  }

  /** @param {HTMLElement} body @param {boolean} walking */
  _graph(body, walking) {
    const { item, context } = this;
    if (!item.nodes.length) return replace(body, el('p', { class: 'note' }, 'The text names no node of the graph.'));
    const view = new GraphView(context);
    const own = item.nodes.find((/** @type {any} */ node) => node.name === item.title) ?? item.nodes[0];
    const shown = context.state().node || own.name;
    const chips = item.nodes.map((/** @type {any} */ node) =>
      button([bdi(node.name), el('small', {}, counted(node.edges, 'edge'))], () => context.go({ node: node.name }), { class: 'chip', 'aria-pressed': String(node.name === shown) }),
    );
    replace(body, el('p', { class: 'note' }, 'Nodes that the item names, most connected first'), el('p', {}, chips), view.place);
    return view.draw(shown, walking);
  }
}
