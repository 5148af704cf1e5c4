// @ts-check
// Memories: how each type reads, the list with its detail, and what can be done about them.
import { html, useEffect, useRef, useState } from "./preact.js";
import { range, wilson, Interval, Results } from "./charts.js";
import { Act, attempt, Badge, cursor, Dialog, Empty, focusOn, Fresh, here, link, Loading, notify, Pager, param, setParams,
  TextField, useKeys, useLive, useLoad } from "./parts.js";
import { call, changeOf, current, may } from "./session.js";
import { coded, Diff, many, percent, plain, Said, When, withoutHidden } from "./text.js";

/** @typedef {{name: string, title: (memory: any) => string, when?: (memory: any) => string, verb?: string,
 *    fields: [string, string][]}} Kind */
/** @type {Record<string, Kind>} */
export const KINDS = {
  rule: { name: "rule", title: (one) => one.rule, when: (one) => one.trigger, verb: "followed",
    fields: [["rule", "Rule"], ["trigger", "When"], ["why", "Why"]] },
  heuristic: { name: "strategy", title: (one) => one.strategy, when: (one) => one.condition, verb: "worked",
    fields: [["strategy", "Strategy"], ["condition", "When"]] },
  anti_pattern: { name: "anti-pattern", title: (one) => one.pattern, when: (one) => one.condition, verb: "failed",
    fields: [["pattern", "Avoid"], ["condition", "When"], ["why_bad", "Why"], ["better_alternative", "Better"]] },
  user_preference: { name: "preference", title: (one) => one.preference, when: (one) => one.category,
    fields: [["preference", "Preference"], ["category", "Category"]] },
  domain_knowledge: { name: "fact", title: (one) => one.fact, when: (one) => one.domain, fields: [["fact", "Fact"], ["domain", "Domain"]] },
  outcome: { name: "result", title: (one) => one.task_description, when: (one) => one.strategy_used, fields: [] },
  episode: { name: "session", title: (one) => one.title || one.session_id, fields: [["title", "Title"]] },
  observation: { name: "repaired command", title: (one) => one.line.replace(/`([^`]*)`/g, "“$1”"), when: (one) => one.trigger, fields: [] },
};
/** The longest texts that a rule may have. @type {Record<string, number>} */
export const MOST = { rule: 600, trigger: 240, why: 240 };
/** @param {any} memory @returns {Kind} */
export const kindOf = (memory) => KINDS[memory.type] ?? { name: memory.type, title: (one) => one.id, fields: [] };
/** The name of a field that people see; "" for others. @param {string} type @param {string} name */
export const labelOf = (type, name) => (name === "status" ? "Status" : KINDS[type]?.fields.find(([field]) => field === name)?.[1] ?? "");
/** @param {any} memory */
export const titleOf = (memory) => String(kindOf(memory).title(memory) ?? "");
/** @param {any} memory */
export const whenOf = (memory) => String(kindOf(memory).when?.(memory) ?? "");
/** The word before it: a fact has a topic, not an occasion. @param {any} memory */
export const whenWord = (memory) => ({ user_preference: "About", domain_knowledge: "About", outcome: "By" })[memory.type] ?? "When";

export const STATUS = { candidate: ["waiting", "wait"], active: ["active", "ok"], superseded: ["superseded", ""], archived: ["archived", ""],
  retired: ["retired", ""] };
/** A rule with a session holds in that session only: no later one gets it. */
export const Status = ({ status, session = "" }) => (status === "active" && session ? html`<${Badge}>one session only</${Badge}>`
  : html`<${Badge} kind=${STATUS[status]?.[1] ?? ""}>${STATUS[status]?.[0] ?? plain(status)}</${Badge}>`);
const sessionOf = (memory) => (memory.type === "rule" ? memory.session_id : "");
export const ORIGIN = { user: "from a person", agent: "from the agent", tool: "from tool output", content: "from outside content",
  import: "imported" };
export const TAUGHT = { note: "note", correction: "correction", preference: "preference", fix: "repaired command", edit: "edit",
  denial: "denied action", model: "model", import: "import" };
/** The copies of what a team's server sent belong to this agent. Nobody here stated them. */
const TEAM_AGENT = "team-server";
/** Its literals are what an agent did, and the person accepted that. @param {any} memory */
const isAgreed = (memory) => memory.type === "rule" && memory.basis === "agreed";
/** @param {any} memory */
const originOf = (memory) => isAgreed(memory) ? "done by the agent, accepted by a person" : (memory.agent === TEAM_AGENT
  ? `shared by the team server ${plain(String(memory.metadata?.server ?? ""))} (not stated by you)` : ORIGIN[memory.origin] ?? plain(memory.origin));
/** Where a memory comes from, and whether it may stand as an instruction. */
export const Origin = ({ memory, trust }) => html`${trust === "untrusted" && html`<${Badge} kind="bad">untrusted</${Badge}> `}
  <span>${originOf(memory)}
    ${memory.type === "rule" && memory.source && memory.source !== "import" ? ` (${TAUGHT[memory.source] ?? plain(memory.source)})` : ""}
    </span>`;
/** What its trust means for agents. @param {any} memory */
export const warnAbout = (memory) => "It comes from outside content. " + (memory.status === "active"
  ? "It was approved: agents get it, with its origin." : "Agents do not get it unless you approve it.");

/** What the verb of its type counts, and the interval of that share: an anti-pattern counts failures. @param {any} entry */
const rateOf = ({ memory, evidence }) => {
  const results = evidence.successes + evidence.partials + evidence.failures;
  const good = evidence.successes + evidence.partials / 2;
  const count = kindOf(memory).verb === "failed" ? results - good : good;
  return { results, count, interval: wilson(count, results) };
};

/** "followed 8 of 10" with the interval of that share; a partial result counts half of it. */
export const Evidence = ({ entry }) => {
  const { partials } = entry.evidence;
  const verb = kindOf(entry.memory).verb;
  if (!verb) return null;
  const { results, count, interval: [low, high] } = rateOf(entry);
  if (!results) return html`<span>not tried yet</span>`;
  return html`<span class="record">${verb} ${count - partials / 2} of ${results}${partials > 0 && `, ${partials} partly`}
    <${Interval} share=${count / results} low=${low} high=${high} label="${verb} in ${range([low, high])} of cases (90 % interval)" />
    ${range([low, high])}</span>`;
};

// -- actions: each says what it did and can be undone

/** The statuses that an action applies to. @type {Record<string, string[]>} */
const APPLIES = { approve: ["candidate"], reject: ["candidate"], archive: ["active", "candidate"],
  restore: ["archived", "superseded", "retired"], make_rule: ["active", "candidate"] };
const LABELS = { approve: "Approve", make_rule: "Make it a rule", edit: "Edit", reject: "Reject", merge: "Merge…", archive: "Archive",
  restore: "Restore" };
const DONE = { approve: "Approved", reject: "Rejected", archive: "Archived", restore: "Restored", make_rule: "It is a rule now" };
const KEYS = { approve: "a", edit: "e", reject: "x", merge: "m" };

/** Whether the scope of this session includes an action: agents and programs may not overrule a person, nor word or activate a rule.
 *  @param {string} action @param {any} entry */
export const can = (action, { memory, trust }) => may("approve") || (may("write") && ["edit", "reject", "archive", "restore"].includes(action)
  && !(memory.origin === "user" && trust === "trusted") && (["reject", "archive"].includes(action) || (memory.type !== "rule" && trust !== "untrusted")));
/** Whether a change on the pages of changes can be taken back by this session. @param {any} change */
export const canRevert = (change) => may("approve") || (may("write") && change.by === current()?.name);

/** Whether an action applies to an entry, and this session may do it. @param {string} action @param {any} entry */
const fits = (action, entry) => can(action, entry)
  && (entry.memory.type === "observation" ? ["make_rule", "archive", "restore"].includes(action) : action !== "make_rule")
  && (APPLIES[action]?.includes(entry.memory.status) ?? kindOf(entry.memory).fields.length > 0);

/** The buttons of an entry. `special` holds what is done for actions that open something first. */
export const Buttons = ({ entry, actions, onChange, special = {}, hasKeys = false }) => {
  const { memory, trust } = entry;
  return actions.filter((action) => fits(action, entry)).map((action) => html`<${Act} key=${action} label=${LABELS[action]} of=${titleOf(memory)}
    data-do=${action} main=${{ approve: trust !== "untrusted", make_rule: true, edit: hasKeys && memory.status === "active" }[action]}
    key_=${hasKeys ? KEYS[action] : ""} onClick=${special[action] ?? (() => review(action, [entry], onChange))} />`);
};

/** Decide about entries, or about all that a filter selects. @param {string} action @param {any[]} entries
 *  @param {(ids: string[], isStale?: boolean) => any} onChange @param {{selection: any, count: number} | null} [all] */
export const review = (action, entries, onChange, all = null) =>
  attempt(async () => {
    const place = /** @type {HTMLElement | null} */ (document.activeElement?.closest("[data-row], section.detail"));
    const chosen = all ? { selection: all.selection, expected_count: all.count }
      : { ids: entries.map((one) => one.memory.id), expected_versions: Object.fromEntries(entries.map((one) => [one.memory.id, one.version])) };
    let answer;
    try {
      answer = await call("review", { action, ...chosen });
    } catch (/** @type {any} */ error) {
      if (error.status === 409 && error.body?.present) await onChange(entries.map((one) => one.memory.id), true);
      throw error;
    }
    await onChange(answer.ids);
    keepFocus(place);
    const what = answer.count === 1 && entries[0] ? `: ${plain(titleOf(entries[0].memory), 50)}` : ` ${answer.count}`;
    notify(`${DONE[action]}${what}.`, undoOf(answer, () => onChange(answer.ids)));
    return answer;
  }, `decide ${entries.map((one) => one.memory.id)}`);

/** Where the pressed button is gone, put the focus on the text that it stood beside. @param {HTMLElement | null} place */
const keepFocus = (place) => {
  const title = place?.dataset.row ? `[data-row="${CSS.escape(place.dataset.row)}"] .title` : "[data-detail]";
  setTimeout(() => place && focusOn(title, () => document.activeElement === document.body), 150);
};

/** Undo the change that an answer reports, and none that somebody else made since. @param {object} answer @param {() => any} onChange */
export const undoOf = (answer, onChange) => async () => {
  await call("revert", { change: changeOf(answer) });
  await onChange();
};

/** Whole memories by id: a list cuts long texts. @param {string[]} ids */
export const useWhole = (ids) => useLoad((signal) =>
  Promise.all(ids.map(async (id) => (await call("inspect", { memory_id: id }, signal)).entry)), [ids.join()]);

export const EditForm = ({ entry, ...more }) => {
  const whole = useWhole(entry.is_cut ? [entry.memory.id] : []);
  const shown = entry.is_cut ? whole.data?.[0] : entry;
  return shown ? html`<${WholeForm} entry=${shown} ...${more} />` : html`<${Loading} state=${{ ...whole, data: null }} />`;
};

/** The main text of an entry in a list, which cuts long ones. */
export const EntryText = ({ entry }) => {
  const [whole, setWhole] = useState(/** @type {any} */ (null));
  const load = () => attempt(async () => setWhole((await call("inspect", { memory_id: entry.memory.id })).entry.memory));
  return html`<${Said} text=${titleOf(whole ?? entry.memory)} cut=${whole ? Infinity : 2000} />${entry.is_cut && !whole
    && html`<button type="button" class="plain" onClick=${load}>shortened: show all</button>`}`;
};

/** Text that was typed and not saved, by what it belongs to. It is kept until it is saved or the tab is closed. */
export const drafts = new Map();
addEventListener("beforeunload", (event) => drafts.size && event.preventDefault());

/** Fields in place of the text. Only what was changed here is stored; a clash shows the fields that both changed. */
const WholeForm = ({ entry, onDone, onCancel }) => {
  const { id } = entry.memory;
  const kind = kindOf(entry.memory);
  const read = (one) => Object.fromEntries(kind.fields.map(([name]) => [name, String(one.memory[name] ?? "")]));
  const [draft, setDraft] = useState(drafts.get(id) ?? { base: entry, values: read(entry) });
  const [clash, setClash] = useState(/** @type {string[]} */ ([]));
  const [error, setError] = useState("");
  const [isSaving, setSaving] = useState(false);
  const form = useRef(/** @type {HTMLFormElement | null} */ (null));
  useEffect(() => void (drafts.has(id) || form.current?.querySelector("textarea")?.focus()), []);
  const listOwn = ({ base, values }) => Object.entries(values).filter(([name, text]) => text !== read(base)[name]);
  const change = (base, values) => {
    const fresh = { base, values };
    if (listOwn(fresh).length) drafts.set(id, fresh);
    else drafts.delete(id);
    setDraft(fresh);
    return fresh;
  };
  const leave = () => (drafts.delete(id), onCancel());
  const store = async (mine, note = "") => {
    const fields = Object.fromEntries(listOwn(mine));
    if (!Object.keys(fields).length) return leave();
    try {
      const answer = await call("update", { memory_id: id, fields, source: "user", expected_version: mine.base.version });
      drafts.delete(id);
      await onDone();
      notify(`Saved: ${plain(mine.values[kind.fields[0][0]], 50)}.${note}`, undoOf(answer, onDone));
    } catch (/** @type {any} */ problem) {
      if (problem.status !== 409) throw problem;
      setError("");
      const { entry: present } = await call("inspect", { memory_id: id });
      const [before, now] = [read(mine.base), read(present)];
      const combined = change(present, { ...now, ...fields });
      const both = Object.keys(fields).filter((name) => now[name] !== before[name] && now[name] !== fields[name]);
      if (!both.length) return store(combined, " What somebody else changed meanwhile is kept.");
      setClash(both);
      focusOn("[data-clash]");
    }
  };
  const save = () => {
    setSaving(true);
    return attempt(() => store(draft), `save ${id}`, setError).finally(() => setSaving(false));
  };
  const onKeyDown = (event) => {
    if (event.key === "Escape") (event.stopPropagation(), leave());
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) save();
  };
  const stored = read(draft.base);
  return html`<form ref=${form} onKeyDown=${onKeyDown} onSubmit=${(event) => (event.preventDefault(), save())}>
    ${kind.fields.map(([name, label]) => html`<${TextField} label=${label} value=${draft.values[name]} maxlength=${MOST[name] ?? 20000}
      onInput=${(text) => change(draft.base, { ...draft.values, [name]: text })} />`)}
    ${error && html`<p class="error" role="alert">${coded(error)}</p>`}
    ${clash.length > 0 && html`<div class="card" role="alert" tabindex="-1" data-clash><h3>Somebody else changed this ${kind.name}. Your text was not saved.</h3>
      ${kind.fields.filter(([name]) => clash.includes(name)).map(([name, label]) => html`<dl>
        <dt>${label}, stored now</dt><dd><${Said} text=${stored[name]} /></dd>
        <dt>${label}, yours</dt><dd><${Diff} before=${stored[name]} after=${draft.values[name]} /></dd></dl>`)}
      <div class="row-acts"><${Act} label="Save mine over it" main onClick=${save} />
        <${Act} label="Take the stored text" onClick=${() => {
          change(draft.base, { ...draft.values, ...Object.fromEntries(clash.map((name) => [name, stored[name]])) });
          setClash([]);
        }} /></div></div>`}
    <div class="row-acts"><button type="submit" class="main" disabled=${isSaving || clash.length > 0}>Save</button>
      <${Act} label="Cancel" onClick=${leave} /><span class="quiet">Escape cancels.</span></div>
  </form>`;
};

/** Merge one memory with another of its type. */
const MergeDialog = ({ entry, other = null, onClose, onDone, onUndone = onDone }) => {
  const kind = kindOf(entry.memory);
  const [second, setSecond] = useState(other);
  const [words, setWords] = useState("");
  const [text, setText] = useState(titleOf(entry.memory));
  const found = useLoad((signal) => call("browse",
    { types: [entry.memory.type], words: words || titleOf(entry.memory).slice(0, 300), limit: 8 }, signal), [words]);
  const rest = (found.data?.items ?? []).filter((one) => one.memory.id !== entry.memory.id);
  const merge = () => attempt(async () => {
    const ids = [entry.memory.id, second.memory.id];
    const versions = { [ids[0]]: entry.version, [ids[1]]: second.version };
    const wording = text.trim() !== titleOf(entry.memory) ? { text: text.trim() } : {};
    const answer = await call("merge", { ids, into: ids[0], expected_versions: versions, ...wording });
    onClose();
    await onDone(ids);
    notify("Merged.", undoOf(answer, () => onUndone(ids)));
  }, "merge");
  return html`<${Dialog} title="Merge" onClose=${onClose}>
    <dl><dt>Kept</dt><dd><${Said} text=${titleOf(entry.memory)} cut=${300} /></dd>
      ${second && html`<dt>Superseded</dt><dd><${Diff} before=${titleOf(second.memory)} after=${text} side="before" /></dd>`}</dl>
    ${!second && html`<label>Find the other one<input type="search" value=${words} onInput=${(event) => setWords(event.target.value)} /></label>
      <ul class="rows">${rest.map((one) => html`<li><div class="body"><${Said} text=${titleOf(one.memory)} cut=${200} />
        <div class="meta"><${Status} status=${one.memory.status} session=${sessionOf(one.memory)} /><${Evidence} entry=${one} /></div></div>
        <${Act} label="Choose" of=${titleOf(one.memory)} onClick=${() => (setSecond(one), focusOn("dialog textarea"))} /></li>`)}</ul>
      ${found.data && !rest.length && html`<p class="quiet">No other ${kind.name} fits these words.</p>`}`}
    ${second && html`<${TextField} label="Wording after the merge" value=${text} onInput=${setText} rows="3" />
      <p class="quiet">The results of both are added up. The superseded ${kind.name} can be restored.</p>`}
    <div class="row-acts">${second && html`<${Act} label="Merge" main onClick=${merge} disabled=${!text.trim()} />`}
      <${Act} label="Cancel" onClick=${onClose} /></div>
  </${Dialog}>`;
};

/** Merge the second of two memories into the first. */
export const MergeMemories = ({ ids, ...more }) => {
  const whole = useWhole(ids);
  return whole.data && html`<${MergeDialog} entry=${whole.data[0]} other=${whole.data[1]} ...${more} />`;
};

/** Erase for good, after the first words were typed. */
export const EraseDialog = ({ id, title, what, onClose, onDone }) => {
  const [typed, setTyped] = useState("");
  const normal = (text) => withoutHidden(text).trim().replace(/\s+/g, " ").toLowerCase();
  const first = normal(title).split(" ").slice(0, 3).join(" ") || id;
  const erase = () => attempt(async () => {
    await call("delete", { memory_id: id });
    onClose();
    notify(`The ${what} was erased.`);
    await onDone();
  });
  return html`<${Dialog} title="Erase this ${what} for good" onClose=${onClose}>
    <p>Its history goes with it, and it is not learned again. This cannot be undone.</p>
    <label>Type its first words: “${plain(first)}”
      <input value=${typed} onInput=${(event) => setTyped(event.target.value)} autocomplete="off" /></label>
    <div class="row-acts"><${Act} label="Erase" danger disabled=${normal(typed) !== first} onClick=${erase} />
    <${Act} label="Cancel" onClick=${onClose} /></div>
  </${Dialog}>`;
};

/** What happened to one memory, newest first. */
export const HistoryDialog = ({ entry, onClose, onDone }) => {
  const state = useLoad((signal) => call("history", { memory_id: entry.memory.id }, signal), [entry.memory.id, entry.version]);
  const changes = [...(state.data?.result ?? [])].reverse();
  const revert = (change) => attempt(async () => {
    const answer = await call("revert", { change });
    await onDone([entry.memory.id]);
    notify("Reverted.", undoOf(answer, () => onDone([entry.memory.id])));
  });
  // A revert that was reverted leaves the change as it was.
  const undone = new Set();
  for (const one of changes.toReversed()) if (one.reverts) (undone.add(one.reverts), undone.delete(changes.find((other) => other.change === one.reverts)?.reverts));
  // A change holds what was before it; the text after it is what the next change found.
  const known = { ...entry.memory };
  const lines = changes.map((one) => {
    const parts = Object.entries(one.before ?? {}).map(([name, before]) => {
      const after = known[name];
      known[name] = before;
      return { name, before, after };
    });
    return { ...one, parts };
  });
  return html`<${Dialog} title="History" onClose=${onClose}><${Loading} state=${state}><ul>${lines.map((one) => html`<li class="card">
    <div class="meta"><${When} at=${one.at} exact /><strong>${plain(one.verb)}</strong>${one.by && html`<span>by ${plain(one.by)}</span>`}
      ${one.why && html`<span>${plain(one.why, 200)}</span>`}</div>
    ${one.parts.filter((part) => labelOf(entry.memory.type, part.name) && part.before !== part.after).map((part) =>
      html`<p><span class="quiet">${labelOf(entry.memory.type, part.name)}: </span>${
      part.after === undefined ? html`<${Said} text=${part.before} cut=${400} />`
        : html`<${Diff} before=${part.before} after=${part.after} />`}</p>`)}
    ${undone.has(one.change) ? html`<${Badge}>reverted</${Badge}>` : canRevert(one) && one.change && one.verb !== "created"
      && html`<${Act} label="Revert" of="${one.verb} ${one.at}" onClick=${() => revert(one.change)} />`}</li>`)}</ul>
  </${Loading}><div class="row-acts"><${Act} label="Close" main onClick=${onClose} /></div></${Dialog}>`;
};

// -- the list and its detail

/** Entries of a filter. Rows never move: known ones are renewed in place, new ones only counted. @param {any} args @param {string[]} kinds */
export const useEntries = (args, kinds, operation = "browse") => {
  const state = useLoad((signal) => call(operation, args, signal), [JSON.stringify(args), operation]);
  const [fresh, setFresh] = useState(0);
  useEffect(() => setFresh(0), [state.isLoading]);
  const ids = () => (state.data?.items ?? []).map((one) => one.memory.id);
  /** Ask again for rows by id. @param {string[]} changed */
  const renew = async (changed) => {
    const shown = ids().filter((id) => changed.includes(id)).slice(0, 100);
    const news = await Promise.all(shown.map((id) => call("inspect", { memory_id: id }).then((answer) => answer.entry, () => null)));
    put(new Map(shown.map((id, at) => [id, news[at]])));
  };
  const put = (news) => state.setData((old) => old && { ...old, items: old.items.map((one) =>
    !news.has(one.memory.id) ? one : news.get(one.memory.id) ?? { ...one, isGone: true }) });
  useLive(async (events) => {
    const records = events.flatMap((event) => event.records ?? []);
    if (!state.data || (events.length && !records.some((one) => kinds.includes(one.kind)))) return;
    const answer = await call(operation, args).catch(() => null);
    if (!answer) return;
    const shown = new Set(ids());
    const news = new Map(answer.items.map((one) => [one.memory.id, one]));
    if (!args.cursor) setFresh(answer.items.filter((one) => !shown.has(one.memory.id)).length);
    put(news);
    await renew(records.map((one) => one.id).filter((id) => shown.has(id) && !news.has(id)));
  });
  return { ...state, fresh, renew };
};

const Row = ({ entry, isChosen, isTicked, hasAgent, onTick, onChange, onEdit }) => {
  const { memory } = entry;
  const title = titleOf(memory);
  const when = whenOf(memory);
  return html`<li class=${`${isChosen ? "chosen" : ""} ${entry.isGone ? "gone" : ""}`} data-row=${memory.id}>
    ${may("write") && html`<input type="checkbox" checked=${isTicked} aria-label="Select: ${plain(title, 60)}"
      onChange=${() => onTick(memory.id)} />`}
    <div class="body">
      <a class="title" href=${here({ id: memory.id })} aria-current=${isChosen ? "true" : undefined}>
        <${Said} text=${title} cut=${240} brief /></a>
      ${when && html`<div class="quiet">${whenWord(memory)}: <${Said} text=${when} cut=${160} brief /></div>`}
      <div class="meta">${entry.isGone ? html`<${Badge}>erased</${Badge}>` : html`<${Status} status=${memory.status} session=${sessionOf(memory)} />`}
        ${memory.type === "anti_pattern" && html`<${Badge} kind="bad">avoid</${Badge}>`}
        ${memory.reach === "always" && html`<${Badge} kind="info">everywhere</${Badge}>`}
        ${drafts.has(memory.id) && html`<${Badge} kind="wait">not saved</${Badge}>`}
        ${hasAgent && html`<span>${plain(memory.agent, 40)}</span>`}
        <${Origin} memory=${memory} trust=${entry.trust} /><${Evidence} entry=${entry} /></div>
    </div>
    ${!entry.isGone && html`<div class="acts"><${Buttons} entry=${entry} onChange=${onChange} special=${{ edit: () => onEdit(memory.id) }}
      actions=${memory.status === "active" ? ["make_rule", "edit"] : ["approve", "make_rule", "reject", "restore"]} /></div>`}
  </li>`;
};

/** Everything about one memory. */
export const Detail = ({ id, version, isEditing, setEditing, onChange, onGone }) => {
  const state = useLoad((signal) => call("inspect", { memory_id: id }, signal), [id, version]);
  const [dialog, setDialog] = useState("");
  const isStale = state.data && state.data.entry.memory.id !== id;
  if (!state.data || isStale) return html`<section class="panel detail" aria-label="Chosen memory">
    <${Loading} state=${{ ...state, data: null }} /></section>`;
  const { entry, taught_in: taught, related, shown_in: shownIn } = state.data;
  const { memory, evidence } = entry;
  const merged = memory.metadata?.merged_from;
  const kind = kindOf(memory);
  const isObservation = memory.type === "observation";
  const rate = rateOf(entry);
  const renew = async (ids = [id]) => {
    state.reload();
    await onChange(ids);
  };
  const stop = () => (setEditing(false), focusOn(".detail [data-do=edit]"));
  const others = kind.fields.slice(1).filter(([name]) => memory[name]);
  return html`<section class="panel detail" aria-label="Chosen ${kind.name}">
    <div class="meta"><${Status} status=${memory.status} session=${sessionOf(memory)} />
    <span>${memory.reach === "always" ? "all projects" : ["once", "session"].includes(memory.reach) ? "one session" : "this project"}</span>
      <span>version ${entry.version}</span>${memory.user_id && html`<span>of ${plain(memory.user_id)}</span>`}</div>
    ${isEditing ? html`<${EditForm} entry=${entry} onDone=${async () => (await renew(), stop())} onCancel=${stop} />`
    : html`<h2 tabindex="-1" data-detail><${Said} text=${titleOf(memory)} /></h2>
    ${entry.trust === "untrusted" && html`<p class="warning">${warnAbout(memory)}</p>`}
    <dl>${others.map(([name, label]) => html`<dt>${label}</dt><dd><${Said} text=${memory[name]} /></dd>`)}
      <dt>Source</dt><dd><${Origin} memory=${memory} trust=${entry.trust} />
        ${taught && html` in <a href=${link("sessions", { session: taught })}>a session</a>`}, <${When} at=${memory.created_at} /></dd>
      <dt>Agent</dt><dd>${plain(memory.agent)}</dd>
      ${memory.concern && html`<dt>Not shown</dt><dd>to agents: ${plain(memory.concern)}</dd>`}
      ${entry.superseded_by && html`<dt>Replaced by</dt><dd><a href=${here({ id: entry.superseded_by })}>another ${kind.name}</a></dd>`}
      ${merged?.length > 0 && html`<dt>Merged from</dt>
      <dd>${merged.map((one, at) => html`<a href=${here({ id: one })}>${kind.name} ${at + 1}</a> `)}</dd>`}</dl>
    ${memory.said && html`<blockquote class="said">“<${Said} text=${memory.said} />”</blockquote>`}
    ${isAgreed(memory) && memory.accepted && memory.accepted !== memory.said
      && html`<p class="quiet">Accepted with</p><blockquote class="said">“<${Said} text=${memory.accepted} />”</blockquote>`}`}
    ${kind.verb && html`<h3>Evidence</h3>
      <div class="meta"><${Evidence} entry=${entry} /></div>
      ${evidence.recent.length > 0
        && html`<${Results} verb=${kind.verb === "failed" ? "worked" : kind.verb} results=${evidence.recent.map((one) => one[1])} />`}
      <p class="quiet">${rate.results ? `${kind.verb} in ${range(rate.interval)} of cases (90 % interval) · `
        : ""}shown ${many(entry.shown, "time")} in 30 days${
        entry.last_shown && html` · last <${When} at=${entry.last_shown} />`}
          ${memory.repeats > 0 && ` · repeated by the person ${many(memory.repeats, "time")}`}</p>
      ${memory.type === "heuristic"
        && html`<p class="quiet">Expected to work next time: ${percent(memory.confidence)} (${range(memory.confidence_interval)})</p>`}`}
    ${evidence.ups + evidence.downs > 0 && html`<p class="quiet">Rated helpful ${evidence.ups}, misleading ${evidence.downs}</p>`}
    ${!isEditing && html`<div class="row-acts">
      <${Buttons} entry=${entry} onChange=${renew} hasKeys special=${{ edit: () => setEditing(true), merge: () => setDialog("merge") }}
        actions=${["approve", "make_rule", "edit", "reject", "merge", ...(memory.status === "active" || isObservation ? ["archive"] : []), "restore"]} />
      ${!isObservation && html`<${Act} label="History" of=${titleOf(memory)} onClick=${() => setDialog("history")} />
      <a class="button" href=${link("why", { memory: id })}>Why?</a>
      ${may("admin") && html`<${Act} label="Erase…" danger of=${titleOf(memory)} onClick=${() => setDialog("erase")} />`}`}</div>`}
    ${related?.length > 0 && html`<details open=${memory.type !== "rule"}>
    <summary>${memory.type === "heuristic" || memory.type === "anti_pattern" ? "Single results" : "Related"} (${related.length})</summary>
      <ul>${related.map((one) => html`<li class="beside">
      <div class="meta">${one.outcome && html`<${Badge} kind=${one.outcome === "success" ? "ok" : one.outcome === "failure" ? "bad" : "wait"}>${
        one.outcome === "success" ? "● worked" : one.outcome === "failure" ? "▲ failed" : "○ partly"}</${Badge}>`}
          <${When} at=${one.created_at} /></div>
        <a href=${link("memory", { id: one.id })}><${Said} text=${titleOf(one)} cut=${300} brief /></a>${one.error_message && html`<div class="quiet">
        <${Said} text=${one.error_message} cut=${300} /></div>`}</li>`)}</ul></details>`}
    ${shownIn?.length > 0 && html`<details><summary>Shown for (${shownIn.length})</summary><ul>${shownIn.map((one) => html`<li class="beside">
      <${When} at=${one.at} /> · <${Said} text=${one.task} cut=${200} />
        ${one.session_id && html` · <a href=${link("sessions", { session: one.session_id })}>session ${plain(one.session_id, 12)}</a>`}</li>`)}
        </ul></details>`}
    ${dialog === "merge" && html`<${MergeDialog} entry=${entry} onClose=${() => setDialog("")} onDone=${renew} />`}
    ${dialog === "history" && html`<${HistoryDialog} entry=${entry} onClose=${() => setDialog("")} onDone=${renew} />`}
    ${dialog === "erase" && html`<${EraseDialog} id=${id} title=${titleOf(memory)} what=${kind.name} onClose=${() => setDialog("")}
      onDone=${onGone} />`}
  </section>`;
};

const wide = matchMedia("(min-width: 70rem)");

/** A filtered list at the left and the chosen memory at the right. */
export const MemoryList = ({ args, kinds, noun, nouns, empty, operation = "browse" }) => {
  const request = { ...args, cursor: cursor(), limit: 25 };
  const list = useEntries(request, kinds, operation);
  const [ticked, setTicked] = useState(/** @type {string[]} */ ([]));
  const [isAll, setAll] = useState(false);
  const [editing, setEditing] = useState({ id: "" });
  const [isMerging, setMerging] = useState(false);
  const items = list.data?.items ?? [];
  const id = param("id") || (wide.matches ? items[0]?.memory.id ?? "" : "");
  const at = items.findIndex((one) => one.memory.id === id);
  const isEditing = Boolean(id) && (editing.id === id || drafts.has(id));
  const entry = items[at];
  useEffect(() => (setTicked([]), setAll(false)), [JSON.stringify(request)]);
  useEffect(() => {
    setEditing((old) => ({ id: old.id === id || drafts.has(id) ? id : "" }));
    if (param("id") && !wide.matches) focusOn("[data-detail]");
  }, [id]);
  const isFocusLost = useRef(false);
  useEffect(() => {
    if (list.isLoading || !isFocusLost.current) return;
    isFocusLost.current = false;
    focusOn(document.querySelector(".rows .title") ? ".rows .title" : "main");
  }, [list.isLoading]);
  const reload = () => {
    isFocusLost.current = true;
    list.reload();
  };
  const open = (index) => {
    const next = items[Math.max(0, Math.min(items.length - 1, index))];
    if (!next) return;
    setParams({ id: next.memory.id }, true);
    focusOn(`[data-row="${CSS.escape(next.memory.id)}"] .title`);
  };
  const edit = (which) => {
    setEditing({ id: which });
    if (which !== id) setParams({ id: which });
    else if (isEditing) focusOn(".detail textarea");
  };
  const waits = entry?.memory.status === "candidate";
  const pressDetail = (action) => /** @type {HTMLElement | null} */ (document.querySelector(`.detail [data-do=${action}]`))?.click();
  useKeys({
    j: () => open(at + 1),
    k: () => open(at - 1),
    e: () => (entry ? can("edit", entry) && edit(id) : pressDetail("edit")),
    a: () => (entry ? waits && can("approve", entry) && review("approve", [entry], list.renew) : pressDetail("approve")),
    x: () => (entry ? waits && can("reject", entry) && review("reject", [entry], list.renew) : pressDetail("reject")),
    m: () => pressDetail("merge"),
  });
  const chosen = items.filter((one) => ticked.includes(one.memory.id));
  const hasAgents = items.some((one) => one.memory.agent !== items[0].memory.agent);
  const count = list.data?.count ?? null;
  const { order, ...selection } = args;
  const pick = (action) => chosen.filter((one) => fits(action, one));
  /** Whether it applies to all that the filter selects, on other pages, too. */
  const fitsAll = (action) => may("approve") && args.statuses.length > 0 && args.statuses.every((one) => APPLIES[action].includes(one));
  const bulk = (action) => (isAll ? fitsAll(action) && action !== "make_rule" : pick(action).length > 0)
    && html`<${Act} label=${isAll || pick(action).length === chosen.length ? LABELS[action] : `${LABELS[action]} ${pick(action).length} of ${chosen.length}`}
    onClick=${() => act(action)} />`;
  const act = async (action) => {
    const all = isAll ? { selection, count } : null;
    const answer = await review(action, pick(action), isAll ? async () => list.reload() : list.renew, all);
    if (answer) (setTicked([]), setAll(false));
  };
  const tick = (which) => (setAll(false), setTicked((old) => (old.includes(which) ? old.filter((one) => one !== which) : [...old, which])));
  return html`<${Loading} state=${list}>
    <${Fresh} count=${list.fresh} onShow=${reload} />
    ${list.data?.is_partial && html`<p class="warning">Only the newest matches were put in order. Narrow the filter to see all.</p>`}
    ${ticked.length > 0 && html`<div class="panel row-acts bulk" role="group" aria-label="Selected ${nouns}">
      <strong>${isAll ? `All ${many(count, noun, nouns)} of this filter` : `${many(ticked.length, noun, nouns)} selected`}</strong>
      ${["approve", "make_rule", "reject", "archive", "restore"].map(bulk)}
      ${!isAll && chosen.length === 2 && may("approve") && chosen[0].memory.type === chosen[1].memory.type
        && html`<${Act} label="Merge…" onClick=${() => setMerging(true)} />`}
      ${!isAll && count !== null && count > ticked.length && count <= 1000
        && html`<${Act} label="Select all ${count} of this filter" onClick=${() => setAll(true)} />`}
      <${Act} label="Clear" onClick=${() => (setTicked([]), setAll(false))} /></div>`}
    ${isMerging && chosen.length === 2 && html`<${MergeMemories} ids=${chosen.map((one) => one.memory.id)} onClose=${() => setMerging(false)}
      onDone=${(ids) => (setTicked([]), list.renew(ids))} />`}
    ${!items.length ? html`<div class="panel">${empty}</div>` : html`<div class="pair"><div>
      ${may("write") && html`<label class="tick"><input type="checkbox" checked=${ticked.length === items.length}
        onChange=${(event) => (setAll(false),
          setTicked(event.target.checked ? items.map((one) => one.memory.id) : []))} /> Select this page</label>`}
      <ul class="rows" aria-label=${nouns}>${items.map((one) => html`<${Row} key=${one.memory.id} entry=${one} isChosen=${one.memory.id === id}
        isTicked=${isAll || ticked.includes(one.memory.id)} hasAgent=${hasAgents} onTick=${tick} onChange=${list.renew} onEdit=${edit} />`)}</ul>
      <${Pager} next=${list.data?.next} count=${items.length} total=${count} noun=${noun} nouns=${nouns} /></div>
      ${id && html`<${Detail} key=${id} id=${id} version=${entry?.version} isEditing=${isEditing}
        setEditing=${(isOn) => setEditing({ id: isOn ? id : "" })}
        onChange=${list.renew}
        onGone=${() => (setParams({ id: "" }, true), reload())} />`}</div>`}
  </${Loading}>`;
};
export { Empty };
