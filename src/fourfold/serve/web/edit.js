// @ts-check
/** Changes of items: a form, and deletions that can be undone for a while. */
import { call, inside, itemPath, Problem } from './api.js';
import { announce, bdi, button, byId, el } from './dom.js';

const UNDO_SECONDS = 8;

/** A form for an item. @param {any} item @param {string | null} etag @param {string} ns @param {() => void} saved @param {() => void} left */
export function editor(item, etag, ns, saved, left) {
  const title = el('input', { id: 'edit-title', value: item.title, dir: 'auto' });
  const tags = el('input', { id: 'edit-tags', value: item.tags.join(', '), dir: 'auto' });
  const text = el('textarea', { id: 'edit-text', rows: '10', value: item.content, dir: 'auto' });
  const metadata = el('textarea', { id: 'edit-metadata', rows: '3', value: JSON.stringify(item.metadata) });
  const wrong = el('p', { class: 'warning', role: 'alert', hidden: true });
  const field = (/** @type {string} */ label, /** @type {any} */ input) => el('p', { class: 'field' }, el('label', { for: input.id }, label), input);
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    try {
      const body = changes(item, title.value, tags.value, text.value, metadata.value);
      if (Object.keys(body).length) await call('PATCH', inside(ns, itemPath(item.id)), { body, etag });
      announce('Saved');
      saved();
    } catch (error) {
      if (!(error instanceof Problem || error instanceof SyntaxError)) throw error;
      wrong.textContent = error instanceof Problem ? `${error.message}. ${error.remedy}` : 'The metadata is not JSON.';
      wrong.hidden = false;
    }
  };
  return el(
    'form',
    { class: 'edit', on: { submit } },
    field('Title', title),
    field('Tags, separated by commas', tags),
    field('Text', text),
    field('Metadata', metadata),
    wrong,
    el('menu', {}, el('button', { type: 'submit', class: 'primary' }, 'Save'), button('Cancel', left)),
  );
}

/** What the form changes. @param {any} item @param {string} title @param {string} tags @param {string} text @param {string} metadata */
function changes(item, title, tags, text, metadata) {
  const wanted = tags.split(',').map((tag) => tag.trim()).filter(Boolean);
  const values = JSON.parse(metadata || '{}');
  const removed = Object.keys(item.metadata).filter((name) => !(name in values));
  const changed = Object.entries(values).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(item.metadata[name]));
  /** @type {Record<string, any>} */
  const body = {};
  if (title !== item.title) body.title = title;
  if (text !== item.content) body.text = text;
  const more = wanted.filter((tag) => !item.tags.includes(tag));
  const fewer = item.tags.filter((/** @type {string} */ tag) => !wanted.includes(tag));
  if (more.length) body.add_tags = more;
  if (fewer.length) body.remove_tags = fewer;
  if (changed.length || removed.length) body.metadata = Object.fromEntries([...changed, ...removed.map((name) => [name, null])]);
  return body;
}

/** Items that will be deleted, by id. The item stays as it is until then, so that undo restores everything. */
export class Deletions {
  /** @param {() => void} changed @param {(error: unknown) => void} failed */
  constructor(changed, failed) {
    this.changed = changed;
    this.failed = failed;
    /** @type {Map<number, {run: (keepalive: boolean) => Promise<void>, timer: number, toast: HTMLElement}>} */
    this.waiting = new Map();
    addEventListener('pagehide', () => [...this.waiting.values()].forEach(({ run }) => run(true)));
  }

  /** @param {number} id */
  has(id) {
    return this.waiting.has(id);
  }

  /** Deletes an item in a while; the server is asked at once whether it may. @param {string} ns @param {any} item @param {string | null} etag */
  async begin(ns, item, etag) {
    await call('POST', inside(ns, '/items:delete'), { body: { ids: [item.id], dry_run: true } });
    const run = async (keepalive = false) => {
      this._end(item.id);
      try {
        await call('DELETE', inside(ns, itemPath(item.id)), { etag, keepalive });
      } catch (error) {
        this.failed(error);
      }
      if (!keepalive) this.changed();
    };
    const undo = () => {
      this._end(item.id);
      announce('Kept');
      this.changed();
    };
    const name = el('strong', {}, bdi((item.title || `item ${item.id}`).slice(0, 60)));
    const toast = el('div', { class: 'toast' }, el('span', {}, name, ` will be deleted in ${UNDO_SECONDS} s`), button('Undo', undo), button('Delete now', () => run()));
    byId('toasts').append(toast);
    this.waiting.set(item.id, { run, timer: window.setTimeout(run, UNDO_SECONDS * 1000), toast });
    this.changed();
  }

  /** @param {number} id */
  _end(id) {
    const waits = this.waiting.get(id);
    clearTimeout(waits?.timer);
    waits?.toast.remove();
    this.waiting.delete(id);
  }
}
