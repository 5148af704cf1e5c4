// @ts-check
// Who is signed in, calls of operations, and the stream of events. It has no imports, so that it runs first: the code of
// a one-time link leaves the address before anything else is loaded.

const KEY = "alma.session";
const entered = /\/enter\/?$/.test(location.pathname);
const linkCode = entered ? location.hash.slice(1) : "";
export const hasCode = Boolean(linkCode);
if (entered) history.replaceState(null, "", location.pathname.replace(/enter\/?$/, ""));

/** @typedef {{token: string, id: string, name: string, scope: string, projects: string[] | null, project: string | null, expires_at: string}} Session */
/** @type {Session | null} */
let session = null;
/** @type {Set<(why: string) => void>} */
const endings = new Set();
const channel = new BroadcastChannel("alma");

/** A refused request. `status` is 0 where the service does not answer. */
export class Problem extends Error {
  /** @param {number} status @param {string} message @param {any} [body] */
  constructor(status, message, body) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

let isOver = false;
/** Go on with the session of a tab that signed in later. @param {Session} value */
const resume = (value) => {
  isOver = false;
  keep(value);
  endings.forEach((listener) => listener(""));
  goLive();
};

const restore = () => {
  try {
    session = JSON.parse(sessionStorage.getItem(KEY) ?? "null");
  } catch {
    session = null;
  }
};
/** @param {Session | null} value */
const keep = (value) => {
  session = value;
  if (value) sessionStorage.setItem(KEY, JSON.stringify(value));
  else sessionStorage.removeItem(KEY);
};

channel.onmessage = ({ data }) => {
  if (data?.ask && session) channel.postMessage({ session });
  else if (data?.session && isOver) resume(data.session);
  else if (data?.end && data.end === session?.id) end("You signed out in another tab.", false);
};

/** Ask other tabs for their session. @returns {Promise<Session | null>} */
const askTabs = () =>
  new Promise((resolve) => {
    const asking = new BroadcastChannel("alma");
    const done = (value) => (asking.close(), resolve(value));
    asking.onmessage = ({ data }) => data?.session && done(data.session);
    asking.postMessage({ ask: true });
    setTimeout(() => done(null), 250);
  });

/** Remove the service worker that an earlier program left at this port: it would see the token. */
const removeWorkers = async () => {
  const workers = (await navigator.serviceWorker?.getRegistrations().catch(() => [])) ?? [];
  await Promise.all(workers.map((one) => one.unregister()));
  if (!workers.length || !navigator.serviceWorker.controller) return;
  // It sees the requests of this page until the page is loaded again.
  if (linkCode) history.replaceState(null, "", `enter#${linkCode}`);
  location.reload();
  await new Promise(() => {});
};

/** Sign in by the link, the stored session or another tab; returns why not, or "". */
export const signIn = async () => {
  await removeWorkers();
  if (linkCode) {
    keep(null);
    const answer = await request("session", { method: "POST", body: JSON.stringify({ code: linkCode }) }, false);
    keep(answer);
    channel.postMessage({ session: answer });
    return "";
  }
  if (entered) return "The link has no code.";
  restore();
  if (!session) keep(await askTabs());
  return session ? "" : "This tab is not signed in.";
};

export const current = () => session;
/** Name the project that the service shows where the session names none. @param {string} name */
export const nameProject = (name) => session && keep({ ...session, project: name });
/** @param {(why: string) => void} listener */
export const onEnd = (listener) => (endings.add(listener), () => endings.delete(listener));
/** @param {string} why */
export const end = (why, tellOthers = true) => {
  if (tellOthers) channel.postMessage({ end: session?.id });
  isOver = true;
  keep(null);
  setLive("off");
  endings.forEach((listener) => listener(why));
};

const RANK = { read: 1, write: 2, approve: 3, admin: 4 };
/** Whether the session's scope includes another. @param {"read" | "write" | "approve" | "admin"} scope */
export const may = (scope) => (RANK[session?.scope ?? ""] ?? 0) >= RANK[scope];

let project = "";
/** @param {string} name */
export const setProject = (name) => (project = name);
export const getProject = () => project;

let isAnswered = false;
/** Whether this tab was shown anything. */
export const hasAnswered = () => isAnswered;
const OVER = "The session expired, or the service was restarted.";
const signedHeaders = () => ({
  Authorization: `Bearer ${session?.token}`,
  ...(project && { "Alma-Project": encodeURIComponent(project) }),
});

/** @type {WeakMap<object, string | null>} */
const changes = new WeakMap();
/** The id of the change that an operation made, by its answer. @param {object} answer */
export const changeOf = (answer) => changes.get(answer);

/** @param {string} path @param {RequestInit} init */
const request = async (path, init, signed = true) => {
  const headers = { "Content-Type": "application/json", ...(signed ? signedHeaders() : {}) };
  let answer;
  try {
    answer = await fetch(path, { ...init, headers, cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer" });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new Problem(0, "The service does not answer. If it stopped, run `alma dashboard`.");
  }
  const body = await answer.json().catch(() => null);
  if (answer.ok) {
    isAnswered ||= signed;
    if (body) changes.set(body, answer.headers.get("alma-change"));
    return body;
  }
  const problem = new Problem(answer.status, body?.detail ?? `The service answered with status ${answer.status}.`, body);
  if (answer.status === 401 && signed) end(OVER, false);
  throw problem;
};

/** Call an operation. @param {string} operation @param {object} [args] @param {AbortSignal} [signal] @returns {Promise<any>} */
export const call = (operation, args = {}, signal) =>
  request(`../v1/${operation}`, { method: "POST", body: JSON.stringify(args), signal });
/** Ask about sessions and tokens. @param {string} path @param {object} [body] @returns {Promise<any>} */
export const ask = (path, body) => request(`../v1/${path}`, body ? { method: "POST", body: JSON.stringify(body) } : { method: "GET" });

/** @type {Set<(events: any[]) => void>} */
const watchers = new Set();
/** Be called with new events; with an empty list after a gap. A resumed stream may repeat the last ones. @param {(events: any[]) => void} watcher */
export const watch = (watcher) => (watchers.add(watcher), () => void watchers.delete(watcher));
/** @type {"live" | "polling" | "paused" | "off"} */
let liveState = "off";
/** @type {Set<() => void>} */
const liveListeners = new Set();
export const getLive = () => liveState;
/** @param {() => void} listener */
export const onLive = (listener) => (liveListeners.add(listener), () => void liveListeners.delete(listener));
/** @param {typeof liveState} state */
const setLive = (state) => {
  liveState = state;
  liveListeners.forEach((listener) => listener());
};
/** @param {any[]} events */
const publish = (events) => watchers.forEach((watcher) => watcher(events));

let position = "";
let sequence = -1;
/** @type {AbortController | null} */
let stream = null;

const readStream = async () => {
  const controller = (stream = new AbortController());
  sequence = -1;
  const query = position ? `?after=${encodeURIComponent(position)}` : "";
  const headers = { ...signedHeaders(), Accept: "text/event-stream" };
  const answer = await fetch(`../v1/events${query}`, { headers, signal: controller.signal, cache: "no-store", credentials: "omit" });
  if (answer.status === 401) return end(OVER, false);
  if (!answer.ok || !answer.body) throw new Problem(answer.status, "no stream");
  setLive("live");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = blocks.pop() ?? "";
    for (const block of blocks) takeEvent(block);
  }
};

/** Publish one event: an empty list where some were missed. @param {string} block */
const takeEvent = (block) => {
  const data = block.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5)).join("");
  if (!data) return;
  const event = JSON.parse(data);
  const isGap = sequence >= 0 && event.seq !== sequence + 1;
  sequence = event.seq;
  if (event.position) position = event.position;
  if (isGap || /^event: *reset/m.test(block)) publish([]);
  else if (event.records) publish([event]);
};

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let isRunning = false;

/** Keep the stream open while the tab is visible; poll every 10 s where it cannot be had. */
export const goLive = async () => {
  if (isRunning) return;
  isRunning = true;
  let failures = 0;
  while (session) {
    if (document.hidden) {
      setLive("paused");
      await new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
      continue;
    }
    try {
      await readStream();
      failures = 0;
    } catch {
      failures += 1;
    }
    if (!session || document.hidden) continue;
    // One failure: the stream goes on at its position. More: this page asks for its rows itself.
    if (failures > 1) setLive("polling");
    await pause(failures > 1 ? 10_000 : 500);
    if (session && !document.hidden && (failures > 1 || !position)) publish([]);
  }
  setLive("off");
  isRunning = false;
};
document.addEventListener("visibilitychange", () => document.hidden && stream?.abort());
/** Open the stream again, for another project. */
export const restartStream = () => {
  position = "";
  stream?.abort();
};
