// @ts-check
import { html } from "../preact.js";
import { Empty, Head, link } from "../parts.js";

const Effect = () => html`<${Head} title="Effect" line="Does memory help?" />
  <div class="panel"><${Empty} title="This is not measured yet.">
    <p>To measure whether memory helps, some tasks must run without it, chosen at random, so that the two groups can be compared. The engine does not hold back memories yet.</p>
    <p>With such a holdout, this page will show the difference with an interval, for all memories and for each rule, and whether the predictions were right.</p>
    <p>Until then: <a href=${link("rules", { order: "least_followed" })}>rules that are followed least</a>,
      ${" "}<a href=${link("strategies", { order: "least_sure" })}>strategies that are least sure</a>, and corrections per session on the <a
        href=${link("sessions")}>Sessions</a> page.</p></${Empty}></div>`;
export default Effect;
