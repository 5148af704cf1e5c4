// @ts-check
import { html, useEffect, useState } from "../preact.js";
import { EraseDialog, Status } from "../memories.js";
import { Act, Badge, cursor, Empty, Filter, focusOn, Fresh, Head, link, Loading, Pager, param, setParams, Table, useKeys, useLive, useLoad } from "../parts.js";
import { call, may } from "../session.js";
import { many, plain, Said, When } from "../text.js";

const PAGE_OF = { rul: "rules", heu: "strategies", ant: "strategies" };
/** The page that shows a memory: its id begins with its kind. @param {string} id */
export const linkTo = (id) => {
  const kind = id.slice(0, 3);
  if (kind === "epi") return link("sessions", { session: id });
  if (kind === "obs") return link("rules", { taught: "fix", id, status: "every" });
  return PAGE_OF[kind] ? link(PAGE_OF[kind], { id, status: "every" }) : link("memory", { id });
};
const name = (one) => one.title || `Session ${one.session_id}`;

const WholeTurn = ({ turn }) => {
  const [text, setText] = useState(turn.text);
  const isCut = turn.is_cut && text === turn.text;
  return html`${text.split("[private]").map((part, at) =>
    html`${at > 0 && html`<${Badge}>private part left out</${Badge}>`}<${Said} text=${part} />`)}
    ${isCut && html`<button type="button" class="plain"
    onClick=${() => call("get", { memory_id: turn.id }).then((whole) => setText(whole.text), () => {})}>load the whole text</button>`}`;
};

const Turn = ({ turn, isTarget }) => html`<li class="turn ${turn.speaker === "user" ? "user" : ""}" id=${`turn-${turn.id}`}>
  <div class="meta"><strong tabindex="-1" data-target=${isTarget ? "" : undefined}>${plain(turn.speaker, 60)}</strong>
  <${When} at=${turn.said_at} exact /></div>
  <${WholeTurn} turn=${turn} />
  ${turn.shown.length > 0 && html`<div class="beside"><span class="quiet">Shown to the agent here:</span><ul>${turn.shown.map((one) => html`<li>
    <a href=${linkTo(one.id)}><${Said} text=${one.text} cut=${200} brief />
    </a> <span class="quiet">${plain(one.where ?? "")}</span></li>`)}</ul></div>`}
  ${turn.learned.length > 0 && html`<div class="beside"><span class="quiet">Taken from this:</span><ul>${turn.learned.map((one) => html`<li>
    <${Status} status=${one.status} session=${one.session_id} /> <a href=${linkTo(one.id)}><${Said} text=${one.text} cut=${200} brief /></a>
    </li>`)}</ul></div>`}</li>`;

const One = ({ id }) => {
  const target = param("turn");
  const state = useLoad(async (signal) => {
    const isNamed = target && !param("start");
    const at = isNamed ? (await call("get", { memory_id: target }, signal).catch(() => null))?.index ?? 0 : Number(param("start"));
    return call("show_session", { session: id, start: at - (at % 50), limit: 50 }, signal);
  }, [id, target, param("start")]);
  const [isErasing, setErasing] = useState(false);
  useEffect(() => {
    if (target && state.data) focusOn("[data-target]");
  }, [Boolean(state.data)]);
  const { session, turns = [], next } = state.data ?? {};
  const start = turns[0]?.index ?? 0;
  return html`<p><a href=${link("sessions", { q: param("q") })}>← All sessions</a></p>${!session && html`<h1>Session</h1>`}<${Loading} state=${state}>${session && html`
    <div class="head"><div><h1><${Said} text=${name(session)} cut=${200} brief /></h1>
      <p class="quiet"><${When} at=${session.started_at} exact /> to <${When} at=${session.ended_at}
        exact /> · ${plain(session.host, 60)} · ${many(session.turns, "turn")} ·
      ${" "}${many(session.corrections, "correction")} · ${many(session.learned, "memory", "memories")} learned · ${session.waiting > 0 ? `${session.waiting} waiting for you · ` : ""}${many(session.shown,
        "memory", "memories")} shown (about ${many(session.shown_tokens, "token")})</p></div>
      <div class="acts">${may("admin") ? html`<${Act} label="Erase this session…" danger onClick=${() => setErasing(true)} />`
        : html`<span class="quiet">To erase it: <code>alma dashboard --admin</code></span>`}</div></div>
    <ol class="panel">${turns.map((one) => html`<${Turn} key=${one.id} turn=${one} isTarget=${one.id === target} />`)}</ol>
    ${(start > 0 || next != null) && html`<nav class="pager" aria-label="Turns"><span class="quiet">Turns ${start + 1} to ${start + turns.length} of ${session.turns}</span><div>
      <button type="button" disabled=${start === 0}
        onClick=${() => (setParams({ start: Math.max(0, start - 50) }), focusOn("main"))}>Earlier</button>
      <button type="button" disabled=${next == null} onClick=${() => (setParams({ start: next }), focusOn("main"))}>Later</button></div></nav>`}
    ${isErasing && html`<${EraseDialog} id=${session.id} title=${name(session)} what="session" onClose=${() => setErasing(false)}
      onDone=${() => setParams({ session: "", turn: "", start: "" })} />`}`}</${Loading}>`;
};

