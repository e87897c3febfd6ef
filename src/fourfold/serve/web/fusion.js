// @ts-check
/**
 * Fusion of retrievers' lists, with the arithmetic of `fourfold.ranking`: the same operations on the same doubles in the same
 * order, so that order and scores equal the server's. tests/web compares both for random settings.
 *
 * @typedef {[number, number, number | null, number | null]} Row id, raw score, rank, scaled
 * @typedef {{weight: number, mean: number | null, hits: Row[], unlisted: Row[]}} List
 * @typedef {{id: number, key: string | null, title: string, kind: string | null, language: string, tags: string[],
 *   location: string | null, created_at: string, updated_at: string, recency: number, age: number, window: number, source: string | null,
 *   file_path: string | null, text_hash: string | null}} Candidate
 * @typedef {{lists: Record<string, List>, items: Candidate[], files: Record<string, number[]>, order: [number, number][]}} Candidates
 * @typedef {{fusion: string, k: number, weights: Record<string, number> | null, applied: Record<string, number> | null,
 *   strength: number, sources: Record<string, number> | null, preset: string, rerank: Row[] | null}} Plan `weights`: given by the caller or the preset; `applied`: the weight of each list
 *   as the server chose it, for `auto` without given weights; `strength`: of recency, 0 for none; `sources`: their weights; `rerank`: what a model read
 * @typedef {{source: string, rank: number | null, raw: number | null, scaled: number, weight: number, value: number}} Line
 * @typedef {{ids: number[], scores: number[]}} Hits
 * @typedef {{source: string, weight: number, listed: number, ids: number[], raw: (number | null)[], values: number[]}} Part
 * @typedef {{order: [number, number][], lines: (id: number) => Line[]}} Fused
 */

/** Mirrors `fourfold/ranking/retrievers.py`, in its order. */
export const RETRIEVERS = Object.freeze([
  { name: 'semantic', score: 'cosine', scale: 'cosine', expansion: null, expandsWeighted: true },
  { name: 'keyword', score: 'BM25', scale: 'best', expansion: null, expandsWeighted: true },
  { name: 'graph', score: 'score', scale: 'absolute', expansion: 'walk', expandsWeighted: true },
  { name: 'tags', score: 'score', scale: 'best', expansion: 'shared', expandsWeighted: false },
]);
export const NAMES = Object.freeze(RETRIEVERS.map((spec) => spec.name));
export const FILE_NAME = 'file name';
/** Every source of a contribution, in the order of bars and legends. */
export const SOURCES = Object.freeze(['semantic', 'keyword', 'graph', 'walk', 'tags', 'shared', 'rerank', FILE_NAME]);
/** The most that a reranker adds to a score, as a share of the best one. */
export const RERANK_SHARE = 0.3;
/** Presets in which a file that the query names comes first. */
export const NAMING = Object.freeze(['auto', 'files']);
/** Results from one file, by preset; no limit in the others. */
export const PER_SOURCE = Object.freeze(/** @type {Record<string, number>} */ ({ auto: 2 }));
const FEW_TIES = 10;
const BELOW_AVERAGE = 0.05;

/** The exactly rounded sum, as `math.fsum` (Shewchuk). @param {number[]} values */
export function fsum(values) {
  /** @type {number[]} */
  const partials = [];
  for (let x of values) {
    let used = 0;
    for (let y of partials) {
      if (Math.abs(x) < Math.abs(y)) [x, y] = [y, x];
      const high = x + y;
      const low = y - (high - x);
      if (low !== 0) partials[used++] = low;
      x = high;
    }
    partials.length = used;
    partials.push(x);
  }
  let n = partials.length;
  if (n === 0) return 0;
  let high = partials[--n];
  let low = 0;
  while (n > 0) {
    const x = high;
    const y = partials[--n];
    high = x + y;
    low = y - (high - x);
    if (low !== 0) break;
  }
  if (n > 0 && ((low < 0 && partials[n - 1] < 0) || (low > 0 && partials[n - 1] > 0))) {
    const y = low * 2;
    const x = high + y;
    if (y === x - high) high = x;
  }
  return high;
}

