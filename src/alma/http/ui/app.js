// @ts-check
// The frame: sign-in, navigation, keys, theme, and the page that the address names.
import { html, render, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { areKeysOn, attempt, Dialog, focusOn, link, listenKeys, Notes, param, route,
  setKeys, setParams, useKeys, useLive, useRoute } from "./parts.js";
import * as session from "./session.js";
import { coded, plain, sum } from "./text.js";

/** Title and key of each page; those without a key are not in the navigation. @type {Record<string, [string, string]>} */
const PAGES = { overview: ["Overview", "o"], inbox: ["Inbox", "i"], rules: ["Rules", "r"], strategies: ["Strategies", "s"],
  sessions: ["Sessions", "e"], profiles: ["Profiles", "p"], why: ["Why?", "w"], effect: ["Effect", "f"], history: ["History", "h"],
  health: ["Health", "l"], spend: ["Spend", "d"], settings: ["Settings", "t"], memory: ["Memory", ""] };
const LISTED = Object.entries(PAGES).filter(([, [, key]]) => key);
/** @type {Record<string, number>} */
const failures = {};
/** The module of a page. A browser remembers a failure, so that it is asked for by another address then. @param {string} name */
const load = (name) => import(`./pages/${name}.js${failures[name] ? `?${failures[name]}` : ""}`).catch((error) => {
  failures[name] = (failures[name] ?? 0) + 1;
  throw error;
});

const CHANGING = ["inbox", "rules", "strategies", "profiles", "history", "memory"];
const THEMES = ["system", "light", "dark"];
const dark = matchMedia("(prefers-color-scheme: dark)");
const getTheme = () => localStorage.getItem("alma.theme") ?? "system";
const applyTheme = () => {
  const theme = getTheme();
  document.documentElement.dataset.theme = theme === "system" ? (dark.matches ? "dark" : "light") : theme;
};
dark.addEventListener("change", applyTheme);
applyTheme();

const Help = ({ onClose }) => {
  const [on, setOn] = useState(areKeysOn());
  const keys = [["/", "filter"], ["j k", "next, previous"], ["Enter", "open"], ["e", "edit"], ["a", "approve"], ["x", "reject"],
    ["m", "merge"], ["1 2", "keep the first or the second of a conflict; apply a rule everywhere or only here"], ["3", "not a conflict"], ["u", "undo"], ["?", "this help"],
    ...LISTED.map(([, [title, key]]) => [`g ${key}`, title])];
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <label class="tick"><input type="checkbox" checked=${on}
      onChange=${(event) => (setKeys(event.target.checked), setOn(event.target.checked))} />
      Use keys (none acts while a field has the focus)</label>
    <dl>${keys.map(([key, text]) => html`<dt>${key.split(" ").map((one) => html`<kbd>${one}</kbd> `)}</dt><dd>${text}</dd>`)}</dl>
    <div class="row-acts"><button type="button" class="main" onClick=${onClose}>Close</button></div>
  </${Dialog}>`;
};

/** The page's own requests go first: a browser has six connections. @param {() => any} action */
const later = (action) => {
  const timer = setTimeout(action, 250);
  return () => clearTimeout(timer);
};

/** The picker offers the project in use even where the service lists none. */
const ProjectPicker = ({ project }) => {
  const [names, setNames] = useState(/** @type {string[]} */ ([]));
  useEffect(() => later(() => session.call("configuration").then((answer) => setNames(answer.projects), () => {})), []);
  const allowed = session.current()?.projects;
  const all = [...new Set([project, ...(allowed ?? names)])].filter(Boolean);
  return html`<label>Project<select value=${project}
    onChange=${(event) => setParams({ project: event.target.value, id: "", after: "", session: "" })}>
    ${all.map((name) => html`<option value=${name} selected=${name === project}>${plain(name, 60)}</option>`)}
    ${!all.length && html`<option value="">the only one</option>`}</select></label>`;
};

const LIVE = { live: ["live", "ok", "Changes appear at once"], polling: ["every 10 s", "wait", "No stream: this page asks every 10 seconds"],
  paused: ["paused", "", "Paused while the tab is hidden"], off: ["not live", "", "Not connected"] };
const Live = () => {
  const [state, setState] = useState(session.getLive());
  useEffect(() => {
    const update = () => setState(session.getLive());
    update();
    return session.onLive(update);
  }, []);
  const [text, kind, title] = LIVE[state];
  return html`<span class="badge ${kind}" title=${title}>${text}</span>`;
};

const Side = ({ page, project, onHelp }) => {
  const [waiting, setWaiting] = useState(0);
  const [theme, setTheme] = useState(getTheme());
  const timer = useRef(0);
  const count = () => session.call("inbox", { limit: 1 }).then((answer) => setWaiting(sum(answer.counts)), () => {});
  useEffect(() => later(count), [project]);
  useLive(() => {
    clearTimeout(timer.current);
    timer.current = setTimeout(count, 700);
  });
  const choose = (value) => {
    localStorage.setItem("alma.theme", value);
    applyTheme();
    setTheme(value);
  };
  return html`<header class="side">
    <div class="brand"><span>alma</span><${Live} /></div>
    <${ProjectPicker} key=${project} project=${project} />
    <nav aria-label="Pages">${LISTED.map(([name, [title]]) => html`<a href=${link(name)} aria-current=${name === page ? "page" : undefined}>
      <span>${title}</span>${name === "inbox" && waiting > 0
        && html`<span class="badge wait">${waiting}<span class="unseen"> waiting</span></span>`}</a>`)}</nav>
    <div class="foot">
      <label>Theme<select value=${theme} onChange=${(event) => choose(event.target.value)}>
        ${THEMES.map((name) => html`<option value=${name} selected=${name === theme}>${name}</option>`)}</select></label>
      <button type="button" onClick=${onHelp}>Keys<kbd aria-hidden="true" data-key="?"></kbd></button>
      <button type="button" onClick=${() => {
        const ending = session.ask("session/end", {});
        session.end("You signed out.");
        attempt(() => ending);
      }}>Sign out</button>
    </div></header>`;
};

const Shell = () => {
  const { page } = useRoute();
  const [isHelping, setHelping] = useState(false);
  // After the end of a session the page stays as it is.
  const project = param("project") || session.current()?.project || session.getProject();
  session.setProject(project);
  useKeys({ "?": () => setHelping(true) });
  const first = useRef(true);
  const streamed = useRef(project);
  useEffect(() => {
    if (streamed.current !== project) session.restartStream();
    streamed.current = project;
  }, [project]);
  const title = PAGES[page]?.[0] ?? "No such page";
  useLayoutEffect(() => {
    document.title = `${title} – alma`;
    if (!first.current) (scrollTo(0, 0), focusOn("main"));
    first.current = false;
  }, [page, project]);
  return html`<a class="skip" href="#content" onClick=${(event) => (event.preventDefault(), focusOn("main"))}>Skip to the content</a>
    <div class="frame"><${Side} page=${page} project=${project} onHelp=${() => setHelping(true)} />
    <main tabindex="-1" id="content">${CHANGING.includes(page) && !session.may("approve") && html`<p class="warning">${session.may("write")
      ? "This session has the scope write: it may add memories and change those of agents. What a person stated, and rules, need the scope approve."
      : html`This session may only read. Run <code>alma dashboard</code> without <code>--read-only</code> to change something.`}</p>`}
      <${Page} key=${`${page} ${project}`} name=${page} /></main></div>
    <${Notes} />${isHelping && html`<${Help} onClose=${() => setHelping(false)} />`}`;
};

/** The default export of a page's module, loaded when it is first shown. */
const Page = ({ name }) => {
  const [module, setModule] = useState(/** @type {any} */ (null));
  const [error, setError] = useState("");
  const open = () => void load(name).then((loaded) => (setError(""), setModule(loaded)), (problem) => setError(String(problem?.message ?? problem)));
  useEffect(() => void (PAGES[name] && open()), []);
  if (!PAGES[name]) return html`<${Missing} />`;
  if (error) return html`<p class="error" role="alert">The page could not be loaded: ${plain(error, 200)} <button type="button" onClick=${open}>Try again</button></p>`;
  return module ? html`<${module.default} />` : html`<p class="quiet" role="status" aria-busy="true">Loading…</p>`;
};

const Missing = () => html`<h1>No such page</h1><p><a href=${link("overview")}>Go to the overview</a></p>`;

const Gate = ({ why }) => html`<main class="gate" tabindex="-1"><h1>alma</h1>
  <p role="alert">${coded(why, 300)}</p>
  <p>To open the dashboard, run <code>alma dashboard</code> (or <code>claude-smart dashboard</code> for your coding agents).
    The link that it opens works once, within a minute.</p></main>`;

/** After the end of a session the page stays, so that unsaved text can be copied. */
const Over = ({ why }) => html`<div class="error" role="alert">${plain(why, 300)} Run <code>alma dashboard</code>:
  this tab goes on with the new session, and what you typed stays.</div>`;

const App = ({ refusal }) => {
  const [over, setOver] = useState("");
  useLayoutEffect(() => void session.onEnd(setOver), []);
  const gate = refusal || (over.startsWith("You signed out") || !session.hasAnswered() ? over : "");
  if (gate) return html`<${Gate} why=${gate} />`;
  return html`${over && html`<${Over} why=${over} />`}<${Shell} />`;
};

const start = async () => {
  if (PAGES[route.page]) load(route.page).catch(() => {});
  const root = /** @type {HTMLElement} */ (document.getElementById("app"));
  let refusal = "";
  try {
    refusal = await session.signIn();
    if (!refusal && !session.current()?.project) session.nameProject((await session.call("configuration")).project_id);
  } catch (error) {
    const isOld = error instanceof session.Problem && error.status === 401;
    refusal = isOld ? `This ${session.hasCode ? "link is no longer valid: it was used already, or it is older than a minute."
      : "session is no longer valid."}` : String(/** @type {Error} */ (error).message);
  }
  root.replaceChildren();
  render(html`<${App} refusal=${refusal} />`, root);
  if (refusal) return void (document.title = "alma");
  listenKeys(Object.fromEntries(LISTED.map(([name, [, key]]) => [key, name])));
  session.goLive();
  setTimeout(() => LISTED.forEach(([name]) => load(name).catch(() => {})), 2000);
};
start();
