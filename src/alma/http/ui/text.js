// @ts-check
// Texts of memories, written by anyone: hidden characters become visible marks, and long texts are cut.
import { html, useState } from "./preact.js";

const CUT = 2000;
const MOST_COMPARED = 20_000;
const AROUND = 160;
const MOST_MARKS = 20_000;
// Controls but tab and newline, soft hyphens, fillers, zero width, direction marks, tags, lone surrogates. A joiner
// between two emoji is part of them.
const ODD = new RegExp(
  "(?<!\\p{Extended_Pictographic}\\ufe0f?)\\u200d|\\u200d(?!\\p{Extended_Pictographic})|[\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad" +
    "\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b\\u200c\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f" +
    "\\u2800\\u3164\\ufeff\\uffa0\\ufff0-\\ufffb\\u{e0000}-\\u{e0fff}]|\\p{Cs}",
  "gu",
);
const NAMES = {
  0x200b: "zero-width space", 0x200c: "zero-width non-joiner", 0x200d: "zero-width joiner", 0x200e: "left-to-right mark",
  0x200f: "right-to-left mark", 0x202a: "left-to-right embedding", 0x202b: "right-to-left embedding",
  0x202c: "end of direction", 0x202d: "left-to-right override", 0x202e: "right-to-left override", 0x2060: "word joiner",
  0x2066: "left-to-right isolate", 0x2067: "right-to-left isolate", 0x2068: "first strong isolate",
  0x2069: "end of isolate", 0xfeff: "zero-width no-break space", 0xad: "soft hyphen", 0: "NUL", 0x1b: "escape", 13: "carriage return",
};