/** A power of two above the largest total; (x + grid) - grid rounds x to the grid. @param {number} largest */
export function gridFor(largest) {
  if (largest === 0) return 1;
  let power = 2 ** Math.floor(Math.log2(largest));
  while (power > largest) power /= 2;
  while (power * 2 <= largest) power *= 2;
  return power * 2;
}

/** @param {Row[]} rows @returns {Hits} */
const columns = (rows) => ({ ids: rows.map((row) => row[0]), scores: rows.map((row) => row[1]) });

/** Ranks of sorted scores; equal neighbours share the best rank. @param {number[]} scores */
function ranks(scores) {
  let rank = 0;
  return scores.map((score, place) => (rank = place > 0 && score === scores[place - 1] ? rank : place + 1));
}

/** Adds up the parts, best first, ties by id. @param {Part[]} parts @returns {[number, number][]} */
function summed(parts) {
  /** @type {Map<number, number>} */
  const totals = new Map();
  for (const part of parts) {
    part.ids.forEach((id, place) => totals.set(id, (totals.get(id) ?? 0) + part.values[place]));
  }
  return inOrder([...totals]);
}

/** @param {[number, number][]} hits */
const inOrder = (hits) => hits.sort((a, b) => b[1] - a[1] || a[0] - b[0]);

/** The lists that have hits and a weight. @param {Record<string, List>} lists @param {Record<string, number>} weights */
function acting(lists, weights) {
  const known = NAMES.filter((name) => lists[name]?.hits.length && (weights[name] ?? 0) > 0);
  return known.map((name) => ({ name, hits: columns(lists[name].hits) }));
}

/** @param {Record<string, List>} lists @param {Record<string, number>} weights @param {number} k @returns {Part[]} */
function rrf(lists, weights, k) {
  const grid = gridFor(fsum(Object.values(weights)) / (k + 1));
  const taking = acting(lists, weights);
  const tied = (/** @type {{hits: Hits}} */ { hits }) => hits.ids.length > FEW_TIES && hits.scores.every((score) => score === hits.scores[0]);
  let silent = taking.length > 1 ? taking.filter(tied).map((each) => each.name) : [];
  if (silent.length === taking.length) silent = [];
  return taking.map(({ name, hits }) => {
    const weight = weights[name];
    const values = ranks(hits.scores).map((rank) => (silent.includes(name) ? 0 : weight / (k + rank)));
    return part(name, weight, hits, values, grid);
  });
}

/** @param {Record<string, List>} lists @param {Record<string, number>} weights @returns {Part[]} */
function weighted(lists, weights) {
  const grid = gridFor(fsum(Object.values(weights)));
  return acting(lists, weights).map(({ name, hits }) => {
    const low = Math.min(...hits.scores);
    const span = Math.max(...hits.scores) - low;
    const values = hits.scores.map((score) => weights[name] * (span ? (score - low) / span : 1));
    return part(name, weights[name], hits, values, grid);
  });
}

/** @param {string} source @param {number} weight @param {Hits} hits @param {number[]} values @param {number} grid @returns {Part} */
function part(source, weight, hits, values, grid, listed = hits.ids.length) {
  return { source, weight, listed, ids: hits.ids, raw: hits.scores, values: values.map((value) => value + grid - grid) };
}

/** @param {Record<string, List>} lists @param {Plan} plan @returns {Part[]} */
function auto(lists, plan) {
  const filled = Object.fromEntries(Object.entries(lists).filter(([, list]) => list.hits.length));
  const expansions = RETRIEVERS.flatMap((spec) => (spec.expansion ? [spec.expansion] : []));
  const names = [...NAMES, ...expansions].filter((name) => name in filled);
  const weights = plan.weights ? scaledToOne(halved(plan.weights, filled), names) : kept(plan.applied ?? {}, names);
  const grid = gridFor(fsum(Object.values(weights)));
  return Object.entries(weights).map(([name, weight]) => autoPart(name, filled[name], weight, grid));
}

