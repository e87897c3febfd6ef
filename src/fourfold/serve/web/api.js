// @ts-check
/** Calls of the server that this page comes from. The token stays in this tab and is sent as a header only. */

const TOKEN = 'fourfold-token';

/** An answer other than success, with the server's remedy. */
export class Problem extends Error {
  /** @param {number} status @param {string} detail @param {string} remedy */
  constructor(status, detail, remedy) {
    super(detail);
    this.status = status;
    this.remedy = remedy;
  }
}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;

/** @param {string} token Empty: forgets it. */
export function setToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

/**
 * @typedef {{body?: any, query?: Record<string, any>, etag?: string | null, signal?: AbortSignal, keepalive?: boolean}} Options
 * @param {string} method @param {string} path @param {Options} [options] @returns {Promise<Response>}
 */
async function send(method, path, { body, query, etag, signal, keepalive } = {}) {
  /** @type {Record<string, string>} */
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token !== null) headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers['content-type'] = 'application/json';
  if (etag) headers['if-match'] = etag;
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== null && one !== undefined) given.append(name, one);
  }
  const asked = String(given) ? `${path}?${given}` : path;
  let answer;
  try {
    answer = await fetch(asked, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal, keepalive });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new Problem(0, 'the server does not answer', 'Start it again: fourfold serve');
  }
  if (answer.ok) return answer;
  const form = await answer.json().catch(() => ({}));
  throw new Problem(answer.status, form.detail ?? answer.statusText, form.remedy ?? '');
}

/** @param {string} method @param {string} path @param {Options} [options] @returns {Promise<any>} */
export async function call(method, path, options) {
  const answer = await send(method, path, options);
  return answer.status === 204 ? null : answer.json();
}

/** The answer with its entity tag. @param {string} path @param {Options} options */
export async function tagged(path, options) {
  const answer = await send('GET', path, options);
  return { form: await answer.json(), etag: answer.headers.get('etag') };
}

/** Saves what a path answers as a file. @param {string} path @param {string} name */
export async function download(path, name) {
  const answer = await send('GET', path);
  const address = URL.createObjectURL(await answer.blob());
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** @param {string} namespace @param {string} path */
export const inside = (namespace, path) => `/v1/namespaces/${encodeURIComponent(namespace)}${path}`;

/** An id or key:K as part of a path. @param {number | string} id */
export const itemPath = (id) => `/items/${encodeURIComponent(String(id))}`;
