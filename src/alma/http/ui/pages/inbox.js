// @ts-check
import { html, useState } from "../preact.js";
import { Buttons, drafts, EditForm, EntryText, Evidence, MergeMemories, Origin, review, Status, titleOf, undoOf, useWhole, warnAbout, whenOf, whenWord } from "../memories.js";
import { Act, attempt, Badge, Dialog, Empty, focusOn, Fresh, Head, link, Loading, notify, TextField, useKeys, useLive, useLoad } from "../parts.js";
import { call, may } from "../session.js";
import { Diff, many, plain, Said, sum, When } from "../text.js";
import { linkTo } from "./sessions.js";

export const SECTIONS = { conflicts: ["conflict", "conflicts"], candidates: ["new memory", "new memories"],
  untrusted: ["untrusted memory", "untrusted memories"], promotions: ["promotion", "promotions"] };

const Side = ({ number, memory, evidence, other }) => html`<div class="card">
    <div class="meta"><strong>${number}</strong><${Status} status=${memory.status} /><${When} at=${memory.created_at} exact />
    <${Origin} memory=${memory} /></div>
    <p><strong>${number === 1 ? html`<${Diff} before=${titleOf(memory)} after=${titleOf(other)} side="before" />`
      : html`<${Diff} before=${titleOf(other)} after=${titleOf(memory)} side="after" />`}</strong></p>
    ${whenOf(memory) && html`<p class="quiet">${whenWord(memory)}: <${Said} text=${whenOf(memory)} cut=${300} /></p>`}
    <div class="meta"><${Evidence} entry=${{ memory, evidence }} /></div>
    ${memory.said && html`<blockquote class="said">“<${Said} text=${memory.said} cut=${400} />”</blockquote>`}</div>`;

const SplitDialog = ({ conflict, onClose, onSplit }) => {
  const [scopes, setScopes] = useState(["", ""]);
  const field = (at, memory) =>
    html`<${TextField} label=${html`<span>Where this applies: ${plain(titleOf(memory), 80)}</span>`} value=${scopes[at]} maxlength="200"
    onInput=${(text) => setScopes(scopes.map((old, index) => (index === at ? text : old)))} />`;
  return html`<${Dialog} title="Both hold: split by place" onClose=${onClose}>
    ${field(0, conflict.older)}${field(1, conflict.newer)}<p class="quiet">For example “in staging” and “in production”.</p>
    <div class="row-acts"><${Act} label="Split" main disabled=${!scopes.every((one) => one.trim())} onClick=${() => onSplit(scopes)} />
      <${Act} label="Cancel" onClick=${onClose} /></div></${Dialog}>`;
};

const Conflict = ({ conflict, onDone, onBack }) => {
  const [dialog, setDialog] = useState("");
  const pair = [conflict.older, conflict.newer];
  // The list cuts long texts, perhaps before they differ.
  const whole = useWhole(pair.some((one) => titleOf(one).endsWith("…")) ? pair.map((one) => one.id) : []);
  const [older, newer] = whole.data?.length ? whole.data.map((one) => one.memory) : pair;
  const resolve = (keep, text, scopes = ["", ""]) => attempt(async () => {
    const answer = await call("resolve_conflict",
      { conflict_id: conflict.id, keep, ...(keep === "split" && { older_scope: scopes[0], newer_scope: scopes[1] }) });
    setDialog("");
    onDone(text, undoOf(answer, () => {}));
  }, `decide ${conflict.id}`);
  const first = conflict.suggestions[0];
  const kept = conflict.suggestions.find((one) => one === "older" || one === "newer");
  const choice = (keep, label, text, number) =>
    html`<${Act} label=${label + (first === keep ? " · suggested" : "")} main=${first === keep} data-decide=${number}
    of=${titleOf(conflict.newer)} onClick=${() => resolve(keep, text)} />`;
  return html`<div class="panel" data-item=${conflict.id}>
    <div class="head"><h2 tabindex="-1"><${Badge} kind="bad">conflict</${Badge}> Two memories contradict each other</h2>
      <span class="quiet">found by ${conflict.found_by === "model" ? "the model" : "comparing words"}</span></div>
    <div class="halves"><${Side} number=${1} memory=${older} other=${newer} evidence=${conflict.evidence[0]} />
      <${Side} number=${2} memory=${newer} other=${older} evidence=${conflict.evidence[1]} /></div>
    ${may("approve") && html`<div class="row-acts">${choice("older", "Keep 1", "Kept the older one.", 1)}
      ${choice("newer", "Keep 2", "Kept the newer one.", 2)}
      <${Act} label="Both hold: split by place…" of=${titleOf(conflict.newer)} main=${first === "split"} onClick=${() => setDialog("split")} />
      ${conflict.older.type === conflict.newer.type
        && html`<${Act} label="Merge…" of=${titleOf(conflict.newer)} onClick=${() => setDialog("merge")} />`}
      ${conflict.suggestions.includes("both") && choice("both", "Not a conflict", "Both stay. The pair is not shown again.", 3)}</div>
    <p class="quiet">The other one is superseded, not erased. You can undo this.</p>`}
    ${dialog === "split" && html`<${SplitDialog} conflict=${conflict} onClose=${() => setDialog("")}
      onSplit=${(scopes) => resolve("split", "Split by place.", scopes)} />`}
    ${dialog === "merge" && html`<${MergeMemories} ids=${(kept === "older" ? pair : [...pair].reverse()).map((one) => one.id)} onClose=${() => setDialog("")}
      onDone=${() => onDone("")} onUndone=${onBack} />`}</div>`;
};

