// @ts-check
import { html, useEffect, useRef, useState } from "../preact.js";
import { Meter } from "../charts.js";
import { titleOf, Origin, STATUS } from "../memories.js";
import { Act, attempt, Badge, daysAgo, describe, Empty, Head, link, Loading, notify, param, setParams, startOf, Table, useLoad } from "../parts.js";
import { call } from "../session.js";
import { capitalize, many, plain, Said, When } from "../text.js";
import { linkTo } from "./sessions.js";
import { useAgents } from "./rules.js";

const Part = ({ value, label }) =>
  (value == null ? html`<span class="quiet">–</span>`
  : html`<span class="record"><${Meter} value=${value} label="${label} ${value.toFixed(2)}" />${value.toFixed(2)}</span>`);

const Fate = ({ one, isFirst }) => one.rank
  ? html`<${Badge} kind="ok">${one.explanation.standing ? "always shown" : isFirst ? "shown first" : "shown"}</${Badge}>`
  : one.at_start ? html`<${Badge} kind="ok">at session start</${Badge}>` : html`<${Badge}>left out</${Badge}>`;
/** Sessions of coding agents start with it, whatever the task is. @param {any} memory */
const startsSessions = (memory) => memory?.type === "rule" && memory.agent === "claude-code" && memory.status === "active" && !memory.session_id;