/** The weight of a retriever, shared by its list and its expansion if both have hits. */
function halved(/** @type {Record<string, number>} */ weights, /** @type {Record<string, List>} */ lists) {
  const shares = { ...weights };
  for (const spec of RETRIEVERS) {
    if (spec.expansion && spec.expandsWeighted) {
      const parts = spec.name in lists && spec.expansion in lists ? 2 : 1;
      shares[spec.name] = shares[spec.expansion] = (weights[spec.name] ?? 0) / parts;
    }
  }
  return shares;
}

const kept = (/** @type {Record<string, number>} */ weights, /** @type {string[]} */ names) =>
  Object.fromEntries(names.filter((name) => (weights[name] ?? 0) > 0).map((name) => [name, weights[name]]));

/** @param {Record<string, number>} weights @param {string[]} names */
function scaledToOne(weights, names) {
  const taking = kept(weights, names);
  const total = fsum(Object.values(taking));
  return Object.fromEntries(Object.entries(taking).map(([name, weight]) => [name, weight / total]));
}

/** @param {string} name @param {List} list @param {number} weight @param {number} grid @returns {Part} */
function autoPart(name, list, weight, grid) {
  const spec = RETRIEVERS.find((each) => each.name === name || each.expansion === name);
  const listed = list.hits.length;
  const raw = columns([...list.hits, ...list.unlisted]);
  if (spec?.scale === 'cosine') {
    return { ...part(name, weight, raw, [], grid, listed), values: cosines(raw.scores, list.mean, weight, grid) };
  }
  const places = raw.ids.map((_, place) => place).filter((place) => raw.scores[place] > 0);
  const found = { ids: places.map((place) => raw.ids[place]), scores: places.map((place) => raw.scores[place]) };
  const best = Math.max(...found.scores);
  const values = found.scores.map((score) => (spec?.scale === 'absolute' ? weight * Math.min(score, 1) : score * (weight / best)));
  return part(name, weight, found, values, grid, places.filter((place) => place < listed).length);
}

/** Cosines from the store's average to the query's best; lower ones share the bottom of the scale. */
function cosines(/** @type {number[]} */ scores, /** @type {number | null} */ mean, /** @type {number} */ weight, /** @type {number} */ grid) {
  const best = Math.max(...scores);
  const worst = Math.min(...scores);
  if (best === worst) return scores.map(() => weight + grid - grid);
  const average = mean !== null && -1 < mean && mean < best ? mean : worst;
  const above = (weight * (1 - BELOW_AVERAGE)) / (best - average);
  const below = (weight * BELOW_AVERAGE) / Math.max(1 + average, 1e-9);
  const base = weight * BELOW_AVERAGE + grid;
  return scores.map((score) => (score - average) * (score >= average ? above : below) + base - grid);
}

/** Adds what a reranker says of the candidates that it read. @param {Part[]} parts @param {Row[] | null} rows @returns {Part[]} */
function withRerank(parts, rows) {
  const highest = Math.max(0, ...summed(parts).map(([, score]) => score));
  if (rows === null || rows.length < 2 || highest <= 0) return parts;
  const hits = columns(rows);
  const weight = RERANK_SHARE * highest;
  const grid = gridFor(2 * highest);
  const coarser = parts.map((each) => ({ ...each, values: each.values.map((value) => value + grid - grid) }));
  return [...coarser, part('rerank', weight, hits, ranks(hits.scores).map((rank) => weight / rank), grid)];
}

