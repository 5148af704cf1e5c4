// @ts-check
import { html, useState } from "../preact.js";
import { drafts, Empty, labelOf, MemoryList, MOST, TAUGHT, undoOf } from "../memories.js";
import { Act, attempt, Choice, Dialog, Filter, go, Head, link, notify, param, TextField, useLoad } from "../parts.js";
import { call, getProject, may } from "../session.js";
import { plain, Said } from "../text.js";

const STATUSES = [["active,candidate", "active and waiting"], ["active", "active"], ["candidate", "waiting"],
  ["archived,superseded,retired", "no longer used"], ["every", "every status"]];
/** The statuses that the address names. */
export const readStatuses = () => {
  const value = param("status", "active,candidate");
  return value === "every" ? [] : value.split(",").filter(Boolean);
};
const ORDERS = [["newest", "newest first"], ["least_sure", "least sure first"], ["least_followed", "least followed first"],
  ["most_shown", "most shown first"]];
export const StatusChoice = () => html`<${Choice} label="Status" name="status" preset="active,candidate" options=${STATUSES} />`;

/** The agents that are configured or have memories; a space of several is none. */
export const useAgents = () => {
  const state = useLoad(async (signal) => {
    const [{ agents }, { by_agent: counts }] = await Promise.all([call("configuration", {}, signal), call("stats", {}, signal)]);
    return [...new Set([...agents, ...Object.keys(counts)])].filter((name) => !name.includes(":"));
  }, []);
  return state.data?.length ? state.data : ["claude-code"];
};

const DRAFT = "a new rule";
const AddRule = ({ onClose }) => {
  const agents = useAgents();
  const [values, setValues] = useState(drafts.get(DRAFT) ?? { rule: "", trigger: "", why: "", reach: "project", agent: "" });
  const [error, setError] = useState("");
  const [known, setKnown] = useState(/** @type {any} */ (null));
  const set = (name) => (text) => {
    const fresh = { ...values, [name]: text };
    if (fresh.rule || fresh.trigger || fresh.why) drafts.set(DRAFT, fresh);
    else drafts.delete(DRAFT);
    setValues(fresh);
  };
  const close = () => (drafts.delete(DRAFT), onClose());
  const save = (event) => {
    event.preventDefault();
    attempt(async () => {
      const memory = await call("add_rule", { ...values, agent: values.agent || agents[0], source: "user" });
      const { entry } = await call("inspect", { memory_id: memory.id });
      if (entry.version > 1) setKnown(entry);
      else close();
      notify(`${entry.version > 1 ? "Confirmed" : "Added"}: ${plain(memory.rule, 50)}.${memory.status === "candidate" ? " It waits for approval." : ""}`,
        undoOf(memory, () => {}));
    }, DRAFT, setError);
  };
  /** Open the known rule with what was typed here. */
  const edit = () => {
    const typed = Object.fromEntries(["trigger", "why"].map((name) => [name, values[name].trim() || known.memory[name]]));
    drafts.set(known.memory.id, { base: known, values: { rule: known.memory.rule, ...typed } });
    close();
    go("rules", { id: known.memory.id, status: "every" });
  };
  if (known) return html`<${Dialog} title="This rule is known" onClose=${close}>
    <p>It was confirmed. Its other fields stay as they are stored:</p>
    <dl>${["trigger", "why"].map((name) => html`<dt>${labelOf("rule", name)}</dt><dd><${Said} text=${known.memory[name] || "empty"} /></dd>`)}</dl>
    <div class="row-acts"><${Act} label="Edit it" main onClick=${edit} /><${Act} label="Close" onClick=${close} /></div></${Dialog}>`;
  return html`<${Dialog} title="Add a rule" onClose=${close}><form onSubmit=${save}>
    <${TextField} label="Rule: what to do, or not to do" value=${values.rule} maxlength=${MOST.rule} onInput=${set("rule")} required />
    <${TextField} label="When it applies (empty: always)" value=${values.trigger} maxlength=${MOST.trigger} onInput=${set("trigger")} />
    <${TextField} label="Why" value=${values.why} maxlength=${MOST.why} onInput=${set("why")} />
    <label>Where<select onChange=${(event) => set("reach")(event.target.value)}><option value="project">this project</option>
    <option value="always" selected=${values.reach === "always"}>every project</option></select></label>
    <label>Agent<select onChange=${(event) => set("agent")(event.target.value)}>
      ${agents.map((name) => html`<option value=${name} selected=${name === values.agent}>${plain(name, 60)}</option>`)}</select></label>
    ${error && html`<p class="error" role="alert">${plain(error, 500)}</p>`}
    <div class="row-acts"><button type="submit" class="main" disabled=${!values.rule.trim()}>Add the rule</button>
    <${Act} label="Cancel" onClick=${close} /></div>
  </form></${Dialog}>`;
};

