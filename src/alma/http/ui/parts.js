// @ts-check
// The address, loading, messages, keys, and the controls that pages share.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { Problem, watch } from "./session.js";
import { capitalize, coded, hidden, plain, withoutHidden } from "./text.js";

// -- the address: #/page?filters. A fragment reaches no server and no log.

const parse = () => {
  const [page, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { page: page || "overview", params: new URLSearchParams(query ?? "") };
};
export let route = parse();
/** @type {Set<() => void>} */
const routeListeners = new Set();
const refresh = () => {
  route = parse();
  routeListeners.forEach((listener) => listener());
};
addEventListener("hashchange", refresh);
addEventListener("popstate", refresh);

/** The address of a page; the project stays. @param {string} page @param {Record<string, any>} [params] */
export const link = (page, params = {}) => {
  const query = new URLSearchParams();
  const project = route.params.get("project");
  if (project) query.set("project", project);
  for (const [name, value] of Object.entries(params)) {
    if (value === "" || value == null) query.delete(name);
    else query.set(name, String(value));
  }
  const text = query.toString();
  return `#/${page}${text ? "?" + text : ""}`;
};
/** @param {string} page @param {Record<string, any>} [params] */
export const go = (page, params, replace = false) => {
  const address = link(page, params);
  if (address === location.hash) return;
  history[replace ? "replaceState" : "pushState"](null, "", address);
  refresh();
};
/** Change some parameters of this page. @param {Record<string, any>} changes */
export const setParams = (changes, replace = false) =>
  go(route.page, { ...Object.fromEntries(route.params), ...changes }, replace);
/** The address with some parameters changed. @param {Record<string, any>} changes */
export const here = (changes) => link(route.page, { ...Object.fromEntries(route.params), ...changes });

/** Draw again when the listeners are called. @param {Set<() => void>} listeners */
const useUpdates = (listeners) => {
  const [, update] = useState(0);
  // Not useEffect: it runs after the next frame, and an update before that would be lost.
  useLayoutEffect(() => {
    const listener = () => update((count) => count + 1);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
};
export const useRoute = () => (useUpdates(routeListeners), route);
/** @param {string} name */
export const param = (name, preset = "") => route.params.get(name) ?? preset;

// -- loading

/** @param {any} error */
export const describe = (error) => (!(error instanceof Problem) ? `The page failed: ${error?.message ?? error}`
  // Ids are for the command line.
  : capitalize(error.message.replace(/ \([a-z]{3}_\w{20,}\)| by [a-z]{3}_\w{20,}/g, "").replace(/(memory )?'?\b[a-z]{3}_\w{20,}'?/g, "this memory")));

/** Load when the dependencies change; what was loaded stays until the new answer is there. */
export const useLoad = (/** @type {(signal: AbortSignal) => Promise<any>} */ load, /** @type {any[]} */ deps) => {
  const [state, setState] = useState(/** @type {{data: any, error: string, isLoading: boolean}} */ ({ data: null, error: "",
    isLoading: true }));
  const [round, setRound] = useState(0);
  useEffect(() => {
    const controller = new AbortController();
    setState((old) => ({ ...old, isLoading: true }));
    load(controller.signal).then(
      (data) => controller.signal.aborted || setState({ data, error: "", isLoading: false }),
      (error) => controller.signal.aborted || setState((old) => ({ ...old, error: describe(error), isLoading: false })),
    );
    return () => controller.abort();
  }, [...deps, round]);
  return {
    ...state,
    reload: () => setRound((count) => count + 1),
    setData: (change) => setState((old) => ({ ...old, data: typeof change === "function" ? change(old.data) : change })),
  };
};

/** Call `onEvents` with events, at most twice a second. @param {(events: any[]) => void} onEvents */
export const useLive = (onEvents) => {
  const latest = useRef(onEvents);
  latest.current = onEvents;
  useEffect(() => {
    /** @type {any[]} */
    let waiting = [];
    let timer = 0;
    const stop = watch((events) => {
      waiting.push(...events);
      if (timer) return;
      timer = setTimeout(() => {
        timer = 0;
        const batch = waiting;
        waiting = [];
        latest.current(batch);
      }, 300);
    });
    return () => (clearTimeout(timer), stop());
  }, []);
};

// -- messages

/** @type {{text: string, undo?: (() => Promise<void>) | null, isAlert?: boolean} | null} */
let note = null;
let noteTimer = 0;
/** @type {Set<() => void>} */
const noteListeners = new Set();
const setNote = (value) => {
  note = value;
  clearTimeout(noteTimer);
  if (value) noteTimer = setTimeout(() => setNote(null), value.isAlert ? 15_000 : 10_000);
  noteListeners.forEach((listener) => listener());
};
/** Say what was done, with an undo for ten seconds. @param {string} text @param {(() => Promise<void>) | null} [undo] */
export const notify = (text, undo = null) => setNote({ text, undo });
/** @param {string} text */
export const warn = (text) => setNote({ text, isAlert: true });
/** @type {Set<string>} */
const running = new Set();
/** Run an action and report its failure, unless the one of this name still runs.
 *  @param {() => Promise<any>} action @param {string} [name] @param {(text: string) => void} [report] */
export const attempt = async (action, name = "", report = warn) => {
  if (running.has(name)) return null;
  if (name) running.add(name);
  try {
    return await action();
  } catch (error) {
    report(describe(error));
    return null;
  } finally {
    running.delete(name);
  }
};
export const undoLast = () => {
  const undo = note?.undo;
  if (!undo) return;
  setNote(null);
  attempt(async () => {
    await undo();
    notify("Undone.");
  });
};
let dialogs = 0;
/** Messages; in an open dialog, because nothing beside it can be reached. */
export const Notes = ({ isInside = false }) => {
  useUpdates(noteListeners);
  if (isInside !== dialogs > 0) return null;
  const line = note && html`<div class="note">
    <span>${coded(note.text, 400)}</span>
    ${note.undo && html`<button type="button" onClick=${undoLast}>Undo<kbd aria-hidden="true" data-key="u"></kbd></button>`}
    <button type="button" aria-label="Dismiss" onClick=${() => setNote(null)}>×</button>
  </div>`;
  return html`<div class="notes">
    <div role="status">${!note?.isAlert && line}</div>
    <div role="alert">${note?.isAlert && line}</div>
  </div>`;
};

// -- keys

/** @type {Record<string, (event: KeyboardEvent) => void>[]} */
const keyMaps = [];
export const areKeysOn = () => localStorage.getItem("alma.keys") !== "off";
/** @param {boolean} on */
export const setKeys = (on) => localStorage.setItem("alma.keys", on ? "on" : "off");
/** Keys of a page while it is shown. @param {Record<string, (event: KeyboardEvent) => void>} keys */
export const useKeys = (keys) => {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const map = new Proxy({}, { get: (_, name) => latest.current[/** @type {string} */ (name)] });
    keyMaps.push(map);
    return () => void keyMaps.splice(keyMaps.indexOf(map), 1);
  }, []);
};
let isGoing = false;
/** @param {Record<string, string>} pages Letters after g. */
export const listenKeys = (pages) =>
  document.addEventListener("keydown", (event) => {
    const field = /** @type {HTMLElement} */ (event.target).closest?.("input, textarea, select, [contenteditable], dialog");
    if (field || !areKeysOn() || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (isGoing) {
      isGoing = false;
      if (pages[event.key]) (event.preventDefault(), go(pages[event.key]));
      return;
    }
    if (event.key === "g") {
      isGoing = true;
      setTimeout(() => (isGoing = false), 1500);
    } else if (event.key === "u" && note?.undo) undoLast();
    else if (event.key === "/") focusOn("[data-filter]");
    else {
      const act = keyMaps.map((map) => map[event.key]).findLast(Boolean);
      if (!act || event.key === "Enter") return;
      act(event);
    }
    event.preventDefault();
  });
/** Put the focus on the first match after the next drawing, if it is still needed then. @param {string} selector */
export const focusOn = (selector, isNeeded = () => true) =>
  requestAnimationFrame(() => setTimeout(() => isNeeded() && /** @type {HTMLElement | null} */ (document.querySelector(selector))?.focus()));

// -- controls

/** A button named with what it acts on. The second click of a double click may meet what has moved to its place. */
export const Act = ({ label, of = "", key_ = "", main = false, danger = false, onClick, disabled = false, ...more }) => html`<button
  type="button" class=${main ? "main" : danger ? "danger" : ""} disabled=${disabled} onClick=${(event) => event.detail > 1 || onClick(event)}
  aria-label=${of ? `${label}: ${plain(of, 60)}` : undefined} ...${more}>${label}
    ${key_ && html`<kbd aria-hidden="true" data-key=${key_}></kbd>`}</button>`;

/** A select bound to a parameter of the address; changing a filter starts at the first page. */
export const Choice = ({ label, name, options, preset = "" }) => {
  const value = param(name, preset);
  const all = options.some((one) => one[0] === value) ? options : [...options, [value, value]];
  return html`<label>${label}<select value=${value}
    onChange=${(event) => setParams({ [name]: event.target.value === preset ? "" : event.target.value, after: "", id: "" })}>
    ${all.map(([one, text]) => html`<option value=${one} selected=${one === value}>${plain(text, 60)}</option>`)}
  </select></label>`;
};

/** The filter field: the address follows 150 ms after the last key. */
export const Filter = ({ label = "Filter", name = "q", hint = "words of the text" }) => {
  const value = param(name);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  const timer = useRef(0);
  useEffect(() => {
    if (field.current && field.current !== document.activeElement) field.current.value = value;
  }, [value]);
  const onInput = (event) => {
    clearTimeout(timer.current);
    const text = event.target.value;
    timer.current = setTimeout(() => setParams({ [name]: text.trim(), after: "", id: "" }, true), 150);
  };
  useEffect(() => () => clearTimeout(timer.current), []);
  return html`<label class="wide"><span>${label} <kbd aria-hidden="true" data-key="/"></kbd></span>
    <input ref=${field} type="search" data-filter placeholder=${hint} maxlength="400" defaultValue=${value} onInput=${onInput} /></label>`;
};

export const Badge = ({ kind = "", children }) => html`<span class="badge ${kind}">${children}</span>`;

export const Head = ({ title, children, line = "" }) => html`<div class="head">
  <div><h1>${title}</h1><p class="quiet">${line}</p></div><div class="acts">${children}</div></div>`;

export const Loading = ({ state, children }) => html`
  ${state.error && html`<p class="error" role="alert">
    ${coded(state.error)} <button type="button" onClick=${state.reload}>Try again</button></p>`}
  ${state.data === null ? !state.error && html`<p class="quiet" role="status" aria-busy="true">Loading…</p>`
    : html`<div aria-busy=${state.isLoading ? "true" : undefined}>${children}</div>`}`;

export const Empty = ({ title, children }) => html`<div class="empty"><p><strong>${title}</strong></p>${children}</div>`;

/** What came in since the list was loaded. */
export const Fresh = ({ count, onShow }) => count > 0 && html`<div class="fresh"><${Act} label="${count} new – show" onClick=${onShow} /></div>`;

export const Dialog = ({ title, onClose, children }) => {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useLayoutEffect(() => {
    const opener = /** @type {HTMLElement | null} */ (document.activeElement);
    dialog.current?.showModal();
    const count = (step) => (dialogs += step, noteListeners.forEach((listener) => listener()));
    count(1);
    return () => {
      count(-1);
      dialog.current?.close();
      if (opener?.isConnected) opener.focus();
    };
  }, []);
  return html`<dialog ref=${dialog} aria-labelledby="dialog-title" onCancel=${(event) => (event.preventDefault(), onClose())}>
    <h2 id="dialog-title">${title}</h2>${children}<${Notes} isInside /></dialog>`;
};

/** A text field that names hidden characters and can remove them. */
export const TextField = ({ label, value, onInput, rows = 2, ...more }) => {
  const odd = hidden(value);
  return html`<label>${label}<textarea rows=${rows} dir="auto" value=${value} onInput=${(event) => onInput(event.target.value)} ...${more}>
    </textarea></label>
    ${odd.length > 0 && html`<p class="warning">${odd.length === 1 ? "One hidden character" : `${odd.length} hidden characters`}:
      ${" "}${plain([...new Set(odd)].join(" "))} <button type="button" onClick=${() => onInput(withoutHidden(value))}>Remove</button></p>`}`;
};

/** Previous and Next: the cursors of the pages before stand in the address. */
export const Pager = ({ next, count, total = null, noun = "entry", nouns = "entries" }) => {
  const cursors = param("after") ? param("after").split("~") : [];
  const turn = (/** @type {string[]} */ to) => (setParams({ after: to.join("~"), id: "" }), scrollTo(0, 0), focusOn("main"));
  if (!cursors.length && !next) return html`<div class="pager"><span class="quiet">${count} ${count === 1 ? noun : nouns}</span></div>`;
  return html`<nav class="pager" aria-label="Pages">
    <span class="quiet">Page ${cursors.length + 1} · ${count}${total ? ` of ${total.toLocaleString("en")}` : ""} ${nouns}</span><div>
    <button type="button" disabled=${!cursors.length} onClick=${() => turn(cursors.slice(0, -1))}>Previous</button>
    <button type="button" disabled=${!next} onClick=${() => turn([...cursors, next])}>Next</button></div></nav>`;
};
/** The cursor of the page that the address names. */
export const cursor = () => param("after").split("~").at(-1) || null;

/** A table with a caption. Columns are [title, class]. The roles hold where a narrow page shows rows as blocks. */
export const Table = ({ caption, columns, rows, unseen = false }) =>
  html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}><table role="table">
  <caption class=${unseen ? "unseen" : ""}>${caption}</caption>
  <thead role="rowgroup"><tr role="row">${columns.map((one) => html`<th scope="col" role="columnheader" class=${one[1] ?? ""}>${one[0]}</th>`)}</tr></thead>
  <tbody role="rowgroup">${rows.map((row) => html`<tr role="row">${row.map((cell, at) =>
    html`<td role="cell" class=${columns[at][1] ?? ""} data-label=${columns[at][0]}>${cell}</td>`)}</tr>`)}</tbody>
</table></div>`;

// -- days of this place, as date fields have them

/** @param {number} days */
const addDays = (days, date = new Date()) => (date.setDate(date.getDate() + days), date);
/** @param {number} days */
export const daysAgo = (days) => addDays(-days).toLocaleDateString("sv");
/** The moment at which a day begins here, or one of the days after it. @param {string} day */
export const startOf = (day, later = 0) => {
  const date = addDays(later, new Date(`${day}T00:00`));
  return Number.isNaN(date.getTime()) ? day : date.toISOString();
};
