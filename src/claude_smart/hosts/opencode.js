
const entry = process.argv.includes("run") ? "headless" : "cli"

export const ClaudeSmart = async ({ directory, client }) => {
  const tell = (message) => client.tui.showToast({ body: { message, variant: "info", duration: 15000 } })
  const playbooks = new Map() // the text for the system prompt, by session
  const prompts = new Map() // the id of the last prompt, by session
  const replies = new Map()
  const subagents = new Set()
  const report = (session, name, fields) =>
    send({ entry: subagents.has(session) ? "agent" : entry, session_id: session, cwd: directory,
      hook_event_name: name, prompt_id: prompts.get(session), ...fields }, tell)
  const start = (session, source) => playbooks.set(session, report(session, "SessionStart", { source }))
  return {
    event: async ({ event: { type, properties } }) => {
      const part = properties?.part
      const session = properties?.sessionID ?? part?.sessionID
      if (type === "session.created" && properties.info.parentID) subagents.add(properties.info.id)
      if (type === "session.compacted") start(session, "compact")
      if (type === "session.idle") report(session, "Stop", { last_assistant_message: replies.get(session) })
      if (type !== "message.part.updated") return
      if (part.type === "text" && part.messageID !== prompts.get(session)) replies.set(session, part.text)
      // A tool that throws has no other event.
      if (part.type === "tool" && part.state.status === "error")
        report(session, "PostToolUseFailure",
          { tool_name: part.tool, tool_input: part.state.input, tool_use_id: part.callID, error: part.state.error })
    },
    "chat.message": async ({ sessionID }, { message, parts }) => {
      prompts.set(sessionID, message.id)
      replies.delete(sessionID)
      if (!playbooks.has(sessionID)) start(sessionID, "startup")
      const prompt = parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text).join("\n")
      const text = report(sessionID, "UserPromptSubmit", { prompt })
      const id = "prt_smart" + Date.now()
      if (text) parts.push({ id, sessionID, messageID: message.id, type: "text", text, synthetic: true })
    },
    "experimental.chat.system.transform": async ({ sessionID }, { system }) => {
      if (playbooks.get(sessionID)) system.push(playbooks.get(sessionID))
    },
    "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
      report(sessionID, "PreToolUse", { tool_name: tool, tool_input: args, tool_use_id: callID })
    },
    "tool.execute.after": async ({ tool, sessionID, callID, args }, { output, metadata, content }) => {
      report(sessionID, "PostToolUse",
        { tool_name: tool, tool_input: args, tool_use_id: callID, tool_response: { output, metadata, content } })
    },
    dispose: async () => {
      for (const session of playbooks.keys()) report(session, "SessionEnd")
    },
  }
}