/** @param {string} char */
const code = (char) => "U+" + (char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");

/** The text with each hidden character written as its code, for labels and titles. @param {unknown} text */
export const plain = (text, most = 120) => {
  const all = String(text ?? "").slice(0, most * 2).replace(ODD, (char) => `[${code(char)}]`);
  return all.length > most ? all.slice(0, most - 1) + "…" : all;
};

/** A message as nodes: parts between backticks are code. @param {string} text */
export const coded = (text, most = 600) =>
  plain(text, most).split("`").map((part, at) => (at % 2 ? html`<code>${part}</code>` : part));

/** The hidden characters of a text. @param {string} text */
export const hidden = (text) => text.match(ODD) ?? [];
/** @param {string} text */
export const withoutHidden = (text) => text.replace(ODD, "");

/** A text as nodes, hidden characters marked. @param {string} text */
export const marked = (text) => {
  const nodes = [];
  let from = 0;
  for (const hit of text.matchAll(ODD)) {
    nodes.push(text.slice(from, hit.index));
    const name = NAMES[hit[0].codePointAt(0) ?? 0] ?? "hidden character";
    nodes.push(html`<span class="odd" title=${name}>${code(hit[0])}</span>`);
    from = hit.index + hit[0].length;
    // So many elements would stop the page: the rest has the codes as text.
    if (nodes.length > 2 * MOST_MARKS) return [...nodes, text.slice(from).replace(ODD, (char) => `[${code(char)}]`)];
  }
  return nodes.length ? [...nodes, text.slice(from)] : text;
};

const ShowAll = ({ isWhole, setWhole, length }) => html`<button type="button" class="plain" aria-expanded=${isWhole}
  onClick=${() => setWhole(!isWhole)}>${isWhole ? "show less" : `shortened: show all ${length.toLocaleString("en")} characters`}</button>`;

/** Text from outside. Cuts between whole characters; a brief one offers no button, so it may stand in a link. */
export const Said = ({ text, as = "span", cut = CUT, brief = false, ...more }) => {
  const [isWhole, setWhole] = useState(false);
  const all = String(text ?? "");
  const isLong = all.length > cut;
  let end = cut;
  if (isLong && /[\ud800-\udbff]/.test(all[end - 1])) end -= 1;
  const shown = isLong && !isWhole ? all.slice(0, end) : all;
  return html`<${as} class="memory" dir="auto" ...${more}>${marked(shown)}${isLong && brief && "…"}</${as}>${
    isLong && !brief && html`<${ShowAll} isWhole=${isWhole} setWhole=${setWhole} length=${all.length} />`}`;
};

/** Word-level difference as [kind, text] with kind "=", "-" or "+". @param {string} before @param {string} after */
export const compareWords = (before, after) => {
  const a = before.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
  const b = after.match(/\s+|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  const x = a.slice(start, a.length - end);
  const y = b.slice(start, b.length - end);
  /** @type {[string, string][]} */
  const parts = [];
  const add = (kind, word) => {
    const last = parts.at(-1);
    if (last?.[0] === kind) last[1] += word;
    else if (word) parts.push([kind, word]);
  };
  add("=", a.slice(0, start).join(""));
  if (x.length * y.length > 1_000_000) {
    add("-", x.join(""));
    add("+", y.join(""));
  } else {
    const width = y.length + 1;
    const common = new Uint16Array((x.length + 1) * width);
    for (let i = x.length - 1; i >= 0; i--)
      for (let j = y.length - 1; j >= 0; j--)
        common[i * width + j] =
          x[i] === y[j] ? common[(i + 1) * width + j + 1] + 1 : Math.max(common[(i + 1) * width + j], common[i * width + j + 1]);
    let i = 0;
    let j = 0;
    while (i < x.length || j < y.length) {
      if (i < x.length && j < y.length && x[i] === y[j]) add("=", x[i++] && y[j++]);
      else if (j >= y.length || (i < x.length && common[(i + 1) * width + j] >= common[i * width + j + 1])) add("-", x[i++]);
      else add("+", y[j++]);
    }
  }
  add("=", a.slice(a.length - end).join(""));
  // Texts that share little read better one after the other.
  const size = (kind) => parts.reduce((sum, [one, text]) => sum + (one === kind ? text.replace(/\s/g, "").length : 0), 0);
  if (size("=") * 3 < Math.min(size("-"), size("+"))) return /** @type {[string, string][]} */ ([["-", before], ["=", " "], ["+", after]]);
  return parts;
};

/** The difference of two texts. `side` shows one of them: "before" or "after". */
export const Diff = ({ before, after, side = "" }) => {
  const [isWhole, setWhole] = useState(false);
  const whole = [before, after].map((text) => String(text ?? ""));
  const [old, now] = isWhole ? whole : whole.map((text) => text.slice(0, MOST_COMPARED));
  const longest = Math.max(...whole.map((text) => text.length));
  // What is equal is shown where it meets a difference.
  const isLong = (kind, text) => kind === "=" && text.length > 3 * AROUND;
  const trim = (text) => text.replace(/^[\udc00-\udfff]|[\ud800-\udbff]$/g, "");
  const show = ([kind, text]) =>
    kind === "=" ? marked(isWhole || !isLong(kind, text) ? text : `${trim(text.slice(0, AROUND))} … ${trim(text.slice(-AROUND))}`)
    : kind === "-" ? side !== "after" && html`<del>${marked(text)}</del>`
    : side !== "before" && html`<ins>${marked(text)}</ins>`;
  const parts = compareWords(old, now);
  return html`<span class="memory" dir="auto">${parts.map(show)}</span>${(longest > MOST_COMPARED || parts.some((one) => isLong(...one)))
    && html`<${ShowAll} isWhole=${isWhole} setWhole=${setWhole} length=${longest} />`}`;
};

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const TIME = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const FULL = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" });
const UNITS = /** @type {const} */ ([["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]]);
const AGO = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** @param {string} at */
export const ago = (at) => {
  const seconds = (Date.parse(at) - Date.now()) / 1000;
  const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? UNITS[3];
  return Math.abs(seconds) > 30 * 86400 ? DAY.format(new Date(at)) : AGO.format(Math.round(seconds / size), unit);
};
/** A moment, with the full date as its title. */
export const When = ({ at, exact = false }) =>
  !at || Number.isNaN(Date.parse(at)) ? ""
  : html`<time datetime=${at} title=${FULL.format(new Date(at))}>${exact ? TIME.format(new Date(at)) : ago(at)}</time>`;

/** @param {number} count @param {string} noun */
export const many = (count, noun, nouns = noun + "s") => `${(count ?? 0).toLocaleString("en")} ${count === 1 ? noun : nouns}`;
/** @param {Record<string, number>} counts */
export const sum = (counts) => Object.values(counts).reduce((total, count) => total + count, 0);
/** @param {string} text */
export const capitalize = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);
/** @param {number} ms */
export const duration = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);
/** @param {number} share */
export const percent = (share) => `${Math.round(share * 100)} %`;
