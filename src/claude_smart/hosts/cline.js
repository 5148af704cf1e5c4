
const prompts = new Map() // the id of the last prompt, by session
const report = ({ snapshot }, name, fields) => {
  const session = snapshot.conversationId ?? snapshot.agentId
  return send({ session_id: session, cwd: process.cwd(), hook_event_name: name,
    prompt_id: prompts.get(session), ...fields })
}

export default {
  name: "claude-smart",
  manifest: { capabilities: ["hooks"] },
  hooks: {
    beforeRun: (context) => {
      const { conversationId, agentId, messages } = context.snapshot
      const texts = []
      if (!prompts.has(conversationId ?? agentId)) texts.push(report(context, "SessionStart", { source: "startup" }))
      prompts.set(conversationId ?? agentId, messages.at(-1)?.id)
      texts.push(report(context, "UserPromptSubmit", { prompt: messages.at(-1)?.content }))
      const appendContext = texts.filter(Boolean).join("\n")
      return appendContext ? { appendContext } : undefined
    },
    beforeTool: (context) => {
      const { toolName, toolCallId } = context.toolCall
      report(context, "PreToolUse", { tool_name: toolName, tool_input: context.input, tool_use_id: toolCallId })
    },
    afterTool: (context) => {
      const { toolName, toolCallId } = context.toolCall
      report(context, "PostToolUse",
        { tool_name: toolName, tool_input: context.input, tool_use_id: toolCallId, tool_response: context.result })
    },
    afterRun: (context) => {
      report(context, "Stop", { last_assistant_message: context.result?.outputText })
    },
  },
}
