import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { Dialog } from '../ui/dialog'
import { pageEntries, type Entry } from '../ui/palette'
import { commonEntries, otherSessions, sessionFiles, settingEntries } from './entries'
import { match, maxShown } from './match'
import './palette.css'

/** Finds commands, settings, files and sessions by words, and runs the chosen one. */
export function Palette({ open, close }: { open: (path: string) => void; close: () => void }) {
  const [text, setText] = useState('')
  const [at, setAt] = useState(0)
  const [more, setMore] = useState<Entry[]>([])
  const [waits, setWaits] = useState(2)
  const [missing, setMissing] = useState<string[]>([])
  const list = useRef<HTMLUListElement>(null)
  const near = useMemo(() => [...pageEntries.peek()(), ...commonEntries(), ...settingEntries()], [])
  useEffect(() => {
    let here = true
    for (const [what, load] of [['files', sessionFiles(open)], ['sessions', otherSessions()]] as const) {
      void load.then((entries) => here && setMore((all) => [...all, ...entries]), () => here && setMissing((all) => [...all, what]))
        .finally(() => here && setWaits((n) => n - 1))
    }
    return () => {
      here = false
    }
  }, [])
  const found = useMemo(() => match([...near, ...more], text), [near, more, text])
  const shown = found.slice(0, maxShown)
  const chosen = shown[at]
  useEffect(() => list.current?.children[at]?.scrollIntoView({ block: 'nearest' }), [at, shown])
  const run = (e: Entry) => {
    close()
    // The dialog first returns the focus.
    setTimeout(() => e.run())
  }
  const key = (e: KeyboardEvent) => {
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: Math.min(at + 8, shown.length - 1), PageUp: Math.max(at - 8, 0) }[e.key]
    if (to !== undefined && shown.length) {
      e.preventDefault()
      setAt((to + shown.length) % shown.length)
    } else if (e.key === 'Enter' && chosen) {
      e.preventDefault()
      run(chosen)
    }
  }
  const said = waits > 0 ? 'Looking for files and sessions…' : [
    found.length === 0 ? 'Nothing matches.' : found.length > maxShown ? `The first ${maxShown} of ${found.length}. Type more letters to see others.` : '',
    missing.length ? `The ${missing.join(' and ')} could not be listed.` : '',
  ].filter(Boolean).join(' ')
  return (
    <Dialog label="Command palette" class="palette" onClose={close}>
      <input class="field" autofocus role="combobox" aria-expanded="true" aria-controls="palette-list" aria-autocomplete="list" aria-activedescendant={chosen ? `palette-${at}` : undefined}
        aria-label="Command, file, session or setting" placeholder="Search commands, files, sessions and settings" autocomplete="off" spellcheck={false}
        value={text} onInput={(e) => { setText(e.currentTarget.value); setAt(0) }} onKeyDown={key} />
      <ul ref={list} id="palette-list" role="listbox" aria-label="Results">
        {shown.map((e, i) => (
          <li key={`${e.kind} ${e.id}`} id={`palette-${i}`} role="option" aria-selected={i === at} onClick={() => run(e)} onMouseMove={() => setAt(i)}>
            <span class="ellipsis">{e.name}</span>{e.note && <span class="muted ellipsis note">{e.note}</span>}
            <span class="grow" />{e.keys && <kbd>{e.keys}</kbd>}<span class="muted kind">{e.kind}</span>
          </li>
        ))}
      </ul>
      <p class="muted palette-said" role="status">{said}</p>
    </Dialog>
  )
}
