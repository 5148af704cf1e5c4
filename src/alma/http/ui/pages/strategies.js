// @ts-check
import { html, useState } from "../preact.js";
import { Interval, range } from "../charts.js";
import { Empty, MemoryList } from "../memories.js";
import { Choice, describe, Filter, Head, link, param } from "../parts.js";
import { call } from "../session.js";
import { percent, plain, Said } from "../text.js";
import { readStatuses, StatusChoice, useAgents } from "./rules.js";

const TYPES = { "": ["heuristic", "anti_pattern"], heuristic: ["heuristic"], anti_pattern: ["anti_pattern"] };
const ORDERS = [["", "newest first"], ["least_sure", "least sure first"], ["least_followed", "least successful first"],
  ["most_shown", "most shown first"]];

/** How likely a strategy is to work in a situation. */
const Assess = () => {
  const agents = useAgents();
  const [values, setValues] = useState({ strategy: "", context: "", agent: "" });
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const [error, setError] = useState("");
  const ask = async (event) => {
    event.preventDefault();
    try {
      setAnswer(await call("assess_confidence", { ...values, agent: values.agent || agents[0] }));
      setError("");
    } catch (problem) {
      setError(describe(problem));
    }
  };
  const field = (name) => (event) => setValues({ ...values, [name]: event.target.value });
  return html`<details class="panel"><summary>How likely is a strategy to work?</summary><form class="filters" onSubmit=${ask}>
    <label class="wide">Strategy<input required maxlength="500" onInput=${field("strategy")} /></label>
    <label class="wide">Situation<input required maxlength="500" onInput=${field("context")} /></label>
    <label>Agent<select onChange=${field("agent")}>${agents.map((name) => html`<option value=${name}>${plain(name, 60)}</option>`)}</select></label>
    <button type="submit" class="main">Ask</button></form>
    <div role="status">${answer && html`<p class="meta"><strong>${percent(answer.predicted_success)}</strong>
      <${Interval} share=${answer.predicted_success} low=${answer.interval[0]} high=${answer.interval[1]}
        label="between ${range(answer.interval)} (90 % interval)" />
      <span>${range(answer.interval)} (90 % interval)</span><span>recommended: ${plain(answer.recommendation)}</span></p>
      <p class="quiet">${answer.occurrence_count
        ? `It worked in ${percent(answer.historical_success_rate)} of ${answer.occurrence_count} tries.` : "It was not tried yet."}</p>
      <ul>${[...answer.risk_signals, ...answer.opportunity_signals].map((one) => html`<li class="beside">
      <${Said} text=${one.description} cut=${300} /></li>`)}</ul>`}</div>
    ${error && html`<p class="error" role="alert">${plain(error, 400)}</p>`}</details>`;
};

const Strategies = () => {
  const args = { types: TYPES[param("type")] ?? TYPES[""], statuses: readStatuses(), words: param("q") || null, order: param("order") || null };
  return html`<${Head} title="Strategies" line="What worked and what failed, counted from results" />
    <div class="filters"><${Filter} /><${StatusChoice} />
      <${Choice} label="Type" name="type" options=${[["", "all"], ["heuristic", "worked"], ["anti_pattern", "to avoid"]]} />
      <${Choice} label="Order" name="order" options=${ORDERS} /></div>
    <${Assess} />
    <${MemoryList} args=${args} kinds=${["heuristic", "anti_pattern", "outcome"]} noun="strategy" nouns="strategies"
      empty=${["q", "type", "status"].some((name) => param(name)) ? html`<${Empty} title="No strategy fits this filter.">
      <p>Try other words or another status, or <a href=${link("strategies")}>show all strategies</a>.</p></${Empty}>` : html`<${Empty} title="No strategies yet.">
      <p>A strategy forms after it worked several times. Agents report results with <code>learn</code>, over MCP or Python.</p>
      <p>Lower <code>min_occurrences_for_heuristic</code> in the settings to see them earlier.</p></${Empty}>`} />`;
};
export default Strategies;
