// @ts-check
import { html } from "../preact.js";
import { Bars } from "../charts.js";
import { Choice, Empty, Head, Loading, param, Table, useLoad } from "../parts.js";
import { call } from "../session.js";
import { many, plain, When } from "../text.js";

const PURPOSES = { find_rules: "find rules in sessions", find_memories: "find memories in conversations", compare: "compare memories",
  explain_repair: "explain repaired commands",
  plan_tasks: "plan tasks", find_entities: "find entities", compress: "compress conversations" };
const money = (cost) => (cost ? `$${cost.toFixed(cost < 1 ? 3 : 2)}` : "$0");

const Spend = () => {
  const days = Number(param("days", "30"));
  const state = useLoad((signal) => call("usage", { days }, signal), [days]);
  const { days: rows = [], limits = {}, left = {}, provider, model, resets_at: resetsAt } = state.data ?? {};
  const list = [...rows].sort((one, other) => (one.day < other.day ? -1 : 1));
  const byDay = new Map(list.map((one) => [one.day, one.tokens_in + one.tokens_out]));
  // The days of the limit are those of UTC.
  const dates = Array.from({ length: days }, (_, at) => new Date(Date.now() - (days - 1 - at) * 86400_000).toISOString().slice(0, 10));
  const sum = [...byDay.values()].reduce((total, one) => total + one, 0);
  const calls = list.reduce((total, one) => total + one.calls, 0);
  const cost = list.reduce((total, one) => total + one.cost, 0);
  /** @type {Map<string, any>} */
  const purposes = new Map();
  for (const one of list)
    for (const [name, figures] of Object.entries(one.purposes ?? {})) {
      const old = purposes.get(name) ?? { calls: 0, tokens_in: 0, tokens_out: 0, cost: 0 };
      purposes.set(name, Object.fromEntries(Object.keys(old).map((key) => [key, old[key] + (figures[key] ?? 0)])));
    }
  const limit = limits.tokens ?? 0;
  const SHOWN = { tokens: (count) => many(count, "token"), calls: (count) => many(count, "call"), cost: money };
  /** The figures that are limited. */
  const show = (figures) => Object.keys(SHOWN).filter((name) => limits[name] != null).map((name) => SHOWN[name](figures[name])).join(", ");
  const today = list.at(-1);
  const sentence = `${many(sum, "token")} in ${many(calls, "call")} over ${many(list.length, "day")} with calls${limit
    ? `; the limit is ${many(limit, "token")} a day` : ""}.`;
  return html`<${Head} title="Spend"
    line=${state.data ? (provider === "none" ? "No model is configured" : `Model: ${plain(provider)} ${plain(model ?? "")}`) : ""}>
      <${Choice} label="Over" name="days" preset="30" options=${[["7", "7 days"], ["30", "30 days"], ["90", "90 days"]]} /></${Head}>
    <${Loading} state=${state}>${state.data && (!list.length ? html`<div class="panel"><${Empty} title="No model was called.">
      <p>${provider === "none" ? "alma works without a language model: it reads explicit corrections itself, at no cost."
        : "A model is configured, but it was not called in this time."}</p>
      <p>The configuration reference describes under <code>model</code> what a model adds. <code>alma usage</code> shows the same figures.</p></${Empty}></div>`
    : html`<div class="tiles"><div class="panel tile"><div class="quiet">Tokens</div>
      <div class="figure">${sum.toLocaleString("en")}</div><div class="quiet">${many(calls, "call")}</div></div>
        <div class="panel tile"><div class="quiet">Cost</div><div class="figure">${money(cost)}</div>
        <div class="quiet">as the provider reported it; an estimate where it reports none</div></div>
        <div class="panel tile"><div class="quiet">Left today</div>
        <div class="figure">${show(left) || "no limit"}</div>
          <div class="quiet">${show(limits) ? html`of ${show(limits)} a day; resets <${When} at=${resetsAt} />`
            : "set a limit in the model section of the configuration"}</div></div></div>
      <div class="panel"><h2>Tokens by day</h2><div class="scroll" tabindex="0" role="region" aria-label="Chart of tokens by day">
      <${Bars} values=${dates.map((day) => byDay.get(day) ?? 0)} labels=${dates.map((day) => day.slice(5))} limit=${limit} label=${sentence} /></div>
        <p>${sentence}${limit ? " At the limit, learning pauses until the next day; nothing is lost." : ""}</p>
        <details><summary>The figures as a table</summary>
        <${Table} caption="Tokens by day" unseen
          columns=${[["Day", "day"], ["Calls", "num"], ["Failed", "num"], ["Dropped", "num"], ["Tokens in", "num"], ["Tokens out", "num"],
          ["Cost", "num"]]}
          rows=${[...list].reverse().map((one) => [one.day, one.calls, one.failed, one.dropped, one.tokens_in.toLocaleString("en"),
            one.tokens_out.toLocaleString("en"), money(one.cost)])} /></details></div>
      <div class="panel"><h2>By purpose</h2>
        ${purposes.size ? html`<${Table} caption="By purpose" unseen
        columns=${[["Purpose"], ["Calls", "num"], ["Tokens in", "num"], ["Tokens out", "num"], ["Cost", "num"]]}
        rows=${[...purposes].sort((one, other) => other[1].tokens_in - one[1].tokens_in).map(([name, one]) =>
          [PURPOSES[name] ?? plain(name, 60), one.calls, one.tokens_in.toLocaleString("en"), one.tokens_out.toLocaleString("en"),
          money(one.cost)])} />`
        : html`<p class="quiet">${today ? "The purposes of these calls were not recorded." : ""}</p>`}</div>`)}</${Loading}>`;
};
export default Spend;
