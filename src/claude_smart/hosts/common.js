// claude-smart: passes events to its hook, and the hook's answers to the model. Written by `claude-smart install`.
import { spawnSync } from "node:child_process"

const [program, ...options] = __COMMAND__

/** Runs the hook for one event. Returns the text for the model; empty for none. */
function send(event) {
  const { stdout } = spawnSync(program, options, { input: JSON.stringify(event), encoding: "utf8", timeout: 6000 })
  try {
    return JSON.parse(stdout).hookSpecificOutput.additionalContext ?? ""
  } catch {
    return ""
  }
}
