// What goes over the wire, under the wire's own names: docs/protocol.md.
import type { Fault } from './fault.js'

export interface SessionInfo {
  id: string
  name?: string
  language: string
  /** running, paused or lost. */
  state: string
  /** Why it is lost: memory, killed, crashed, exited, host or expired. */
  reason?: string
  created_ms: number
  expires_ms?: number
  active_ms: number
  channels: ChannelInfo[]
  template?: string
  /** Being idle is no reason to pause it. */
  keep_alive?: boolean
  /** In what refresh and session give, of a session that runs. */
  usage?: { memory_bytes: number; memory_peak_bytes?: number; cpu_ms: number; tasks: number }
}

export interface SessionCreate {
  /** Is warm in it; others can be opened too. Empty means python. */
  language?: string
  name?: string
  env?: Record<string, string>
  /** What it starts from, in place of the server's own image. */
  template?: string
  lifetime_seconds?: number
}

export interface ChannelInfo {
  id: string
  /** kernel, process or terminal. */
  kind: string
  language?: string
  argv?: string[]
  /** starting, idle, busy, running, exited or dead. */
  state: string
  exit?: Exit
  info?: Record<string, unknown>
  queued?: number
  /** Of a terminal: its size, and what the program in it calls its window. */
  cols?: number
  rows?: number
  title?: string
  epoch: number
  oldest: number
  end: number
}

export interface ProgramStart {
  argv?: string[]
  /** In place of argv: run this file the language's own way. */
  file?: string
  language?: string
  args?: string[]
  cwd?: string
  env?: Record<string, string>
  /** Give it a standard input. */
  stdin?: boolean
}

export interface TerminalOpen {
  cols?: number
  rows?: number
  /** The user's shell, if left out. */
  argv?: string[]
  cwd?: string
  env?: Record<string, string>
}

export interface Exit {
  /** Below 0 when the program was ended from outside; reason then says how. */
  code: number
  signal?: string
  reason?: string
}

export interface ExecuteReply {
  key: string
  status: 'ok' | 'error' | 'aborted'
  execution_count: number
  ename?: string
  evalue?: string
  exit_code?: number
  elapsed_ms: number
}

/** One thing in several MIME types. */
export interface Bundle {
  data: Record<string, unknown>
  metadata: Record<string, unknown>
  transient?: { display_id?: string } & Record<string, unknown>
}

/** What a widget's two ends tell each other. */
export interface CommContent {
  comm_id: string
  target_name?: string
  data?: Record<string, unknown>
  metadata?: Record<string, unknown>
  /** In base64. */
  buffers?: string[]
}

export interface Gap {
  /** Offsets of the log between which everything is gone. */
  from: number
  to: number
  bytes: number
}

export interface Stamp {
  /** The execution that this belongs to; 0 for none. */
  cell: number
  /** Microseconds since 1970 UTC. */
  time: number
}

export type TextEvent = Stamp & {
  type: 'stdout' | 'stderr'
  /** Exactly what was written. */
  bytes: Uint8Array
  /** The same as text; a character that is cut between two records comes with the second. */
  text: string
}

export type ChannelEvent =
  /** Output that is no longer there. */
  | (Stamp & { type: 'gap' } & Gap)
  /** Something happened to the channel, such as restart, or epoch: its history began anew. */
  | (Stamp & { type: 'event'; event: string; [more: string]: unknown })

/** What comes of a cell, in Jupyter's shapes. execute_reply is the last. */
export type CellEvent =
  | TextEvent
  | ChannelEvent
  | (Stamp & { type: 'execute_input'; key: string; code: string; execution_count: number })
  | (Stamp & { type: 'display_data' | 'update_display_data' } & Bundle)
  | (Stamp & { type: 'execute_result'; execution_count: number } & Bundle)
  | (Stamp & { type: 'error'; ename: string; evalue: string; traceback: string[] })
  | (Stamp & { type: 'clear_output'; wait: boolean })
  | (Stamp & { type: 'input_request'; prompt: string; password: boolean })
  | (Stamp & { type: 'status'; execution_state: string })
  | (Stamp & { type: 'comm_open' | 'comm_msg' | 'comm_close' } & CommContent)
  /** What became of the kernel's state: restored, state_lost or notice. */
  | (Stamp & { type: 'kernel_event'; event: string; message: string })
  | (Stamp & { type: 'execute_reply' } & ExecuteReply)
  /** A message that this client does not know. */
  | (Stamp & { type: 'message'; msg_type: string; content: unknown })

/** What comes of a program. exit is the last. */
export type ProgramEvent =
  | TextEvent
  | ChannelEvent
  /** To be written to a terminal of that size, fresh or reset: the state that the output up to here left it in. */
  | (Stamp & { type: 'restore'; cols: number; rows: number; bytes: Uint8Array })
  | (Stamp & { type: 'exit' } & Exit)

export interface Completion {
  matches?: { text: string; type?: string }[]
  cursor_start?: number
  cursor_end?: number
}

export interface Inspection {
  found?: boolean
  data?: Record<string, unknown>
}

export interface Completeness {
  /** complete, incomplete, invalid or unknown. */
  is_complete: string
  indent?: string
}

export interface Variable {
  name: string
  type: string
  size?: string
  value: string
}

export interface HistoryEntry {
  cell: number
  execution_count: number
  code: string
  /** running, ok or error. */
  status: string
}

export interface FileInfo {
  path: string
  size: number
  mode: number
  modified_ms: number
  dir: boolean
  /** Changes whenever the content or the mode does. */
  etag?: string
}

export interface Description {
  protocol: string
  server: string
  languages: { name: string; display_name: string; aliases?: string[]; extensions?: string[] }[]
  scopes: string[]
  limits: Record<string, number>
}

export interface RunRequest {
  code: string
  language?: string
  /** Answers the code's requests for input, line by line; without it they fail at once. */
  stdin?: string
  /** Makes them input_request events. */
  interactive?: boolean
  files?: { path: string; content: string; encoding?: 'utf-8' | 'base64' }[]
  timeout_ms?: number
  max_output_bytes?: number
  /** An existing session; otherwise one is made and thrown away. */
  session?: string
}

/** What comes of a run. done is the last. */
export type RunEvent =
  | { type: 'start'; session: string; channel: string; cell: number }
  | { type: 'stdout' | 'stderr'; text: string }
  | { type: 'display'; data: Record<string, unknown>; metadata: Record<string, unknown>; display_id?: unknown; update?: boolean }
  | { type: 'result'; data: Record<string, unknown>; metadata: Record<string, unknown>; execution_count?: number }
  | { type: 'clear'; wait?: boolean }
  /** An interactive run waits for input. */
  | { type: 'input_request'; prompt?: string; password?: boolean }
  | { type: 'error'; ename: string; evalue: string; traceback: string[] }
  | { type: 'truncated'; bytes: number }
  | {
      type: 'done'
      /** ok, error, aborted, timeout, lost or failed. */
      status: string
      exit_code?: number
      elapsed_ms: number
      fault?: Fault
    }

/** Ends what it is given to; without it nothing but the server limits the time. */
export interface Abortable {
  signal?: AbortSignal | undefined
}
