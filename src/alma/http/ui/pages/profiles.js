// @ts-check
import { html, useState } from "../preact.js";
import { Buttons, drafts, EditForm, EntryText, EraseDialog, HistoryDialog, Origin, Status, titleOf, undoOf, useEntries } from "../memories.js";
import { Act, attempt, Choice, cursor, Dialog, Empty, Filter, Fresh, Head, link, Loading, notify, Pager, param, TextField, useLoad } from "../parts.js";
import { call, may } from "../session.js";
import { many, plain, Said, When } from "../text.js";

const Line = ({ entry, renew }) => {
  const { memory } = entry;
  const [open, setOpen] = useState(drafts.has(memory.id) ? "edit" : "");
  const title = titleOf(memory);
  const close = () => setOpen("");
  const keep = () => attempt(async () => {
    const answer = await call("review", { action: "apply_here", ids: [memory.id], expected_versions: { [memory.id]: entry.version } });
    await renew([memory.id]);
    notify("It applies in the whole project now.", undoOf(answer, () => renew([memory.id])));
  });
  return html`<li class=${entry.isGone ? "gone" : ""}><div class="body">
    ${open === "edit" ? html`<${EditForm} entry=${entry} onDone=${async () => (await renew([memory.id]), close())} onCancel=${close} />` : html`
    <div class="title" tabindex="-1"><${EntryText} entry=${entry} /></div>
    <div class="meta"><${Status} status=${memory.status} />${memory.category && html`<span>${plain(memory.category, 60)}</span>`}
      <${Origin} memory=${memory} trust=${entry.trust} />
      <span>said <${When} at=${memory.timestamp ?? memory.created_at} /></span>
      ${entry.valid_to && html`<span>until <${When} at=${entry.valid_to} exact /></span>`}
      ${memory.session_id && html`<a href=${link("sessions", { session: memory.session_id })}>session ${plain(memory.session_id, 12)}
        </a>`}</div>
    ${memory.said && html`<blockquote class="said">“<${Said} text=${memory.said} cut=${300} />”</blockquote>`}`}</div>
    ${!open && !entry.isGone && html`<div class="acts">
      <${Buttons} entry=${entry} actions=${["edit", "archive", "restore"]} onChange=${renew} special=${{ edit: () => setOpen("edit") }} />
      ${memory.reach === "session" && may("approve") && html`<${Act} label="Keep for good" of=${title} onClick=${keep} />`}
      <${Act} label="History" of=${title} onClick=${() => setOpen("history")} />
      ${may("admin") && html`<${Act} label="Erase…" danger of=${title} onClick=${() => setOpen("erase")} />`}</div>`}
    ${open === "history" && html`<${HistoryDialog} entry=${entry} onClose=${close} onDone=${renew} />`}
    ${open === "erase" && html`<${EraseDialog} id=${memory.id} title=${title}
      what=${memory.type === "domain_knowledge" ? "fact" : "preference"} onClose=${close} onDone=${() => renew([memory.id])} />`}</li>`;
};

const AddPreference = ({ onClose, onDone, user }) => {
  const [values, setValues] = useState({ user_id: user, category: "", preference: "" });
  const [error, setError] = useState("");
  const set = (name) => (text) => setValues({ ...values, [name]: text });
  const save = (event) => {
    event.preventDefault();
    attempt(async () => {
      const memory = await call("add_preference", { ...values, source: "user" });
      onClose();
      onDone();
      notify("Added.", undoOf(memory, onDone));
    }, "add a preference", setError);
  };
  return html`<${Dialog} title="Add a preference" onClose=${onClose}><form onSubmit=${save}>
    <label>User<input required value=${values.user_id} onInput=${(event) => set("user_id")(event.target.value)} /></label>
    <label>Category<input required placeholder="code_style" value=${values.category}
      onInput=${(event) => set("category")(event.target.value)} /></label>
    <${TextField} label="Preference" required value=${values.preference} onInput=${set("preference")} />
    ${error && html`<p class="error" role="alert">${plain(error, 400)}</p>`}
    <div class="row-acts"><button type="submit" class="main">Add</button><${Act} label="Cancel" onClick=${onClose} /></div></form></${Dialog}>`;
};

const Profiles = () => {
  const isSession = param("of") === "sessions";
  const areFacts = param("of") === "facts";
  const [isAdding, setAdding] = useState(false);
  const statuses = param("status") === "every" ? [] : ["active", "candidate"];
  const words = param("q") || null;
  const args = { limit: 25, cursor: cursor(), statuses, words,
    ...(isSession ? { types: ["rule"], fields: { reach: "session" } } : areFacts ? { types: ["domain_knowledge"] }
      : { types: ["user_preference"], ...(param("user") && { user_id: param("user") }) }) };
  const list = useEntries(args, args.types);
  const entries = list.data?.items ?? [];
  const owner = (memory) => (isSession ? memory.session_id : areFacts ? memory.domain : memory.user_id) || "everybody";
  const groups = Map.groupBy ? Map.groupBy(entries, (entry) => owner(entry.memory))
    : entries.reduce((map, entry) => map.set(owner(entry.memory), [...(map.get(owner(entry.memory)) ?? []), entry]), new Map());
  const known = useLoad((signal) => call("browse", { types: ["user_preference"], statuses: [], limit: 100 }, signal), []);
  const users = [...new Set([...entries, ...(known.data?.items ?? [])].map((entry) => entry.memory.user_id).concat(param("user")))].filter(Boolean).sort();
  return html`<${Head} title="Profiles"
    line=${isSession ? "Rules that apply in one session only" : areFacts ? "What is known about the project"
    : "What each user prefers; shown with every task of that user"}>
      ${may("write") && !isSession && !areFacts && html`<${Act} label="Add a preference" main onClick=${() => setAdding(true)} />`}</${Head}>
    <div class="filters"><${Filter} />
    <${Choice} label="Show" name="of"
      options=${[["", "preferences of users"], ["sessions", "profiles of sessions"], ["facts", "facts of the project"]]} />
      ${!isSession && !areFacts && (users.length > 1 || param("user"))
        && html`<${Choice} label="User" name="user"
        options=${[["", "all users"], ...users.map((name) => [name, name])]} />`}
      <${Choice} label="Status" name="status" options=${[["", "active and waiting"], ["every", "every status"]]} /></div>
    <${Fresh} count=${list.fresh} onShow=${list.reload} />
    <${Loading} state=${list}>
      ${entries.length ? html`${[...groups].map(([name, items]) =>
      html`<section class="panel" key=${name}><h2>${isSession ? "Session " : ""}<${Said} text=${name} cut=${80} brief /></h2>
        <ul class="rows">${items.map((entry) => html`<${Line} key=${entry.memory.id} entry=${entry} renew=${list.renew} />`)}</ul></section>`)}
        <${Pager} next=${list.data?.next} count=${entries.length} total=${list.data?.count} noun="entry" />`
      : html`<div class="panel">
        <${Empty} title=${words || param("user") ? "No entry fits this filter." : isSession ? "No session has rules of its own." : areFacts ? "No facts are known." : "No preferences are known."}>
        <p>${isSession ? "A rule that a person gives for one session only appears here until the session ends."
        : areFacts ? html`Agents store facts with <code>add_knowledge</code>.`
        : html`Agents store a lasting wish of a user with <code>add_preference</code>.${may("write")
          && " You can add one with the button above."}`}</p></${Empty}></div>`}</${Loading}>
    ${isAdding && html`<${AddPreference} user=${param("user")} onClose=${() => setAdding(false)} onDone=${list.reload} />`}`;
};
export default Profiles;
