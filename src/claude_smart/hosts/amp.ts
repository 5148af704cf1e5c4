
// From the documentation of Amp's plug-ins; not run.
export default function (amp) {
  const started = new Set()
  const report = (event, name, fields) =>
    send({ session_id: event.thread?.id ?? "amp", cwd: process.cwd(), hook_event_name: name, ...fields })
  amp.on("agent.start", (event) => {
    const id = event.thread?.id
    const texts = started.has(id) ? [] : [report(event, "SessionStart", { source: "startup" })]
    started.add(id)
    texts.push(report(event, "UserPromptSubmit", { prompt: event.message }))
    const content = texts.filter(Boolean).join("\n")
    return content ? { message: { content } } : undefined
  })
  amp.on("tool.result", (event) => {
    const name = event.status === "done" ? "PostToolUse" : "PostToolUseFailure"
    const call = { tool_name: event.tool, tool_input: event.input, tool_use_id: event.toolUseID }
    report(event, name, { ...call, tool_response: event.output, error: event.error })
  })
  amp.on("agent.end", (event) => {
    report(event, "Stop", {})
  })
}