/** The reason with the status as the other pages call it. */
const reword = (reason) => plain(reason, 400).replace(/(?<=status is ')\w+/, (status) => STATUS[status]?.[0] ?? status);

/** The memories that are shown now and were not shown then, and the reverse. */
const Changed = ({ now, then, since, task, agent }) => {
  const [point, setPoint] = useState(/** @type {any} */ (null));
  const shown = (answer) => answer.candidates.filter((one) => one.rank);
  const had = new Set(shown(then).map((one) => one.memory.id));
  const has = new Set(shown(now).map((one) => one.memory.id));
  const gained = shown(now).filter((one) => !had.has(one.memory.id));
  const lost = shown(then).filter((one) => !has.has(one.memory.id));
  const find = () => attempt(() => call("bisect", { task, agent, since: startOf(since) }).then(setPoint));
  return html`<div class="panel"><h2>What changed since the start of ${plain(since)}</h2>
    ${!gained.length && !lost.length && html`<p>The same memories are shown.</p>`}
    <ul>${gained.map((one) => html`<li>+ <ins><${Said} text=${titleOf(one.memory)} cut=${200} brief /></ins></li>`)}
      ${lost.map((one) => html`<li>– <del><${Said} text=${titleOf(one.memory)} cut=${200} brief /></del></li>`)}</ul>
    ${(gained.length > 0 || lost.length > 0) && html`<div class="row-acts"><${Act} label="When did it first differ?" onClick=${find} /></div>`}
    <div role="status">${point
      && html`<p>First differed on <${When} at=${point.at} exact />, by ${plain(point.by || "a program")}${point.call && ` (${plain(point.call)})`}.</p>`}
      </div></div>`;
};

const Why = () => {
  const agents = useAgents();
  const asked = { task: param("task"), agent: param("agent"), as_of: param("as_of"), since: param("since") };
  const chosen = useLoad(async (signal) => (param("memory") ? call("get", { memory_id: param("memory") }, signal) : null), [param("memory")]);
  const state = useLoad(async (signal) => {
    if (!asked.task) return { candidates: null };
    const args = { task: asked.task, agent: asked.agent || agents[0] };
    // As it was at the end of that day; as it is now, if the day has not ended.
    const end = asked.as_of && startOf(asked.as_of, 1);
    const [now, then] = await Promise.all([call("explain_task", { ...args, ...(Date.parse(end) < Date.now() && { as_of: end }) }, signal),
      asked.since && call("explain_task", { ...args, as_of: startOf(asked.since) }, signal)]);
    const extra = param("memory") && !now.candidates.some((one) => one.memory.id === param("memory"))
      ? await call("explain", { ...args, memory_id: param("memory") }, signal) : null;
    return { ...now, then, extra };
  }, [JSON.stringify(asked), param("memory"), agents.join()]);
  const names = [...new Set([...agents, asked.agent].filter(Boolean))];
  const form = useRef(/** @type {any} */ (null));
  useEffect(() => Object.entries(asked).forEach(([name, value]) => void (form.current.elements[name].value = value || (name === "agent" ? names[0] : ""))),
    [JSON.stringify(asked)]);
  const ask = (event) => {
    event.preventDefault();
    setParams(Object.fromEntries(new FormData(event.target)));
  };
  const { candidates, prompt, tokens, then, extra } = state.data ?? {};
  const copy = () => navigator.clipboard.writeText(prompt).then(() => notify("Copied."), (error) => notify(describe(error)));
  const first = candidates?.find((one) => one.rank && !one.explanation.standing);
  return html`<${Head} title="Why?" line="Which memories an agent gets for a task, and why. Nothing is recorded." />
    <form class="filters" ref=${form} onSubmit=${ask}>
    <label class="wide">Task<input name="task" data-filter required maxlength="4000"
      placeholder="run the tests of the web package" /></label>
      <label>Agent<select name="agent" key=${names.join()}>
        ${names.map((name) => html`<option value=${name} selected=${name === asked.agent}>${plain(name, 60)}</option>`)}</select></label>
      <label>As it was on<input type="date" name="as_of" max=${daysAgo(0)} /></label>
      <label>Compare with<input type="date" name="since" max=${daysAgo(0)} /></label>
      <button type="submit" class="main">Ask</button></form>
    ${param("memory") && chosen.data
      && html`<p class="warning">Asked about: <${Said} text=${titleOf(chosen.data)} cut=${200} brief /> <button type="button" class="plain"
      onClick=${() => setParams({ memory: "" })}>ask about all</button></p>`}
    <${Loading} state=${state.error ? { ...state, data: null } : state}>${!candidates ? html`<div class="panel"><${Empty} title="Ask with a task.">
        <p>Type what you would ask the agent to do. You see every memory that was considered, its score, and why it is shown or left out.</p></${Empty}></div>`
    : html`${extra && html`<div class="panel"><h2>${extra.retrieved ? "It is shown" : startsSessions(chosen.data) ? "Sessions start with it; it is not shown again for this task" : "It is left out"}</h2><p>${capitalize(reword(extra.reason))}
      </p></div>`}
      <div class="panel">${candidates.length
        ? html`<${Table} caption=${`${many(candidates.length, "memory", "memories")} considered; shown ones first`}
        columns=${[["Memory"], ["Meaning"], ["Words"], ["Record"], ["Score", "num"], ["Result"]]}
        rows=${candidates.map((one) => [html`<a class="title" href=${linkTo(one.memory.id)}>
          <${Said} text=${titleOf(one.memory)} cut=${200} brief /></a><div class="meta"><${Origin} memory=${one.memory} /></div>`,
          html`<${Part} value=${one.explanation.cosine} label="meaning" />`, html`<${Part} value=${one.explanation.words} label="words" />`,
            html`<${Part} value=${one.explanation.factors.success?.value} label="record" />`,
          one.explanation.score.toFixed(2), html`<${Fate} one=${one} isFirst=${one === first} />
            <div class="quiet">${reword(one.explanation.reason)}</div>`])} />`
        : html`<${Empty} title="No memory comes near this task.">
          <p>Agents get nothing for it. Add a rule on the Rules page, or try other words.</p></${Empty}>`}</div>
      <div class="halves"><div class="panel">
      <h2>Text that <code>retrieve</code> returns</h2>
      <p class="quiet">An agent gets it over MCP, HTTP or Python. The hooks of claude-smart choose by themselves: <code>claude-smart show --playbook</code>${" "}
        prints what a session starts with, and the page of a <a href=${link("sessions")}>session</a> shows what was added at each turn.</p>
      ${prompt ? html`<p class="quiet">about ${many(tokens, "token")}</p>
      <div class="told" tabindex="0" role="region" aria-label="Text that retrieve returns"><${Said} text=${prompt} cut=${8000} /></div>
          <${Act} label="Copy" onClick=${copy} />` : html`<p class="quiet">Nothing.</p>`}</div>
        ${then && html`<${Changed} key=${JSON.stringify(asked)} now=${state.data} then=${then} since=${asked.since} task=${asked.task} agent=${asked.agent} />`}</div>`}
          </${Loading}>`;
};
export default Why;