const Waiting = ({ entry, badge, why, onDone, onBack, onRenew, acts }) => {
  const { memory } = entry;
  const [isEditing, setEditing] = useState(drafts.has(memory.id));
  const title = titleOf(memory);
  const decide = (action) => {
    let isDone = false;
    return review(action, [entry], async (_, isStale = false) => {
      if (isStale) return onRenew();
      if (isDone) return onBack();
      isDone = true;
      onDone("");
    });
  };
  const stop = () => (setEditing(false), focusOn(`[data-item="${CSS.escape(memory.id)}"] .title`));
  return html`<li data-item=${memory.id}><div class="body">
    <div class="meta"><${Badge} kind=${badge === "promotion" ? "info" : entry.trust === "untrusted" ? "bad" : "wait"}>${badge}</${Badge}>
      <a class="title" href=${linkTo(memory.id)}>
      <${Said} text=${title} cut=${300} brief /></a></div>
    ${isEditing ? html`<${EditForm} entry=${entry} onDone=${async () => (stop(), onRenew())} onCancel=${stop} />` : html`
    ${(entry.is_cut || title.length > 300) && html`<p><${EntryText} entry=${entry} /></p>`}
    ${whenOf(memory) && html`<div class="quiet">${whenWord(memory)}: <${Said} text=${whenOf(memory)} cut=${200} /></div>`}
    <div class="meta"><${Origin} memory=${memory} trust=${entry.trust} /><${When} at=${memory.created_at} />
    <${Evidence} entry=${entry} />${why && html`<span>${plain(why, 200)}</span>`}</div>
    ${entry.trust === "untrusted" && html`<div class="quiet">${warnAbout(memory)}</div>`}
    ${memory.said && html`<blockquote class="said">“<${Said} text=${memory.said} cut=${300} />”</blockquote>`}`}</div>
    ${!isEditing && html`<div class="acts">${acts ?? html`
      <${Buttons} entry=${entry} actions=${["approve", "edit", "reject"]}
        special=${{ approve: () => decide("approve"), edit: () => setEditing(true), reject: () => decide("reject") }} />`}</div>`}</li>`;
};