const Rules = () => {
  const [isAdding, setAdding] = useState(drafts.has(DRAFT));
  const source = param("taught");
  const reach = param("reach");
  const fields = { ...(source && { source }), ...(reach && { reach }) };
  const args = { types: ["rule"], statuses: readStatuses(), words: param("q") || null, order: param("order") || null,
    ...(Object.keys(fields).length && { fields }), ...(param("trust") && { trust: [param("trust")] }) };
  const repairs = useLoad((signal) => call("browse_observations", { limit: 1 }, signal), []);
  const isFiltered = ["q", "taught", "trust", "status", "reach"].some((name) => param(name));
  return html`<${Head} title="Rules" line=${source === "fix"
    ? "A command that failed, and what worked instead. Agents are shown both as observations, not as instructions."
    : `What agents are asked to do in ${plain(getProject() || "this project", 60)}`}>
      ${may("write") && html`<${Act} label="Add a rule" main onClick=${() => setAdding(true)} />`}</${Head}>
    <div class="filters"><${Filter} /><${StatusChoice} />
      <${Choice} label="Taught by" name="taught" options=${[["", "anything"], ...Object.entries(TAUGHT)]} />
      ${source !== "fix" && html`<${Choice} label="Trust" name="trust"
        options=${[["", "any"], ["trusted", "trusted"], ["learned", "learned"], ["untrusted", "untrusted"]]} />
      <${Choice} label="Order" name="order"
        options=${[["", param("q") ? "best match first" : "newest first"], ...ORDERS.slice(param("q") ? 0 : 1)]} />`}</div>
    ${!source && repairs.data?.items.length > 0 && html`<p class="quiet">Agents also get <a href=${link("rules", { taught: "fix" })}>repaired commands</a>${" "}
      that were observed in sessions. They are no rules unless you make them rules.</p>`}
    ${source === "fix" ? html`<${MemoryList} key="fix" operation="browse_observations" args=${{ statuses: readStatuses(), words: param("q") }}
      kinds=${["observation"]} noun="repaired command" nouns="repaired commands" empty=${html`<${Empty} title="No repaired commands here.">
        <p>When a command fails in a session and another form of it works, it appears here, and agents are shown both.</p></${Empty}>`} />`
    : html`<${MemoryList} args=${args} kinds=${["rule"]} noun="rule" nouns="rules" empty=${
      isFiltered ? html`<${Empty} title="No rule fits this filter."><p>Try other words or another status, or <a href=${link("rules")}>show all rules</a>.</p></${Empty}>`
      : html`<${Empty} title="No rule is active or waiting.">
        <p>Archived and superseded rules are under <a href=${link("rules", { status: "archived,superseded,retired" })}>no longer used</a>.</p>
        <p>Correct your agent in a session ("no, always pass --run"), and the rule appears here after the session is read.</p>
        <p>${may("write") && "You can also add one with the button above. "}If sessions are not captured, run <code>claude-smart doctor</code>.</p>
          </${Empty}>`} />`}
    ${isAdding && html`<${AddRule} onClose=${() => setAdding(false)} />`}`;
};
export default Rules;
