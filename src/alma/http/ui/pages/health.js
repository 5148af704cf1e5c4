// @ts-check
import { html } from "../preact.js";
import { KINDS, Status } from "../memories.js";
import { Badge, Head, Loading, Table, useLive, useLoad } from "../parts.js";
import { call } from "../session.js";
import { ago, coded, duration, many, plain } from "../text.js";
import { CAPTURING } from "./overview.js";

const Health = () => {
  const state = useLoad((signal) => call("overview", {}, signal), []);
  useLive(() => state.reload());
  const checks = (data) => {
    const { health } = data;
    const capture = data.is_capturing;
    return [
      [health.ok ? "ok" : "bad", "Store", health.ok ? `readable, ${many(health.memories, "memory", "memories")}` : health.problems.join("; "),
        health.ok ? "" : "Run `alma doctor` on the machine of the service."],
      [capture ? "ok" : "wait", "Capture", data.last_captured_at ? `last turn captured ${ago(data.last_captured_at)}` : CAPTURING[String(capture)],
        capture ? "" : !data.last_captured_at ? "Install the plug-in, then run `claude-smart doctor`."
          : Date.now() - Date.parse(data.last_shown_at ?? "") < 600_000
            ? "Memories were shown just now, but nothing was captured: run `claude-smart doctor`."
            : "Normal while no coding agent runs. If one runs now, run `claude-smart doctor`."],
      ...(data.captured_after_ms == null ? []
        : [[data.captured_after_ms < 5000 ? "ok" : "wait", "Delay until readable", duration(data.captured_after_ms),
        data.captured_after_ms < 5000 ? "" : "The worker may be busy or stopped: run `claude-smart doctor`."]]),
      [health.embedder ? "ok" : "wait", "Search by meaning", health.embedder || "words only", health.embedder ? ""
        : "Set `embedding_provider` in the configuration to search by meaning."],
      [data.last_shown_at ? "ok" : "wait", "Shown to agents", data.last_shown_at ? `last ${ago(data.last_shown_at)}` : "never",
        data.last_shown_at ? "" : "Memories are shown when an agent starts a task."],
      ["ok", "Version", health.version, ""],
    ];
  };
  const counts = (title, values, show = (/** @type {string} */ name) => plain(name, 80)) => state.data.health.memories > 0
    && html`<div class="panel"><h2>${title}</h2><${Table} caption=${title} unseen columns=${[["Name"], ["Memories", "num"]]}
    rows=${Object.entries(values).filter((one) => one[1]).sort((one, other) => other[1] - one[1]).map(([name, count]) => [show(name), count.toLocaleString("en")])} /></div>`;
  const WORDS = { ok: "ok", wait: "warning", bad: "error" };
  return html`<${Head} title="Health" line="Each check with what to do about it" /><${Loading} state=${state}>${state.data && html`
    <div class="panel"><${Table} caption="Checks" unseen columns=${[["Result"], ["Check"], ["Found"], ["What to do"]]}
      rows=${checks(state.data).map(([kind, name, found, action]) => [html`<${Badge} kind=${kind}>${WORDS[kind]}</${Badge}>`, name,
        plain(found, 400), coded(action)])} />
      <p class="quiet">The hooks of coding agents are checked by <code>claude-smart doctor</code>, the store and the configuration
        by <code>alma doctor</code>. Both read the files of the machine.</p></div>
    <div class="tiles">${counts("By type", state.data.stats.by_type, (name) => KINDS[name]?.name ?? plain(name, 80))}${counts("By status", state.data.stats.by_status, (name) => html`<${Status} status=${name} />`)}
      ${counts("By agent", state.data.stats.by_agent)}</div>`}</${Loading}>`;
};
export default Health;
