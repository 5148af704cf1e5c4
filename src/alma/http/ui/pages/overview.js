// @ts-check
import { html } from "../preact.js";
import { Evidence, Origin, Status, titleOf } from "../memories.js";
import { Empty, Head, link, Loading, useLive, useLoad } from "../parts.js";
import { call } from "../session.js";
import { duration, many, plain, Said, sum, When } from "../text.js";
import { SECTIONS } from "./inbox.js";
import { linkTo, SessionTable } from "./sessions.js";

const Tile = ({ page, params = {}, title, figure, children }) => html`<a class="panel tile" href=${link(page, params)}>
  <div class="quiet">${title}</div><div class="figure">${figure}</div><div class="quiet">${children}</div></a>`;

export const CAPTURING = { true: "Yes", false: "Not now", null: "Nothing yet" };

const LEARNED = ["rule", "heuristic", "anti_pattern", "domain_knowledge", "user_preference"];

const Overview = () => {
  const state = useLoad(async (signal) => {
    const [now, news, last] = await Promise.all([call("overview", {}, signal),
      call("browse", { types: LEARNED, statuses: ["active"], limit: 5 }, signal),
      call("browse_sessions", { limit: 5 }, signal)]);
    return { ...now, learned: news.items, sessions: last.items };
  }, []);
  useLive(() => state.reload());
  const { waiting = {}, health, sessions = [], learned = [] } = state.data ?? {};
  const total = sum(waiting);
  return html`<${Head} title="Overview" line=${state.data ? `Project ${plain(health.project_id, 80)}` : ""} />
    <${Loading} state=${state}>${state.data && html`
    ${!health.ok && html`<p class="warning">${plain(health.problems.join("; "), 400)} – see <a href=${link("health")}>Health</a></p>`}
    <div class="tiles">
      <${Tile} page="sessions" title="Capturing now" figure=${CAPTURING[String(state.data.is_capturing)]}>${state.data.last_captured_at
        ? html`last turn <${When} at=${state.data.last_captured_at} />
          ${state.data.captured_after_ms != null && `, readable after ${duration(state.data.captured_after_ms)}`}`
        : html`run <code>claude-smart doctor</code> to check the hooks`}</${Tile}>
      <${Tile} page="inbox" title="Waiting for you" figure=${total}>
        ${total ? Object.entries(waiting).filter((one) => one[1]).map(([name, count]) => many(count, SECTIONS[name][0],
        SECTIONS[name][1])).join(", ") : "nothing to decide"}</${Tile}>
      <${Tile} page="rules" params=${{ status: "active" }} title="Rules in use" figure=${state.data.rules_in_use.toLocaleString("en")}>
        ${many(health.memories, "memory", "memories")} in all${
        state.data.last_shown_at && html`, last shown <${When} at=${state.data.last_shown_at} />`}</${Tile}>
      <${Tile} page="effect" title="Difference with memory" figure="–">not measured yet</${Tile}>
    </div>
    <div class="panel"><h2>Last sessions</h2>${sessions.length ? html`<${SessionTable} caption="Last sessions" items=${sessions} />`
      : html`<${Empty} title="No sessions yet.">
        <p>Start a coding agent with the plug-in, then look here again. <code>claude-smart doctor</code> checks the hooks.</p></${Empty}>`}</div>
    <div class="panel"><h2>Last learned</h2>${learned.length ? html`<ul>${learned.map((entry) => html`<li class="beside">
        <a class="title" href=${linkTo(entry.memory.id)}><${Said} text=${titleOf(entry.memory)} cut=${200} brief /></a>
        <div class="meta"><${Status} status=${entry.memory.status} session=${entry.memory.session_id} /><${Origin} memory=${entry.memory} trust=${entry.trust} />
        <${When} at=${entry.memory.created_at} /><${Evidence} entry=${entry} /></div></li>`)}</ul>`
      : html`<${Empty} title="Nothing was learned yet.">
        <p>Correct an agent, or add a rule on the <a href=${link("rules")}>Rules</a> page.</p></${Empty}>`}</div>`}</${Loading}>`;
};
export default Overview;