const Inbox = () => {
  const state = useLoad(async (signal) => {
    const answer = await call("inbox", { limit: 10 }, signal);
    return { ...answer, gone: [], loaded: answer.counts };
  }, []);
  const { conflicts = [], candidates = [], untrusted = [], promotions = [], counts = {}, loaded = {}, gone = [] } = state.data ?? {};
  const total = sum(counts);
  const fresh = total - sum(loaded) + gone.length;
  const ids = (data) => [...data.conflicts.map((one) => one.id), ...data.candidates.map((one) => one.memory.id),
    ...data.untrusted.map((one) => one.memory.id), ...data.promotions.map((one) => one.entry.memory.id)];
  /** Take over the numbers of now, of which those that are decided here are no part. @param {string[]} decided */
  const recount = async (decided) => {
    const now = await call("inbox", { limit: 1 }).catch(() => null);
    state.setData((old) => old && { ...old, counts: now?.counts ?? old.counts, gone: [...new Set([...old.gone, ...decided])] });
  };
  useLive(() => recount([]));
  const items = () => /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-item]")]);
  const currentItem = () => /** @type {HTMLElement | undefined} */ (document.activeElement?.closest("[data-item]") ?? undefined);
  const focusItem = (at) =>
    /** @type {HTMLElement | null} */ (items()[Math.max(0, Math.min(items().length - 1, at))]?.querySelector("h2, .title"))?.focus();
  const move = (step) => focusItem(currentItem() ? items().indexOf(/** @type {HTMLElement} */ (currentItem())) + step : 0);
  const press = (selector) => /** @type {HTMLElement | null} */ ((currentItem() ?? items()[0])?.querySelector(selector))?.click();
  useKeys({ j: () => move(1), k: () => move(-1), a: () => press("[data-do=approve]"), x: () => press("[data-do=reject]"),
    e: () => press("[data-do=edit]"),
    1: () => press('[data-decide="1"]'), 2: () => press('[data-decide="2"]'), 3: () => press('[data-decide="3"]') });
  /** The decided one leaves, and the next one gets the focus. @param {string} id */
  const finish = (id) => async (text, undo = null) => {
    const at = items().findIndex((one) => one.dataset.item === id);
    await recount([id]);
    setTimeout(() => (items().length ? focusItem(at) : focusOn("main")), 60);
    if (text) notify(text, undo && (async () => (await undo(), state.reload())));
  };
  const isHere = (id) => !gone.includes(id);
  const promote = (entry, everywhere) => attempt(async () => {
    const id = entry.memory.id;
    const answer = await call("review", { action: everywhere ? "apply_everywhere" : "apply_here", ids: [id], expected_versions: { [id]: entry.version } });
    finish(id)(everywhere ? "It applies in every project now." : "It applies in this project only.", undoOf(answer, () => {}));
  }, `decide ${entry.memory.id}`);
  const row = (entry, badge, more = {}) => isHere(entry.memory.id) && html`<${Waiting} key=${entry.memory.id} entry=${entry} badge=${badge}
    onDone=${finish(entry.memory.id)} onBack=${state.reload} onRenew=${state.reload} ...${more} />`;
  const named = { heuristic: "new strategy", anti_pattern: "new anti-pattern", domain_knowledge: "new fact",
    user_preference: "new preference", rule: "new rule" };
  const left = state.data ? ids(state.data).filter(isHere).length : 0;
  const line = total > 0
    ? `${many(total, "item waits", "items wait")} for you: ${
    Object.entries(SECTIONS).filter(([name]) => counts[name]).map(([name, [one, more]]) => many(counts[name], one, more)).join(", ")}` : "";
  return html`<${Head} title="Inbox" line=${line}>${left > 0 && html`<span class="quiet hints"><kbd>j</kbd> <kbd>k</kbd> move · <kbd>a</kbd> approve · <kbd>x</kbd> reject ·
    ${" "}<kbd>1</kbd> <kbd>2</kbd> keep one · <kbd>u</kbd> undo</span>`}</${Head}>
    <${Fresh} count=${fresh} onShow=${state.reload} />
    <${Loading} state=${state}>
      ${conflicts.filter((one) => isHere(one.id)).map((one) => html`<${Conflict} key=${one.id} conflict=${one} onDone=${finish(one.id)} onBack=${state.reload} />`)}
      ${left > conflicts.filter((one) => isHere(one.id)).length && html`<ul class="rows">
        ${candidates.map((one) => row(one, named[one.memory.type] ?? "new"))}
          ${untrusted.map((one) => row(one, named[one.memory.type] ?? "new"))}
        ${promotions.map(({ entry, why }) => row(entry, "promotion", { why, acts: may("approve") ? html`
          <${Act} label="Everywhere" main of=${titleOf(entry.memory)} data-decide="1" onClick=${() => promote(entry, true)} />
          <${Act} label="Only here" of=${titleOf(entry.memory)} data-decide="2" onClick=${() => promote(entry, false)} />` : [] }))}</ul>`}
      ${left === 0 && total === 0 && html`<div class="panel"><${Empty} title="Nothing waits for you.">
      <p>New rules that need your approval, contradictions and rules that may apply in every project appear here.</p>
        <p>See what is in use on the <a
          href=${link("rules")}>Rules</a> page. If you corrected an agent and nothing appears, run <code>claude-smart doctor</code>.</p>
        </${Empty}></div>`}
      ${total - fresh > left && html`<p class="quiet">${many(total - fresh - left, "more follows", "more follow")} when these are decided. <${Act}
        label="Load" onClick=${state.reload} /></p>`}
    </${Loading}>`;
};
export default Inbox;
