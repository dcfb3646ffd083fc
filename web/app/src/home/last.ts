import { recordKind, type ChannelInfo, type LogRecord, type Session } from '@sandgate/client'

/** What is read of the end of a channel's log, in bytes. */
const tail = 4096
/** Channels of a session that are looked at: the kernels, then the newest others. */
const maxChannels = 3
/** Characters that are shown. */
const maxText = 160
const patience = 5000

interface Line {
  text: string
  /** Microseconds since 1970 UTC. */
  time: number
}

const known = new Map<string, Line | undefined>() // by channel and where it ends

/** The last line that anything in a session has printed. Only looks: a session that sleeps goes on sleeping. */
export async function lastOutput(s: Session): Promise<string> {
  const channels = s.info.channels.filter((c) => c.end > 0)
  const kernels = channels.filter((c) => c.kind === 'kernel')
  const some = [...kernels, ...channels.filter((c) => c.kind !== 'kernel').reverse()].slice(0, maxChannels)
  const lines = await Promise.all(some.map(async (c) => {
    const key = `${s.id} ${c.id}`
    const at = `${key} ${c.epoch} ${c.end}`
    if (!known.has(at)) {
      for (const old of known.keys()) if (old.startsWith(`${key} `)) known.delete(old)
      known.set(at, await lastLine(s, c))
    }
    return known.get(at)
  }))
  return lines.reduce<Line | undefined>((a, b) => (b && (!a || b.time > a.time) ? b : a), undefined)?.text ?? ''
}

async function lastLine(s: Session, c: ChannelInfo): Promise<Line | undefined> {
  const signal = AbortSignal.timeout(patience)
  const records: LogRecord[] = []
  try {
    const view = await s.attach(c.id, { offset: -tail, readOnly: true, signal })
    try {
      const end = view.info?.end ?? 0
      if (view.position.offset >= end) return undefined
      for await (const r of view) {
        records.push(r)
        if (view.position.offset >= end) break
      }
    } finally {
      view.close()
    }
  } catch {
    // What came until then will do.
  }
  return lineOf(records)
}

/** The last line of text among records; output of an error or a value counts. */
export function lineOf(records: LogRecord[]): Line | undefined {
  let text = ''
  let time = 0
  const decoder = new TextDecoder()
  for (const r of records) {
    let more = ''
    if (r.kind === recordKind.stdout || r.kind === recordKind.stderr) more = decoder.decode(r.payload, { stream: true })
    else if (r.kind === recordKind.message) more = said(r.payload)
    if (!more) continue
    text += more
    time = r.time
  }
  const lines = plain(text).split('\n').map((l) => (l.trimEnd().split('\r').pop() ?? '').trim())
  const line = lines.findLast((l) => l !== '')
  return line ? { text: line.slice(0, maxText), time } : undefined
}

function said(payload: Uint8Array): string {
  try {
    const { msg_type, content: c } = JSON.parse(new TextDecoder().decode(payload)) as { msg_type: string; content: { ename?: string; evalue?: string; data?: Record<string, unknown> } }
    if (msg_type === 'error') return `\n${c.ename}${c.evalue ? `: ${c.evalue}` : ''}\n`
    if (msg_type === 'execute_result' || msg_type === 'display_data') return typeof c.data?.['text/plain'] === 'string' ? `\n${c.data['text/plain']}\n` : ''
  } catch {
    // It is of a kind that is not shown.
  }
  return ''
}

/** Text without what moves the cursor or colours it, and without what changes the direction of writing. */
function plain(s: string): string {
  return s.replace(/\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)?|[P^_X][^\x1b]*(?:\x1b\\)?|\[[0-?]*[ -/]*[@-~]|[ -/]*[0-~])/g, '')
    .replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '')
}
