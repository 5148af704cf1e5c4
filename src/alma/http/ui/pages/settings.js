// @ts-check
import { html } from "../preact.js";
import { Act, attempt, Head, Loading, notify, Table, useLoad } from "../parts.js";
import { ask, call, current, may } from "../session.js";
import { plain, Said, When } from "../text.js";

/** @param {any} value @returns {string} */
const show = (value) => {
  if (value === null || value === undefined || value === "") return "not set";
  if (Array.isArray(value)) return value.map(show).join(", ") || "none";
  if (typeof value === "object") return Object.entries(value).map(([name, one]) => `${name} ${show(one)}`).join(", ") || "none";
  return value === true ? "yes" : value === false ? "no" : String(value);
};
const Values = ({ title, values }) => html`<div class="panel"><h2>${title}</h2>
  <dl>${Object.entries(values ?? {}).map(([name, value]) => html`<dt>${plain(name, 60)}</dt><dd>
  <${Said} text=${show(value)} cut=${400} /></dd>`)}</dl></div>`;

const Settings = () => {
  const state = useLoad((signal) => call("configuration", {}, signal), []);
  const sessions = useLoad(() => ask("sessions"), []);
  const tokens = useLoad(async () => (may("admin") ? ask("tokens") : { tokens: [] }), []);
  const revoke = (id) => attempt(async () => {
    await ask("session/end", { id });
    sessions.reload();
    notify("The session was ended.");
  });
  const { settings: { upkeep, ...settings } = /** @type {any} */ ({}), exclusions, model, ...rest } = state.data ?? {};
  return html`<${Head} title="Settings" line="Read only. Change them in the configuration file; secrets and paths are not shown." />
    <${Loading} state=${state}>${state.data && html`<div class="halves"><${Values} title="Memory" values=${rest} />
    <${Values} title="Model" values=${{ provider: model?.provider, name: model?.name, ...model?.limits }} />
      <${Values} title="Learning and retrieval" values=${settings} /><${Values} title="Upkeep" values=${upkeep} /></div>
      <div class="panel"><h2>Exclusions</h2>
        ${Object.keys(exclusions ?? {}).length
        ? html`<dl>${Object.entries(exclusions).map(([agent, one]) =>
        html`<dt>${plain(agent, 60)}</dt><dd>${plain(show(one.cannot_learn ?? one), 400)}</dd>`)}</dl>`
        : html`<p class="quiet">None. An agent's <code>cannot_learn</code> lists what it must not learn. Text between private tags is never stored.</p>`}</div>`}</${Loading}>
    <div class="panel"><h2>Dashboard sessions</h2>
    <p class="quiet">This session: scope ${plain(current()?.scope ?? "")}, ends <${When} at=${current()?.expires_at} exact />.</p>
    <${Loading} state=${sessions}>${sessions.data && html`<${Table} caption="Dashboard sessions" unseen
      columns=${[["Name"], ["Scope"], ["Started"], ["Last used"], ["Ends"], [""]]}
        rows=${sessions.data.sessions.map((one) => [html`${plain(one.name, 60)}${one.is_own && " (this one)"}`, plain(one.scope),
        html`<${When} at=${one.created_at} />`, html`<${When} at=${one.used_at} />`, html`<${When} at=${one.expires_at} exact />`,
          !one.is_own && html`<${Act} label="End" of=${one.name} onClick=${() => revoke(one.id)} />`])} />`}</${Loading}></div>
    <div class="panel"><h2>Tokens</h2>
      ${may("admin") ? html`<${Loading} state=${tokens}>
      ${tokens.data && html`<${Table} caption="Tokens of the service" unseen
      columns=${[["Name"], ["Scope"], ["Projects"], ["Created"], ["Expires"]]}
      rows=${tokens.data.tokens.map((one) => [plain(one.name, 60), plain(one.scope), plain(one.projects?.join(", ") || "all", 120),
        html`<${When} at=${one.created_at} />`, one.expires_at ? html`<${When} at=${one.expires_at} exact />` : "never"])} />`}</${Loading}>`
      : html`<p class="quiet">Listing tokens needs the scope admin: run <code>alma dashboard --admin</code>.</p>`}
        <p class="quiet">Create and revoke tokens with <code>alma token</code>.</p></div>`;
};
export default Settings;