export const SessionTable = ({ items, caption }) =>
  html`<${Table} caption=${caption} unseen
  columns=${[["Started"], ["Session"], ["Agent"], ["Turns", "num"], ["Corrections", "num"], ["Learned", "num"], ["Shown", "num"],
  ["Tokens added", "num"]]}
  rows=${items.map((one) => [html`<${When} at=${one.started_at} />`,
    html`<a class="title" href=${link("sessions", { session: one.id, q: param("q") })}><${Said} text=${name(one)} cut=${120} brief /></a>`,
    plain(one.host, 40), one.turns, one.corrections, one.learned, one.shown, html`<span title="estimate">${one.shown_tokens}</span>`])} />`;

const All = () => {
  const args = { words: param("q") || null, cursor: cursor(), limit: 25 };
  const state = useLoad((signal) => call("browse_sessions", args, signal), [JSON.stringify(args)]);
  const [fresh, setFresh] = useState(0);
  useEffect(() => setFresh(0), [state.isLoading]);
  const items = state.data?.items ?? [];
  useLive(async (events) => {
    if (args.cursor || (events.length
      && !events.some((one) => one.records?.some((record) => ["episode", "turn", "rule", "retrieval"].includes(record.kind))))) return;
    const now = await call("browse_sessions", args).catch(() => null);
    if (!now) return;
    const news = new Map(now.items.map((one) => [one.id, one]));
    setFresh(now.items.filter((one) => !items.some((old) => old.id === one.id)).length);
    state.setData((old) => old && { ...old, items: old.items.map((one) => news.get(one.id) ?? one) });
  });
  const move = (step) => {
    const links = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("main td .title")]);
    links[Math.max(0, Math.min(links.length - 1, links.indexOf(/** @type {HTMLElement} */ (document.activeElement)) + step))]?.focus();
  };
  useKeys({ j: () => move(1), k: () => move(-1) });
  return html`<${Head} title="Sessions" line="What was captured, what was learned from it, and what was shown in it" />
    <div class="filters"><${Filter} hint="words of the conversation" /></div>
    <${Fresh} count=${fresh} onShow=${state.reload} />
    <${Loading} state=${state}>${items.length ? html`<div class="panel"><${SessionTable} caption="Sessions, newest first" items=${items} />
      <${Pager} next=${state.data.next} count=${items.length} noun="session" nouns="sessions" /></div>`
    : html`<div class="panel"><${Empty} title=${param("q") ? "No session has these words." : "No sessions were captured yet."}>
      ${param("q") ? html`<p>Try other words.</p>`
        : html`<p>Sessions appear when a coding agent runs with the plug-in, or when you call <code>add_episode</code>.</p>
      <p>Run <code>claude-smart doctor</code> to see whether the hooks are installed.</p>`}</${Empty}></div>`}</${Loading}>`;
};

const Sessions = () => (param("session") ? html`<${One} key=${param("session")} id=${param("session")} />` : html`<${All} />`);
export default Sessions;