/** Ranks the best chunk of each file that the query names first. @param {Part[]} parts @param {Record<string, number[]>} files */
function withFileNames(parts, files) {
  const groups = Object.values(files);
  if (!groups.length) return parts;
  const totals = new Map(summed(parts));
  const chosen = groups.map((ids) => ids.reduce((best, id) => ((totals.get(id) ?? 0) > (totals.get(best) ?? 0) ? id : best)));
  const ids = [...new Set(chosen)].sort((a, b) => a - b);
  const highest = Math.max(0, ...totals.values());
  const bonus = highest > 0 ? gridFor(highest) : 1;
  return [...parts, { source: FILE_NAME, weight: 1, listed: 0, ids, raw: ids.map(() => null), values: ids.map(() => bonus) }];
}

/** The factor by which age lowers a score. @param {number} age @param {number} strength */
export const recencyFactor = (age, strength) => (strength < 1 ? 1 - strength * (1 - age) : age);

/**
 * The factors of an item's score with their names, in the order in which they are multiplied; those of 1 are left out.
 * @param {{age: number, window: number, source?: string | null} | undefined} item @param {{strength: number, sources: Record<string, number> | null}} plan
 * @returns {[string, number][]}
 */
export function factorsOf(item, { strength, sources }) {
  /** @type {[string, number][]} */
  const named = [
    ['recency', strength > 0 ? recencyFactor(item?.age ?? 1, strength) : 1],
    ['time window', item?.window ?? 1],
    ['source', sources?.[item?.source ?? 'unknown'] ?? 1],
  ];
  return named.filter(([, factor]) => factor !== 1);
}

/** @param {[string, number][]} factors */
export const product = (factors) => factors.reduce((total, [, factor]) => total * factor, 1);

/**
 * Fuses lists as the server would by this plan.
 * @param {Record<string, List>} lists @param {Plan} plan @param {Map<number, Candidate>} items @param {Record<string, number[]>} files
 * @returns {Fused}
 */
export function fuse(lists, plan, items, files) {
  let parts = plan.fusion === 'auto' ? auto(lists, plan) : plan.fusion === 'rrf' ? rrf(lists, plan.weights ?? {}, plan.k) : weighted(lists, plan.weights ?? {});
  parts = withRerank(parts, plan.rerank);
  if (NAMING.includes(plan.preset)) parts = withFileNames(parts, files);
  let order = summed(parts);
  const scaled = order.map(([id, score]) => factorsOf(items.get(id), plan).reduce((total, [, factor]) => total * factor, score));
  order = inOrder(order.map(([id], place) => [id, scaled[place]]));
  const places = parts.map((each) => new Map(each.ids.map((id, place) => [id, place])));
  const ranked = parts.map((each) => ranks(/** @type {number[]} */ (each.raw.slice(0, each.listed))));
  /** @param {number} id @returns {Line[]} */
  const lines = (id) =>
    parts.flatMap(({ source, weight, listed, raw, values }, index) => {
      const place = places[index].get(id);
      if (place === undefined) return [];
      const rank = place < listed ? ranked[index][place] : null;
      return [{ source, rank, raw: raw[place], scaled: values[place] / weight, weight, value: values[place] }];
    });
  return { order, lines };
}

/**
 * The results of a ranking: each text of files once, at most so many from one file.
 * @param {[number, number][]} order @param {Map<number, Candidate>} items @param {string} preset @param {number} most
 */
export function shown(order, items, preset, most) {
  /** @type {Map<string, string>} */
  const seen = new Map();
  /** @type {Map<string, number>} */
  const taken = new Map();
  const limit = PER_SOURCE[preset] ?? Infinity;
  /** @type {number[]} */
  const ids = [];
  for (const [id] of order) {
    if (ids.length === most) break;
    const item = items.get(id);
    const path = item?.file_path ?? null;
    if (path !== null && item?.text_hash) {
      if (!seen.has(item.text_hash)) seen.set(item.text_hash, path);
      if (seen.get(item.text_hash) !== path) continue;
    }
    if (path !== null) {
      const before = taken.get(path) ?? 0;
      taken.set(path, before + 1);
      if (before >= limit) continue;
    }
    ids.push(id);
  }
  return ids;
}
