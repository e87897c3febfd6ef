// @ts-check
/** The Markdown of short texts as elements. Links and images become their text: the page contacts no other site, and parses no HTML. */
import { el } from './dom.js';

/** What is shown of each construct, as a named group; the rest of a match is left out. */
const CONSTRUCTS = new RegExp(
  [
    String.raw`^ *(?:\x60{3,}|~{3,}).*$\n?`, // a fence
    String.raw`^ *#{1,6} +(?<heading>.*)`,
    String.raw`^ *[-*+] +(?<entry>(?=\S))`,
    String.raw`^ *>+ ?`,
    String.raw`\x60(?<code>[^\x60]+)\x60`,
    String.raw`!?\[(?<link>[^\[\]]+)\]\((?:[^()\s]|\([^()\s]*\))*(?: "[^"]*")?\)`,
    String.raw`\[\[(?:[^\[\]|]*\|)?(?<wiki>[^\[\]|]+)\]\]`,
    String.raw`(?<![\w*])\*\*(?<strong>[^*\s][^*]*)\*\*(?![\w*])`,
    String.raw`(?<![\w*])\*(?<em>[^*\s][^*]*)\*(?![\w*])`,
    String.raw`(?<![\w_])_(?<emphasis>[^_\s][^_]*)_(?![\w_])`,
  ].join('|'),
  'dgm',
);
const TAGS = /** @type {Record<string, string>} */ ({ heading: 'strong', code: 'code', strong: 'strong', em: 'em', emphasis: 'em' });

/** @param {string} text @param {[number, number][]} [marks] What is marked, as positions in the text. @returns {(Node | string)[]} */
export function rendered(text, marks = []) {
  /** @type {(Node | string)[]} */
  const shown = [];
  const put = (/** @type {number} */ from, /** @type {number} */ to, tag = '') => {
    /** @type {(Node | string)[]} */
    const parts = [];
    for (const [start, end] of [...marks, [to, to]]) {
      if (end <= from || start > to) continue;
      parts.push(text.slice(from, Math.max(start, from)), start < to ? el('mark', {}, text.slice(Math.max(start, from), Math.min(end, to))) : '');
      from = end;
    }
    shown.push(...(tag ? [el(tag, {}, parts)] : parts.filter(Boolean)));
  };
  let done = 0;
  for (const match of text.matchAll(CONSTRUCTS)) {
    put(done, match.index);
    done = match.index + match[0].length;
    const [name, span] = Object.entries(/** @type {any} */ (match).indices.groups).find(([, each]) => each) ?? [];
    if ((name === 'heading' || name === 'entry') && shown.length) shown.push(el('br'));
    if (name === 'entry') shown.push('• ');
    else if (name) put(span[0], span[1], TAGS[name]);
    if (name === 'heading' && done < text.length) shown.push(el('br'));
  }
  put(done, text.length);
  return shown;
}

/** A snippet of a search, whose matches are written **word**; then it has no other double asterisks. @param {string} snippet */
export function marked(snippet) {
  const parts = snippet.split('**');
  if (parts.length % 2 === 0) return rendered(snippet);
  const ends = parts.map((_, place) => parts.slice(0, place + 1).join('').length);
  return rendered(parts.join(''), parts.flatMap((part, place) => (place % 2 ? [/** @type {[number, number]} */ ([ends[place] - part.length, ends[place]])] : [])));
}
