// @ts-check
import { html, useEffect, useState } from "../preact.js";
import { canRevert, KINDS, labelOf, Status, undoOf } from "../memories.js";
import { Act, attempt, Badge, cursor, daysAgo, Empty, Fresh, Head, link, Loading, notify, Pager, param, setParams, startOf, useLive, useLoad } from "../parts.js";
import { call } from "../session.js";
import { Diff, many, plain, Said, When } from "../text.js";
import { linkTo } from "./sessions.js";

const KIND = { added: "ok", deleted: "bad", edited: "info" };

const Memory = ({ one }) => {
  const texts = Object.entries(one.before ?? {}).filter(([name, value]) => labelOf(one.kind, name) && typeof value === "string"
    && value !== one.after?.[name]);
  const show = (name, value) => (name === "status" ? html`<${Status} status=${value} />`
    : value ? html`“<${Said} text=${value} cut=${200} />”` : "empty");
  return html`<li class="beside"><div class="meta"><${Badge} kind=${KIND[one.verb] ?? ""}>${plain(one.verb)}</${Badge}>
      <span>${KINDS[one.kind]?.name ?? plain(one.kind)}</span>
        ${one.why && html`<span><${Said} text=${one.why} cut=${200} brief /></span>`}</div>
    <div><a class="title" href=${linkTo(one.id)}><${Said} text=${one.text} cut=${300} brief /></a></div>
    ${texts.map(([name, value]) => html`<div class="quiet">${labelOf(one.kind, name)}${
      one.after?.[name] === undefined ? html` was ${show(name, value)}`
      : name === "status" ? html`: ${show(name, value)} → ${show(name, one.after[name])}`
      : html`: <${Diff} before=${value} after=${one.after[name]} />`}</div>`)}</li>`;
};

const History = () => {
  const since = param("since") || daysAgo(7);
  const until = param("until");
  const args = { since: startOf(since), ...(until && { until: startOf(until, 1) }), limit: 25, cursor: cursor() };
  const state = useLoad((signal) => call("list_changes", args, signal), [JSON.stringify(args)]);
  const [fresh, setFresh] = useState(0);
  useEffect(() => setFresh(0), [state.isLoading]);
  const items = state.data?.items ?? [];
  useLive(async () => {
    const now = until || args.cursor ? null : await call("list_changes", args).catch(() => null);
    if (now) setFresh(now.items.filter((one) => !items.some((old) => old.change === one.change)).length);
  });
  const mark = (change, isUndone) =>
    state.setData((old) => ({ ...old, items: old.items.map((one) => (one.change === change ? { ...one, is_undone: isUndone } : one)) }));
  const revert = (one) => attempt(async () => {
    const answer = await call("revert", { change: one.change });
    mark(one.change, true);
    notify(`Reverted: ${many(answer.memories.length, "memory", "memories")} as before.`, undoOf(answer, () => mark(one.change, false)));
  });
  const day = (name, value) =>
    html`<input type="date" value=${value} onChange=${(event) => setParams({ [name]: event.target.value, after: "" })} />`;
  return html`<${Head} title="History" line="What changed between two days, and by whom" />
    <div class="filters"><label>From${day("since", since)}</label><label>Until (empty: now)${day("until", until)}</label></div>
    <${Fresh} count=${fresh} onShow=${state.reload} />
    <${Loading} state=${state}>
      ${items.length ? html`<ul class="rows" aria-label="Changes">
      ${items.map((one) => html`<li key=${one.change} data-row=${one.change}><div class="body">
        <div class="meta"><strong><${When} at=${one.at} exact /></strong><span>by ${plain(one.by || "a program", 60)}${one.call && html`, <code>${plain(one.call)}</code>`}</span>
          ${one.is_undone && html`<${Badge}>reverted</${Badge}>`}
            ${one.reverts && html`<${Badge} kind="info">reverts an earlier change</${Badge}>`}</div>
        <ul>${one.memories.map((memory) => html`<${Memory} key=${memory.id} one=${memory} />`)}</ul>
        ${one.more > 0 && html`<p class="quiet">and ${many(one.more, "other memory", "other memories")}</p>`}</div>
        <div class="acts">${canRevert(one) && !one.is_undone
          && html`<${Act} label="Revert" of="${one.call} ${one.at}" onClick=${() => revert(one)} />`}</div></li>`)}</ul>
      <${Pager} next=${state.data.next} count=${items.length} noun="change" nouns="changes" />`
    : html`<div class="panel"><${Empty} title="Nothing changed in this time.">
      <p>Choose an earlier first day. To see what an agent got for a task then, use <a href=${link("why")}>Why?</a> with a date.</p></${Empty}>
      </div>`}</${Loading}>`;
};
export default History;
