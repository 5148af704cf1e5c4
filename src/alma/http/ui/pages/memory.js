// @ts-check
import { html, useState } from "../preact.js";
import { Detail, drafts } from "../memories.js";
import { Head, link, param, useLive, useLoad } from "../parts.js";
import { call } from "../session.js";

/** One memory of any type, for links from other pages. */
const OneMemory = () => {
  const id = param("id");
  const [isEditing, setEditing] = useState(drafts.has(id));
  const state = useLoad((signal) => call("inspect", { memory_id: id }, signal), [id]);
  useLive((events) => !isEditing && (!events.length || events.some((event) => event.records.some((one) => one.id === id))) && state.reload());
  return html`<${Head} title="Memory"><a class="button" href=${link("history")}>All changes</a></${Head}>
    <${Detail} key=${id} id=${id} version=${state.data?.entry.version} isEditing=${isEditing} setEditing=${setEditing} onChange=${state.reload}
      onGone=${() => (location.hash = link("overview"))} />`;
};
export default OneMemory;
