// claude-smart: passes events to its hook, and the hook's answers to the model. Written by `claude-smart install`.
import { spawnSync } from "node:child_process"

const [program, ...options] = __COMMAND__

/** Runs the hook for one event. Returns the text for the model; empty for none. `tell` shows the person a line. */
function send(event, tell) {
  const { stdout } = spawnSync(program, options, { input: JSON.stringify(event), encoding: "utf8", timeout: 6000 })
  try {
    const { hookSpecificOutput, systemMessage } = JSON.parse(stdout)
    if (systemMessage) Promise.resolve(systemMessage).then(tell).catch(() => {})
    return hookSpecificOutput?.additionalContext ?? ""
  } catch {
    return ""
  }
}
